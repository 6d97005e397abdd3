"""What a paired comparison is called: one rule for every row of a run and for rivals.

The gate compares a run with its own past and has verdicts of its own
(:mod:`harness.analysis.gate.quality`); the margin, the interval and the number needed are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from harness.analysis.stats.estimate import Estimate
from harness.analysis.stats.jackknife import Floats
from harness.analysis.stats.power import examples_to_tell
from harness.schema.estimates import Verdict

MARGIN = 0.05
"""Loss that is tolerated where nobody says: a run's rows are judged at it."""

ALPHA = 0.05
"""Level of a two-sided "no difference", after Holm where several are read together."""


def verdict_of(
    estimate: Estimate,
    p: float | None,
    needed: int | None,
    margin: float = MARGIN,
) -> Verdict:
    """Judge arm − full prefill.

    In this order: interval above 0 and p ≤ 0.05 → improved; lower end above −margin →
    non-inferior; interval below 0 and p ≤ 0.05 → worse; else undecided. The interval is the
    two-sided 95 % one, so that non-inferiority is tested at 2.5 %, as is usual (ICH E9, 1998,
    3.3.2).

    Parameters
    ----------
    p
        Two-sided p of "no difference", after Holm where the row is one of several.
    needed
        Examples that would tell, for an undecided one (:func:`needed_for`).
    """
    if estimate.low is None or estimate.high is None:
        return Verdict(kind="undecided", margin=margin, detail=estimate.reason or "no interval")
    shown = p is not None and p <= ALPHA
    if estimate.low > 0 and shown:
        return Verdict(kind="improved", margin=margin, detail="a gain is shown")
    if estimate.low > -margin:
        loss = "; a small loss is shown" if estimate.high < 0 and shown else ""
        detail = f"a loss beyond {margin:g} is excluded{loss}"
        return Verdict(kind="non_inferior", margin=margin, detail=detail)
    if estimate.high < 0 and shown:
        return Verdict(kind="worse", margin=margin, detail="a loss is shown")
    detail = f"neither a loss nor its absence within {margin:g} is shown"
    return Verdict(kind="undecided", margin=margin, needed=needed, detail=detail + _advice(needed))


def between_rivals(
    estimate: Estimate, p: float | None, needed: int | None, margin: float = MARGIN
) -> Verdict:
    """Judge arm − rival: better, worse, equivalent within ± margin (both ends), or undecided."""
    if estimate.low is None or estimate.high is None:
        return Verdict(kind="undecided", margin=margin, detail=estimate.reason or "no interval")
    if p is not None and p <= ALPHA and (estimate.low > 0 or estimate.high < 0):
        side: Literal["better", "worse"] = "better" if estimate.low > 0 else "worse"
        return Verdict(kind=side, margin=margin, detail="a difference is shown")
    if -margin < estimate.low and estimate.high < margin:
        detail = f"a difference beyond {margin:g} is excluded"
        return Verdict(kind="equivalent", margin=margin, detail=detail)
    detail = f"neither a difference nor its absence within {margin:g} is shown"
    return Verdict(kind="undecided", margin=margin, needed=needed, detail=detail + _advice(needed))


def at_floor(margin: float = MARGIN) -> Verdict:
    """Nothing is concluded of pruning where full prefill cannot do the task."""
    return Verdict(kind="floor", margin=margin, detail="full prefill cannot do the task")


def needed_for(
    estimate: Estimate, differences: Floats, clusters: Sequence[str], margin: float = MARGIN
) -> int | None:
    """Examples that would tell, where the interval does not exclude the margin; else None."""
    if estimate.low is None or estimate.low > -margin:
        return None
    return examples_to_tell(differences, clusters, margin)


def _advice(needed: int | None) -> str:
    return "" if needed is None else f"; about {needed} examples would tell"
