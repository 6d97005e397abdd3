"""The floor rule: which tasks the model cannot do at all, so that they say nothing of pruning.

Floor tasks are shown, marked and part of every average (DESIGN.md, rule 6); the average without
them stands beside. Verdicts leave them out. Everything that asks asks here.
"""

from __future__ import annotations

import numpy as np

from harness.analysis.stats.jackknife import Floats

FLOOR = 0.2
"""Mean score of full prefill below which the model cannot do the task."""

FLOOR_MEANS = f"full prefill scores under {FLOOR:g}"
"""The rule in words, as every page says it."""

FLOOR_REMARK = f"floor: {FLOOR_MEANS}, so the task says nothing about pruning"


def is_floor(reference: Floats) -> bool:
    """Whether full prefill's scores show that the model cannot do the task.

    Parameters
    ----------
    reference
        Scores by example, shape (n,). Without any, or with one missing (NaN), nothing is shown.
    """
    values = np.asarray(reference, float)
    return bool(len(values) and np.isfinite(values).all() and values.mean() < FLOOR)
