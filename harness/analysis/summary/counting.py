"""Which tasks count: averages hold them as the benchmark's do, and stand without them beside.

Counting needs many small facts from the whole prompt, which pruning drops by design; the paper
reports RULER's averages without them for that reason, NVIDIA's are over all 13 tasks, and
LongBench's synthetic category has passage_count in it. Either figure alone would mislead somebody.
"""

from __future__ import annotations

CATEGORIES = frozenset({"aggregation", "counting"})
TASKS = ("_cwe", "_fwe", "passage_count", "passage_count_e")


def is_counting(task: str, category: str | None) -> bool:
    """Whether a task counts, by its category or by the benchmark's name for it.

    >>> is_counting("ruler_cwe", "aggregation"), is_counting("longbench_passage_count", "synthetic")
    (True, True)
    """
    return category in CATEGORIES or task.endswith(TASKS)
