"""What the methods that change *how* the target prefills have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from harness.engines.base import EngineSpec
from harness.schema.prompts import PreparedPrompt, Prompt
from harness.schema.receipts import BudgetKind, Cost, Receipt, Status

ENGINE = "hf"
"""The engine that has prefill strategies (:mod:`harness.engines.hf.strategies`)."""


def on_transformers(base: EngineSpec, **changes: str) -> EngineSpec:
    """Return ``base`` on the transformers engine with another attention or prefill strategy."""
    return replace(base, engine=ENGINE, **changes)  # type: ignore[arg-type]  # str fields only


def whole_prompt(
    prompt: Prompt,
    *,
    method: str,
    kind: BudgetKind,
    keep: float | None,
    keep_achieved: float | None,
    cost: Cost,
    directives: Mapping[str, Any],
    seconds: float,
) -> PreparedPrompt:
    """Hand the whole prompt to a strategy, whose knobs are the directives.

    ``keep_achieved`` and parts of ``cost`` that only the prefill knows stay None until the
    strategy completes the receipt.
    """
    length = len(prompt.token_ids)
    receipt = Receipt(
        method=method,
        status=Status.ACTIVE if length else Status.KEPT_ALL,
        keep_requested=keep,
        keep_achieved=keep_achieved,
        budget_kind=kind,
        cost=cost,
        kept_spans=((0, length),) if length else (),
        stages_s={"other": seconds},
    )
    return PreparedPrompt(
        prompt.example_id, prompt.token_ids, None, length, receipt, dict(directives)
    )
