"""The summary as JSON and CSV, for other programs."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict
from typing import Any

from harness.report import paper
from harness.report.columns import COLUMNS, line
from harness.report.source import Report


def render_json(report: Report) -> str:
    """Return one object: a run's summary as ``harness run --json`` prints it.

    Several runs give ``{"runs": […]}``; a comparison adds ``"paper"``, bootstrap intervals add
    ``"interval"``.
    """
    summaries = [run.summary.to_json() for run in report.runs]
    out: dict[str, Any] = summaries[0] if len(summaries) == 1 else {"runs": summaries}
    if report.bca_seed is not None:
        out["interval"] = f"bca, seed {report.bca_seed}"
    if report.comparison == "paper":
        out["paper"] = asdict(paper.compare(report))
    return json.dumps(out, ensure_ascii=False, allow_nan=False) + "\n"


def render_csv(report: Report) -> str:
    """Return one line a row of the summary, full precision; what is missing is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    kind = "jackknife" if report.bca_seed is None else "bca"
    for run in report.runs:
        for row in run.rows:
            writer.writerow([cell(value) for value in line(row, run.record.run_id, kind)])
    return text.getvalue()


def cell(value: Any) -> Any:
    """Make a CSV cell: None is empty; text that a spreadsheet would run is quoted by an apostrophe.

    Names, reasons and answers may come from a model: ``=HYPERLINK(…)`` must stay text.
    """
    if value is None:
        return ""
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return f"'{value}"
    return value
