"""``--compare paper``: the published figures beside the run's.

Figures of arXiv 2502.02789 (ICML 2025), as ``paper_tables.json`` in this package holds them. They
are from other models on other machines, so nothing is tested or averaged across the two columns;
they stand side by side for the reader to see whether the pattern is the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from statistics import fmean
from typing import Any

from harness.report import formats
from harness.report.rows import Row
from harness.report.source import Report

LONGBENCH_METHODS = {
    "specprefill": "specprefill",
    "rag": "rag",
    "llmlingua2": "llmlingua2",
    "llmlingua-2": "llmlingua2",
    "minference": "minference",
}
"""Method here → key in the paper's LongBench table."""

_BY_ASKED_RATE = frozenset({"specprefill", "llmlingua2"})
"""Methods whose keep rates in the paper are asked ones; RAG's are achieved, MInference has none."""

RULER_PARTS: Mapping[str, Callable[[str], bool]] = {
    "niah": lambda task: "_niah_" in task,
    "vt": lambda task: task.endswith("_vt"),
    "qa": lambda task: "_qa_" in task,
    "aggregation": lambda task: task.endswith(("_cwe", "_fwe")),
}
"""Part of the paper's RULER table → which of our tasks it holds."""

RULER_KEEP = 0.1
"""The paper gives RULER at 10 % only."""


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A table of texts, ready to print in any format."""

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class PaperComparison:
    """What to print for ``--compare paper``."""

    remarks: tuple[str, ...]
    tables: tuple[PaperTable, ...]


def load_tables() -> dict[str, Any]:
    """Return the published figures."""
    text = resources.files("harness.report").joinpath("paper_tables.json").read_text("utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def compare(report: Report) -> PaperComparison:
    """Put the published figures of the run's benchmarks beside its own."""
    published = load_tables()
    rows = [row for row in report.rows if row.level == "task"]
    made = (
        ("LongBench by category, score × 100", _LONGBENCH, _longbench(rows, published)),
        ("RULER by part at 10 % keep, score × 100", _RULER, _ruler(rows, published)),
        ("TTFT speed-up over full prefill", _TTFT, _ttft(report.headline_rows, published)),
    )
    tables = [PaperTable(name, headers, tuple(body)) for name, headers, body in made]
    remarks = [
        f"Published figures: {published['source']}.",
        f"{published['note']}",
        f"This report: {report.setting}. Other models on another machine: compare the pattern, "
        "not the values.",
    ]
    return PaperComparison(tuple(remarks), tuple(table for table in tables if table.rows))


_SIDES = (
    "paper, full",
    "paper, arm",
    "paper, Δ",
    "here, full",
    "here, arm",
    "here, Δ",
    "tasks here",
)
_LONGBENCH = ("category", "arm here", "keep here, %", "paper's keep, %", *_SIDES)
_RULER = ("part", "arm here", "length here", "paper's length", *_SIDES)
_TTFT = ("arm here", "keep, %", "paper (405B FP8)", "here", "95 % interval", "measured on")


def _longbench(rows: Sequence[Row], published: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    table = published["longbench_70b"]
    own = [row for row in rows if row.group in {"longbench", "longbench_e"}]
    for row in _arms(own):
        key = LONGBENCH_METHODS.get(row.method)
        if key is None:
            continue
        rate = row.keep_achieved if key == "rag" else row.keep_requested
        percent = round(100 * (1.0 if rate is None else rate), 6)
        nearest = min(table[key], key=lambda line: abs(line[0] - percent))
        if key in _BY_ASKED_RATE and nearest[0] != percent:
            continue  # the paper has no such keep rate
        for column, category in list(enumerate(table["columns"]))[1:-1]:
            here = _here([r for r in own if r.category == category], row)
            if here is not None:
                sides = _sides(table["full"][column], nearest[column])
                yield category, row.arm, f"{percent:.4g}", f"{nearest[0]:g}", *sides, *here


def _ruler(rows: Sequence[Row], published: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    table = published["ruler_70b"]
    columns = {name: number for number, name in enumerate(table["columns"])}
    own = [row for row in rows if row.group == "ruler"]
    for row in _arms(own):
        if row.method != "specprefill" or row.keep_requested != RULER_KEEP or row.length is None:
            continue
        length = row.length
        line = min(table["rows"], key=lambda published: abs(published[0] - length))
        for part, holds in RULER_PARTS.items():
            here = _here([r for r in own if holds(r.task)], row)
            if here is not None:
                full, arm = line[columns[f"{part}_full"]], line[columns[f"{part}_keep10"]]
                yield part, row.arm, f"{length:,}", f"{line[0]:,}", *_sides(full, arm), *here


def _ttft(rows: Sequence[Row], published: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    table = published["ttft_speedup_405b_fp8"]
    ratios = dict(zip(table["keep_percent"], table["ratio"], strict=True))
    for row in rows:
        if row.method != "specprefill" or row.speedup is None or row.speedup.value is None:
            continue
        percent = round(100 * (row.keep_requested or 0), 6)
        ratio = ratios.get(percent)
        yield (
            formats.arm_label(row),
            f"{percent:g}",
            formats.DASH if ratio is None else f"{ratio:.2f}×",
            formats.ratio(row.speedup),
            formats.interval(row.speedup, digits=2) or formats.DASH,
            formats.task_label(row),
        )


def _arms(rows: Sequence[Row]) -> list[Row]:
    """One row for each pruning arm, length and run."""
    seen = {(row.arm, row.length, row.run): row for row in reversed(rows) if not row.is_reference}
    return list(seen.values())[::-1]


def _here(rows: Sequence[Row], arm: Row) -> tuple[str, str, str, str] | None:
    """Full, arm, difference and task count of some tasks; None where the arm ran none of them."""
    place = [r for r in rows if (r.length, r.run) == (arm.length, arm.run)]
    mine = {r.task: r.score.value for r in place if r.arm == arm.arm and r.score.value is not None}
    full = {r.task: r.score.value for r in place if r.is_reference and r.score.value is not None}
    if not mine:
        return None
    score = 100 * fmean(mine.values())
    if set(full) != set(mine):
        return formats.DASH, formats.number(score, 2), formats.DASH, str(len(mine))
    reference = 100 * fmean(full.values())
    return (*_sides(reference, score), str(len(mine)))


def _sides(full: float, arm: float) -> tuple[str, str, str]:
    return formats.number(full, 2), formats.number(arm, 2), formats.signed(arm - full, 2)
