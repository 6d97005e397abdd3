"""Averages over tasks: as the benchmarks' authors average, over every task, parts beside."""

from __future__ import annotations

from pathlib import Path

import pytest
from synthetic import Arm, Task, build_store

from harness.analysis.summary import summarize
from harness.analysis.summary.categories import category_means
from harness.report.terminal import category_lines
from harness.run.store import Store
from harness.schema.estimates import Estimate
from harness.schema.rows import OVERALL, CategoryMean, Row, RunSummary


def summary_of(folder: Path, tasks: list[Task], right: dict[str, int]) -> RunSummary:
    """Summary of a run: full has so many first answers right; the arm loses every second one."""

    def score(arm: str, task: str, index: int) -> float:
        return float(index < right[task] and (arm == "full" or index % 2 == 0))

    build_store(folder / "run", tasks=tasks, arms=[Arm()], score=score, blocks=1)
    with Store.open(folder / "run") as opened:
        return summarize(opened)


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> RunSummary:
    """Three retrieval tasks, of unlike size and one impossible; and an impossible other task."""
    tasks = [
        Task(name="easy", n=10, category="retrieval"),
        Task(name="hard", n=30, category="retrieval"),
        Task(name="none", n=20, category="retrieval"),
        Task(name="impossible", n=20, category="tracking"),
    ]
    right = {"easy": 10, "hard": 15, "none": 0, "impossible": 0}
    return summary_of(tmp_path_factory.mktemp("categories"), tasks, right)


def one(summary: RunSummary, category: str, arm: str = "full") -> CategoryMean:
    """The mean of one arm over one category."""
    (found,) = [m for m in summary.categories if (m.category, m.arm) == (category, arm)]
    return found


def test_tasks_weigh_alike_and_none_is_dropped(summary: RunSummary) -> None:
    """The mean of 1.0, 0.5 and a floor task's 0.0 is 0.5, however many examples each has."""
    full = one(summary, "retrieval")
    assert full.score == pytest.approx(0.5)
    assert full.delta is None
    assert full.tasks == ("easy", "hard", "none")
    assert full.left_out == ()
    assert one(summary, "retrieval", "specprefill").delta == pytest.approx((-0.5 - 7 / 30) / 3)


def test_the_mean_without_floor_tasks_stands_beside(summary: RunSummary) -> None:
    """Floor tasks are counted and named; without them the mean is 0.75, in a field of its own."""
    full = one(summary, "retrieval")
    assert full.floor_tasks == ("none",)
    assert full.without_floor is not None
    assert full.without_floor.left_out == ("none",)
    assert full.without_floor.score == pytest.approx(0.75)
    assert full.floor is False


def test_a_category_of_floor_tasks_is_shown_as_such(summary: RunSummary) -> None:
    """A category that the model cannot do is there, marked, with nothing beside it."""
    mean = one(summary, "tracking")
    assert mean.floor is True
    assert mean.score == 0
    assert mean.without_floor is None


def test_the_terminal_prints_a_line_a_category(summary: RunSummary) -> None:
    """Each category has its line with every arm, and one without its floor tasks, by name."""
    head, *lines = category_lines(summary.categories)
    assert head == "Averages over tasks:"
    assert lines == [
        "ruler retrieval, mean of 3 tasks @ 2,048: full 0.500; specprefill 0.256 (Δ −0.244)",
        "ruler retrieval, without 1 floor task (none): full 0.750; specprefill 0.383 (Δ −0.367)",
        "ruler tracking, mean of 1 task, floor @ 2,048: full 0.000; specprefill 0.000 (Δ 0.000)",
        "ruler overall, mean of 4 tasks @ 2,048: full 0.375; specprefill 0.192 (Δ −0.183)",
        "ruler overall, without 2 floor tasks (none, impossible): full 0.750; "
        "specprefill 0.383 (Δ −0.367)",
    ]


def test_ruler_weighs_its_tasks_alike(summary: RunSummary) -> None:
    """RULER's average is over its tasks, as NVIDIA's is over 13, counting ones included."""
    assert one(summary, OVERALL).score == pytest.approx((1 + 0.5 + 0 + 0) / 4)
    assert one(summary, OVERALL).weighs == "tasks"


