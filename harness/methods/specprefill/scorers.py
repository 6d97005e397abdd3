"""The speculators by engine; a class is imported when it is opened, never before."""

from __future__ import annotations

from pkgutil import resolve_name
from typing import Any, cast

from harness.engines.base import EngineSpec
from harness.engines.scorer import Scorer

SCORERS: dict[str, str] = {
    "vllm": "harness.methods.specprefill.vllm.scorer:VllmScorer",
    "hf": "harness.methods.specprefill.hf_scorer:HfScorer",
    "fake": "harness.engines.fake:FakeScorer",
}
"""Engine name → ``module:Class`` of its speculator; each has ``check`` and ``open``, of a spec."""


def check_scorer(spec: EngineSpec) -> None:
    """Refuse a model that cannot be a speculator, before anything heavy is loaded.

    Raises
    ------
    EngineRefusedError
        The scores would not be those of its attention, in one line.
    """
    _scorer_class(spec).check(spec)


def open_scorer(spec: EngineSpec) -> Scorer:
    """Start a speculator: ``spec.target`` names its model, ``spec.engine`` where it runs."""
    return cast(Scorer, _scorer_class(spec).open(spec))


def _scorer_class(spec: EngineSpec) -> Any:
    return resolve_name(SCORERS[spec.engine])
