"""The map of methods in the report: what each spends, and whether it can improve TTFT at all."""

from __future__ import annotations

from dataclasses import dataclass

from harness.report import formats
from harness.report.source import Report

BUDGETS = {
    "tokens": "share of the prompt's tokens that the target prefills",
    "attention": "share of the attention pairs computed; every token is prefilled",
    "kv": "share of the KV cache kept for decoding; prefill is full",
    "adaptive": "decided per prompt",
    "none": "no budget",
}
"""Budget kind → what its keep rate is a share of (harness.schema.receipts.BudgetKind)."""


@dataclass(frozen=True, slots=True)
class MethodRow:
    """A method of the report's runs."""

    method: str
    arms: tuple[str, ...]
    budget_kind: str
    budget: str
    improves_ttft: bool
    measured: tuple[str, ...]


def method_rows(report: Report) -> list[MethodRow]:
    """One row a method, with the speed-ups that its arms were measured at."""
    rows: dict[str, MethodRow] = {}
    for run in report.runs:
        for cell in run.cells:
            if cell.method in rows:
                continue
            own = [row for row in report.headline_rows if row.method == cell.method]
            measured = [
                f"{formats.arm_label(row)} on {formats.task_label(row)}: "
                f"{formats.ratio(found)} {formats.interval(found, digits=2)}".rstrip()
                for row in own
                if (found := row.ttft_speedup) is not None and found.value is not None
            ]
            rows[cell.method] = MethodRow(
                method=cell.method,
                arms=tuple(dict.fromkeys(formats.arm_label(row) for row in own)),
                budget_kind=cell.budget_kind,
                budget=BUDGETS.get(cell.budget_kind, cell.budget_kind),
                improves_ttft=cell.improves_ttft,
                measured=tuple(measured),
            )
    return list(rows.values())
