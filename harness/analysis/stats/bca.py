"""BCa bootstrap over clusters: for display only.

It cannot see changes that the sample does not hold: where few answers change, its intervals
are too short (the simulation in tests/unit/stats/test_coverage.py keeps it as the row that
fails). Verdicts use :mod:`harness.analysis.stats.jackknife`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.analysis.stats.estimate import LEVEL, MIN_CLUSTERS, Estimate, too_few_clusters
from harness.analysis.stats.jackknife import Floats, cluster_totals

RESAMPLES = 9_999
_BATCH_ITEMS = 2**22


def bca_mean(
    values: Floats,
    clusters: Sequence[str],
    seed: int,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
) -> Estimate:
    """Item-weighted mean with the BCa interval of whole-cluster resampling (Efron, 1987).

    Parameters
    ----------
    values
        Scores or differences, shape (n,).
    clusters
        Cluster of each item; clusters are drawn whole.
    seed
        Seed of the resampling; the same seed gives the same interval.
    """
    from scipy.stats import bootstrap

    values = np.asarray(values, float)
    if values.size == 0:
        return Estimate(None, None, None, 0, 0, reason="no examples")
    sums, sizes = cluster_totals(values, clusters)
    mean, n, count = float(values.mean()), len(values), len(sums)
    if count < MIN_CLUSTERS:
        return Estimate(mean, None, None, n, count, reason=too_few_clusters(count))
    if np.allclose(sums / sizes, sums[0] / sizes[0]):
        reason = "every cluster has the same mean: a bootstrap has nothing to resample"
        return Estimate(mean, None, None, n, count, reason=reason)
    ends = bootstrap(
        (sums, sizes),
        lambda s, m, axis=-1: s.sum(axis=axis) / m.sum(axis=axis),
        paired=True,
        vectorized=True,
        n_resamples=resamples,
        confidence_level=level,
        method="BCa",
        # In parts: all resamples of many thousand clusters at once would take gigabytes.
        batch=max(1, _BATCH_ITEMS // count),
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return Estimate(mean, float(ends.low), float(ends.high), n, count, method="bca", level=level)
