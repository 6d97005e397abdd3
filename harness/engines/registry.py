"""The engines by name; a class is imported when it is opened, never before."""

from __future__ import annotations

from pkgutil import resolve_name
from typing import cast

from harness.engines.base import Engine, EngineSpec

ENGINES: dict[str, str] = {
    "vllm": "harness.engines.vllm.engine:VllmEngine",
    "hf": "harness.engines.hf.engine:HfEngine",
    "fake": "harness.engines.fake:FakeEngine",
}
"""Engine name → ``module:Class``; each class is an :class:`~harness.engines.base.Engine`."""


def check_target(spec: EngineSpec) -> None:
    """Refuse a model that the engine cannot run rightly, before anything heavy is loaded.

    Raises
    ------
    EngineRefusedError
        Sliding-window, M-RoPE, MLA and hybrid targets (ALGORITHM.md, Prefill).
    """
    _engine_class(spec).check(spec)


def open_engine(spec: EngineSpec) -> Engine:
    """Start the engine that ``spec`` describes."""
    return _engine_class(spec).open(spec)


def _engine_class(spec: EngineSpec) -> type[Engine]:
    return cast("type[Engine]", resolve_name(ENGINES[spec.engine]))
