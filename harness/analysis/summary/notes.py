"""Sentences that stand beside a row's figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from harness.analysis.stats.estimate import Estimate
from harness.analysis.stats.jackknife import Floats
from harness.analysis.summary.counting import is_counting
from harness.analysis.summary.settings import Setting

if TYPE_CHECKING:
    from harness.analysis.summary.rows import ArmRow

CONCLUDE_MARGIN = 0.05
"""A delta concludes where its interval excludes 0, or every loss larger than this."""


def conclusion(delta: Estimate) -> str | None:
    """Say where the data are too few to tell no change from a loss of the margin."""
    if delta.mean is None:
        return None
    if delta.low is None or delta.high is None:
        return f"too few to conclude: {delta.reason}"
    if delta.low > 0 or delta.high < 0 or delta.low > -CONCLUDE_MARGIN:
        return None
    return (
        f"too few to conclude: no difference and a loss above {CONCLUDE_MARGIN:g} are both possible"
    )


def incomplete(setting: Setting, got: int, due: int) -> str | None:
    """Say what is not measured yet, or why it never will be."""
    if setting.stopped is not None:
        return f"{setting.stopped.status}: {setting.stopped.reason or 'no reason recorded'}"
    if got < due:
        return f"incomplete: {got} of {due} examples"
    return None


def not_active(statuses: Mapping[str, int]) -> str | None:
    """Say where timed requests did not do what the arm is named for."""
    silent = {k: v for k, v in statuses.items() if k not in ("active", "kept_all")}
    if not silent:
        return None
    listed = ", ".join(f"{count} {name}" for name, count in silent.items())
    return f"of the timed requests {listed}"


def accepted(rate: float | None, cosine: float | None, shuffled: float | None) -> str | None:
    """Say what a verifier accepted, and why that is not quality."""
    if rate is None:
        return None
    beside = ""
    if cosine is not None and shuffled is not None:
        beside = f"; cosine {cosine:.2f}, of shuffled pairs {shuffled:.2f}"
    return (
        f"{rate:.0%} of the chunks accepted, a proxy: the verifier stands on approximate keys and "
        f"values{beside}"
    )


def left_out(rows: Sequence[ArmRow]) -> str | None:
    """Name the tasks that a pooled row does not hold."""
    if not rows:
        return None
    listed = ", ".join(f"{row.task} ({_why(row)})" for row in rows)
    return f"left out of the scores: {listed}"


def _why(row: ArmRow) -> str:
    if row.floor:
        return "floor"
    return "counting" if is_counting(row.task, row.category) else "no result"


def no_score(reason: str | None, examples: Sequence[str], values: Floats) -> str:
    """Say which examples have no score, and between what bounds that leaves the mean."""
    n, known = len(values), float(np.nansum(values))
    why = f" ({reason})" if reason else ""
    text = f"{len(examples)} of {n} examples have no score, first {examples[0]}{why}"
    if len(examples) == n:
        return text
    return f"{text}; the mean lies between {known / n:.3f} and {(known + len(examples)) / n:.3f}"
