"""The summary's rows as values: the one place that reads the summary's JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.schema.receipts import REFERENCE_KERNEL, Status

QUIET_STATUSES = frozenset({str(Status.ACTIVE), str(Status.KEPT_ALL)})
"""Statuses that need no notice; every other one means that a prompt was not pruned as asked."""

FLOOR_REMARK = "floor: full prefill scores under 0.2, so the task stays out of headlines"

KERNEL_REMARK = f"TTFT with a {REFERENCE_KERNEL}: not the method's own speed"

TOO_FEW = "too few to conclude"
"""How the summary's notes begin where the data decide nothing."""

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
class Checks:
    """What stands behind a row's figures, for readers who want to judge the measurement.

    ``p`` is two-sided for "no difference", ``p_holm`` after Holm over the run's task rows; gained
    and lost count examples whose right-or-wrong answer changed. ``order_effect`` (log units) and
    ``lag1`` are of the latency blocks.
    """

    p: float | None = None
    p_holm: float | None = None
    gained: int | None = None
    lost: int | None = None
    blocks: int | None = None
    order_effect: float | None = None
    lag1: float | None = None

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Checks:
        """Read them from one entry of the summary's ``arms``."""
        delta, speedup = raw.get("delta") or {}, raw.get("ttft_speedup") or {}
        counts = delta.get("mcnemar") or {}
        return cls(
            p=delta.get("p"),
            p_holm=delta.get("p_holm"),
            gained=counts.get("gained"),
            lost=counts.get("lost"),
            blocks=speedup.get("blocks"),
            order_effect=speedup.get("order_effect"),
            lag1=speedup.get("lag1"),
        )


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the summary: an arm on a task, or pooled over a group's tasks.

    Scores lie in [0, 1]; times are in seconds; ``delta`` is arm − full prefill, paired.
    ``level`` is ``group`` (pooled over a group's tasks), ``task``, or ``seed`` (one data seed of a
    task row); ``run`` is set where several runs are reported together.
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
    level: str = "task"
    group: str | None = None
    category: str | None = None
    metric: str | None = None
    budget_kind: str | None = None
    improves_ttft: bool | None = None
    evidence_kept: float | None = None
    requests: int = 0
    kernel: str | None = None
    floor: bool = False
    deterministic: bool | None = None
    note: str | None = None
    checks: Checks = field(default_factory=Checks)
    speedup_by_length: Mapping[str, Estimate] = field(default_factory=dict)
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
            level=raw.get("level") or ("group" if raw.get("pooled") else "task"),
            group=raw.get("group"),
            category=raw.get("category"),
            metric=raw.get("metric"),
            budget_kind=raw.get("budget_kind"),
            improves_ttft=raw.get("improves_ttft"),
            evidence_kept=raw.get("evidence_kept"),
            requests=ttft.get("requests") or 0,
            kernel=ttft.get("kernel"),
            floor=bool(raw.get("floor")),
            deterministic=raw.get("deterministic"),
            note=raw.get("note"),
            checks=Checks.from_json(raw),
            speedup_by_length={
                band: estimate
                for band, entry in (raw.get("ttft_by_length") or {}).items()
                if (estimate := Estimate.from_json(entry, "ratio")) is not None
            },
            run=run,
        )

    @property
    def pooled(self) -> bool:
        """Whether the row stands for the tasks of a group."""
        return self.level == "group"

    @property
    def is_reference(self) -> bool:
        """Whether this is full prefill, to which deltas and speed-ups refer."""
        return self.method == "full"

    @property
    def has_reference_kernel(self) -> bool:
        """Whether the seconds are those of a reference kernel, not the method's own."""
        return self.kernel is not None and REFERENCE_KERNEL in self.kernel

    @property
    def series(self) -> str:
        """The arm without its keep rate: arms that differ in nothing else form one curve."""
        return re.sub(r"-k[\d.]+(?=$|[-@])", "", self.arm)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a reader must know of this row, reasons for absent intervals included."""
        found = [self.note] if self.note else []
        for estimate in (self.score, self.delta, self.speedup):
            reason = None if estimate is None or estimate.bounds else estimate.reason
            # "too few to conclude: <reason>" has said it already.
            if reason and not any(reason in text for text in found):
                found.append(reason)
        if self.floor:
            found.append(FLOOR_REMARK)
        if self.has_reference_kernel:
            found.append(KERNEL_REMARK)
        if self.deterministic:
            found.append("deterministic: seeds were varied and no score changed")
        return tuple(found)

    @property
    def silent(self) -> dict[str, int]:
        """Statuses that a reader must be told about, with their counts."""
        return {name: n for name, n in self.status.items() if name not in QUIET_STATUSES and n}


def rows_of(summary: Mapping[str, Any], run: str | None = None) -> list[Row]:
    """Rows of one summary, in its order (pooled rows first)."""
    return [Row.from_json(raw, run) for raw in summary["arms"]]


def silent_notice(rows: Sequence[Row]) -> str | None:
    """Sentence that says which prompts were not pruned as asked; None where all were.

    Rows of groups and of single seeds repeat the prompts of task rows and are not counted.
    """
    tasks = [row for row in rows if row.level == "task"]
    counts: dict[str, int] = {}
    for row in tasks:
        for name, number in row.silent.items():
            counts[name] = counts.get(name, 0) + number
    if not counts:
        return None
    total = sum(sum(row.status.values()) for row in tasks)
    parts = ", ".join(f"{number} {name}" for name, number in sorted(counts.items()))
    return f"{sum(counts.values())} of {total} prompts did not run as their arm says: {parts}"


def remarks(rows: Sequence[Row]) -> list[str]:
    """Distinct remarks of rows, in order of appearance: tables number them and print each once."""
    return list(dict.fromkeys(text for row in rows for text in row.remarks))
