"""The table by category: an average never stands without its parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.report.source import Report
from harness.schema.rows import OVERALL, CategoryMean, Row


@dataclass(frozen=True, slots=True)
class Section:
    """A category with its tasks' rows and their means, a group's pooled rows, or its overall."""

    title: str
    rows: tuple[Row, ...]
    means: tuple[CategoryMean, ...] = ()
    pooled: bool = False


def sections(report: Report) -> list[Section]:
    """Group rows by benchmark and category, in the order in which they come.

    Within a category counting tasks come last, and categories of counting tasks after the others.
    A mean over one task is that task's row and is not repeated.
    """
    rows = report.rows
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if not row.pooled:
            found.setdefault((row.group, row.category), []).append(row)
    ordered = sorted(found.items(), key=lambda item: _all_count(item[1]))  # stable
    several = len({group for group, _ in found}) > 1
    pooled = tuple(row for row in rows if row.pooled)
    made = []
    if pooled:
        made.append(Section("Tasks pooled, every example weighing alike", pooled, pooled=True))
    for (group, category), members in ordered:
        means = [m for m in report.means if (m.group, m.category) == (group, category)]
        title = _title(category) + (" (tasks that count)" if _all_count(members) else "")
        made.append(
            Section(
                f"{group} · {title}" if several else title,
                tuple(sorted(members, key=lambda row: row.counting)),
                tuple(mean for mean in means if len(mean.tasks) > 1),
            )
        )
    for group in dict.fromkeys(mean.group for mean in report.means if mean.is_overall):
        means = [m for m in report.means if (m.group, m.category) == (group, OVERALL)]
        title = _title(OVERALL)
        made.append(Section(f"{group} · {title}" if several else title, (), tuple(means)))
    return made


def _all_count(rows: Sequence[Row]) -> bool:
    return all(row.counting for row in rows)


def _title(category: str) -> str:
    words = category.replace("_", " ").replace(" qa", " QA")
    return words[:1].upper() + words[1:]
