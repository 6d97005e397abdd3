"""The one opener: target, speculator, and the context that methods are given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.engines.base import Engine, EngineSpec
from harness.engines.registry import open_engine
from harness.engines.scorer import Scorer
from harness.methods.base import MethodContext
from harness.methods.specprefill.scorers import check_scorer, open_scorer

if TYPE_CHECKING:
    from harness.models.presets import ResolvedModels
    from harness.models.tokenizer import Tokenizer


@dataclass(frozen=True)
class Opened:
    """What is open: everything a method may use, and the engine that runs what it prepares.

    ``handles`` are what methods make for themselves (a retriever, a compressor): they live as
    long as the engine.
    """

    models: ResolvedModels
    tokenizer: Tokenizer
    engine: Engine | None
    scorer: Scorer | None
    handles: dict[str, Any] = field(default_factory=dict)

    def context(
        self,
        *,
        max_tokens: int = 0,
        method_seed: int = 0,
        rates: Mapping[str, float] | None = None,
        memo: dict[str, Any] | None = None,
    ) -> MethodContext:
        """Return the context of one cell; cells that are to share a memo are given it."""
        return MethodContext(
            tokenizer=self.tokenizer,
            scorer=self.scorer,
            speculator=str(self.models.speculator),
            max_positions=self.models.max_positions,
            max_tokens=max_tokens,
            method_seed=method_seed,
            rates=rates,
            handles=self.handles,
            memo={} if memo is None else memo,
        )


def scorer_spec(spec: EngineSpec, models: ResolvedModels) -> EngineSpec:
    """The speculator's engine beside a target's: of the same kind, in the same dtype.

    Its own arguments are vLLM's.
    """
    return EngineSpec(
        engine=spec.engine,
        target=str(models.speculator),
        dtype=spec.dtype,
        max_model_len=models.speculator_max_positions,
        options=models.speculator_options if spec.engine == "vllm" else (),
    )


def open_models(
    spec: EngineSpec,
    models: ResolvedModels,
    tokenizer: Tokenizer,
    stack: ExitStack,
    *,
    target: bool = True,
    speculator: bool,
    say: Callable[[str], None] = lambda _: None,
) -> Opened:
    """Start the target and, where a method needs its scores, the speculator.

    Parameters
    ----------
    spec
        The target's engine; the speculator runs on the same kind, in the same dtype.
    stack
        Closes what is opened, also where the second start fails.
    target, speculator
        Which of the two to start.

    Raises
    ------
    HarnessError
        A model does not start, in one line.
    """
    engine = scorer = None
    scoring = scorer_spec(spec, models)
    if speculator:
        check_scorer(scoring)  # before the target starts, which takes a while
    if target:
        say(f"starting the target on {spec.engine}, {spec.dtype}")
        engine = stack.enter_context(open_engine(spec))
    if speculator:
        say("starting the speculator")
        scorer = open_scorer(scoring)
        stack.callback(scorer.close)
    return Opened(models, tokenizer, engine, scorer)
