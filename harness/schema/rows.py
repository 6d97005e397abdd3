"""The rows of a run's summary: made once in ``harness.analysis.summary``, printed everywhere.

Every format (terminal, Markdown, HTML, CSV, JSON) prints these objects; none computes a figure of
its own. Their JSON is the contract of ``harness run --json`` and ``harness report --format json``:
keys may be added, none changes its name or meaning. Missing is None with a reason, and every number
is finite or None.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, computed_field

from harness.schema.estimates import (
    Delta,
    Estimate,
    Number,
    Part,
    Seconds,
    SpeedUp,
    Variance,
    Verdict,
)
from harness.schema.receipts import QUIET_STATUSES, REFERENCE_KERNEL


class Without(Part):
    """A pooled row's figures without some of its tasks; they stand beside, never in its place."""

    left_out: tuple[str, ...]
    n: int
    score: Estimate
    delta: Delta | None = None


class Macro(Part):
    """A pooled row's figures as its benchmark averages them: tasks, or categories, weigh alike.

    Attributes
    ----------
    score
        None where a task has none.
    delta
        Arm − full prefill with a stratified interval: the tasks are the benchmark's, the examples
        in them samples (:mod:`harness.analysis.stats.stratified`).
    verdict
        What ``delta`` is called; the row's own verdict, where it is printed.
    """

    score: Number
    delta: Delta | None = None
    weighs: Literal["tasks", "categories"] = "tasks"
    verdict: Verdict | None = Field(default=None, exclude=True)


class Row(Part):
    """One arm at one task and length, one of its data seeds, or its pool over a group's tasks.

    Attributes
    ----------
    level
        ``group`` (pooled over the tasks in ``tasks``, every example weighing alike), ``task``, or
        ``seed`` (one data seed of a task that ran with several; its pool stands before it as the
        ``task`` row).
    arm, base, series
        Display name; the name that the user gave; the name without keep rate and method seed, which
        the points of one curve share (:class:`harness.schema.arm.Arm`).
    delta
        None for full prefill itself and without a reference.
    floor
        Full prefill cannot do the task (:mod:`harness.analysis.floor`), or none of the group's.
    counting
        The task counts (:mod:`harness.analysis.summary.counting`), or every task of the group.
    macro
        A group's figures as its benchmark averages them: what a finding quotes; ``score`` and
        ``delta`` of such a row weigh every example alike.
    without_floor, without_counting
        A group's figures without its floor tasks, and without those that count; None where it has
        none, or nothing else.
    undecided
        The data are too few to tell no change from a loss of the margin; ``note`` says why.
    verdict
        What the comparison with full prefill is called, of a group that of ``macro``; None where
        there is none.
    deterministic
        True where selector or sampling seeds were varied and nothing changed; None where they were
        not varied.
    status
        Receipts by status, over the quality records, most frequent first.
    ttft_s, tpot_s, e2e_s
        Time to first token, time per output token after it, and end to end: from the prompt's
        arrival to the last of ``timed_tokens`` tokens (mean), ttft + tpot × (tokens − 1).
    ttft_speedup, tpot_speedup, e2e_speedup
        Paired with full prefill; None without blocks. ``…_by_length`` has them by length band.
    stages_s
        Mean seconds of the time to first token by stage (means, so that they add up).
    cells
        Ids of the cells behind the row.
    note
        What a reader must know: too few to conclude, incomplete, tasks without a result.
    remarks
        ``note`` and everything else that tables say below: why an interval is missing, floor,
        reference kernel, deterministic.
    run
        The run's id where several are reported together; no part of the JSON, which names the run
        once.
    """

    arm: str
    base: str
    series: str
    method: str
    engine: str
    dtype: str
    task: str
    length: int | None = None
    seed: int | None = None
    look_ahead: int | None = None
    keep_requested: Number = None
    keep_achieved: Number = None
    n: int
    score: Estimate
    delta: Delta | None = None
    macro: Macro | None = None
    without_floor: Without | None = None
    without_counting: Without | None = None
    ttft_s: Seconds = Seconds()
    ttft_speedup: SpeedUp | None = None
    ttft_by_length: Mapping[str, SpeedUp] = Field(default_factory=dict)
    tpot_s: Seconds = Seconds()
    tpot_speedup: SpeedUp | None = None
    tpot_by_length: Mapping[str, SpeedUp] = Field(default_factory=dict)
    e2e_s: Seconds = Seconds()
    e2e_speedup: SpeedUp | None = None
    e2e_by_length: Mapping[str, SpeedUp] = Field(default_factory=dict)
    timed_tokens: Number = None
    stages_s: Mapping[str, Number] = Field(default_factory=dict)
    status: Mapping[str, int] = Field(default_factory=dict)
    level: Literal["group", "task", "seed"]
    group: str
    category: str
    metric: str
    seeds: tuple[int, ...] = ()
    tasks: tuple[str, ...] = ()
    clusters: int = 0
    budget_kind: str
    improves_ttft: bool
    floor: bool = False
    counting: bool = False
    undecided: bool = False
    verdict: Verdict | None = None
    deterministic: bool | None = None
    variance: Variance | None = None
    evidence_kept: Number = None
    cells: tuple[str, ...] = ()
    note: str | None = None
    remarks: tuple[str, ...] = ()
    run: str | None = Field(default=None, exclude=True)

    @computed_field  # type: ignore[prop-decorator]
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
        return self.ttft_s.kernel is not None and REFERENCE_KERNEL in self.ttft_s.kernel

    @property
    def silent(self) -> dict[str, int]:
        """Statuses that a reader must be told about, with their counts."""
        return {name: n for name, n in self.status.items() if name not in QUIET_STATUSES and n}


