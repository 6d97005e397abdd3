"""The summary as JSON and CSV, for other programs."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict
from typing import Any

from harness.report import paper
from harness.report.rows import STAGES, Row
from harness.report.source import Report

COLUMNS = (
    "run",
    "level",
    "group",
    "category",
    "task",
    "length",
    "seed",
    "arm",
    "method",
    "look_ahead",
    "budget_kind",
    "keep_requested",
    "keep_achieved",
    "n",
    "score",
    "score_low",
    "score_high",
    "delta",
    "delta_low",
    "delta_high",
    "ttft_median_s",
    "ttft_requests",
    "ttft_speedup",
    "ttft_speedup_low",
    "ttft_speedup_high",
    *(f"{stage}_s" for stage in STAGES),
    "evidence_kept",
    "floor",
    "status",
    "remarks",
    "interval",
    "kernel",
)
"""Columns of the CSV; later versions may add some at the end, none changes its meaning."""


def render_json(report: Report) -> str:
    """Return one object: a run's summary as ``harness run --json`` prints it.

    Several runs give ``{"runs": […]}``; a comparison adds ``"paper"``, bootstrap intervals add
    ``"interval"``.
    """
    summaries = [dict(run.summary) for run in report.runs]
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
            line = [*values(row, run.record.run_id), kind, row.kernel]
            writer.writerow([cell(value) for value in line])
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


def values(row: Row, run_id: str) -> list[Any]:
    """Return what :data:`COLUMNS` holds of a row, but for the last two columns."""
    delta, speedup = row.delta, row.speedup
    return [
        run_id,
        row.level,
        row.group,
        row.category,
        row.task,
        row.length,
        row.seed,
        row.arm,
        row.method,
        row.look_ahead,
        row.budget_kind,
        row.keep_requested,
        row.keep_achieved,
        row.n,
        row.score.value,
        row.score.low,
        row.score.high,
        delta and delta.value,
        delta and delta.low,
        delta and delta.high,
        row.ttft_s,
        row.requests,
        speedup and speedup.value,
        speedup and speedup.low,
        speedup and speedup.high,
        *(row.stages_s.get(stage) for stage in STAGES),
        row.evidence_kept,
        row.floor,
        " ".join(f"{name}={count}" for name, count in row.status.items()),
        "; ".join(row.remarks),
    ]
