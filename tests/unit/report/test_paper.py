"""The published figures, and how they stand beside a run's."""

from statistics import fmean

import pytest
from synthetic import Arm, Task, build_store

from harness.report.paper import compare, load_tables
from harness.report.source import open_report

TABLES = load_tables()


def test_published_averages_follow_from_their_parts():
    """A mistyped figure would break the averages that the paper prints beside them."""
    table = TABLES["longbench_70b"]
    lines = [table["full"], *table["specprefill"], *table["llmlingua2"], *table["minference"]]
    for line in lines:
        assert fmean(line[1:-1]) == pytest.approx(line[-1], abs=0.06), line


def test_ruler_lines_are_whole():
    """Every line has every column, and lengths double."""
    table = TABLES["ruler_70b"]
    assert all(len(line) == len(table["columns"]) for line in table["rows"])
    assert [line[0] for line in table["rows"]] == [4096 * 2**n for n in range(6)]


def compared(folder, **options):
    """Tables of a made-up run, by title."""
    with open_report([str(build_store(folder / "run", **options))], "paper") as report:
        found = compare(report)
    return found.remarks, {table.title.split(",")[0]: table for table in found.tables}


def test_ruler_stands_beside_its_parts(tmp_path):
    """Each part of RULER is compared at the nearest published length, which is named."""
    tasks = [
        Task(f"ruler_{name}", category=category, length=2048, n=10)
        for name, category in (
            ("niah_single_1", "retrieval"),
            ("vt", "tracking"),
            ("qa_1", "question_answering"),
            ("cwe", "aggregation"),
        )
    ]
    _, tables = compared(tmp_path, tasks=tasks)
    rows = tables["RULER by part at 10 % keep"].rows
    assert [row[0] for row in rows] == ["niah", "vt", "qa", "aggregation"]
    assert rows[0][2:7] == ("2,048", "4,096", "100.00", "99.70", "−0.30")
    assert tables["TTFT speed-up over full prefill"].rows[0][2] == "6.69×"


def test_longbench_stands_beside_its_categories(tmp_path):
    """Keep 30 % meets the paper's 30 %; keep 20 %, which the paper lacks, is left out."""
    tasks = [
        Task(f"longbench_{name}", "longbench", category, length=None, n=10)
        for name, category in (("qasper", "single_doc_qa"), ("lcc", "code"))
    ]
    arms = [Arm("specprefill-k30", keep=0.3), Arm("specprefill-k20", keep=0.2)]
    _, tables = compared(tmp_path, tasks=tasks, arms=arms)
    rows = tables["LongBench by category"].rows
    assert {row[1] for row in rows} == {"specprefill-k30"}
    code = next(row for row in rows if row[0] == "code")
    assert code[4:7] == ("52.33", "62.62", "+10.29")


def test_other_benchmarks_get_no_table_and_the_models_are_named(tmp_path):
    """Where the paper has nothing, nothing is made up; that models differ is always said."""
    tasks = [Task("multidoc_musique", "multidoc", "multi_doc_qa", length=None)]
    remarks, tables = compared(tmp_path, tasks=tasks, blocks=0)
    assert tables == {}
    assert "Other models on another machine" in " ".join(remarks)
