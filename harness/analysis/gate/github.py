"""The gate inside GitHub Actions: annotations and the step summary."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from harness.analysis.gate.render import as_markdown, change_text, place
from harness.analysis.gate.report import GateReport
from harness.analysis.gate.verdicts import Verdict
from harness.errors import DataError

_LEVELS = {
    Verdict.REGRESSION: "error",
    Verdict.NOT_COMPARABLE: "error",
    Verdict.INCONCLUSIVE: "warning",
}


def workflow_commands(report: GateReport) -> Iterator[str]:
    """Yield an annotation, as a workflow command, for whatever did not pass."""
    for judgement in report.judgements:
        level = _LEVELS.get(judgement.verdict)
        if level is not None:
            title = f"{judgement.verdict}: {place(judgement)} · {judgement.arm}"
            message = f"{judgement.detail}; change {change_text(judgement)}"
            yield f"::{level} title={_property(title)}::{_data(message)}"


def write_summary(report: GateReport) -> None:
    """Append the report to the step summary; without ``GITHUB_STEP_SUMMARY`` do nothing.

    Raises
    ------
    DataError
        The file that the variable names cannot be written.
    """
    name = os.environ.get("GITHUB_STEP_SUMMARY")
    if not name:
        return
    try:
        with Path(name).open("a", encoding="utf-8") as file:
            file.write(as_markdown(report))
    except OSError as error:
        raise DataError(f"cannot write the step summary {name}: {error}") from error


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
