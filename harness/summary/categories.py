"""Means by category: an average over a benchmark never stands without its parts."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean
from typing import Any

from harness.summary.rows import ArmRow

OVERALL = "overall"


def category_means(rows: Iterable[ArmRow]) -> list[dict[str, Any]]:
    """Unweighted means over each category's tasks, an arm and a length at a time.

    Floor tasks are left out of a mean, unless the category holds nothing else: then they are its
    mean, marked ``floor``. There is no interval: a benchmark's tasks are its authors' choice, not
    a sample of anything.

    A group with several categories also has its overall mean, LongBench's macro-average over the
    categories (Bai et al. 2024, arXiv:2308.14508, table 3), without those that are all floor.

    Returns
    -------
    list of dict
        ``group``, ``category``, ``arm``, ``length``, ``tasks`` (those averaged), ``left_out``,
        ``score``, ``delta`` and ``floor``, in the rows' order; then the overall means, whose
        ``category`` is ``overall`` and which name the ``categories`` averaged.
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
    return means + _overall(means)


def _overall(means: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found: dict[tuple[str, str, int | None], list[dict[str, Any]]] = {}
    for mean in means:
        found.setdefault((mean["group"], mean["arm"], mean["length"]), []).append(mean)
    overall = []
    for (group, arm, length), members in found.items():
        if len(members) < 2:
            continue
        used = [mean for mean in members if not mean["floor"]] or members
        deltas = [mean["delta"] for mean in used]
        overall.append(
            {
                "group": group,
                "category": OVERALL,
                "arm": arm,
                "length": length,
                "tasks": [task for mean in used for task in mean["tasks"]],
                "left_out": [
                    task
                    for mean in members
                    for task in (*mean["left_out"], *(() if mean in used else mean["tasks"]))
                ],
                "score": fmean(mean["score"] for mean in used),
                "delta": None if None in deltas else fmean(deltas),
                "floor": all(mean["floor"] for mean in used),
                "categories": [mean["category"] for mean in used],
            }
        )
    return overall
