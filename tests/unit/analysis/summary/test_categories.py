"""Means by category: unweighted, floor tasks apart, printed where a group has several."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest
from synthetic import Arm, Task, build_store

from harness.analysis.stats.estimate import Estimate
from harness.analysis.summary import summarize
from harness.analysis.summary.categories import category_means
from harness.analysis.summary.rows import ArmRow
from harness.report.terminal import category_lines
from harness.run.store import Store


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> dict:
    """Two retrieval tasks of unlike size, and a tracking task that the model cannot do."""
    folder = tmp_path_factory.mktemp("categories")
    tasks = [
        Task(name="easy", n=10, category="retrieval"),
        Task(name="hard", n=30, category="retrieval"),
        Task(name="impossible", n=10, category="tracking"),
    ]
    rates = {"easy": 1.0, "hard": 0.5, "impossible": 0.0}

    def score(arm: str, task: str, index: int) -> float:
        right = index < rates[task] * (30 if task == "hard" else 10)
        return float(right and (arm == "full" or index % 2 == 0))

    build_store(folder / "run", tasks=tasks, arms=[Arm()], score=score, blocks=1)
    with Store.open(folder / "run") as opened:
        return summarize(opened).to_json()


def test_tasks_weigh_alike(summary: dict) -> None:
    """The mean of 1.0 and 0.5 is 0.75, however many examples each task has."""
    full = next(
        m for m in summary["categories"] if m["arm"] == "full" and m["category"] == "retrieval"
    )
    assert full["score"] == pytest.approx(0.75)
    assert full["delta"] is None
    assert full["tasks"] == ["easy", "hard"]


def test_a_category_of_floor_tasks_is_shown_as_such(summary: dict) -> None:
    """A category that the model cannot do is there, marked, and not mistaken for a loss."""
    means = [m for m in summary["categories"] if m["category"] == "tracking"]
    assert means
    assert all(m["floor"] for m in means)


def test_the_terminal_prints_a_line_a_category(summary: dict) -> None:
    """Each category has its line with every arm; the floor one says so."""
    head, *lines = category_lines(summary)
    assert head == "Mean by category:"
    assert len(lines) == 3
    assert "full 0.750" in lines[0]
    assert "floor" in lines[1]
    assert "overall" in lines[2]
    assert "(mean of retrieval): full 0.750" in lines[2]


def test_overall_is_the_mean_of_the_categories(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """LongBench's overall score weighs categories alike, however many tasks each has."""
    folder = tmp_path_factory.mktemp("overall")
    tasks = [
        Task(name="a", n=10, category="single_doc_qa"),
        Task(name="b", n=10, category="single_doc_qa"),
        Task(name="c", n=10, category="code"),
    ]
    rates = {"a": 10, "b": 6, "c": 4}

    def score(arm: str, task: str, index: int) -> float:
        return float(index < rates[task] - (2 if arm != "full" else 0))

    build_store(folder / "run", tasks=tasks, arms=[Arm()], score=score, blocks=1)
    with Store.open(folder / "run") as opened:
        means = summarize(opened).to_json()["categories"]
    full, sparse = (mean for mean in means if mean["category"] == "overall")
    assert full["score"] == pytest.approx((0.8 + 0.4) / 2)
    assert sparse["delta"] == pytest.approx(-0.2)
    assert full["categories"] == ["single_doc_qa", "code"]
    assert full["tasks"] == ["a", "b", "c"]


def row(arm: str, task: str, category: str, score: float | None) -> ArmRow:
    """A task's row with what means are made of."""
    estimate = Estimate(score, None, None, 10, 10)
    return cast(
        ArmRow,
        SimpleNamespace(
            level="task", group="g", category=category, arm=arm, length=None, task=task,
            score=estimate, delta=None, floor=False,
        ),
    )  # fmt: skip


def test_overall_compares_equals_and_counts_nothing() -> None:
    """An arm that lacks a task has no overall mean; a category that only counts is in none."""
    rows = [
        row(arm, task, category, score)
        for arm, missing in (("full", ""), ("broken", "c"))
        for task, category, score in (
            ("a", "retrieval", 1.0),
            ("c", "tracking", 0.5),
            ("ruler_cwe", "aggregation", 0.0),
        )
        if task != missing
    ]
    (overall,) = (mean for mean in category_means(rows) if mean["category"] == "overall")
    assert overall["arm"] == "full"
    assert overall["score"] == pytest.approx(0.75)
    assert overall["left_out"] == ["ruler_cwe"]


def test_one_category_needs_no_line() -> None:
    """A group with one category has its pooled row already."""
    mean = {"group": "g", "category": "c", "length": None, "arm": "full"}
    assert category_lines({"categories": [mean]}) == []
