"""The engines, by name; a class is imported when it is opened, never before."""

from __future__ import annotations

from pkgutil import resolve_name
from typing import cast

from harness.engines.base import Engine, EngineSpec
from harness.specprefill.scorer import Scorer

ENGINES: dict[str, str] = {
    "vllm": "harness.engines.vllm:VllmEngine",
    "hf": "harness.engines.hf:HfEngine",
    "fake": "harness.engines.fake:FakeEngine",
}
"""Engine name → ``module:Class``; each class has ``open(spec) -> Engine``."""

SCORERS: dict[str, str] = {
    "vllm": "harness.specprefill.vllm.scorer:VllmScorer",
    "hf": "harness.specprefill.hf_scorer:HfScorer",
    "fake": "harness.engines.fake:FakeScorer",
}
"""Engine name → ``module:Class`` of its speculator; each has ``open(spec) -> Scorer``."""


def check_target(spec: EngineSpec) -> None:
    """Refuse a model that the engine cannot run rightly, before anything heavy is loaded.

    Raises
    ------
    EngineRefusedError
        Sliding-window, M-RoPE, MLA and hybrid targets (ALGORITHM.md, Prefill).
    """
    check = getattr(resolve_name(ENGINES[spec.engine]), "check", None)
    if check is not None:
        check(spec)


def open_engine(spec: EngineSpec) -> Engine:
    """Start the engine that ``spec`` describes."""
    return cast(Engine, resolve_name(ENGINES[spec.engine]).open(spec))


def open_scorer(spec: EngineSpec) -> Scorer:
    """Start a speculator: ``spec.target`` names its model, ``spec.engine`` where it runs."""
    return cast(Scorer, resolve_name(SCORERS[spec.engine]).open(spec))