class MeanWithout(Part):
    """A mean without some of its tasks; it stands beside the mean, never in its place."""

    left_out: tuple[str, ...]
    score: Number
    delta: Number = None


OVERALL = "overall"
"""``category`` of a mean over a whole benchmark."""


class CategoryMean(Part):
    """Mean of one arm over a category's tasks at one length, or over a benchmark's.

    It has no interval: a benchmark's tasks are its authors' choice, not a sample of anything.

    Attributes
    ----------
    category
        :data:`OVERALL` for the benchmark's own average.
    tasks
        Every task of the category in the run at this length, floor and counting tasks included.
    left_out
        Tasks on which the arm has no score: there is no mean then.
    score, delta
        Unweighted means of the tasks' means and paired differences; for an overall mean as the
        benchmark's authors average (:mod:`harness.analysis.summary.categories`).
    floor
        Every task is a floor task.
    floor_tasks, counting_tasks
        Which of ``tasks`` the model cannot do, and which count.
    without_floor, without_counting
        The mean of the others; None where there are none of the kind, or no others.
    weighs
        What weighs alike in it.
    categories
        Of an overall mean: the categories of its tasks.
    """

    group: str
    category: str
    arm: str
    method: str
    engine: str
    length: int | None
    tasks: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    score: Number
    delta: Number = None
    floor: bool = False
    floor_tasks: tuple[str, ...] = ()
    counting_tasks: tuple[str, ...] = ()
    without_floor: MeanWithout | None = None
    without_counting: MeanWithout | None = None
    weighs: Literal["tasks", "categories"] = "tasks"
    categories: tuple[str, ...] = ()
    run: str | None = Field(default=None, exclude=True)

    @property
    def is_overall(self) -> bool:
        """Whether this is a benchmark's own average."""
        return self.category == OVERALL


class RivalComparison(Part):
    """Two pruning arms at one keep rate, paired by example: ``arm`` − ``rival``.

    Attributes
    ----------
    tasks
        The tasks behind it, floor tasks left out; several weigh as in their benchmark's mean.
    delta
        With p after Holm over every comparison of rivals in the run.
    """

    group: str
    tasks: tuple[str, ...]
    length: int | None
    keep: Number
    arm: str
    rival: str
    delta: Delta
    verdict: Verdict


class RunSummary(Part):
    """A run's rows, pooled group rows first, then task by task, arms in the plan's order."""

    run: str
    path: str
    arms: tuple[Row, ...]
    categories: tuple[CategoryMean, ...] = ()
    rival_comparisons: tuple[RivalComparison, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return ``{"run", "path", "arms": […], …}``, every field, as ``--json`` prints it."""
        return self.model_dump(mode="json")

    def dumps(self) -> str:
        """Return one line of strict JSON: no NaN, no infinity, text as it is."""
        return json.dumps(self.to_json(), ensure_ascii=False, allow_nan=False)
