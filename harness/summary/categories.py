"""Means by category: an average over a benchmark never stands without its parts."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean
from typing import Any

from harness.summary.rows import ArmRow


def category_means(rows: Iterable[ArmRow]) -> list[dict[str, Any]]:
    """Unweighted means over each category's tasks, an arm and a length at a time.

    Floor tasks are left out of a mean, unless the category holds nothing else: then they are its
    mean, marked ``floor``. There is no interval: a benchmark's tasks are its authors' choice, not
    a sample of anything.

    Returns
    -------
    list of dict
        ``group``, ``category``, ``arm``, ``length``, ``tasks`` (those averaged), ``left_out``,
        ``score``, ``delta`` and ``floor``, in the rows' order.
    """
    found: dict[tuple[str, str, str, int | None], list[ArmRow]] = {}
    for row in rows:
        if row.level == "task" and row.score.mean is not None:
            key = (row.group, row.category, row.arm, row.length)
            found.setdefault(key, []).append(row)
    means = []
    for (group, category, arm, length), members in found.items():
        used = [row for row in members if not row.floor] or members
        deltas = [row.delta.estimate.mean for row in used if row.delta is not None]
        known = [value for value in deltas if value is not None]
        means.append(
            {
                "group": group,
                "category": category,
                "arm": arm,
                "length": length,
                "tasks": [row.task for row in used],
                "left_out": [row.task for row in members if row not in used],
                "score": fmean(row.score.mean for row in used if row.score.mean is not None),
                "delta": fmean(known) if known and len(known) == len(used) else None,
                "floor": all(row.floor for row in used),
            }
        )
    return means
