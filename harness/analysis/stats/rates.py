"""One arm's score: Wilson for plain rates, the clustered jackknife for everything else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.analysis.stats.estimate import LEVEL, MIN_CLUSTERS, Estimate, too_few_clusters
from harness.analysis.stats.jackknife import SCORE_BOUNDS, Floats, clustered_mean


def mean_score(scores: Floats, clusters: Sequence[str], level: float = LEVEL) -> Estimate:
    """Mean of scores in [0, 1], with its interval.

    Right-or-wrong scores of independent items get Wilson's interval (J. Am. Stat. Assoc. 22,
    1927); clustered or graded scores get :func:`harness.analysis.stats.jackknife.clustered_mean`.

    Parameters
    ----------
    scores
        Shape (n,), finite, in [0, 1].
    clusters
        Cluster of each item.
    """
    scores = np.asarray(scores, float)
    singles = len(set(clusters)) == len(scores)
    if not (singles and len(scores) and np.isin(scores, (0.0, 1.0)).all()):
        return clustered_mean(scores, clusters, SCORE_BOUNDS, level)
    n, mean = len(scores), float(scores.mean())
    if n < MIN_CLUSTERS:
        return Estimate(mean, None, None, n, n, reason=too_few_clusters(n))
    from scipy.stats import binomtest

    ends = binomtest(int(scores.sum()), n).proportion_ci(level, method="wilson")
    return Estimate(mean, float(ends.low), float(ends.high), n, n, method="wilson", level=level)
