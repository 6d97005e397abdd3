"""TTFT ratios: Hodges–Lehmann, signed-rank intervals, order effect, autocorrelation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from harness.analysis.stats import latency

COUNTS = [(6, 1), (7, 3), (8, 4), (10, 9), (15, 26), (20, 53), (30, 138)]
"""n and c for two-sided 95 %: c is one above the tabled critical value of T⁺."""


@pytest.mark.parametrize(("n", "cut"), COUNTS)
def test_cut_is_the_tabled_one(n, cut):
    """The quantile agrees with published tables of the signed-rank statistic."""
    assert latency.signed_rank_cut(n, 0.025) == cut


def test_exact_and_normal_cuts_meet():
    """Where the exact distribution gives way to the normal one, the cuts agree within 1 %."""
    n = latency.EXACT_BLOCKS
    exact, normal = latency.signed_rank_cut(n, 0.025), latency.signed_rank_cut(n + 1, 0.025)
    assert normal == pytest.approx(exact * (n + 1) ** 2 / n**2, rel=0.01)


def test_fewer_than_six_blocks_give_no_interval():
    """Five blocks: the estimate stands, the interval does not, and the reason says how many."""
    found = latency.hodges_lehmann(np.array([-1.0, -1.1, -0.9, -1.0, -1.05]))
    assert found.estimate == pytest.approx(-1.0, abs=0.03)
    assert found.low is None
    assert "5 latency blocks; an interval needs 6" in found.reason


def test_one_stall_does_not_move_the_estimate():
    """A block ten times slower changes the estimate by less than a hundredth."""
    r = np.linspace(-1.05, -0.95, 12)
    stalled = np.append(r[:-1], r[-1] + np.log(10))
    moved = latency.hodges_lehmann(stalled).estimate - latency.hodges_lehmann(r).estimate
    assert abs(moved) < 0.02


def test_signed_rank_interval_covers():
    """The exact interval covers at least 95 % of symmetric data sets, and is not much too wide."""
    rng = np.random.default_rng(5)
    held = 0
    for _ in range(2_000):
        found = latency.hodges_lehmann(rng.standard_t(3, 12))
        held += found.low <= 0 <= found.high
    assert 0.94 <= held / 2_000 <= 0.97


@given(st.lists(st.floats(-3, 3), min_size=6, max_size=40), st.floats(-2, 2))
def test_hodges_lehmann_moves_with_the_data(values, shift):
    """Estimate and ends are inside the data and move by exactly a shift of the data."""
    r = np.array(values)
    found, moved = latency.hodges_lehmann(r), latency.hodges_lehmann(r + shift)
    assert r.min() - 1e-9 <= found.low <= found.estimate <= found.high <= r.max() + 1e-9
    assert (moved.low, moved.estimate, moved.high) == pytest.approx(
        (found.low + shift, found.estimate + shift, found.high + shift), abs=1e-9
    )


@pytest.mark.parametrize(("m", "n"), [(6, 6), (6, 9), (12, 8)])
def test_two_sample_cut_agrees_with_mann_whitney(m, n):
    """The ends use the same exact distribution as SciPy's Mann–Whitney test."""
    cut = latency._rank_sum_cut(m, n, 0.025)
    low = scipy_stats.mannwhitneyu(*_samples_with_u(m, n, cut - 1), method="exact").pvalue
    high = scipy_stats.mannwhitneyu(*_samples_with_u(m, n, cut), method="exact").pvalue
    assert low <= 0.05 < high


def _samples_with_u(m, n, u):
    """Two samples without ties whose U statistic is ``u``: each x beats up to n of the y."""
    beats = [min(n, max(0, u - i * n)) for i in range(m)]
    return [b - 0.5 + i * 1e-3 for i, b in enumerate(beats)], list(range(n))


def test_two_sample_shift_needs_both_sides():
    """A comparison of two runs needs six blocks on both sides."""
    assert latency.two_sample_shift(np.zeros(6), np.zeros(5)).estimate is None
    found = latency.two_sample_shift(np.linspace(0, 0.1, 8), np.linspace(0.3, 0.4, 8))
    assert found.low < 0.3 < found.high
    assert found.estimate == pytest.approx(0.3)


def test_order_effect_invalidates_only_where_it_is_large_and_sure():
    """Thirty per cent between the orders is invalid; noise of the same spread is not."""
    rng = np.random.default_rng(3)
    noise = rng.normal(0, 0.02, (2, 6))
    assert latency.order_effect(-1 + noise[0], -0.7 + noise[1]).too_large
    assert not latency.order_effect(-1 + noise[0], -1 + noise[1]).too_large
    assert not latency.order_effect(-1 + noise[0], -0.95 + noise[1]).too_large
    assert latency.order_effect(noise[0][:1], noise[1]).effect is None


def test_lag1_sees_a_trend_and_nothing_in_a_constant():
    """A drift of the blocks shows as autocorrelation; a constant series has none to speak of."""
    assert latency.lag1(np.arange(20.0)) > 0.8
    assert latency.lag1(np.array([1.0, -1.0] * 10)) < -0.8
    assert latency.lag1(np.ones(10)) is None
    assert latency.lag1(np.array([1.0, 2.0])) is None
