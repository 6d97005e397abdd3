"""What the speculator costs for many keep rates and look-aheads, for docs/performance.md.

The same examples are run twice with one speculator and no target (the fake engine's): at the
deepest look-ahead and one keep rate, then at every keep rate and look-ahead. The seconds are those
spent waiting for the speculator; the ratio must be at most 1.3.

    python benchmarks/score_once.py --limit 8 --length 2048
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from time import perf_counter

from harness.engines.base import EngineSpec
from harness.engines.scorer import Scorer, ScoreRequest, Scores
from harness.methods.specprefill.vllm.scorer import VllmScorer
from harness.run.config import RunConfig
from harness.run.folder import open_run
from harness.run.plan import build_plan
from harness.run.runner import execute

KEEPS = (0.05, 0.1, 0.2, 0.3, 0.5)
LOOK_AHEADS = (1, 2, 4, 8)
LIMIT = 1.3


class Timed:
    """A scorer that counts its passes and seconds."""

    def __init__(self, inner: Scorer) -> None:
        self.inner = inner
        self.passes, self.seconds = 0, 0.0

    def score(self, requests: Iterable[ScoreRequest]) -> Iterator[Scores]:
        """Score through the inner one."""
        found = self.inner.score(requests)
        while True:
            start = perf_counter()
            scores = next(found, None)
            self.seconds += perf_counter() - start
            if scores is None:
                return
            self.passes += 1
            yield scores

    def __getattr__(self, name: str) -> object:
        """Everything else is the inner one's."""
        return getattr(self.inner, name)

    def close(self) -> None:
        """Leave the inner one open for the next run."""


def run(base: RunConfig, scorer: Scorer, **axes: object) -> Timed:
    """Run one grid with a fresh store; return what it cost."""
    import harness.run.runner

    timed = Timed(scorer)
    harness.run.runner.open_scorer = lambda _: timed  # type: ignore[assignment,attr-defined]
    plan = build_plan(base.model_copy(update=axes))
    with tempfile.TemporaryDirectory() as folder, open_run(plan, Path(folder)) as store:
        failed = execute(plan, store, quiet=True).failed
    if failed:
        raise SystemExit(f"failed: {failed}")
    return timed


def main() -> None:
    """Run both grids in turn and print their cost."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--limit", type=int, default=8)
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    base = RunConfig(
        task=("ruler_niah_single_1",),
        length=(options.length,),
        arms={"specprefill": {}},
        limit=options.limit,
        latency_samples=0,
        preset="smollm2",
        engine="fake",
    )
    plan = build_plan(base)
    scorer = VllmScorer.open(EngineSpec("vllm", str(plan.models.speculator)))
    try:
        run(base, scorer, limit=1)  # warm
        worst = 0.0
        for number in range(options.rounds):
            one = run(base, scorer, look_ahead=LOOK_AHEADS[-1:], seed=(number,))
            many = run(base, scorer, keep=KEEPS, look_ahead=LOOK_AHEADS, seed=(number,))
            worst = max(worst, many.seconds / one.seconds)
            print(
                f"round {number}: one cell {one.passes} passes, {one.seconds:.2f} s; "
                f"{len(KEEPS)} x {len(LOOK_AHEADS)} cells {many.passes} passes, "
                f"{many.seconds:.2f} s; ratio {many.seconds / one.seconds:.2f}"
            )
    finally:
        scorer.close()
    if worst > LIMIT:
        raise SystemExit(f"scoring many cells cost {worst:.2f} times one, above {LIMIT}")


if __name__ == "__main__":
    main()
