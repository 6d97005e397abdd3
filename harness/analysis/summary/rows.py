"""The rows of a summary and their JSON, the contract of ``harness run --json``."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.analysis.stats.estimate import Estimate
from harness.analysis.stats.mcnemar import McNemar
from harness.analysis.stats.variance import VarianceSplit
from harness.analysis.summary.timing import SpeedUp

FLOOR = 0.2
"""Where full prefill scores below this the model cannot do the task (DESIGN.md, rule 6)."""


@dataclass(frozen=True)
class Delta:
    """Arm − full prefill, paired by example.

    Attributes
    ----------
    p, p_holm
        Two-sided p of "no difference", raw and after Holm over the run's task rows.
    mcnemar
        Descriptive; only where every cluster holds one right-or-wrong item.
    shown
        What is printed in place of ``estimate``, where another interval was asked for.
    """

    estimate: Estimate
    p: float | None = None
    p_holm: float | None = None
    mcnemar: McNemar | None = None
    shown: Estimate | None = None

    def to_json(self) -> dict[str, Any]:
        """Return ``{"mean", "low", "high", "n", "clusters", "p", "p_holm", "mcnemar"}``."""
        counts = self.mcnemar
        return {
            **(self.shown or self.estimate).to_json(),
            "n": self.estimate.n,
            "clusters": self.estimate.clusters,
            "p": self.p,
            "p_holm": self.p_holm,
            "mcnemar": None
            if counts is None
            else {"gained": counts.gained, "lost": counts.lost, "mid_p": counts.mid_p},
        }


@dataclass(frozen=True)
class ArmRow:
    """One arm at one task and length, one of its data seeds, or its pool over a group's tasks.

    Attributes
    ----------
    level
        ``group`` (pooled over the tasks in ``tasks``), ``task``, or ``seed`` (one data seed of a
        task that ran with several; its pool stands before it as the ``task`` row).
    cell_ids
        Cells behind the row.
    delta
        None for full prefill itself and without a reference.
    floor
        Full prefill scores under :data:`FLOOR` here: left out of group rows and verdicts.
    deterministic
        True where selector or sampling seeds were varied and nothing changed; None where they
        were not varied.
    status
        Receipts by status, over the quality records.
    kernel
        What computed the attention behind ``ttft_median``, where the method names it.
    note
        What a reader must know: too few to conclude, incomplete, left-out tasks.
    """

    level: str
    arm: str
    method: str
    task: str
    group: str
    category: str
    metric: str
    length: int | None
    seed: int | None
    seeds: tuple[int, ...]
    look_ahead: int | None
    keep_requested: float | None
    keep_achieved: float | None
    budget_kind: str
    improves_ttft: bool
    n: int
    score: Estimate
    delta: Delta | None = None
    floor: bool = False
    deterministic: bool | None = None
    variance: VarianceSplit | None = None
    evidence_kept: float | None = None
    ttft_median: float | None = None
    requests: int = 0
    kernel: str | None = None
    speedup: SpeedUp | None = None
    by_length: Mapping[str, SpeedUp] = field(default_factory=dict)
    stages_s: Mapping[str, float | None] = field(default_factory=dict)
    status: Mapping[str, int] = field(default_factory=dict)
    tasks: tuple[str, ...] = ()
    cell_ids: tuple[str, ...] = ()
    note: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the row as JSON; every number is finite or None."""
        split = self.variance
        raw = {
            "arm": self.arm,
            "method": self.method,
            "task": self.task,
            "length": self.length,
            "seed": self.seed,
            "look_ahead": self.look_ahead,
            "keep_requested": self.keep_requested,
            "keep_achieved": self.keep_achieved,
            "n": self.n,
            "score": self.score.to_json(),
            "delta": None if self.delta is None else self.delta.to_json(),
            "ttft_s": {
                "median": self.ttft_median,
                "requests": self.requests,
                "kernel": self.kernel,
            },
            "ttft_speedup": None if self.speedup is None else self.speedup.to_json(),
            "stages_s": dict(self.stages_s),
            "status": dict(self.status),
            "pooled": self.level == "group",
            "level": self.level,
            "group": self.group,
            "category": self.category,
            "metric": self.metric,
            "seeds": list(self.seeds),
            "tasks": list(self.tasks),
            "clusters": self.score.clusters,
            "budget_kind": self.budget_kind,
            "improves_ttft": self.improves_ttft,
            "floor": self.floor,
            "deterministic": self.deterministic,
            "variance": None if split is None else {"items": split.items, "seeds": split.seeds},
            "evidence_kept": self.evidence_kept,
            "ttft_by_length": {k: v.to_json() for k, v in self.by_length.items()},
            "cells": list(self.cell_ids),
            "note": self.note,
        }
        return {key: _finite(value) for key, value in raw.items()}


@dataclass(frozen=True)
class RunSummary:
    """A run's rows, pooled group rows first, then task by task, arms in the plan's order."""

    run: str
    path: str
    arms: tuple[ArmRow, ...]

    def to_json(self) -> dict[str, Any]:
        """Return ``{"run", "path", "arms": […], "categories": […]}``, as ``--json`` prints it."""
        from harness.analysis.summary.categories import category_means

        return {
            "run": self.run,
            "path": self.path,
            "arms": [row.to_json() for row in self.arms],
            "categories": _finite(category_means(self.arms)),
        }

    def dumps(self) -> str:
        """Return one line of strict JSON: no NaN, no infinity, text as it is."""
        return json.dumps(self.to_json(), ensure_ascii=False, allow_nan=False)


def _finite(value: Any) -> Any:
    """Replace what JSON cannot say by None, at any depth."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return value
