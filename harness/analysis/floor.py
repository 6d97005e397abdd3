"""The floor rule: which tasks the model cannot do at all, so that they say nothing of pruning.

Floor tasks are shown, marked and part of every average (DESIGN.md, rule 6); the average without
them stands beside. Verdicts leave them out. Everything that asks asks here.

A task is one where full prefill's 95 % interval lies wholly near chance. Its mean would not do: it
is the very outcome that differences are taken from, and among a few examples a low mean is often
luck, so that tasks would be picked for it (an upper end needs evidence that the model cannot).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from harness.analysis.stats.jackknife import Floats
from harness.analysis.stats.rates import mean_score

FLOOR: Final = 0.2
"""A right-or-wrong metric's limit: chance is 0, and below this nearly nothing is left to lose."""

_OVERLAP: Final = 0.05
"""Limit of graded overlap with a reference: published systems score 0.15 to 0.3 (Bai et al. 2024,
arXiv:2308.14508, tables 2 and 3), so that 0.2 would call good summaries undoable."""

_LETTER: Final = 0.3
"""Limit of a choice among lettered answers: a guess among four is right in 0.25."""

LIMITS: Final[Mapping[str, float]] = {
    "qa_f1": _OVERLAP,
    "qa_f1_zh": _OVERLAP,
    "rouge_l": _OVERLAP,
    "rouge_l_zh": _OVERLAP,
    "code_similarity": _OVERLAP,
    "choice": _LETTER,
    "acc": _LETTER,
    "acc_norm": _LETTER,
}
"""Metric → score below which it is near chance; :data:`FLOOR` for every other."""

MIN_EXAMPLES: Final = 10
"""With fewer examples nothing shows that a model cannot do a task."""

FLOOR_MEANS = "full prefill scores near chance"
"""The rule in words, as every page says it."""

FLOOR_REMARK = f"floor: {FLOOR_MEANS}, so the task says nothing about pruning"


def limit_of(metric: str) -> float:
    """Score that the upper end of full prefill's interval must stay below at the floor."""
    return LIMITS.get(metric, FLOOR)


def is_floor(reference: Floats, clusters: Sequence[str], metric: str) -> bool:
    """Whether full prefill's scores show that the model cannot do the task.

    Parameters
    ----------
    reference
        Scores by example, shape (n,). With fewer than :data:`MIN_EXAMPLES`, with one missing
        (NaN), or with too few clusters for an interval, nothing is shown.
    clusters
        Cluster of each.
    metric
        The task's primary metric; chance is another for each.
    """
    values = np.asarray(reference, float)
    if len(values) < MIN_EXAMPLES or not np.isfinite(values).all():
        return False
    high = mean_score(values, clusters).high
    return high is not None and high < limit_of(metric)
