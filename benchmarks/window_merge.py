"""Needle recall of the window merges, for docs/adr/0003-window-merge.md.

One run of the speculator over the windows serves every merge, so that all see the same logits.
Recall is the share of the gold evidence's tokens that the selection keeps.

    python benchmarks/window_merge.py --length 4096 --window 1024 --limit 10
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence

from torch import Tensor

from harness.engines.base import EngineSpec
from harness.engines.scorer import ScoreRequest, Scores
from harness.methods.specprefill.config import SpecPrefillConfig
from harness.methods.specprefill.hf_scorer import HfScorer
from harness.methods.specprefill.selection import merged_importance, select
from harness.methods.specprefill.window_merge import TailMerge
from harness.methods.specprefill.windows import Window, plan_windows
from harness.models.presets import resolve
from harness.models.tokenizer import Tokenizer
from harness.schema.prompts import Prompt
from harness.schema.receipts import spans_of
from harness.tasks.catalogue import resolve as find_tasks
from harness.tasks.examples import load_examples
from harness.tasks.segments import evidence_tokens, share_kept

TAIL_MERGES = ("anchor", "joint", "minmax")
TASKS = "ruler_niah_single_1,ruler_niah_single_2,ruler_niah_multikey_1,ruler_niah_multivalue"


class FanOut:
    """Several merges that are fed as one."""

    def __init__(self, merges: Sequence[TailMerge]) -> None:
        self.merges = merges

    def add(
        self, window: Window, layer: int, logits: Tensor, ahead_logits: Tensor | None = None
    ) -> None:
        """Feed every merge."""
        for merge in self.merges:
            merge.add(window, layer, logits, ahead_logits)

    def rows(self) -> Tensor:
        """There is no common result."""
        raise NotImplementedError


def scores_by_merge(
    scorer: HfScorer, prompt: Prompt, base: SpecPrefillConfig, tail: int
) -> Iterator[tuple[str, SpecPrefillConfig, Scores]]:
    """Score one prompt under every merge, under the guide's windows, and in one piece."""
    configs = {name: base.model_copy(update={"merge": name}) for name in TAIL_MERGES}
    request = ScoreRequest(prompt.example_id, prompt.token_ids, base.scoring(), tail)
    plan = plan_windows(
        len(prompt.token_ids), scorer.max_positions, base.scoring(), has_bos=True, tail_tokens=tail
    )
    merges = {name: TailMerge(plan, config.scoring()) for name, config in configs.items()}
    ahead = scorer.run_windows(request, plan, FanOut(list(merges.values())))
    for name, merge in merges.items():
        rows = merge.rows().numpy()
        yield name, configs[name], Scores(prompt.example_id, rows, ahead, len(plan.windows))
    others: dict[str, dict[str, object]] = {
        "window_end": {"window_query": "window_end"},
        "one window": {"window": 0},
    }
    for name, change in others.items():
        config = base.model_copy(update=change)
        request = ScoreRequest(prompt.example_id, prompt.token_ids, config.scoring(), tail)
        yield name, config, next(scorer.score([request]))


def tail_tokens(prompt: Prompt, offsets: Sequence[tuple[int, int]]) -> int:
    """Tokens from the question on."""
    assert prompt.segments is not None
    start = max(span.start for span in prompt.segments.question)
    return sum(stop > start for _, stop in offsets)


def main() -> None:
    """Print a table of mean recall by task and merge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default=TASKS)
    parser.add_argument("--length", type=int, default=4096)
    parser.add_argument("--window", type=int, default=1024)
    parser.add_argument("--limit", type=int, default=10)
    parser.add_argument("--keep", type=float, default=0.1)
    parser.add_argument("--look-ahead", type=int, default=8)
    parser.add_argument("--pool-kernel", type=int, default=13)
    options = parser.parse_args()

    models = resolve("smollm2")
    tokenizer = Tokenizer.load(str(models.target))
    base = SpecPrefillConfig(
        keep=options.keep,
        window=options.window,
        look_ahead=options.look_ahead,
        pool_kernel=options.pool_kernel,
    )
    recalls: dict[tuple[str, str], list[float]] = defaultdict(list)
    windows: dict[str, set[int]] = defaultdict(set)
    with HfScorer.open(EngineSpec("hf", str(models.speculator), "bfloat16")) as scorer:
        for task in find_tasks(options.task.split(",")):
            found = load_examples(
                task,
                length=options.length,
                seed=0,
                limit=options.limit,
                tokenizer=tokenizer,
                max_positions=models.max_positions,
            )
            for example in found.examples:
                prompt = example.prompt
                _, offsets = tokenizer.encode_with_offsets(prompt.text)
                assert prompt.segments is not None
                gold = evidence_tokens(prompt.segments, offsets)
                tail = tail_tokens(prompt, offsets)
                for name, config, scores in scores_by_merge(scorer, prompt, base, tail):
                    kept = select(merged_importance(scores, config), config).kept
                    recall = share_kept(gold, spans_of(kept))
                    assert recall is not None
                    recalls[task.name, name].append(recall)
                    windows[name].add(scores.windows)
                print(prompt.example_id, file=sys.stderr)
    print_table(recalls, windows)


def print_table(recalls: dict[tuple[str, str], list[float]], windows: dict[str, set[int]]) -> None:
    """Print Markdown: a row a task, a column a merge."""
    names = list(windows)
    print("| task | n | " + " | ".join(names) + " |")
    print("|---|---|" + "---|" * len(names))
    for task in dict.fromkeys(task for task, _ in recalls):
        cells = [f"{statistics.mean(recalls[task, name]):.3f}" for name in names]
        print(f"| {task} | {len(recalls[task, names[0]])} | " + " | ".join(cells) + " |")
    pooled = [
        [r for (_, m), found in recalls.items() if m == name for r in found] for name in names
    ]
    means = [f"{statistics.mean(values):.3f}" for values in pooled]
    print(f"| all | {len(pooled[0])} | " + " | ".join(means) + " |")
    counts = ["–".join(map(str, sorted({min(windows[n]), max(windows[n])}))) for n in names]
    print("| windows | | " + " | ".join(counts) + " |")


if __name__ == "__main__":
    main()
