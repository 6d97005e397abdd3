"""Means by category: an average over a benchmark never stands without its parts."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean
from typing import Any

from harness.analysis.summary.counting import is_counting
from harness.analysis.summary.rows import ArmRow

OVERALL = "overall"


def category_means(rows: Iterable[ArmRow]) -> list[dict[str, Any]]:
    """Unweighted means over each category's tasks, an arm and a length at a time.

    Floor tasks are left out of a mean, unless the category holds nothing else: then they are its
    mean, marked ``floor``. There is no interval: a benchmark's tasks are its authors' choice, not
    a sample of anything.

    A group with several categories also has an overall mean, each category weighing alike, as
    LongBench's (Bai et al. 2024, arXiv:2308.14508, table 3), without categories that are all floor
    or only count. An arm that lacks a task of the first arm has none.

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
    found: dict[tuple[str, int | None], dict[str, list[dict[str, Any]]]] = {}
    for mean in means:
        arms = found.setdefault((mean["group"], mean["length"]), {})
        arms.setdefault(mean["arm"], []).append(mean)
    overall = []
    for arms in found.values():
        first, *_ = arms.values()
        # An arm that lacks a task would be averaged over other things than the arm beside it.
        alike = [members for members in arms.values() if _tasks(members) == _tasks(first)]
        if len(first) > 1:
            overall += [_over_categories(members) for members in alike]
    return overall


def _tasks(members: list[dict[str, Any]]) -> list[list[str]]:
    return [mean["tasks"] for mean in members]


def _over_categories(members: list[dict[str, Any]]) -> dict[str, Any]:
    counted = [m for m in members if not all(is_counting(t, m["category"]) for t in m["tasks"])]
    used = [mean for mean in counted if not mean["floor"]] or members
    deltas = [mean["delta"] for mean in used]
    left_out = [[*mean["left_out"], *([] if mean in used else mean["tasks"])] for mean in members]
    return {
        **{key: members[0][key] for key in ("group", "arm", "length")},
        "category": OVERALL,
        "tasks": [task for mean in used for task in mean["tasks"]],
        "left_out": [task for tasks in left_out for task in tasks],
        "score": fmean(mean["score"] for mean in used),
        "delta": None if None in deltas else fmean(deltas),
        "floor": all(mean["floor"] for mean in used),
        "categories": [mean["category"] for mean in used],
    }
