"""Delete-one-cluster jackknife t with two pseudo-clusters: the interval of every clustered mean.

Scores are bounded and often barely change, so the usual t interval collapses to a point when
nothing changes in the sample, and a bootstrap can only resample what it saw. Bonett and Price
("Adjusted Wald confidence interval for a difference of binomial proportions based on paired
data", J. Educ. Behav. Stat. 37, 2012) add one pair of each discordant kind to a paired 2 × 2
table; here these are two clusters with the most extreme values, d = +1 and −1 for differences and
0 and 1 for means. The variance is the delete-one-cluster jackknife of the item-weighted mean
(Tukey's; for the regression case Cameron and Miller, J. Hum. Resour. 50, 2015, there CR3),
referred to t with clusters + 2 − 1 degrees of freedom.

A pseudo-cluster of one item stands for one unseen *observation*. Where a cluster's items change
together the observation is nearly the whole cluster: ten clusters of twenty items that lost
nothing say no more than about ten items would, and Bell and McCaffrey's correction (Surv.
Methodol. 28, 2002), which scales the residuals, cannot help where all residuals are zero. So each
pseudo-cluster holds as many items as one observation costs at :data:`WORKING_ICC`: Kish's design
effect (*Survey Sampling*, 1965, ch. 5). Clusters of one item are left exactly as they were.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from harness.analysis.stats.estimate import (
    LEVEL,
    MIN_CLUSTERS,
    Estimate,
    StudentT,
    too_few_clusters,
)

Floats = npt.NDArray[np.float64]

DIFFERENCE_BOUNDS = (-1.0, 1.0)
SCORE_BOUNDS = (0.0, 1.0)

WORKING_ICC = 0.6
"""Correlation inside a cluster up to which intervals keep their level (benchmarks/coverage.py).

It is assumed, not estimated: where answers rarely change the data hold no estimate of it.
"""


def cluster_totals(values: Floats, clusters: Sequence[str]) -> tuple[Floats, Floats]:
    """Return each cluster's sum and size, both of shape (G,), clusters in sorted order."""
    labels, inverse = np.unique(np.asarray(clusters, dtype=object).astype(str), return_inverse=True)
    sums = np.bincount(inverse, weights=values, minlength=len(labels)).astype(np.float64)
    return sums, np.bincount(inverse, minlength=len(labels)).astype(np.float64)


def pseudo_size(sizes: Floats) -> Floats:
    """Items of each pseudo-cluster: the design effect at :data:`WORKING_ICC`, shape (…, 1).

    Kish's 1 + ρ (m − 1) with m = Σ size² / Σ size, the size of the cluster of a random item, so
    that one large cluster among small ones counts as what it is. 1 where every cluster is one item.
    """
    own = (sizes**2).sum(-1, keepdims=True) / sizes.sum(-1, keepdims=True)
    return np.asarray(1 + WORKING_ICC * (own - 1), float)


def jackknife_t(sums: Floats, sizes: Floats) -> tuple[Floats, Floats, int]:
    """Item-weighted mean, its delete-one-cluster standard error and K − 1 degrees of freedom.

    Parameters
    ----------
    sums, sizes
        Sums of the scores and items by cluster, shape (…, K); leading axes are data sets.
    """
    total, items = sums.sum(-1, keepdims=True), sizes.sum(-1, keepdims=True)
    centre = total / items
    left_out = (total - sums) / (items - sizes)
    count = sums.shape[-1]
    # Around the estimate itself, not around the mean of the replicates: never smaller.
    variance = (count - 1) / count * ((left_out - centre) ** 2).sum(-1)
    return centre[..., 0], np.sqrt(variance), count - 1


def augmented_t(
    sums: Floats, sizes: Floats, bounds: tuple[float, float]
) -> tuple[Floats, Floats, int]:
    """Centre, standard error and degrees of freedom with the two pseudo-clusters added.

    Parameters
    ----------
    sums
        Sums of the scores by cluster, shape (…, G); leading axes are independent data sets.
    sizes
        Items by cluster, broadcastable to ``sums``.
    bounds
        Scores of the two pseudo-clusters: the ends of the scores' range.

    Returns
    -------
    tuple
        Centre and standard error, shape (…), and df = G + 1.
    """
    sizes = np.broadcast_to(np.asarray(sizes, float), sums.shape)
    weight = np.repeat(pseudo_size(sizes), 2, axis=-1)
    sums = np.concatenate([sums, weight * np.asarray(bounds, float)], axis=-1)
    return jackknife_t(sums, np.concatenate([sizes, weight], axis=-1))


def clustered_mean(
    values: Floats, clusters: Sequence[str], bounds: tuple[float, float], level: float = LEVEL
) -> Estimate:
    """Mean over items of clustered scores, with its jackknife t interval.

    Parameters
    ----------
    values
        Scores or paired differences, shape (n,), finite, inside ``bounds``.
    clusters
        Cluster of each item; items of one cluster share context.
    bounds
        :data:`DIFFERENCE_BOUNDS` or :data:`SCORE_BOUNDS`.

    Returns
    -------
    Estimate
        The raw mean; no interval with fewer than :data:`MIN_CLUSTERS` clusters.

    Raises
    ------
    ValueError
        A value is not finite or lies outside ``bounds``: the caller must say what is missing.
    """
    values = np.asarray(values, float)
    if not (
        np.isfinite(values).all() and (np.abs(values - np.mean(bounds)) <= _half(bounds)).all()
    ):
        raise ValueError(f"scores must be finite and lie in {bounds}")
    if values.size == 0:
        return Estimate(None, None, None, 0, 0, reason="no examples")
    sums, sizes = cluster_totals(values, clusters)
    mean, count = float(values.mean()), len(sums)
    if count < MIN_CLUSTERS:
        return Estimate(mean, None, None, len(values), count, reason=too_few_clusters(count))
    centre, se, df = augmented_t(sums, sizes, bounds)
    fit = StudentT(float(centre), float(se), df)
    low, high = fit.interval(level)
    return Estimate(
        mean,
        max(low, bounds[0]),
        min(high, bounds[1]),
        len(values),
        count,
        method="jackknife",
        level=level,
        fit=fit,
    )


def paired_difference(
    differences: Floats, clusters: Sequence[str], level: float = LEVEL
) -> Estimate:
    """Mean of paired differences in [−1, 1] (arm − reference), with its interval."""
    return clustered_mean(differences, clusters, DIFFERENCE_BOUNDS, level)


def _half(bounds: tuple[float, float]) -> float:
    # Sums of decimal scores may overshoot by rounding: 0.1 + 0.2 is no error of the user's.
    return (bounds[1] - bounds[0]) / 2 + 1e-9
