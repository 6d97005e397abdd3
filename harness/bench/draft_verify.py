"""Draft/verify prefill against full prefill: TTFT, acceptance, fallback, and what it costs.

Every prompt is generated once with full prefill and once at each threshold, the order turning
from prompt to prompt, all on one open verifier. Thresholds under which a prompt takes the very
same decisions share one measurement of it: the runs would be identical, and so a sweep costs only
where it makes a difference. Acceptance is a proxy (the verifier's hidden state stands on
approximate keys and values), so the true quality and the share of prompts with the very same
tokens stand beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.bench.draft_verify_rows import SWEEP, Row, table
from harness.errors import ConfigError
from harness.stats.latency import Shift, hodges_lehmann

if TYPE_CHECKING:
    from harness.engines.base import Generation
    from harness.engines.hf import HfEngine
    from harness.examples import Example, TaskExamples
    from harness.methods.base import MethodContext
    from harness.models.presets import ResolvedModels
    from harness.receipts import Receipt
    from harness.tokenizer import Tokenizer

Say = Callable[[str], None]


@dataclass(frozen=True)
class DraftVerifyOptions:
    """What ``harness bench draft-verify`` was asked for.

    ``draft`` and ``verifier`` are folders or cached hub names, or both None for ``preset``.
    """

    preset: str | None
    draft: str | None
    verifier: str | None
    prompt_lengths: tuple[int, ...]
    num_runs: int
    warmup: int
    thresholds: tuple[float, ...] = SWEEP
    task: str = "ruler_niah_single_1"
    dtype: str = "float32"
    seed: int = 0

    def check(self) -> None:
        """Raise ConfigError, one line, for values that cannot be measured."""
        if self.num_runs < 1 or self.warmup < 0:
            raise ConfigError("--num-runs must be at least 1 and --warmup at least 0")
        if not self.prompt_lengths or min(self.prompt_lengths) < 1:
            raise ConfigError("--prompt-lengths must name lengths of at least 1 token")
        if not self.thresholds:
            raise ConfigError("--thresholds must name at least one threshold")


def bench_draft_verify(options: DraftVerifyOptions, say: Say) -> list[Row]:
    """Load the pair once and measure every length and threshold.

    Raises
    ------
    HarnessError
        An option is wrong, a model is absent, or the two do not fit.
    """
    from harness.catalogue import resolve as resolve_tasks
    from harness.engines.base import EngineSpec
    from harness.engines.hf import HfEngine, standard_prefill
    from harness.engines.hf_model import load_model
    from harness.methods.base import MethodContext
    from harness.methods.draft_verify.strategy import DraftVerifyPrefill
    from harness.models.presets import resolve
    from harness.tokenizer import Tokenizer

    options.check()
    models = resolve(options.preset, options.verifier, options.draft)
    tokenizer = Tokenizer.load(str(models.target))
    (task,) = resolve_tasks([options.task])
    loaded = [
        _examples(options, task, length, tokenizer, models) for length in options.prompt_lengths
    ]
    spec = EngineSpec("hf", str(models.target), options.dtype, models.max_positions)
    HfEngine.check(spec)
    say(f"loading {models.target_name} as verifier, {models.speculator_name} as draft")
    model = load_model(spec)
    context = MethodContext(
        tokenizer, speculator=str(models.speculator), max_positions=models.max_positions
    )
    full = HfEngine(spec, model, standard_prefill)
    strategy = DraftVerifyPrefill()
    strategy.open(model, str(models.speculator), None)  # so that no request pays for it
    drafted = HfEngine(spec, model, strategy)
    rows: list[Row] = []
    with full, drafted:
        for length, examples in zip(options.prompt_lengths, loaded, strict=True):
            found = _Length(options, length, examples, context, full, drafted).measure(say)
            say("\n".join(table(found)))  # a long sweep that is stopped has shown these
            rows += found
    return rows


def _examples(
    options: DraftVerifyOptions,
    task: Any,
    length: int,
    tokenizer: Tokenizer,
    models: ResolvedModels,
) -> TaskExamples:
    from harness.examples import load_examples

    return load_examples(
        task,
        length=length,
        seed=options.seed,
        limit=options.num_runs + options.warmup,
        tokenizer=tokenizer,
        max_positions=models.max_positions,
    )


@dataclass
class _Length:
    """One prompt length."""

    options: DraftVerifyOptions
    length: int
    examples: TaskExamples
    context: MethodContext
    full: HfEngine
    drafted: HfEngine

    def measure(self, say: Say) -> list[Row]:
        """Run every prompt in every arm; the first ``warmup`` prompts are thrown away."""
        arms: tuple[float | None, ...] = (None, *self.options.thresholds)
        found: dict[float | None, list[Generation]] = {arm: [] for arm in arms}
        timed = dict.fromkeys(arms, 0)
        for index, example in enumerate(self.examples.examples):
            say(f"{self.length} tokens, prompt {index + 1} of {len(self.examples.examples)}")
            turn = index % len(arms)
            drafted: list[Generation] = []
            for arm in (*arms[turn:], *arms[:turn]):
                alike = None if arm is None else _decided_alike(drafted, arm)
                generation = alike or self._generate(example, arm)
                if arm is not None and alike is None:
                    drafted.append(generation)
                if index >= self.options.warmup:
                    found[arm].append(generation)
                    timed[arm] += alike is None
        return [
            self._row(t, found[None], found[t], timed=timed[t]) for t in self.options.thresholds
        ]

    def _generate(self, example: Example, threshold: float | None) -> Generation:
        from harness.methods.draft_verify import DraftVerify
        from harness.methods.full import Full

        if threshold is None:
            (prepared,) = Full().prepare([example.prompt], self.context)
            return self.full.time_one(prepared, example.sampling)
        method = DraftVerify(acceptance_threshold=threshold)
        (prepared,) = method.prepare([example.prompt], self.context)
        return self.drafted.time_one(prepared, example.sampling)

    def _row(
        self, threshold: float, full: list[Generation], drafted: list[Generation], *, timed: int
    ) -> Row:
        before, after = _ttfts(full), _ttfts(drafted)
        ratio = hodges_lehmann(np.log(before) - np.log(after))
        receipts = [g.receipt for g in drafted if g.receipt is not None]
        maps = ("maps", "hidden_r2", "key_r2_median", "value_r2_median")
        return Row(
            length=self.length,
            threshold=threshold,
            runs=len(drafted),
            full_ms=_scaled(hodges_lehmann(before), lambda s: s * 1000),
            ttft_ms=_scaled(hodges_lehmann(after), lambda s: s * 1000),
            speedup=_scaled(ratio, lambda log: float(np.exp(log))),
            acceptance_rate=float(np.mean([r.details["acceptance_rate"] for r in receipts])),
            fallback_rate=float(np.mean([g.counters["fallbacks"] for g in drafted])),
            full_score=self._score(full),
            score=self._score(drafted),
            same_tokens=float(
                np.mean([a.token_ids == b.token_ids for a, b in zip(full, drafted, strict=True)])
            ),
            timed=timed,
            cosine=_mean(receipts, "mean_cosine"),
            shuffled_cosine=_mean(receipts, "shuffled_cosine"),
            maps={k: receipts[0].details.get(k) for k in maps},
        )

    def _score(self, generations: Sequence[Generation]) -> float:
        measured = self.examples.examples[self.options.warmup :]
        scores = [
            next(iter(self.examples.score(example, generation.text).values()))
            for example, generation in zip(measured, generations, strict=True)
        ]
        return float(np.mean(scores))


def _mean(receipts: Sequence[Receipt], name: str) -> float | None:
    known = [r.details[name] for r in receipts if r.details[name] is not None]
    return float(np.mean(known)) if known else None


def _decided_alike(drafted: Sequence[Generation], threshold: float) -> Generation | None:
    """Return the run of the same prompt whose decisions ``threshold`` would take, too."""
    for generation in drafted:
        assert generation.receipt is not None, "the strategy completes every receipt"
        refused, accepted = generation.receipt.details["alike"]
        above = refused is None or refused < threshold
        if above and (accepted is None or threshold <= accepted):
            return generation
    return None


def _ttfts(generations: Sequence[Generation]) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.asarray([g.ttft_s for g in generations], dtype=np.float64)


def _scaled(shift: Shift, change: Callable[[float], float]) -> Shift:
    """Apply an increasing function to an estimate and its ends; None stays None."""
    ends = (shift.estimate, shift.low, shift.high)
    estimate, low, high = (None if x is None else change(x) for x in ends)
    return Shift(estimate, low, high, shift.n, shift.reason)
