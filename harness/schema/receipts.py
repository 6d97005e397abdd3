"""The receipt: what a method did to one prompt, and what that cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pydantic import TypeAdapter


class Status(StrEnum):
    """What became of a prompt. Everything but ``active`` and ``kept_all`` is worth a notice."""

    ACTIVE = "active"
    KEPT_ALL = "kept_all"
    SKIPPED_MIN_TOKENS = "skipped_min_tokens"
    SKIPPED_BREAK_EVEN = "skipped_break_even"
    SKIPPED_TOOL_GUARD = "skipped_tool_guard"
    DISABLED = "disabled"
    UNSUPPORTED = "unsupported"
    FAILED = "failed"


QUIET_STATUSES = frozenset({Status.ACTIVE, Status.KEPT_ALL})
"""Statuses that need no notice; every other one means that a prompt was not pruned as asked."""


class BudgetKind(StrEnum):
    """What a method's keep rate is a share of; rivals are compared within one kind (rule 5)."""

    TOKENS = "tokens"
    ATTENTION = "attention"
    KV = "kv"
    ADAPTIVE = "adaptive"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Cost:
    """What the target's prefill costs under the method; None where it is not known.

    Attributes
    ----------
    prefill_tokens
        Tokens that the target prefills.
    attention_share
        Share of the causal attention pairs computed, 1.0 for full prefill.
    kv_tokens
        Tokens in the target's KV cache when decoding starts.
    flops_share
        The target's prefill FLOPs as a share of full prefill's; the scorer is not in it.
    """

    prefill_tokens: int | None = None
    attention_share: float | None = None
    kv_tokens: int | None = None
    flops_share: float | None = None


POSITIONS, ROWS = PROOFS = ("positions_applied", "rows_captured")
"""Counters that prove a hook: steps in which the target's positions were written, and query rows
that the speculator kept."""

REFERENCE_KERNEL = "reference kernel"
"""Code that shows what a method computes, not how fast: reports mark its TTFT."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a method did to one prompt.

    Attributes
    ----------
    keep_requested, keep_achieved
        Shares of the budget kind's unit in [0, 1]; None where the method has no budget, or did
        not run.
    kept_spans
        Half-open spans of kept *token* indices into the original prompt; None where the method
        does not keep tokens of the prompt (a compressor that rewrites text).
    stages_s
        Seconds by stage: ``score``, ``select``, ``other``; with ``prefill`` where the request ran
        alone (timed requests, and the transformers engine).
    counters
        Hook counters: how often an integration's code really ran.
    details
        Method-specific facts (windows, look-ahead tokens …), JSON-ready. ``kernel`` names what
        computed a method's attention; with :data:`REFERENCE_KERNEL` its seconds are not the
        method's own. ``proof`` lists the counters (:data:`PROOFS`) that were due of the request.
    """

    method: str
    status: Status
    reason: str | None = None
    keep_requested: float | None = None
    keep_achieved: float | None = None
    budget_kind: BudgetKind = BudgetKind.NONE
    cost: Cost = field(default_factory=Cost)
    kept_spans: tuple[tuple[int, int], ...] | None = None
    stages_s: Mapping[str, float] = field(default_factory=dict)
    counters: Mapping[str, int] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return what ``json.dumps`` takes; the inverse of :meth:`from_json`.

        Numbers stay as they are: pydantic's own JSON would turn a NaN into a missing value.
        """
        fields: dict[str, Any] = _CODEC.dump_python(self)
        return fields

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Receipt:
        """Read what :meth:`to_json` wrote."""
        return _CODEC.validate_python(raw)


_CODEC = TypeAdapter(Receipt)


def spans_of(indices: list[int] | tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Join sorted token indices into half-open spans.

    >>> spans_of([0, 1, 2, 7, 8])
    ((0, 3), (7, 9))
    """
    spans: list[tuple[int, int]] = []
    for index in indices:
        if spans and spans[-1][1] == index:
            spans[-1] = (spans[-1][0], index + 1)
        else:
            spans.append((index, index + 1))
    return tuple(spans)
