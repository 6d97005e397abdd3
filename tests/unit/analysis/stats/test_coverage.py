"""Coverage of the intervals, by simulation with a fixed seed: tests that can fail.

Every design of paired data must reach 93 %; where changes are frequent enough for an interval
to be neither lucky nor empty, coverage must lie between 93 and 97.5 %.
"""

import numpy as np
import pytest
from designs import DESIGNS, alike_changes, binary_changes, graded_changes
from scipy import special

from harness.analysis.stats.bca import bca_mean
from harness.analysis.stats.jackknife import (
    DIFFERENCE_BOUNDS,
    SCORE_BOUNDS,
    augmented_t,
    jackknife_t,
)

RARE = [(0.0, 0.01), (0.005, 0.005), (0.0, 0.02), (0.01, 0.03), (0.02, 0.02), (0.0, 0.05)]
FREQUENT = [(0.15, 0.15), (0.05, 0.2), (0.0, 0.15), (0.1, 0.3)]


def coverage(sums, sizes, truth, bounds=DIFFERENCE_BOUNDS):
    """Share of data sets whose 95 % interval holds the truth."""
    centre, se, df = augmented_t(sums, sizes, bounds)
    return float(np.mean(np.abs(centre - truth) <= special.stdtrit(df, 0.975) * se))


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize(("gain", "loss"), RARE + FREQUENT)
def test_paired_binary_changes_are_covered(design, gain, loss):
    """Coverage is at least 93 % in every paired design, rare changes included."""
    sizes = DESIGNS[design]
    sums = binary_changes(sizes, gain, loss, seed=7)
    assert coverage(sums, sizes, gain - loss) >= 0.93


CLUSTERED = {
    "10x5": np.full(10, 5.0),
    "10x20": np.full(10, 20.0),
    "12 unequal": np.array([15, 10, 8, 6, 5, 4, 3, 3, 2, 2, 1, 1], float),
    "40 unequal": np.repeat([1.0, 2.0, 5.0, 12.0], 10),
}


@pytest.mark.parametrize("design", CLUSTERED)
@pytest.mark.parametrize(("icc", "least", "most"), [(0.1, 95, 3), (0.3, 95, 4), (0.6, 93, 6)])
def test_clusters_that_change_alike_are_covered(design, icc, least, most):
    """From ten clusters on: coverage by correlation, and true losses that would pass a gate."""
    sizes = CLUSTERED[design]
    for gain, loss in [(0.0, 0.02), (0.0, 0.1), (0.0, 0.25), (0.05, 0.15)]:
        sums = alike_changes(sizes, gain, loss, icc, seed=29, sets=2_000)
        assert 100 * coverage(sums, sizes, gain - loss) >= least
        centre, se, df = augmented_t(sums, sizes, DIFFERENCE_BOUNDS)
        low = centre - special.stdtrit(df, 0.975) * se
        assert 100 * np.mean(low > gain - loss) <= most


def test_pseudo_clusters_of_one_item_fail_where_clusters_change_alike():
    """The row that fails: with one item a pseudo-cluster, 10 clusters of 20 hide their losses."""
    sizes = CLUSTERED["10x20"]
    sums = alike_changes(sizes, 0.0, 0.1, 0.3, seed=29, sets=2_000)
    ends = np.broadcast_to([-1.0, 1.0], (len(sums), 2))
    centre, se, df = jackknife_t(np.hstack([sums, ends]), np.append(sizes, [1.0, 1.0]))
    assert np.mean(np.abs(centre + 0.1) <= special.stdtrit(df, 0.975) * se) < 0.85


def test_frequent_binary_changes_are_covered_exactly():
    """At n = 50 with ±15 % changed, coverage lies between 93 and 97.5 %."""
    sums = binary_changes(DESIGNS["independent"], 0.15, 0.15, seed=11)
    assert 0.93 <= coverage(sums, DESIGNS["independent"], 0.0) <= 0.975


@pytest.mark.parametrize("n", [200, 500])
@pytest.mark.parametrize("changed", [0.2, 0.5])
@pytest.mark.parametrize("lost", [0.0, 0.2])
def test_graded_changes_are_covered_exactly(n, changed, lost):
    """F1-like scores with at least 20 % changed and n ≥ 200: between 93 and 97.5 %."""
    differences, truth = graded_changes(n, changed, lost, seed=13, sets=2_000)
    assert 0.93 <= coverage(differences, np.ones(n), truth) <= 0.975


@pytest.mark.parametrize("design", ["25x2", "10x5", "unequal"])
def test_clustered_rates_are_covered(design):
    """Clustered single-arm rates reach 93 % with pseudo-scores 0 and 1."""
    sizes = DESIGNS[design]
    # A change of +1 with chance 0.8 is a right answer: the same draw gives clustered rates.
    sums = binary_changes(sizes, 0.8, 0.0, seed=17)
    assert coverage(sums, sizes, 0.8, SCORE_BOUNDS) >= 0.93


def test_bca_fails_where_changes_are_rare():
    """The row that fails: the BCa bootstrap covers rare changes clearly below 93 %."""
    sums = binary_changes(DESIGNS["independent"], 0.01, 0.03, seed=19, sets=2_000)
    clusters = [str(i) for i in range(50)]
    held = 0
    for seed, differences in enumerate(sums):
        found = bca_mean(differences, clusters, seed, resamples=299)
        held += found.low is not None and found.low <= -0.02 <= found.high
    assert held / len(sums) < 0.90
    assert coverage(sums, np.ones(50), -0.02) >= 0.93


def test_plain_jackknife_fails_where_changes_are_rare():
    """Without the pseudo-clusters the same jackknife is not honest: they are what matters."""
    sums = binary_changes(DESIGNS["independent"], 0.0, 0.02, seed=23)
    mean, sd = sums.mean(1), sums.std(1, ddof=1)
    half = special.stdtrit(49, 0.975) * sd / np.sqrt(50)
    assert np.mean(np.abs(mean + 0.02) <= half) < 0.90
