"""Evaluation and benchmarking harness for Speculative Prefill."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.methods.specprefill.vllm.drop_in import disable_prefill_spec, enable_prefill_spec

__all__ = ["disable_prefill_spec", "enable_prefill_spec"]


def __getattr__(name: str) -> Any:
    """Import on use, so that ``import harness`` costs nothing."""
    if name in __all__:
        from harness.methods.specprefill.vllm import drop_in as enable

        return getattr(enable, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
