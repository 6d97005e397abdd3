"""Verdicts of the gate and how they add up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from harness.errors import ExitCode


class Verdict(StrEnum):
    """What the gate says of one comparison, or of all.

    ``improved`` is a pass whose gain is shown. ``floor``, ``new`` and ``not_measured`` count for
    nothing: full prefill cannot do the task; the baseline does not know the arm; there is nothing
    to compare.
    """

    PASS = "pass"
    IMPROVED = "improved"
    REGRESSION = "regression"
    INCONCLUSIVE = "inconclusive"
    NOT_COMPARABLE = "not_comparable"
    FLOOR = "floor"
    NEW = "new"
    NOT_MEASURED = "not_measured"


EXIT_CODES = {
    Verdict.PASS: ExitCode.PASS,
    Verdict.IMPROVED: ExitCode.PASS,
    Verdict.REGRESSION: ExitCode.REGRESSION,
    Verdict.INCONCLUSIVE: ExitCode.INCONCLUSIVE,
    Verdict.NOT_COMPARABLE: ExitCode.NOT_COMPARABLE,
}

_WORST_FIRST = (
    Verdict.NOT_COMPARABLE,
    Verdict.REGRESSION,
    Verdict.INCONCLUSIVE,
    Verdict.PASS,
)


@dataclass(frozen=True, slots=True)
class Judgement:
    """One comparison and its verdict.

    Attributes
    ----------
    kind
        ``quality`` (scores, higher is better) or ``ttft`` (log of the slow-down).
    detail
        One clause: why this verdict.
    n
        Examples, or blocks on the run's side.
    change, low, high
        Candidate − baseline with its two-sided 95 % interval: scores, or the factor by which
        TTFT over full prefill grew, minus 1.
    margin
        Loss, or slow-down, that is tolerated.
    p, p_holm
        One-sided p of "no loss", raw and after Holm over the comparisons of the same kind.
    needed
        Examples at which a verdict could be reached, for an inconclusive comparison.
    """

    kind: str
    task: str
    length: str | None
    arm: str
    verdict: Verdict
    detail: str
    n: int = 0
    change: float | None = None
    low: float | None = None
    high: float | None = None
    margin: float | None = None
    p: float | None = None
    p_holm: float | None = None
    needed: int | None = None


def overall(judgements: Iterable[Judgement]) -> Verdict:
    """Not comparable > regression > inconclusive > pass.

    An improvement of one arm passes like any other. Where no score was judged TTFT alone does not
    pass: inconclusive where every task is at the floor, not comparable where no arm stood against
    one of the baseline.
    """
    scores, found = set(), set()
    for judgement in judgements:
        verdict = Verdict.PASS if judgement.verdict is Verdict.IMPROVED else judgement.verdict
        found.add(verdict)
        if judgement.kind == "quality":
            scores.add(verdict)
    if not scores & {*_WORST_FIRST, Verdict.FLOOR}:
        return Verdict.NOT_COMPARABLE
    if not scores & {*_WORST_FIRST}:
        found.add(Verdict.INCONCLUSIVE)
    return next(verdict for verdict in _WORST_FIRST if verdict in found)
