"""Verdicts of a run's rows and of rivals, in the summary and on every page."""

import io
import json

import pytest
from rich.console import Console
from synthetic import Arm, Task, build_store

from harness.analysis.summary import summarize
from harness.report.render import render
from harness.report.terminal import render_table
from harness.run.store import Store

ARMS = [
    Arm("specprefill-k10", loss=0.0),
    Arm("snapkv-k10", method="snapkv", loss=0.6),
    Arm("rag-k20", method="rag", keep=0.2, loss=0.0),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run of two tasks, one arm that loses nothing and one that loses most."""
    tasks = [Task("ruler_a", n=80), Task("ruler_b", n=80), Task("ruler_c", n=80, full_rate=0.02)]
    return build_store(tmp_path_factory.mktemp("run") / "run", tasks=tasks, arms=ARMS)


@pytest.fixture(scope="module")
def summary(folder):
    """Its summary."""
    with Store.open(folder) as store:
        return summarize(store)


def test_every_pruning_row_has_a_verdict(summary):
    """Rows of pruning arms say what they show; full prefill's have nothing to say."""
    kinds = {(row.task, row.arm): row.verdict and row.verdict.kind for row in summary.arms}
    assert kinds["ruler_a", "specprefill-k10"] == "non_inferior"
    assert kinds["ruler_a", "snapkv-k10"] == "worse"
    assert kinds["ruler_c", "snapkv-k10"] == "floor"
    assert kinds["ruler_a", "full"] is None


def test_a_group_is_judged_by_its_benchmarks_average(summary):
    """The macro figures weigh tasks alike, hold their mean, and carry the group's verdict."""
    rows = {(r.task, r.arm): r for r in summary.arms}
    group = rows["ruler", "snapkv-k10"]
    parts = [rows[task, "snapkv-k10"] for task in group.tasks]
    assert group.macro.score == pytest.approx(sum(p.score.mean for p in parts) / 3)
    assert group.macro.delta.mean == pytest.approx(sum(p.delta.mean for p in parts) / 3)
    assert group.macro.delta.low < group.macro.delta.mean < group.macro.delta.high
    assert group.verdict.kind == "worse"
    assert rows["ruler", "full"].macro.delta is None
    assert rows["ruler_a", "full"].macro is None


def test_rivals_are_compared_at_one_keep_rate_without_floor_tasks(summary):
    """One pair shares a keep rate; tasks weigh alike, and the floor task is left out."""
    (found,) = summary.rival_comparisons
    assert (found.arm, found.rival, found.keep) == ("specprefill-k10", "snapkv-k10", 0.1)
    assert found.tasks == ("ruler_a", "ruler_b")
    assert found.verdict.kind == "better"
    rows = {(r.task, r.arm): r.score.mean for r in summary.arms}
    by_task = [rows[t, "specprefill-k10"] - rows[t, "snapkv-k10"] for t in found.tasks]
    assert found.delta.mean == pytest.approx(sum(by_task) / 2)
    assert found.delta.p_holm <= 0.05


def test_every_format_says_the_same(summary, folder):
    """Terminal, Markdown, HTML and JSON carry the verdicts of rows and of rivals."""
    console = Console(width=120, file=io.StringIO(), color_system=None)
    render_table(summary, console)
    pages = [console.file.getvalue(), *(render([str(folder)], kind) for kind in ("md", "html"))]
    for page in pages:
        flat = " ".join(page.replace("\\", "").split())
        assert "snapkv-k10 worse" in flat
        assert "Intervals of speed-ups are within one session" in flat
        assert "specprefill-k10 against snapkv-k10 better" in flat
    raw = json.loads(summary.dumps())
    assert raw["rival_comparisons"][0]["verdict"]["kind"] == "better"
    assert "non_inferior" in render([str(folder)], "csv")


def test_an_improvement_is_called_improved(tmp_path):
    """An arm that gains with its interval above 0 is improved in summary and report."""
    arm = Arm(loss=0.0, gain=0.9)
    folder = build_store(tmp_path / "run", tasks=[Task(n=60, full_rate=0.5)], arms=[arm])
    assert "specprefill improved" in render([str(folder)], "md")


def test_twins_are_one_cluster_without_an_interval(tmp_path):
    """Thirty copies of one row are one measurement: no interval, no verdict, and the reason."""
    folder = build_store(tmp_path / "run", tasks=[Task(n=30, cluster_size=30)])
    with Store.open(folder) as store:
        row = next(r for r in summarize(store).arms if r.arm == "specprefill")
    assert row.delta.low is None
    assert "1 independent cluster" in row.delta.reason
    assert row.verdict.kind == "undecided"
