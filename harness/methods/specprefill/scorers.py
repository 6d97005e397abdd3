"""The speculators by engine; a class is imported when it is opened, never before."""

from __future__ import annotations

from pkgutil import resolve_name
from typing import cast

from harness.engines.base import EngineSpec
from harness.engines.scorer import Scorer

SCORERS: dict[str, str] = {
    "vllm": "harness.methods.specprefill.vllm.scorer:VllmScorer",
    "hf": "harness.methods.specprefill.hf_scorer:HfScorer",
    "fake": "harness.engines.fake:FakeScorer",
}
"""Engine name → ``module:Class`` of its speculator; each has ``open(spec) -> Scorer``."""


def open_scorer(spec: EngineSpec) -> Scorer:
    """Start a speculator: ``spec.target`` names its model, ``spec.engine`` where it runs."""
    return cast(Scorer, resolve_name(SCORERS[spec.engine]).open(spec))
