"""Draft/verify prefill: the second system called SpecPrefill.

A draft model fills the key-value cache chunk by chunk, the verifier checks checkpoints and
recomputes what it does not accept. Training-free: the maps between the two models are fitted in
closed form on text that no evaluation uses.

    from harness.methods.draft_verify import PrefillConfig, SpecPrefillForCausalLM

    model = SpecPrefillForCausalLM.from_pretrained(
        draft_model_name="…-8B", verifier_model_name="…-70B", config=PrefillConfig()
    )
    result = model.prefill(input_ids)
    print(result.ttft_ms, result.acceptance_rate)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from harness.methods.draft_verify.config import PrefillConfig
from harness.methods.draft_verify.method import DraftVerify

if TYPE_CHECKING:
    from harness.methods.draft_verify.model import PrefillResult, SpecPrefillForCausalLM
    from harness.methods.draft_verify.prefill import standard_prefill

__all__ = [
    "DraftVerify",
    "PrefillConfig",
    "PrefillResult",
    "SpecPrefillForCausalLM",
    "standard_prefill",
]

# These need torch, which a list of methods does not.
_LAZY = {
    "PrefillResult": "harness.methods.draft_verify.model",
    "SpecPrefillForCausalLM": "harness.methods.draft_verify.model",
    "standard_prefill": "harness.methods.draft_verify.prefill",
}


def __getattr__(name: str) -> Any:
    """Import the parts that need torch when they are asked for."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
