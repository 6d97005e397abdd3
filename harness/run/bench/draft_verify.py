"""Draft/verify prefill against full prefill: TTFT, acceptance, fallback, and what it costs.

Every prompt is generated once with full prefill and once at each threshold, the order turning
from prompt to prompt, all on one open verifier. Thresholds under which a prompt takes the very
same decisions share one measurement of it: the runs would be identical, and so a sweep costs only
where it makes a difference. Acceptance is a proxy (the verifier's hidden state stands on
approximate keys and values), so the true quality and the share of prompts with the very same
tokens stand beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from harness.errors import ConfigError

if TYPE_CHECKING:
    from harness.engines.base import Generation
    from harness.engines.hf.engine import HfEngine
    from harness.methods.base import MethodContext
    from harness.models.presets import ResolvedModels
    from harness.models.tokenizer import Tokenizer
    from harness.tasks.examples import Example, TaskExamples

Say = Callable[[str], None]

SWEEP = (0.80, 0.88, 0.92, 0.96, 0.99)
"""Thresholds that are tried: the published one, its "about 5 % faster" one, and around them."""


@dataclass(frozen=True)
class Measured:
    """One prompt length at one threshold: the same prompts by full prefill and by draft/verify.

    Attributes
    ----------
    full, drafted
        A generation a prompt, in the same order.
    full_score, score
        Mean task scores of either.
    timed
        Prompts measured at this threshold itself; the rest share the measurement of a threshold
        that decided them alike.
    """

    length: int
    threshold: float
    full: Sequence[Generation]
    drafted: Sequence[Generation]
    full_score: float
    score: float
    timed: int


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


def bench_draft_verify(options: DraftVerifyOptions, say: Say) -> Iterator[list[Measured]]:
    """Load the pair once and measure every length and threshold; yields as each length is done.

    Raises
    ------
    HarnessError
        An option is wrong, a model is absent, or the two do not fit.
    """
    options.check()
    return _bench(options, say)


def _bench(options: DraftVerifyOptions, say: Say) -> Iterator[list[Measured]]:
    from harness.engines.base import EngineSpec
    from harness.engines.hf.engine import HfEngine, standard_prefill
    from harness.engines.hf.model import load_model
    from harness.methods.base import MethodContext
    from harness.methods.draft_verify.strategy import DraftVerifyPrefill
    from harness.models.presets import resolve
    from harness.models.tokenizer import Tokenizer
    from harness.tasks.catalogue import resolve as resolve_tasks

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
    with full, drafted:
        for length, examples in zip(options.prompt_lengths, loaded, strict=True):
            yield _Length(options, length, examples, context, full, drafted).measure(say)


def _examples(
    options: DraftVerifyOptions,
    task: Any,
    length: int,
    tokenizer: Tokenizer,
    models: ResolvedModels,
) -> TaskExamples:
    from harness.tasks.examples import load_examples

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

    def measure(self, say: Say) -> list[Measured]:
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
        full = found[None]
        return [
            Measured(
                self.length,
                threshold,
                full,
                found[threshold],
                self._score(full),
                self._score(found[threshold]),
                timed[threshold],
            )
            for threshold in self.options.thresholds
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

    def _score(self, generations: Sequence[Generation]) -> float:
        measured = self.examples.examples[self.options.warmup :]
        scores = [
            next(iter(self.examples.score(example, generation.text).values()))
            for example, generation in zip(measured, generations, strict=True)
        ]
        return fmean(scores)


def _decided_alike(drafted: Sequence[Generation], threshold: float) -> Generation | None:
    """Return the run of the same prompt whose decisions ``threshold`` would take, too."""
    for generation in drafted:
        assert generation.receipt is not None, "the strategy completes every receipt"
        refused, accepted = generation.receipt.details["alike"]
        above = refused is None or refused < threshold
        if above and (accepted is None or threshold <= accepted):
            return generation
    return None
