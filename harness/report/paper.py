"""``--compare paper``: the published figures beside the run's.

Figures of arXiv 2502.02789 (ICML 2025), as ``paper_tables.json`` in this package holds them. They
are from other models on other machines, so nothing is tested or averaged across the two columns;
they stand side by side for the reader to see whether the pattern is the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from harness.report import formats
from harness.report.source import Report
from harness.schema.rows import CategoryMean, Row

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

RULER_PARTS = {
    "niah": "retrieval",
    "vt": "tracking",
    "qa": "question_answering",
    "aggregation": "aggregation",
}
"""Part of the paper's RULER table → category of our tasks."""

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
    made = (
        ("LongBench by category, score × 100", _LONGBENCH, _longbench(report, published)),
        ("RULER by part at 10 % keep, score × 100", _RULER, _ruler(report, published)),
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


def _longbench(report: Report, published: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    table = published["longbench_70b"]
    for row in _arms(report.rows, "longbench", "longbench_e"):
        key = LONGBENCH_METHODS.get(row.method)
        if key is None:
            continue
        rate = row.keep_achieved if key == "rag" else row.keep_requested
        percent = round(100 * (1.0 if rate is None else rate), 6)
        nearest = min(table[key], key=lambda line: abs(line[0] - percent))
        if key in _BY_ASKED_RATE and nearest[0] != percent:
            continue  # the paper has no such keep rate
        for column, category in list(enumerate(table["columns"]))[1:-1]:
            here = _here(report.means, row, category)
            if here is not None:
                sides = _sides(table["full"][column], nearest[column])
                yield (
                    category,
                    formats.arm_label(row),
                    f"{percent:.4g}",
                    f"{nearest[0]:g}",
                    *sides,
                    *here,
                )


def _ruler(report: Report, published: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    table = published["ruler_70b"]
    columns = {name: number for number, name in enumerate(table["columns"])}
    for row in _arms(report.rows, "ruler"):
        if row.method != "specprefill" or row.keep_requested != RULER_KEEP or row.length is None:
            continue
        length = row.length
        line = min(table["rows"], key=lambda published: abs(published[0] - length))
        for part, category in RULER_PARTS.items():
            here = _here(report.means, row, category)
            if here is not None:
                full, arm = line[columns[f"{part}_full"]], line[columns[f"{part}_keep10"]]
                yield (
                    part,
                    formats.arm_label(row),
                    f"{length:,}",
                    f"{line[0]:,}",
                    *_sides(full, arm),
                    *here,
                )


def _ttft(rows: Sequence[Row], published: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    table = published["ttft_speedup_405b_fp8"]
    ratios = dict(zip(table["keep_percent"], table["ratio"], strict=True))
    for row in rows:
        if (
            row.method != "specprefill"
            or row.ttft_speedup is None
            or row.ttft_speedup.value is None
        ):
            continue
        percent = round(100 * (row.keep_requested or 0), 6)
        ratio = ratios.get(percent)
        yield (
            formats.arm_label(row),
            f"{percent:g}",
            formats.DASH if ratio is None else f"{ratio:.2f}×",
            formats.ratio(row.ttft_speedup),
            formats.interval(row.ttft_speedup, digits=2) or formats.DASH,
            formats.task_label(row),
        )


def _arms(rows: Sequence[Row], *groups: str) -> list[Row]:
    """One task row for each pruning arm, group, length and run."""
    seen: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        if row.level == "task" and row.group in groups and not row.is_reference:
            seen.setdefault((row.arm, row.group, row.length, row.run), row)
    return list(seen.values())


def _here(
    means: Sequence[CategoryMean], arm: Row, category: str
) -> tuple[str, str, str, str] | None:
    """Full, arm, difference and task count of a category; None where the arm ran none of it."""
    place = (arm.group, category, arm.length, arm.run)
    found = [m for m in means if (m.group, m.category, m.length, m.run) == place]
    mine = next((m for m in found if m.arm == arm.arm), None)
    if mine is None or len(mine.left_out) == len(mine.tasks):
        return None
    full = next((m for m in found if m.method == "full" and m.engine == arm.engine), None)
    reference = None if full is None else full.score
    return (
        formats.number(_percent(reference), 2),
        formats.number(_percent(mine.score), 2),
        formats.signed(_percent(mine.delta), 2),
        _tasks(mine),
    )


def _tasks(mean: CategoryMean) -> str:
    """How many tasks a mean is over; what it is without those that the model cannot do."""
    number = str(len(mean.tasks))
    if mean.left_out:
        return f"{number}, {formats.lacking(mean)}"
    if mean.without_floor is None:
        return f"{number}, floor" if mean.floor else number
    names, rest = ", ".join(mean.floor_tasks), mean.without_floor
    change = "" if rest.delta is None else f", Δ {formats.signed(_percent(rest.delta), 2)}"
    score = formats.number(_percent(rest.score), 2)
    return f"{number}; {score}{change} without {len(mean.floor_tasks)} floor ({names})"


def _percent(score: float | None) -> float | None:
    return None if score is None else 100 * score


def _sides(full: float, arm: float) -> tuple[str, str, str]:
    return formats.number(full, 2), formats.number(arm, 2), formats.signed(arm - full, 2)
