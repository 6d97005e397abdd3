"""The gate's report as JUnit XML, which every CI system reads."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

from harness.analysis.gate.render import change_text, headline, place
from harness.analysis.gate.report import GateReport
from harness.analysis.gate.verdicts import Judgement, Verdict
from harness.errors import DataError

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold, escaped or not (its production 2)."""

_ELEMENTS = {
    Verdict.REGRESSION: "failure",
    Verdict.NOT_COMPARABLE: "error",
    Verdict.INCONCLUSIVE: "skipped",
    Verdict.FLOOR: "skipped",
    Verdict.NEW: "skipped",
    Verdict.NOT_MEASURED: "skipped",
}


def as_junit(report: GateReport) -> str:
    """Return the XML: one test case a comparison, one suite for the gate."""
    counts = [_ELEMENTS.get(j.verdict) for j in report.judgements]
    suite = ET.Element(
        "testsuite",
        name="harness gate",
        tests=str(len(counts)),
        failures=str(counts.count("failure")),
        errors=str(counts.count("error")),
        skipped=str(counts.count("skipped")),
    )
    properties = ET.SubElement(suite, "properties")
    for name, value in (("run", report.run), ("baseline", report.baseline),
                        ("verdict", str(report.verdict))):  # fmt: skip
        ET.SubElement(properties, "property", name=name, value=_clean(value))
    for judgement in report.judgements:
        suite.append(_case(judgement))
    ET.SubElement(suite, "system-out").text = _clean("\n".join((headline(report), *report.notes)))
    ET.indent(suite)
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def write_junit(report: GateReport, path: Path) -> None:
    """Write the XML file.

    Raises
    ------
    DataError
        The file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(as_junit(report), encoding="utf-8")
    except OSError as error:
        raise DataError(f"cannot write {path}: {error}") from error


def _case(judgement: Judgement) -> ET.Element:
    case = ET.Element(
        "testcase",
        classname=_clean(f"{judgement.kind}.{place(judgement)}"),
        name=_clean(judgement.arm),
    )
    message = _clean(f"{judgement.detail}; change {change_text(judgement)}")
    tag = _ELEMENTS.get(judgement.verdict)
    if tag is None:
        ET.SubElement(case, "system-out").text = message
    else:
        ET.SubElement(case, tag, message=message, type=str(judgement.verdict))
    return case


def _clean(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
