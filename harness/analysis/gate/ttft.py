"""TTFT verdicts: the arms' log ratios to full prefill, in which the machine's speed cancels.

Where both runs timed the same prompts their ratios are paired by prompt (signed ranks), else the
two sets are compared (Mann–Whitney); the estimate is Hodges and Lehmann's in either case.

What a session brings along (memory layout, clocks, neighbours) moves every block of it alike, and
no number of blocks sees that. So a slow-down is shown only where it also exceeds what a standard
deviation of :data:`SESSION_SD` between sessions explains; more sessions on both sides lessen that.

Raw seconds of different sessions are never compared: full prefill's own slow-downs need both
commits timed in one session.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from harness.analysis.gate.baseline import Baseline, Cell, Timing
from harness.analysis.gate.verdicts import Judgement, Verdict
from harness.analysis.stats.holm import holm
from harness.analysis.stats.latency import (
    MIN_BLOCKS,
    Shift,
    hodges_lehmann,
    signed_rank_p,
    two_sample_p_above,
    two_sample_shift,
)

ALPHA = 0.05
"""Level of the test for a slow-down, family-wise after Holm."""

SESSION_SD = 0.06
"""Standard deviation of log ratios between sessions up to which false alarms keep their level.

Assumed, not estimated: one session a side says nothing of it (tests simulate 2, 4 and 6 %).
"""


@dataclass(frozen=True)
class _Comparison:
    """Blocks of one arm at one length on both sides; ``refused`` says why they cannot stand."""

    base: Judgement
    shift: Shift | None = None
    p: float | None = None
    p_blocks: float | None = None


def judge_ttft(baseline: Baseline, candidate: Baseline, margin: float) -> list[Judgement]:
    """Judge every arm and length that the baseline has timed.

    Parameters
    ----------
    margin
        Slow-down relative to full prefill that is tolerated: 0.1 is 10 %.

    Returns
    -------
    list of Judgement
        Upper end of the 95 % interval of the growth below the margin → pass; p of "no slow-down"
        ≤ 0.05 after Holm → regression; else inconclusive. Arms that the baseline did not time
        well enough are ``not_measured``.
    """
    same_session = bool(set(baseline.sessions) & set(candidate.sessions))
    found = []
    for old, new in _pairs(baseline, candidate):
        for length, timing in old.ttft.items():
            if old.reference and not same_session:
                found.append(_Comparison(_other_session(old, length)))
            else:
                after = None if new is None else new.ttft.get(length)
                found.append(_compare(old, length, timing, after))
    if not same_session:
        sessions = (len(baseline.sessions) or 1, len(candidate.sessions) or 1)
        found = [_between_sessions(c, *sessions) for c in found]
    adjusted = holm([c.p for c in found])
    return [_verdict(c, p, margin) for c, p in zip(found, adjusted, strict=True)]


def _between_sessions(comparison: _Comparison, before: int, after: int) -> _Comparison:
    """Raise p to that of "the sessions differ by chance", from so many sessions on both sides."""
    shift, p = comparison.shift, comparison.p
    if p is None or shift is None or shift.estimate is None:
        return comparison
    within = 0.0
    if shift.low is not None and shift.high is not None:
        within = (shift.high - shift.low) / 2 / float(special.ndtri(0.975))
    spread = math.hypot(SESSION_SD * math.sqrt(1 / before + 1 / after), within)
    by_chance = float(special.ndtr(-shift.estimate / spread))
    return replace(comparison, p=max(p, by_chance), p_blocks=p)


def _pairs(baseline: Baseline, candidate: Baseline) -> Iterator[tuple[Cell, Cell | None]]:
    by_key = candidate.by_key
    for old in baseline.cells:
        yield old, by_key.get(old.key)


def _blank(cell: Cell, length: str, verdict: Verdict, detail: str) -> Judgement:
    return Judgement("ttft", cell.task, length, cell.arm, verdict, detail)


def _other_session(cell: Cell, length: str) -> Judgement:
    detail = "full prefill's own seconds are comparable within one session only"
    return _blank(cell, length, Verdict.NOT_MEASURED, detail)


def _compare(old: Cell, length: str, before: Timing, after: Timing | None) -> _Comparison:
    unfit = _unfit(before)
    if unfit is not None:
        detail = f"the baseline's timing cannot be used: {unfit}"
        return _Comparison(_blank(old, length, Verdict.NOT_MEASURED, detail))
    unfit = "not timed" if after is None else _unfit(after)
    if after is None or unfit is not None:
        detail = f"the run's timing cannot be used: {unfit}"
        return _Comparison(_blank(old, length, Verdict.INCONCLUSIVE, detail))
    if before == after:
        return _Comparison(_blank(old, length, Verdict.PASS, "identical: the same timed requests"))
    base = replace(_blank(old, length, Verdict.PASS, ""), n=len(after.values))
    if set(before.prompts) == set(after.prompts):
        # The same prompts: what differs between prompts cancels.
        earlier = dict(zip(before.prompts, before.values, strict=True))
        growth = np.array(
            [new - earlier[p] for p, new in zip(after.prompts, after.values, strict=True)]
        )
        return _Comparison(base, hodges_lehmann(growth), signed_rank_p(growth, 0.0, above=True))
    old_values, new_values = np.array(before.values), np.array(after.values)
    shift = two_sample_shift(old_values, new_values)
    return _Comparison(base, shift, two_sample_p_above(old_values, new_values))


def _unfit(timing: Timing) -> str | None:
    if timing.invalid is not None:
        return timing.invalid
    if len(timing.values) < MIN_BLOCKS:
        return f"latency blocks: {len(timing.values)}, and {MIN_BLOCKS} are needed"
    return None


def _verdict(comparison: _Comparison, p_holm: float | None, margin: float) -> Judgement:
    shift = comparison.shift
    if shift is None or shift.estimate is None or shift.low is None or shift.high is None:
        return replace(comparison.base, margin=margin)
    judged = replace(
        comparison.base,
        change=math.expm1(shift.estimate),
        low=math.expm1(shift.low),
        high=math.expm1(shift.high),
        margin=margin,
        p=comparison.p,
        p_holm=p_holm,
    )
    if shift.high < math.log1p(margin):
        return replace(judged, detail=f"no slow-down beyond {margin:.0%}")
    if p_holm is not None and p_holm <= ALPHA:
        detail = f"a slow-down relative to full prefill is shown (p = {p_holm:.2g} after Holm)"
        return replace(judged, verdict=Verdict.REGRESSION, detail=detail)
    if comparison.p_blocks is not None and comparison.p_blocks <= ALPHA:
        detail = (
            "slower within these sessions, but not beyond what sessions differ by "
            f"(standard deviation up to {SESSION_SD:.0%}): time more sessions"
        )
        return replace(judged, verdict=Verdict.INCONCLUSIVE, detail=detail)
    detail = f"neither a slow-down nor its absence within {margin:.0%} is shown"
    return replace(judged, verdict=Verdict.INCONCLUSIVE, detail=f"{detail}; time more prompts")
