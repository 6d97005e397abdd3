"""The table by category: an average never stands without its parts, counting stands apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from harness.analysis.summary.counting import is_counting
from harness.report import formats
from harness.report.rows import Row

COUNTING = "counting"


@dataclass(frozen=True, slots=True)
class Mean:
    """Unweighted mean over the tasks of a category that an arm ran, floor tasks left out.

    It has no interval: the tasks are the benchmark's choice, not a sample of anything.
    """

    arm: str
    run: str | None
    length: int | None
    score: float
    delta: float | None
    tasks: int


@dataclass(frozen=True, slots=True)
class Section:
    """A category with its tasks' rows, and its means where it has several tasks."""

    title: str
    rows: tuple[Row, ...]
    means: tuple[Mean, ...] = ()
    pooled: bool = False


def sections(rows: Sequence[Row]) -> list[Section]:
    """Group rows by category, in the order in which they come; counting tasks come last."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        if not row.pooled:
            found.setdefault(category_of(row), []).append(row)
    ordered = sorted(found.items(), key=lambda item: item[0] == COUNTING)  # stable
    pooled = tuple(row for row in rows if row.pooled)
    made = (
        [Section("Tasks pooled, floor and counting tasks left out", pooled, pooled=True)]
        if pooled
        else []
    )
    return made + [
        Section(_title(name), tuple(members), tuple(_means(members))) for name, members in ordered
    ]


def category_of(row: Row) -> str:
    """Category of a task's row, with counting tasks taken out of whatever they are filed under."""
    if is_counting(row.task, row.category):
        return COUNTING
    return row.category or "other"


def _title(category: str) -> str:
    words = category.replace("_", " ")
    words = words.replace(" qa", " QA")
    title = words[:1].upper() + words[1:]
    return f"{title} (kept apart from every average)" if category == COUNTING else title


def _means(rows: Iterable[Row]) -> Iterable[Mean]:
    groups: dict[tuple[str, str | None, int | None], list[Row]] = {}
    for row in rows:
        if row.level == "task" and not row.floor and row.score.value is not None:
            groups.setdefault((row.arm, row.run, row.length), []).append(row)
    for (arm, run, length), members in groups.items():
        if len(members) > 1:
            deltas = [r.delta.value for r in members if r.delta and r.delta.value is not None]
            yield Mean(
                arm,
                run,
                length,
                fmean(row.score.value for row in members if row.score.value is not None),
                fmean(deltas) if len(deltas) == len(members) else None,
                len(members),
            )


BAND_HEADERS = ("task", "arm", "prompt tokens", "TTFT speed-up", "95 % interval or reason")


def band_rows(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """Speed-ups by length band, for tasks whose prompts have lengths of their own.

    Lengths are never pooled, so such a row has no single speed-up.
    """
    return [
        (
            formats.task_label(row),
            formats.arm_label(row),
            band,
            formats.ratio(estimate),
            formats.interval(estimate, digits=2) or estimate.reason or formats.DASH,
        )
        for row in rows
        if row.length is None and row.level == "task"
        for band, estimate in row.speedup_by_length.items()
    ]
