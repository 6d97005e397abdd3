"""Simulated paired data: what the coverage, gate and planning tests draw from."""

from __future__ import annotations

import numpy as np

SETS = 4_000
"""Data sets a design; with 4,000 a coverage of 95 % has a standard error of 0.35 points."""

DESIGNS: dict[str, np.ndarray] = {
    "independent": np.ones(50),
    "25x2": np.full(25, 2.0),
    "10x5": np.full(10, 5.0),
    "unequal": np.array([8, 6, 5, 4, 4, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1], float),
}
"""Name → sizes of the clusters; about 50 items each."""

SHARED = 0.3
"""Chance that an item answers as its cluster does, instead of on its own."""


def binary_changes(
    sizes: np.ndarray, gain: float, loss: float, seed: int, sets: int = SETS
) -> np.ndarray:
    """Sums by cluster, shape (sets, G), of changes +1 (chance gain), −1 (loss) or 0."""
    rng = np.random.default_rng(seed)
    chances = [gain, loss, 1 - gain - loss]
    sums = np.zeros((sets, len(sizes)))
    whole = rng.choice([1.0, -1.0, 0.0], p=chances, size=(sets, len(sizes)))
    for g, size in enumerate(sizes.astype(int)):
        own = rng.choice([1.0, -1.0, 0.0], p=chances, size=(sets, size))
        shared = rng.random((sets, size)) < (SHARED if size > 1 else 0)
        sums[:, g] = np.where(shared, whole[:, [g]], own).sum(1)
    return sums


def alike_changes(
    sizes: np.ndarray, gain: float, loss: float, icc: float, *, seed: int, sets: int = SETS
) -> np.ndarray:
    """Sums by cluster, shape (sets, G): beta-binomial changes with intra-cluster correlation icc.

    A cluster's changes all have one sign, as where its context was pruned well or badly.
    """
    rng = np.random.default_rng(seed)
    spread, changed = (1 - icc) / icc, gain + loss
    chance = rng.beta(changed * spread, (1 - changed) * spread, (sets, len(sizes)))
    sign = np.where(rng.random(chance.shape) < gain / changed, 1.0, -1.0)
    return sign * rng.binomial(sizes.astype(int), chance)


F1_VALUES = np.array([0.0, 0.25, 0.4, 0.5, 0.67, 0.8, 1.0])
F1_CHANCES = np.array([0.35, 0.05, 0.07, 0.08, 0.08, 0.07, 0.30])
"""Token F1 of short answers: mostly all or nothing, with partial overlaps between."""


def graded_changes(
    n: int, changed: float, lost: float, seed: int, sets: int = SETS
) -> tuple[np.ndarray, float]:
    """Differences of F1-like scores, shape (sets, n), and their true mean.

    A share of the answers changes and is scored anew; a share ``lost`` of those gets 0.
    """
    rng = np.random.default_rng(seed)
    before, after = rng.choice(F1_VALUES, p=F1_CHANCES, size=(2, sets, n))
    after = np.where(rng.random((sets, n)) < lost, 0.0, after)
    differences = np.where(rng.random((sets, n)) < changed, after - before, 0.0)
    return differences, -changed * lost * float(F1_VALUES @ F1_CHANCES)
