"""What the gate prints: text, Markdown, JUnit XML and annotations."""

from xml.etree import ElementTree as ET

import pytest

from harness.analysis.gate.github import workflow_commands, write_summary
from harness.analysis.gate.junit import as_junit
from harness.analysis.gate.render import as_markdown, as_text
from harness.analysis.gate.report import GateReport
from harness.analysis.gate.verdicts import Judgement, Verdict


@pytest.fixture
def report():
    """A report with every verdict, and hostile names."""
    judged = [
        Judgement(
            "quality", f"t<{verdict}>|x", "1024", "arm\x1b,:\n%", verdict, "why **not**", 20,
            -0.25, -0.5, 0.0, 0.05, 0.01, 0.02,
        )
        for verdict in Verdict
    ]  # fmt: skip
    return GateReport("run", "base", tuple(judged), {"arm": -0.25}, ("a note",))


def test_junit_is_valid_xml_with_one_case_a_comparison(report):
    """Regressions fail, not comparable is an error, the rest is skipped or passes."""
    root = ET.fromstring(as_junit(report))
    assert root.attrib["tests"] == "8"
    assert (root.attrib["failures"], root.attrib["errors"]) == ("1", "1")
    assert root.attrib["skipped"] == "4"
    assert len(root.findall("testcase")) == 8
    assert "nan" not in as_junit(report).lower().replace("not_measured", "")


def test_annotations_are_one_line_each_and_escaped(report):
    """Three verdicts are worth an annotation; names cannot end or forge a command."""
    lines = list(workflow_commands(report))
    assert [line.split(" ")[0] for line in lines] == ["::error", "::warning", "::error"]
    assert not any("\n" in line for line in lines)
    assert all(line.count("::") == 2 for line in lines)
    assert "%25" in lines[0]


def test_markdown_is_a_table_that_names_cannot_break(report):
    """Cells are escaped: the table has as many rows and columns as comparisons and headers."""
    rows = [line for line in as_markdown(report).splitlines() if line.startswith("| ")]
    assert len(rows) == 2 + len(Verdict)
    assert {row.replace("\\|", "").count("|") for row in rows} == {9}
    assert "<" not in as_markdown(report)


def test_text_ends_with_the_verdict(report):
    """The last line says the verdict and the exit code."""
    assert as_text(report).splitlines()[-1].startswith("gate: NOT COMPARABLE")
    assert "exit 4" in as_text(report).splitlines()[-1]


def test_the_step_summary_is_appended(report, tmp_path, monkeypatch):
    """The Markdown goes to the file that GitHub names; elsewhere nothing is written."""
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    write_summary(report)
    assert summary.read_text().startswith("before\n### gate: NOT COMPARABLE")
    monkeypatch.delenv("GITHUB_STEP_SUMMARY")
    write_summary(report)
