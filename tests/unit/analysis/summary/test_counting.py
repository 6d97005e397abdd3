"""Counting tasks stand apart from the pooled row."""

from synthetic import Task, build_store

from harness.analysis.summary import summarize
from harness.run.store import Store


def test_counting_tasks_are_in_no_pooled_row(tmp_path):
    """The pool holds retrieval alone, says which task it left out, and why."""
    tasks = [
        Task("ruler_niah_single_1", n=8),
        Task("ruler_niah_single_2", n=8),
        Task("ruler_cwe", category="aggregation", n=8),
    ]
    with Store.open(build_store(tmp_path / "run", tasks=tasks)) as store:
        rows = summarize(store).to_json()["arms"]
    pooled = [row for row in rows if row["pooled"]]
    assert pooled
    assert all(row["n"] == 16 for row in pooled)
    assert all("ruler_cwe" not in row["tasks"] for row in pooled)
    assert all("ruler_cwe (counting)" in row["note"] for row in pooled)
    assert any(row["task"] == "ruler_cwe" and not row["pooled"] for row in rows)
