"""How many examples a margin needs, and what margin a number of examples resolves.

The criterion is the gate's: the lower end of the two-sided 95 % interval of
:mod:`harness.analysis.stats.jackknife` must lie above −margin although nothing is lost. With n
items in clusters of size c, K = n / c + 2 clusters with the pseudo ones, and φ = n · Var(mean) from
a pilot, the interval's standard error is

    SE(n)² = (n φ + 2 s²) / (n + 2 s)² · K / (K − 1)

where s is the size of a pseudo-cluster (1 for clusters of one: the 2 then makes a margin of 0.02
need about 140 examples even when nothing changes), and the estimate itself scatters by
√(φ / n) · n / (n + 2 s). The margin is resolved with the wanted power where it exceeds
t(0.975, K − 1) · SE + z(power) · scatter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from harness.analysis.stats.estimate import LEVEL, MIN_CLUSTERS
from harness.analysis.stats.jackknife import (
    DIFFERENCE_BOUNDS,
    Floats,
    augmented_t,
    cluster_totals,
    jackknife_t,
    pseudo_size,
)

POWER = 0.8
"""Chance of a conclusion that is planned for unless said otherwise."""

ASSURANCE = 0.8
"""Share of pilots from which a cautious plan keeps its power."""

MOST = 10_000_000
"""Plans beyond this many examples are called out of reach."""


@dataclass(frozen=True, slots=True)
class Pilot:
    """What a pilot says about the spread of paired differences.

    Attributes
    ----------
    n, clusters
        Examples and clusters of the pilot.
    mean
        Mean difference.
    phi
        n · Var(mean): the variance of one difference times the design effect of the clusters.
    cautious
        What so small a pilot cannot rule out: φ with the two pseudo-clusters in it, at its upper
        80 % limit (a planned n keeps its power in four pilots of five, and on average, which the
        plain φ does not: Browne, Stat. Med. 14, 1995).
    weight
        Items of a pseudo-cluster, which grow with the pilot's largest clusters.
    """

    n: int
    clusters: int
    mean: float
    phi: float
    cautious: float
    weight: float = 1.0

    @property
    def cluster_size(self) -> float:
        """Mean number of examples a cluster."""
        return self.n / self.clusters


def pilot_of(differences: Floats, clusters: Sequence[str]) -> Pilot | None:
    """Measure the spread of a pilot's differences, shape (n,); None with too few clusters."""
    sums, sizes = cluster_totals(differences, clusters)
    count, n = len(sums), len(differences)
    if count < MIN_CLUSTERS:
        return None
    mean, plain, _ = jackknife_t(sums, sizes)
    _, se, df = augmented_t(sums, sizes, DIFFERENCE_BOUNDS)
    weight = float(pseudo_size(sizes)[0])
    # The upper limit of a variance with df degrees of freedom: df s² / χ²(0.2, df).
    cautious = n * float(se) ** 2 * df / float(special.chdtri(df, ASSURANCE))
    return Pilot(n, count, float(mean), n * float(plain) ** 2, cautious, weight)


def resolvable_margin(
    n: float,
    phi: float,
    cluster_size: float = 1.0,
    power: float = POWER,
    level: float = LEVEL,
    *,
    weight: float | None = None,
) -> float:
    """Smallest margin that ``n`` examples resolve at ``power`` when nothing is lost.

    Parameters
    ----------
    n
        Examples.
    phi
        n · Var(mean) of the differences, see :class:`Pilot`; 0 where nothing ever changes.
    cluster_size
        Mean examples a cluster.
    weight
        Items of a pseudo-cluster; None: those of equal clusters.
    """
    pseudo = _weight(cluster_size) if weight is None else weight
    clusters, items = n / cluster_size + 2, n + 2 * pseudo
    se = math.sqrt((n * phi + 2 * pseudo**2) / items**2 * clusters / (clusters - 1))
    quantile = float(special.stdtrit(clusters - 1, 0.5 + level / 2))
    scatter = math.sqrt(phi / n) * n / items
    return quantile * se + float(special.ndtri(power)) * scatter


def examples_needed(
    margin: float,
    phi: float,
    cluster_size: float = 1.0,
    power: float = POWER,
    level: float = LEVEL,
    *,
    weight: float | None = None,
) -> int | None:
    """Fewest examples, in whole clusters, that resolve ``margin``; None beyond :data:`MOST`."""
    if not margin > 0:
        return None

    def enough(n: float) -> bool:
        return resolvable_margin(n, phi, cluster_size, power, level, weight=weight) < margin

    return _fewest(enough, cluster_size)


def loss_shown_from(
    loss: float,
    phi: float,
    cluster_size: float = 1.0,
    power: float = POWER,
    alpha: float = 0.05,
    *,
    weight: float | None = None,
) -> int | None:
    """Fewest examples at which a true ``loss`` is significant, one-sided, at ``power``.

    The pseudo-clusters draw the centre towards 0 by n / (n + 2 s). None where there is no loss, or
    beyond :data:`MOST`.
    """
    if not loss > 0:
        return None

    pseudo = _weight(cluster_size) if weight is None else weight

    def enough(n: float) -> bool:
        # The same sum of quantile × SE and scatter as a margin at the one-sided level.
        reach = resolvable_margin(n, phi, cluster_size, power, 1 - 2 * alpha, weight=pseudo)
        return reach < loss * n / (n + 2 * pseudo)

    return _fewest(enough, cluster_size)


def examples_to_tell(differences: Floats, clusters: Sequence[str], margin: float) -> int | None:
    """Examples at which, were the change what it seems, a verdict would be reached.

    None with too few clusters, or where no number would do.
    """
    pilot = pilot_of(differences, clusters)
    if pilot is None:
        return None
    size, weight = pilot.cluster_size, pilot.weight
    plans = (
        # To pass, what is left between the seeming loss and the margin must be resolved.
        examples_needed(margin + min(0.0, pilot.mean), pilot.cautious, size, weight=weight),
        loss_shown_from(-pilot.mean, pilot.cautious, size, weight=weight),
    )
    reached = [n for n in plans if n is not None]
    return max(min(reached), pilot.n + 1) if reached else None


def _weight(cluster_size: float) -> float:
    return float(pseudo_size(np.array([cluster_size]))[0])


def _fewest(enough: Callable[[float], bool], cluster_size: float) -> int | None:
    """Smallest number of whole clusters, as examples, from which on ``enough`` holds."""
    low = high = MIN_CLUSTERS
    while not enough(high * cluster_size):
        low, high = high + 1, 2 * high
        if high * cluster_size > MOST:
            return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle * cluster_size) else (middle + 1, high)
    return math.ceil(low * cluster_size - 1e-9)
