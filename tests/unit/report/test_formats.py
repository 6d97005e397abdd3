"""Markdown, JSON, CSV, and the file that a report is written to."""

import csv
import io
import json

import pytest
from rich.console import Console
from synthetic import Task, build_store

from harness.analysis.summary import summarize
from harness.errors import ConfigError, HarnessError, StoreError
from harness.report.columns import COLUMNS
from harness.report.formats import number, signed, visible
from harness.report.markdown import escape
from harness.report.pages.categories import sections
from harness.report.pages.times import band_rows
from harness.report.render import render, write_text
from harness.report.source import open_report
from harness.report.tables import cell
from harness.report.terminal import render_table
from harness.run.store import Store


def test_json_is_what_run_prints(single):
    """One run's JSON is the summary itself."""
    with Store.open(single) as store:
        assert json.loads(render([str(single)], "json")) == summarize(store).to_json()


def test_json_of_several_runs_keeps_each(single, sweep):
    """Several runs stand beside each other, none merged."""
    runs = json.loads(render([str(single), str(sweep)], "json"))["runs"]
    assert [run["run"] for run in runs] == ["single", "sweep"]


def test_csv_has_every_row_at_full_precision(sweep):
    """Figures of the CSV are the JSON's, digit for digit; what is missing is empty."""
    arms = json.loads(render([str(sweep)], "json"))["arms"]
    rows = list(csv.DictReader(io.StringIO(render([str(sweep)], "csv"))))
    assert tuple(rows[0]) == COLUMNS
    assert len(rows) == len(arms)
    for row, arm in zip(rows, arms, strict=True):
        assert float(row["score"]) == arm["score"]["mean"]
        assert row["delta"] == ("" if arm["delta"] is None else str(arm["delta"]["mean"]))


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\tx", "\rx"])
def test_csv_text_is_never_a_formula(text):
    """What a spreadsheet would run is quoted; numbers and plain text are not touched."""
    assert cell(text) == f"'{text}"
    assert cell(-0.5) == -0.5
    assert cell("plain") == "plain"
    assert cell(None) == ""


def test_markdown_has_finding_table_and_remarks(sweep):
    """The parts a pull request needs, with every table row of equal width."""
    text = render([str(sweep)], "md", "paper")
    assert text.startswith("**specprefill-k10-lah1")
    assert "Beside the paper" in text
    widths = {
        len(line.replace(r"\|", "").split("|")) for line in text.splitlines() if "| n |" in line
    }
    assert widths == {11}
    results, _, times = text.partition("### Time of a request")
    for part in (results, times):
        table = [line for line in part.splitlines() if line.startswith("| ruler_niah_single_1 @")]
        assert len(table) == 2 * 7  # two lengths, seven arms
    assert "skipped_min_tokens" in text.split("| task |")[0]  # the notice stands on top


def test_markdown_escapes_text_from_outside():
    """A pipe would end a cell, a line break the table, a bracket a link."""
    assert escape("a|b\n[x](javascript:y) <b> `c` *d*") == (
        r"a\|b \[x\](javascript:y) \<b\> \`c\` \*d\*"
    )


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """A LongBench run: a floor task among the question answering, a counting one in synthetic."""
    tasks = [
        Task(f"longbench_{name}", "longbench", category, length=None, n=40)
        for name, category in (
            ("qasper", "single_doc_qa"),
            ("narrativeqa", "single_doc_qa"),
            ("passage_count", "synthetic"),
            ("passage_retrieval_en", "synthetic"),
        )
    ]
    right = {"qasper": 32, "narrativeqa": 2, "passage_count": 20, "passage_retrieval_en": 36}

    def score(arm, task, index):
        return float(index < right[task.removeprefix("longbench_")] - 4 * (arm != "full"))

    folder = tmp_path_factory.mktemp("runs") / "mixed"
    return build_store(folder, tasks=tasks, score=score, run_id="mixed")


def test_counting_tasks_are_marked_and_inside(mixed):
    """passage_count is in its category's mean as LongBench has it, last, and beside left out."""
    with open_report([str(mixed)]) as report:
        (section,) = [s for s in sections(report) if s.title == "Synthetic"]
        full = section.means[0]
    assert [row.counting for row in section.rows] == [False, False, True, True]
    assert full.score == pytest.approx((0.5 + 0.9) / 2)
    assert full.without_counting.score == pytest.approx(0.9)
    assert full.counting_tasks == ("longbench_passage_count",)


def test_means_hold_floor_tasks_and_stand_without_them_beside(mixed):
    """A floor task is named and in the mean; the mean without it never takes its place."""
    with open_report([str(mixed)]) as report:
        (section,) = [s for s in sections(report) if s.title == "Single doc QA"]
        full = section.means[0]
    assert full.score == pytest.approx((0.8 + 0.05) / 2)
    assert full.floor_tasks == full.without_floor.left_out == ("longbench_narrativeqa",)
    assert full.without_floor.score == pytest.approx(0.8)
    text = render([str(mixed)], "md")
    assert "| *mean of 2 tasks* | full |  |  | 0.425 |" in text
    beside = next(
        line for line in text.splitlines() if "*without 1 floor task* | full |  |" in line
    )
    assert "| 0.800 |" in beside
    assert beside.endswith("| longbench_narrativeqa |")