def test_longbench_weighs_its_categories_alike(tmp_path: Path) -> None:
    """LongBench's overall score is over categories, however many tasks each has."""
    tasks = [
        Task(name=name, group="longbench", n=40, category=category, length=None)
        for name, category in (
            ("a", "single_doc_qa"),
            ("b", "single_doc_qa"),
            ("c", "code"),
            ("longbench_passage_count", "synthetic"),
            ("d", "synthetic"),
        )
    ]
    right = {"a": 40, "b": 2, "c": 16, "longbench_passage_count": 12, "d": 36}
    full = one(summary_of(tmp_path, tasks, right), OVERALL)
    assert full.score == pytest.approx((0.525 + 0.4 + 0.6) / 3)
    assert full.weighs == "categories"
    assert full.categories == ("single_doc_qa", "code", "synthetic")
    assert full.tasks == ("a", "b", "c", "longbench_passage_count", "d")
    assert full.without_floor is not None
    assert full.without_floor.score == pytest.approx((1.0 + 0.4 + 0.6) / 3)
    assert full.without_counting is not None
    assert full.without_counting.left_out == ("longbench_passage_count",)
    assert full.without_counting.score == pytest.approx((0.525 + 0.4 + 0.9) / 3)


def test_a_curve_keeps_its_tasks_over_lengths(tmp_path: Path) -> None:
    """A task that the model cannot do at one length is left out beside every length's mean."""

    def score(arm: str, task: str, index: int) -> float:
        return float(task == "ruler_a" or index < lengths.pop(0))

    tasks = [Task(name, n=20, length=n) for n in (1024, 4096) for name in ("ruler_a", "ruler_b")]
    lengths = [20] * 40 + [0] * 40  # ruler_b: all right at 1,024, none at 4,096; two arms each
    build_store(tmp_path / "run", tasks=tasks, arms=[Arm()], score=score, blocks=1)
    with Store.open(tmp_path / "run") as opened:
        found = summarize(opened)
    means = [m for m in found.categories if m.arm == "full" and not m.is_overall]
    assert [(m.length, m.score, m.floor_tasks) for m in means] == [
        (1024, 1.0, ()),
        (4096, 0.5, ("ruler_b",)),
    ]
    assert {m.without_floor.left_out for m in means if m.without_floor} == {("ruler_b",)}
    pools = [r for r in found.arms if r.pooled]
    assert all(r.without_floor and r.without_floor.left_out == ("ruler_b",) for r in pools)


def row(arm: str, task: str, category: str, score: float | None, *, counting: bool = False) -> Row:
    """A task's row with what means are made of."""
    return Row(
        level="task", arm=arm, base=arm, series=arm, method=arm, engine="vllm", dtype="bfloat16",
        task=task, group="g", category=category, metric="m", n=10, counting=counting,
        score=Estimate(mean=score), budget_kind="none", improves_ttft=False,
    )  # fmt: skip


@pytest.mark.parametrize("missing", ["absent", "unscored"])
def test_an_arm_without_one_of_the_tasks_has_no_average(missing: str) -> None:
    """An average over fewer tasks than the arm beside it has would be another figure."""
    rows = [row("full", "a", "retrieval", 1.0), row("full", "c", "tracking", 0.5)]
    rows.append(row("broken", "a", "retrieval", 0.9))
    if missing == "unscored":
        rows.append(row("broken", "c", "tracking", None))
    full, broken = (mean for mean in category_means(rows) if mean.is_overall)
    assert full.score == pytest.approx(0.75)
    assert (broken.arm, broken.score, broken.left_out) == ("broken", None, ("c",))
    (line,) = [line for line in category_lines(category_means(rows)) if "overall" in line]
    assert "broken – (no score on c)" in line


def test_one_category_of_one_task_needs_no_line() -> None:
    """A single task's row is its own average."""
    assert category_lines(category_means([row("full", "a", "retrieval", 1.0)])) == []
