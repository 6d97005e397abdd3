"""Averages over tasks: by category, and over a benchmark as its authors average.

An average is always over *all* tasks of the category in the run at one length: floor tasks are
named, not dropped, since a benchmark's published figure has them too; so are tasks that count.
Where there are any, the average without them stands beside. Every page and every comparison takes
its averages from here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from statistics import fmean

from harness.schema.rows import OVERALL, CategoryMean, MeanWithout, Row

OVER_CATEGORIES = frozenset({"longbench", "longbench_e"})
"""Benchmarks whose overall figure weighs categories alike, as LongBench's authors do (Bai et al.
2024, arXiv:2308.14508, table 3); every other one weighs tasks alike, as RULER's authors do over
its 13 (Hsieh et al. 2024, arXiv:2404.06654, table 3)."""

Place = tuple[str, int | None]
Figures = tuple[float | None, float | None]


def macro_weights(group: str, categories: Sequence[str]) -> list[float]:
    """Weights of a benchmark's tasks in its average, from each task's category; they add up to 1.

    Tasks weigh alike, or categories do and the tasks inside one alike (:data:`OVER_CATEGORIES`).
    """
    if group not in OVER_CATEGORIES:
        return [1 / len(categories)] * len(categories)
    kinds = len(set(categories))
    return [1 / (kinds * categories.count(category)) for category in categories]


def category_means(rows: Iterable[Row]) -> list[CategoryMean]:
    """Average the task rows of each category, an arm and a length at a time, then benchmarks.

    A benchmark's own average follows where its tasks have several categories. An arm without a
    score on one of the tasks has no average: it would be one over other things than the average
    beside it.
    """
    tasks = [row for row in rows if row.level == "task"]
    categories: dict[Place, dict[str, list[str]]] = {}
    for row in tasks:
        found = categories.setdefault((row.group, row.length), {})
        named = found.setdefault(row.category, [])
        if row.task not in named:
            named.append(row.task)
    arms: dict[tuple[Place, str], list[Row]] = {}
    for row in tasks:
        arms.setdefault(((row.group, row.length), row.arm), []).append(row)
    # A curve over lengths must not change its tasks on the way: out at one is out at all.
    floors = {(row.group, row.task) for row in tasks if row.floor}
    means = []
    seen = set()
    for row in tasks:
        place = (row.group, row.length)
        key = (place, row.category, row.arm)
        if key not in seen:
            seen.add(key)
            wanted = categories[place][row.category]
            means.append(_mean(row.category, wanted, arms[place, row.arm], floors))
    for (place, _), members in arms.items():
        parts = categories[place]
        if len(parts) > 1:
            wanted = [task for part in parts.values() for task in part]
            mean = _mean(OVERALL, wanted, members, floors, by_category=place[0] in OVER_CATEGORIES)
            means.append(mean.model_copy(update={"categories": tuple(parts)}))
    return means


def _mean(
    category: str,
    wanted: Sequence[str],
    rows: Sequence[Row],
    floors: Collection[tuple[str, str]],
    *,
    by_category: bool = False,
) -> CategoryMean:
    """Mean of one arm's rows over the tasks that are wanted; ``floors`` names floor tasks."""
    first = rows[0]
    used = [row for row in rows if row.task in wanted]
    scored = {row.task for row in used if row.score.mean is not None}
    lacking = tuple(task for task in wanted if task not in scored)
    score, delta = (None, None) if lacking else _average(used, by_category=by_category)

    def without(drop: Callable[[Row], bool]) -> MeanWithout | None:
        others = [row for row in used if not drop(row)]
        if lacking or not others or len(others) == len(used):
            return None
        left_out = tuple(row.task for row in used if drop(row))
        rest, change = _average(others, by_category=by_category)
        return MeanWithout(left_out=left_out, score=rest, delta=change)

    return CategoryMean(
        group=first.group,
        category=category,
        arm=first.arm,
        method=first.method,
        engine=first.engine,
        length=first.length,
        tasks=tuple(wanted),
        left_out=lacking,
        score=score,
        delta=delta,
        floor=all(row.floor for row in used),
        floor_tasks=tuple(row.task for row in used if row.floor),
        counting_tasks=tuple(row.task for row in used if row.counting),
        without_floor=without(lambda row: (row.group, row.task) in floors),
        without_counting=without(lambda row: row.counting),
        weighs="categories" if by_category else "tasks",
    )


def _average(rows: Sequence[Row], *, by_category: bool) -> Figures:
    """Means of scores and of differences, None where one is missing."""
    if not by_category:
        deltas = [None if row.delta is None else row.delta.mean for row in rows]
        return _known([row.score.mean for row in rows]), _known(deltas)
    parts: dict[str, list[Row]] = {}
    for row in rows:
        parts.setdefault(row.category, []).append(row)
    means = [_average(members, by_category=False) for members in parts.values()]
    return _known([score for score, _ in means]), _known([delta for _, delta in means])


def _known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known and len(known) == len(values) else None