def test_every_page_prints_the_same_average(mixed):
    """Terminal, Markdown, HTML, JSON and the paper's table show one overall and one category."""
    with open_report([str(mixed)]) as report:
        (summary,) = [run.summary for run in report.runs]
    overall = next(m for m in summary.categories if m.is_overall and m.method == "full")
    assert overall.score == pytest.approx((0.425 + 0.7) / 2)
    console = Console(width=200, file=io.StringIO(), color_system=None)
    render_table(summary, console)
    printed, page = console.file.getvalue(), render([str(mixed)], "html", "paper")
    markdown = render([str(mixed)], "md", "paper")
    for text in (printed, markdown, page):
        assert "mean of 2 categories (4 tasks)" in text
        assert "0.562" in text
        assert "without 1 floor task" in text
    assert f'value="{overall.score}"' in page
    assert "| 42.50 |" in markdown  # beside the paper: over both tasks
    assert "2; 70.00, Δ −10.00 without 1 floor (longbench_narrativeqa)" in markdown


def test_natural_lengths_are_shown_in_bands(tmp_path):
    """Prompts of many lengths have no single speed-up; each band has its own."""
    tasks = [Task("longbench_qasper", "longbench", "single_doc_qa", length=None, n=8)]
    run = build_store(tmp_path / "run", tasks=tasks)
    with Store.open(run) as store:
        rows = summarize(store).arms
    (band,) = band_rows(rows)
    assert band[:2] == ("longbench_qasper", "specprefill")
    assert "–" in band[2]
    assert "Speed-up by prompt length" in render([str(run)], "md")
    assert "Speed-up by prompt length" in render([str(run)], "html")


def test_numbers_have_real_minus_signs_and_no_negative_zero():
    """−0.0004 shown with three digits is 0.000."""
    assert number(-0.0004) == signed(-0.0004) == signed(0.0004) == "0.000"
    assert signed(0.5) == "+0.500"
    assert number(-1.5, 1) == "−1.5"


def test_ordinary_text_is_left_alone():
    """Umlauts, Chinese, emoji and joiners are no control characters."""
    text = "Zürich 你好 👩\u200d🔬 a\nb\tc"
    assert visible(text) == text


@pytest.mark.parametrize(
    ("names", "kind", "comparison", "words"),
    [
        (["nope"], "md", None, "not a run"),
        (["SINGLE"], "mdd", None, "did you mean 'md'"),
        (["SINGLE"], "md", "papre", "did you mean 'paper'"),
        (["SINGLE", "SINGLE"], "md", None, "named twice"),
    ],
)
def test_bad_input_is_one_line(single, names, kind, comparison, words):
    """What was wrong and what to do, with exit code 2."""
    names = [str(single) if name == "SINGLE" else name for name in names]
    with pytest.raises(HarnessError, match=words) as caught:
        render(names, kind, comparison)
    assert caught.value.code == 2
    assert "\n" not in str(caught.value)


def test_a_foreign_file_is_refused(tmp_path):
    """A file that is no store is named as damaged or foreign."""
    (tmp_path / "store.sqlite").write_text("not a database at all, but long enough to look at")
    with pytest.raises(StoreError, match="not a results store"):
        render([str(tmp_path)], "md")


def test_an_empty_run_is_refused_with_its_command(tmp_path):
    """A run without a finished example has nothing to report and says how to resume it."""
    folder = build_store(tmp_path / "r", arms=(), reference=False)
    with pytest.raises(StoreError, match=r"no finished example.*harness run"):
        render([str(folder)], "html")


def test_writing_is_all_or_nothing(tmp_path, monkeypatch):
    """A failed write leaves the old file as it was, and no draft beside it."""
    path = tmp_path / "r.html"
    write_text(path, "old")
    monkeypatch.setattr(
        "pathlib.Path.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "full"))
    )
    with pytest.raises(ConfigError, match="full"):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_writing_to_an_impossible_place_is_one_line(tmp_path):
    """A folder, or a place that does not exist, is named in the error."""
    with pytest.raises(ConfigError, match="it is a folder"):
        write_text(tmp_path, "x")
    with pytest.raises(ConfigError, match="cannot write"):
        write_text(tmp_path / "no" / "r.md", "x")


def test_bca_intervals_are_for_display(sweep):
    """--interval bca shows other intervals, the same estimates, says so, and repeats itself."""
    usual, bca = (
        json.loads(render([str(sweep)], "json", None, interval))["arms"]
        for interval in ("jackknife", "bca")
    )
    assert [arm["score"]["mean"] for arm in usual] == [arm["score"]["mean"] for arm in bca]
    assert [arm["score"]["low"] for arm in usual] != [arm["score"]["low"] for arm in bca]
    assert json.loads(render([str(sweep)], "json", None, "bca"))["interval"] == "bca, seed 0"
    rows = csv.DictReader(io.StringIO(render([str(sweep)], "csv", None, "bca")))
    assert {row["interval"] for row in rows} == {"bca"}
    text = render([str(sweep)], "md", None, "bca")
    assert "BCa bootstrap ones (seed 0)" in text
    assert text == render([str(sweep)], "md", None, "bca")
    with pytest.raises(ConfigError, match="--interval"):
        render([str(sweep)], "md", None, "normal")
