"""Intervals of means and differences: exact values, edges and properties."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.regression.linear_model import OLS

from harness.analysis.stats.bca import bca_mean
from harness.analysis.stats.estimate import MIN_CLUSTERS
from harness.analysis.stats.jackknife import (
    DIFFERENCE_BOUNDS,
    WORKING_ICC,
    augmented_t,
    jackknife_t,
    paired_difference,
)
from harness.analysis.stats.rates import mean_score


def names(n, size=1):
    """Cluster names of n items in clusters of ``size``."""
    return [f"c{i // size}" for i in range(n)]


def test_bonett_price_by_hand():
    """For single items the interval is the plain t interval on the sample plus +1 and −1."""
    d = np.array([0.0] * 15 + [-1.0] * 4 + [1.0])
    found = paired_difference(d, names(20))
    augmented = np.append(d, [1.0, -1.0])
    half = 2.0796138447276626 * augmented.std(ddof=1) / np.sqrt(22)  # t(0.975, 21)
    assert found.mean == pytest.approx(-0.15)
    assert found.low == pytest.approx(augmented.mean() - half)
    assert found.high == pytest.approx(augmented.mean() + half)
    assert found.fit.df == 21


def test_equal_clusters_are_statsmodels_cluster_robust():
    """For equal clusters the jackknife is the cluster-robust variance with G / (G − 1)."""
    d = np.random.default_rng(1).choice([-1.0, 0.0, 1.0], 60, p=[0.3, 0.6, 0.1])
    groups = np.repeat(np.arange(12), 5)
    fit = OLS(d, np.ones(60)).fit(cov_type="cluster", cov_kwds={"groups": groups})
    centre, se, df = jackknife_t(d.reshape(12, 5).sum(1), np.full(12, 5.0))
    # statsmodels multiplies by (N − 1) / (N − 1) too, for one regressor.
    assert (centre, se, df) == pytest.approx((fit.params[0], fit.bse[0], 11))


def test_unequal_clusters_are_refits_without_one():
    """The closed form equals refitting the mean without each cluster, pseudo-clusters included."""
    rng, sizes = np.random.default_rng(2), np.array([7, 1, 4, 2, 2, 9])
    parts = [rng.choice([-1.0, 0.0], size) for size in sizes]
    weight = 1 + WORKING_ICC * ((sizes**2).sum() / sizes.sum() - 1)
    values = np.concatenate([*parts, [1.0, -1.0]])
    weights = np.concatenate([np.ones(sizes.sum()), [weight, weight]])
    label = np.repeat(np.arange(8), [*sizes, 1, 1])
    whole = np.average(values, weights=weights)
    refits = [np.average(values[label != k], weights=weights[label != k]) for k in range(8)]
    centre, se, df = augmented_t(np.array([p.sum() for p in parts]), sizes, DIFFERENCE_BOUNDS)
    assert centre == pytest.approx(whole)
    assert se == pytest.approx(np.sqrt(7 / 8 * ((np.array(refits) - whole) ** 2).sum()))
    assert df == 7


def test_a_margin_of_two_points_needs_about_140_examples():
    """Even when nothing changes, 0.02 is excluded only from about 140 examples on."""
    low = {n: paired_difference(np.zeros(n), names(n)).low for n in (135, 140)}
    assert low[135] < -0.02 < low[140]


@pytest.mark.parametrize("clusters", range(1, MIN_CLUSTERS))
def test_few_clusters_give_no_interval(clusters):
    """Below five clusters the mean stands alone, with the reason."""
    found = paired_difference(np.zeros(3 * clusters), names(3 * clusters, 3))
    assert found.mean == 0
    assert found.low is None
    assert found.high is None
    assert str(clusters) in found.reason


def test_an_empty_set_has_no_mean():
    """No examples: None with a reason, never 0."""
    for found in (paired_difference(np.array([]), []), mean_score(np.array([]), [])):
        assert (found.mean, found.low, found.high) == (None, None, None)
        assert found.reason == "no examples"


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1.5])
def test_values_that_are_no_scores_are_refused(bad):
    """NaN, infinity and values outside the range never become an interval."""
    with pytest.raises(ValueError, match="finite"):
        paired_difference(np.array([0.0] * 9 + [bad]), names(10))


def test_plain_rates_get_wilson():
    """Unclustered right-or-wrong scores: Wilson's interval (18 of 20: 0.699 … 0.972)."""
    found = mean_score(np.array([1.0] * 18 + [0.0] * 2), names(20))
    assert found.method == "wilson"
    assert found.low == pytest.approx(0.6990, abs=1e-4)
    assert found.high == pytest.approx(0.9721, abs=1e-4)


def test_clustered_or_graded_scores_get_the_jackknife():
    """Shared context or graded scores leave Wilson's assumptions."""
    right = np.array([1.0] * 18 + [0.0] * 2)
    assert mean_score(right, names(20, 2)).method == "jackknife"
    assert mean_score(np.linspace(0, 1, 20), names(20)).method == "jackknife"


def test_shared_context_widens_the_interval():
    """Items that answer alike in clusters are worth less than as many independent ones."""
    d = np.repeat([0.0, -1.0, 0.0, 1.0, 0.0, 0.0, -1.0, 0.0, 0.0, 0.0], 5)
    alone, together = paired_difference(d, names(50)), paired_difference(d, names(50, 5))
    assert together.high - together.low > 1.5 * (alone.high - alone.low)


@given(
    st.lists(st.floats(-1, 1), min_size=5, max_size=60),
    st.integers(1, 4),
    st.randoms(use_true_random=False),
)
def test_difference_properties(values, size, random):
    """Bounds hold, order of items does not matter, and swapping the arms mirrors the interval."""
    d, clusters = np.array(values), names(len(values), size)
    found = paired_difference(d, clusters)
    mirrored = paired_difference(-d, clusters)
    if found.low is None:
        assert found.reason is not None
        return
    order = list(range(len(values)))
    random.shuffle(order)
    shuffled = paired_difference(d[order], [clusters[i] for i in order])
    assert -1 <= found.low <= found.high <= 1
    assert (shuffled.low, shuffled.high) == pytest.approx((found.low, found.high))
    assert (-mirrored.high, -mirrored.low) == pytest.approx((found.low, found.high))


@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=5, max_size=200))
def test_rate_holds_its_mean(values):
    """A rate's interval contains the rate and stays in [0, 1]."""
    found = mean_score(np.array(values), names(len(values)))
    assert 0 <= found.low <= found.mean + 1e-12
    assert found.mean - 1e-12 <= found.high <= 1


def test_bca_is_seeded_and_says_when_it_cannot():
    """The same seed gives the same ends; a sample without change has nothing to resample."""
    d = np.array([0.0] * 30 + [-1.0] * 8 + [1.0] * 2)
    first, again = bca_mean(d, names(40), 3), bca_mean(d, names(40), 3)
    assert (first.low, first.high) == (again.low, again.high)
    assert first.low < first.mean < first.high
    nothing = bca_mean(np.zeros(40), names(40), 3)
    assert nothing.low is None
    assert "nothing to resample" in nothing.reason
