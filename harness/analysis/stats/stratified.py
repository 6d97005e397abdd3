"""Macro averages: a weighted mean of strata's means, with an interval from the examples in them.

A benchmark's figure weighs tasks (or categories) alike, whatever their sizes; the tasks are its
authors' choice, the examples in them are samples. So the variance is that of stratified sampling
(Cochran, *Sampling Techniques*, 3rd ed., 1977, ch. 5): Σ w² Var(mean of the stratum), each from the
delete-one-cluster jackknife, with the degrees of freedom of Welch and Satterthwaite (Biometrics
Bull. 2, 1946). Clusters that stand in several strata are summed over them before they are squared,
so that shared contexts do not count twice.

The two pseudo-clusters of :mod:`harness.analysis.stats.jackknife` stand once, for the whole: each
weighs what the observation of a random unit weighs. With one stratum this is that module's interval
but for the degrees of freedom, which are at most two lower.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.analysis.stats.estimate import (
    LEVEL,
    MIN_CLUSTERS,
    Estimate,
    StudentT,
    too_few_clusters,
)
from harness.analysis.stats.jackknife import (
    DIFFERENCE_BOUNDS,
    Floats,
    cluster_totals,
    pseudo_size,
)


@dataclass(frozen=True)
class Stratum:
    """Paired differences of one task.

    Attributes
    ----------
    weight
        Share of the average; the weights of all strata add up to 1.
    values
        Differences in [−1, 1], shape (n,), n ≥ 1.
    clusters
        Cluster of each.
    """

    name: str
    weight: float
    values: Floats
    clusters: Sequence[str]


def stratified_difference(strata: Sequence[Stratum], level: float = LEVEL) -> Estimate:
    """Weighted mean of the strata's mean differences, with its interval.

    Returns
    -------
    Estimate
        No interval where a stratum has a single cluster (nothing says how it varies), or all
        together have fewer than :data:`MIN_CLUSTERS`.
    """
    mean = float(sum(part.weight * part.values.mean() for part in strata))
    n = sum(len(part.values) for part in strata)
    count = len({name for part in strata for name in part.clusters})
    single = [part.name for part in strata if len(set(part.clusters)) < 2]
    if count < MIN_CLUSTERS:
        return Estimate(mean, None, None, n, count, reason=too_few_clusters(count))
    if single:
        reason = f"{', '.join(single)}: one independent cluster; an interval needs 2 a task"
        return Estimate(mean, None, None, n, count, reason=reason)
    fit = _fit(strata, mean)
    low, high = fit.interval(level)
    bottom, top = DIFFERENCE_BOUNDS
    return Estimate(
        mean, max(low, bottom), min(high, top), n, count, method="stratified", level=level, fit=fit
    )


def _fit(strata: Sequence[Stratum], mean: float) -> StudentT:
    by_cluster: dict[str, float] = defaultdict(float)
    parts, freedom, pseudo = [], [], 0.0
    for part in strata:
        sums, sizes = cluster_totals(part.values, part.clusters)
        n, count = sizes.sum(), len(sizes)
        # The replicate without a cluster lies this far from the mean, as in jackknife_t.
        moved = (sums - sizes * sums.sum() / n) / (n - sizes) * np.sqrt((count - 1) / count)
        for name, value in zip(sorted(set(map(str, part.clusters))), moved, strict=True):
            by_cluster[name] += part.weight * float(value)
        parts.append(part.weight**2 * float((moved**2).sum()))
        freedom.append(count - 1)
        pseudo += part.weight**2 * float(pseudo_size(sizes)[0]) / float(n)
    parts.append(2 * pseudo**2)
    freedom.append(sum(freedom) + 1)
    variance = sum(value**2 for value in by_cluster.values()) + 2 * pseudo**2
    df = sum(parts) ** 2 / sum(a**2 / f for a, f in zip(parts, freedom, strict=True))
    shrunk = 1 + 2 * pseudo
    return StudentT(mean / shrunk, float(np.sqrt(variance)) / shrunk, float(df))
