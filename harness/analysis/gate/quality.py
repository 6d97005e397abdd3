"""Quality verdicts: paired scores of the same arm, candidate − baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.analysis.gate.pairing import PairedCell
from harness.analysis.gate.verdicts import Judgement, Verdict
from harness.analysis.stats.estimate import Estimate
from harness.analysis.stats.holm import holm
from harness.analysis.stats.jackknife import paired_difference
from harness.analysis.stats.power import examples_to_tell

ALPHA = 0.05
"""Level of the test for a regression, family-wise after Holm."""

SMALL_LOSS_LEVEL = 0.90
"""A loss within the margin is named where the two-sided interval at this level excludes 0."""


@dataclass(frozen=True)
class _Measured:
    """A comparison before the family is known."""

    cell: PairedCell
    margin: float
    estimate: Estimate

    @property
    def p(self) -> float | None:
        """One-sided p of "no loss": small where the candidate is clearly worse."""
        fit = self.estimate.fit
        return None if fit is None else fit.p_below(0.0)


def judge_quality(cells: Sequence[tuple[PairedCell, float]]) -> list[Judgement]:
    """Judge comparable cells together, each with its margin; Holm runs over all of them.

    In this order: every output and score equal → pass; the lower end of the two-sided 95 %
    interval above 0 → improved; above −margin → pass; p of "no loss" ≤ 0.05 after Holm →
    regression; else inconclusive.
    """
    measured = [_measure(cell, margin) for cell, margin in cells]
    adjusted = holm([m.p for m in measured])
    return [_verdict(m, p_holm) for m, p_holm in zip(measured, adjusted, strict=True)]


def _measure(cell: PairedCell, margin: float) -> _Measured:
    return _Measured(cell, margin, paired_difference(cell.differences, cell.clusters))


def _verdict(m: _Measured, p_holm: float | None) -> Judgement:
    cell, estimate = m.cell, m.estimate
    base = Judgement(
        kind="quality",
        task=cell.candidate.task,
        length=None if cell.candidate.length is None else str(cell.candidate.length),
        arm=cell.candidate.arm,
        verdict=Verdict.PASS,
        detail="",
        n=estimate.n,
        change=estimate.mean,
        low=estimate.low,
        high=estimate.high,
        margin=m.margin,
        p=m.p,
        p_holm=p_holm,
    )
    if cell.identical:
        return replace(base, detail="identical: every output is the baseline's")
    if estimate.fit is None or estimate.low is None:
        detail = f"no interval: {estimate.reason}"
        return replace(base, verdict=Verdict.INCONCLUSIVE, detail=detail)
    if estimate.low > 0:
        return replace(base, verdict=Verdict.IMPROVED, detail="improved: a gain is shown")
    if estimate.low > -m.margin:
        return replace(base, detail=_pass_detail(m))
    if p_holm is not None and p_holm <= ALPHA:
        detail = f"a loss is shown (p = {p_holm:.2g} after Holm)"
        return replace(base, verdict=Verdict.REGRESSION, detail=detail)
    needed = examples_to_tell(cell.differences, cell.clusters, m.margin)
    detail = f"neither a loss nor its absence within {m.margin:g} is shown" + _advice(needed)
    return replace(base, verdict=Verdict.INCONCLUSIVE, detail=detail, needed=needed)


def _pass_detail(m: _Measured) -> str:
    fit = m.estimate.fit
    if fit is not None and fit.interval(SMALL_LOSS_LEVEL)[1] < 0:
        return f"small loss within margin {m.margin:g}"
    return f"no loss beyond margin {m.margin:g}"


def _advice(needed: int | None) -> str:
    return "" if needed is None else f"; about {needed} examples would tell"
