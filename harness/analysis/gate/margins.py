"""How large a loss the gate tolerates where nobody says."""

from __future__ import annotations

import math

import numpy as np

from harness.analysis.gate.baseline import Cell
from harness.analysis.stats.jackknife import cluster_totals, pseudo_size
from harness.analysis.stats.power import resolvable_margin

LARGE_N, LARGE_N_MARGIN = 500, 0.02
"""From this many examples on the default margin is two points."""


def default_margin(cell: Cell, phi: float = 0.0) -> tuple[float, str]:
    """Margin of a cell whose baseline names none, and where it comes from.

    Two points from :data:`LARGE_N` examples on; below, what so many examples can resolve: ``phi``
    is the spread of run-to-run changes where it is known (0: nothing changes).
    """
    n = len(cell.examples)
    if n >= LARGE_N:
        return LARGE_N_MARGIN, f"default from {LARGE_N} examples on"
    return smallest_margin(cell, phi), f"smallest that {n} examples resolve"


def smallest_margin(cell: Cell, phi: float = 0.0) -> float:
    """Smallest margin the cell's examples resolve, rounded up to half a point, at most 0.99."""
    clusters = [e.cluster for e in cell.examples]
    if not clusters:
        return 0.99
    _, sizes = cluster_totals(np.zeros(len(clusters)), clusters)
    weight = float(pseudo_size(sizes)[0])
    found = resolvable_margin(sizes.sum(), phi, float(sizes.mean()), weight=weight)
    return min(0.99, math.ceil(found * 200 + 1e-9) / 200)
