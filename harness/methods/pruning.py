"""What every method that drops tokens of the prompt has in common: how it ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field

from harness.methods.base import Method, MethodContext
from harness.methods.costs import prefill_cost, target_shape
from harness.schema.prompts import PreparedPrompt, Prompt
from harness.schema.receipts import BudgetKind, Receipt, Status, spans_of

STRICT = ConfigDict(extra="forbid")
"""Configuration of every method's dataclass: a knob that it does not have is refused."""


def _no_truth(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("a share is a number")
    return value


Keep = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False), BeforeValidator(_no_truth)]
"""Share of the prompt's tokens to keep."""


def _odd(width: int) -> int:
    if width % 2 == 0:
        raise ValueError("a pool that keeps the length has an odd width")
    return width


PoolKernel = Annotated[int, Field(ge=1), AfterValidator(_odd)]
"""Odd width of an average pool over token scores; 1 switches it off."""

Positions = Literal["original", "compacted"]
"""Kept tokens stay where they were, or are renumbered 0, 1, … as if nothing had been there."""


class Stopwatch:
    """Seconds by stage, from one start: each :meth:`lap` ends a stage."""

    def __init__(self) -> None:
        self.stages: dict[str, float] = {}
        self._last = perf_counter()

    def lap(self, stage: str) -> None:
        """End ``stage`` now; time is added where the stage ran before."""
        now = perf_counter()
        self.stages[stage] = self.stages.get(stage, 0.0) + now - self._last
        self._last = now


def prune(
    method: Method,
    prompt: Prompt,
    kept: Sequence[int],
    context: MethodContext,
    watch: Stopwatch,
    *,
    positions: Positions,
    reason: str | None = None,
    details: Mapping[str, Any] | None = None,
) -> PreparedPrompt:
    """Return ``prompt`` reduced to the tokens at ``kept``, with the receipt.

    Parameters
    ----------
    method
        Whose receipt it is: its name and the share that was asked of it.
    kept
        Indices into ``prompt.token_ids``; ascending for original positions. In another order
        the tokens are prefilled in that order (only with compacted positions).
    reason
        Why the budget was not met, where it was not.
    """
    length = len(prompt.token_ids)
    in_place = len(kept) == length and all(a == b for a, b in enumerate(kept))
    original = positions == "original"
    watch.lap("other")
    receipt = Receipt(
        method=method.name,
        status=Status.KEPT_ALL if in_place else Status.ACTIVE,
        reason=reason,
        keep_requested=method.requested,
        keep_achieved=len(kept) / length if length else None,
        budget_kind=BudgetKind.TOKENS,
        cost=prefill_cost(length, len(kept), target_shape(context)),
        kept_spans=spans_of(sorted(kept)),
        stages_s=watch.stages,
        details={"positions": positions, **(details or {})},
    )
    return PreparedPrompt(
        example_id=prompt.example_id,
        token_ids=tuple(prompt.token_ids[i] for i in kept),
        positions=tuple(kept) if original else None,
        original_length=length,
        receipt=receipt,
    )


def template_of(prompt: Prompt, context: MethodContext, *, wanted: bool) -> tuple[int, ...]:
    """Indices of the template's own tokens, where a selection wants to keep them always."""
    if not wanted:
        return ()
    return context.tokenizer.template_tokens(prompt.token_ids)


def unsupported(method: Method, prompt: Prompt, reason: str) -> PreparedPrompt:
    """Return ``prompt`` untouched under a receipt that says why the method cannot take it.

    The caller must not run it: nothing falls back silently to full prefill.
    """
    receipt = Receipt(
        method=method.name,
        status=Status.UNSUPPORTED,
        reason=reason,
        keep_requested=method.requested,
        budget_kind=method.budget_kind,
    )
    return PreparedPrompt(prompt.example_id, prompt.token_ids, None, len(prompt.token_ids), receipt)


def token_budget(length: int, keep: float) -> int:
    """Tokens to keep: ceil(keep × length) in exact decimal arithmetic.

    >>> token_budget(100, 0.07)
    7
    """
    from decimal import ROUND_CEILING, Decimal

    return int((Decimal(str(keep)) * length).to_integral_value(rounding=ROUND_CEILING))
