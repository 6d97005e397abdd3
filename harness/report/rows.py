"""The summary's rows as values: the one place that reads the JSON of ``harness.summary``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.receipts import Status

QUIET_STATUSES = frozenset({str(Status.ACTIVE), str(Status.KEPT_ALL)})
"""Statuses that need no notice; every other one means that a prompt was not pruned as asked."""

STAGES = ("score", "select", "prefill", "other")
"""Stages of the time to first token, in the order in which they happen."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its 95 % interval; a missing bound or figure has its reason beside it."""

    value: float | None
    low: float | None = None
    high: float | None = None
    reason: str | None = None

    @classmethod
    def from_json(cls, raw: Mapping[str, Any] | None, key: str) -> Estimate | None:
        """Read ``{key, low, high[, reason]}``; None stays None."""
        if raw is None:
            return None
        return cls(raw.get(key), raw.get("low"), raw.get("high"), raw.get("reason"))

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The interval, or None where there is none."""
        if self.low is None or self.high is None:
            return None
        return self.low, self.high


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the summary: an arm on a task, or pooled over a group's tasks.

    Scores lie in [0, 1]; times are in seconds; ``delta`` is arm − full prefill, paired.
    ``run`` is set where several runs are reported together.
    """

    arm: str
    method: str
    task: str
    length: int | None
    seed: int | None
    look_ahead: int | None
    keep_requested: float | None
    keep_achieved: float | None
    n: int
    score: Estimate
    delta: Estimate | None
    ttft_s: float | None
    speedup: Estimate | None
    stages_s: Mapping[str, float | None] = field(default_factory=dict)
    status: Mapping[str, int] = field(default_factory=dict)
    pooled: bool = False
    floor: bool = False
    deterministic: bool = False
    note: str | None = None
    category: str | None = None
    run: str | None = None

    @classmethod
    def from_json(cls, raw: Mapping[str, Any], run: str | None = None) -> Row:
        """Read one entry of the summary's ``arms``."""
        ttft = raw.get("ttft_s") or {}
        stages = raw.get("stages_s") or {}
        return cls(
            arm=raw["arm"],
            method=raw["method"],
            task=raw["task"],
            length=raw.get("length"),
            seed=raw.get("seed"),
            look_ahead=raw.get("look_ahead"),
            keep_requested=raw.get("keep_requested"),
            keep_achieved=raw.get("keep_achieved"),
            n=raw["n"],
            score=Estimate.from_json(raw.get("score"), "mean") or Estimate(None),
            delta=Estimate.from_json(raw.get("delta"), "mean"),
            ttft_s=ttft.get("median"),
            speedup=Estimate.from_json(raw.get("ttft_speedup"), "ratio"),
            stages_s={name: stages.get(name) for name in STAGES},
            status=dict(raw.get("status") or {}),
            pooled=bool(raw.get("pooled")),
            floor=bool(raw.get("floor")),
            deterministic=bool(raw.get("deterministic")),
            note=raw.get("note") or raw.get("reason"),
            category=raw.get("category"),
            run=run,
        )

    @property
    def is_reference(self) -> bool:
        """Whether this is full prefill, to which deltas and speed-ups refer."""
        return self.method == "full"

    @property
    def silent(self) -> dict[str, int]:
        """Statuses that a reader must be told about, with their counts."""
        return {name: n for name, n in self.status.items() if name not in QUIET_STATUSES and n}


def rows_of(summary: Mapping[str, Any], run: str | None = None) -> list[Row]:
    """Rows of one summary, in its order (pooled rows first)."""
    return [Row.from_json(raw, run) for raw in summary["arms"]]


def silent_notice(rows: Sequence[Row]) -> str | None:
    """Sentence that says which prompts were not pruned as asked; None where all were.

    Pooled rows repeat the prompts of their tasks and are not counted.
    """
    counts: dict[str, int] = {}
    for row in rows:
        for name, number in row.silent.items() if not row.pooled else ():
            counts[name] = counts.get(name, 0) + number
    if not counts:
        return None
    total = sum(sum(row.status.values()) for row in rows if not row.pooled)
    parts = ", ".join(f"{number} {name}" for name, number in sorted(counts.items()))
    return f"{sum(counts.values())} of {total} prompts did not run as their arm says: {parts}"


def missing_reasons(rows: Sequence[Row]) -> list[str]:
    """Distinct reasons for absent intervals and figures, in order of appearance."""
    reasons: dict[str, None] = {}
    for row in rows:
        for estimate in (row.score, row.delta, row.speedup):
            if estimate is not None and estimate.bounds is None and estimate.reason:
                reasons.setdefault(estimate.reason)
    return list(reasons)
