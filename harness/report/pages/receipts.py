"""What the arms really did: receipts by arm, requested against achieved, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.report import formats
from harness.report.source import Report, RunView
from harness.schema.receipts import POSITIONS, QUIET_STATUSES, ROWS

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Proof:
    """How many requests show that a hook really ran, of those that needed it.

    Attributes
    ----------
    due, proven
        Requests that needed the counter, and those of them that have it.
    there
        All that have it: early stores do not say which needed it.
    """

    due: int
    proven: int
    there: int

    @property
    def text(self) -> str:
        """``18 of 18``; a dash where nothing was due."""
        if self.due:
            return f"{self.proven} of {self.due}"
        return f"{self.there}, due is not recorded" if self.there else formats.DASH


@dataclass(frozen=True, slots=True)
class ReceiptRow:
    """Receipts of one arm over every task of a run.

    ``achieved`` is (least, mean, most); costs are means, None where no receipt says.
    """

    arm: str
    run: str | None
    budget_kind: str
    requested: float | None
    achieved: tuple[float, float, float] | None
    status: Mapping[str, int]
    reasons: tuple[tuple[str, int], ...]
    prefill_tokens: float | None
    attention_share: float | None
    kv_tokens: float | None
    flops_share: float | None
    evidence_kept: float | None
    proofs: tuple[tuple[str, Proof], ...]

    @property
    def silent(self) -> bool:
        """Whether any prompt did not run as its arm says, or left no proof that it did."""
        unproven = any(proof.proven < proof.due for _, proof in self.proofs)
        return unproven or any(name not in QUIET_STATUSES for name in self.status)


MAX_REASONS = 5

PROOF_WORDS = {POSITIONS: "positions applied", ROWS: "rows captured"}
"""Counter that proves a hook → its name in tables."""


def receipt_rows(report: Report) -> list[ReceiptRow]:
    """One row an arm, in the plan's order."""
    return [row for run in report.runs for row in _of_run(run)]


def _of_run(run: RunView) -> list[ReceiptRow]:
    arms = {cell.cell_id: cell.arm for cell in run.cells}
    first = {cell.arm: cell for cell in reversed(run.cells)}
    counted = run.store.proofs()
    groups = dict(tuple(run.quality.groupby(run.quality["cell_id"].map(arms), sort=False)))
    found = []
    for arm in dict.fromkeys(arms.values()):
        if arm not in groups:
            continue
        frame, cell = groups[arm], first[arm]
        counts = [
            counted[cell_id] for cell_id, name in arms.items() if name == arm and cell_id in counted
        ]
        found.append(
            ReceiptRow(
                arm=arm,
                run=run.label,
                budget_kind=cell.budget_kind,
                requested=cell.keep,
                achieved=_range(frame["keep_achieved"]),
                status=_counts(frame["status"]),
                reasons=tuple(_counts(frame["receipt_reason"]).items())[:MAX_REASONS],
                prefill_tokens=_mean(frame["prefill_tokens"]),
                attention_share=_mean(frame["attention_share"]),
                kv_tokens=_mean(frame["kv_tokens"]),
                flops_share=_mean(frame["flops_share"]),
                evidence_kept=_mean(frame["evidence_kept"]),
                proofs=tuple(
                    (words, _proof([part[name] for part in counts]))
                    for name, words in PROOF_WORDS.items()
                ),
            )
        )
    return found


def _proof(cells: Sequence[tuple[int, ...]]) -> Proof:
    """Add up an arm's cells."""
    due, proven, there = map(sum, zip(*cells, strict=True))
    return Proof(due, proven, there)


def _mean(column: pd.Series) -> float | None:
    known = column.dropna()
    return float(known.astype(float).mean()) if len(known) else None


def _range(column: pd.Series) -> tuple[float, float, float] | None:
    known = column.dropna().astype(float)
    return (float(known.min()), float(known.mean()), float(known.max())) if len(known) else None


def _counts(column: pd.Series) -> dict[str, int]:
    counted = {str(name): int(n) for name, n in column.dropna().value_counts().items()}
    return dict(sorted(counted.items(), key=lambda item: (-item[1], item[0])))
