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
"""Engine name → ``module:Class``; each class has ``open(spec) -> Engine``."""


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
