"""Which tasks count: they stand apart from every average.

Counting needs many small facts from the whole prompt, which pruning drops by design; the paper
reports RULER's averages without them for that reason. Mixed into a mean they would hide what
pruning does to everything else, or the other way round. The one exception is LongBench's own
synthetic category, whose mean has passage_count in it as the published figures do.
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
