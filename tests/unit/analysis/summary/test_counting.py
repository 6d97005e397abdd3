"""Counting tasks are part of the pool, and it stands without them beside."""

import pytest
from synthetic import Task, build_store

from harness.analysis.summary import summarize
from harness.run.store import Store


def test_the_pool_stands_without_counting_tasks_beside(tmp_path):
    """The pool holds all three tasks; without the counting one its figures are retrieval's."""
    tasks = [
        Task("ruler_niah_single_1", n=8, full_rate=1.0),
        Task("ruler_niah_single_2", n=8, full_rate=1.0),
        Task("ruler_cwe", category="aggregation", n=8, full_rate=0.5),
    ]
    with Store.open(build_store(tmp_path / "run", tasks=tasks)) as store:
        rows = summarize(store).arms
    pooled = next(row for row in rows if row.pooled and row.is_reference)
    apart = next(row for row in rows if row.task == "ruler_cwe" and row.is_reference)
    assert pooled.n == 24
    assert pooled.tasks == ("ruler_niah_single_1", "ruler_niah_single_2", "ruler_cwe")
    assert pooled.score.mean == pytest.approx((16 + 8 * apart.score.mean) / 24)
    assert pooled.without_counting.left_out == ("ruler_cwe",)
    assert pooled.without_counting.n == 16
    assert pooled.without_counting.score.mean == 1
    assert (apart.counting, pooled.counting) == (True, False)
    assert pooled.without_floor is None
