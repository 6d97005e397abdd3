"""The receipt of a sparse prefill, completed with what the engine computed."""

from __future__ import annotations

from dataclasses import replace

from harness.methods.costs import prefill_cost
from harness.schema.prompts import PreparedPrompt
from harness.schema.receipts import Receipt


def completed(prepared: PreparedPrompt, achieved: float, kernel: str) -> Receipt:
    """Return the receipt of a prefill that computed ``achieved`` of the causal pairs."""
    length = prepared.original_length
    knobs = prepared.directives
    return replace(
        prepared.receipt,
        keep_achieved=achieved,
        cost=prefill_cost(length, length, knobs["shape"], attention_share=achieved),
        details={
            "pattern": "published" if knobs["pattern_file"] else knobs["pattern"],
            "kernel": kernel,
        },
    )
