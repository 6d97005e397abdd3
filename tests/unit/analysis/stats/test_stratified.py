"""Macro averages over tasks: exact values, shared contexts, and coverage by simulation."""

import numpy as np
import pytest
from scipy import special

from harness.analysis.stats.jackknife import paired_difference
from harness.analysis.stats.stratified import Stratum, stratified_difference


def stratum(values, weight=1.0, name="t", clusters=None):
    """A stratum whose items are independent unless told otherwise."""
    values = np.asarray(values, float)
    return Stratum(name, weight, values, clusters or [f"{name}{i}" for i in range(len(values))])


def test_one_stratum_is_the_paired_interval():
    """A single task has the usual mean and nearly the usual interval."""
    values = np.array([0.0] * 30 + [-1.0] * 8 + [1.0] * 2)
    found, usual = stratified_difference([stratum(values)]), paired_difference(values, range(40))
    assert found.mean == pytest.approx(usual.mean)
    assert (found.low, found.high) == pytest.approx((usual.low, usual.high), abs=0.005)


def test_two_strata_by_the_textbook():
    """Cochran's Σ w² s² / n, with the pseudo-observations' weight beside it."""
    a, b = np.array([0.0, 0, 0, -1, 1, 0, -1, 0]), np.array([0.0, -0.5, 0, 0, 0.25])
    found = stratified_difference([stratum(a, 0.5, "a"), stratum(b, 0.5, "b")])
    variance = 0.25 * a.var(ddof=1) / 8 + 0.25 * b.var(ddof=1) / 5
    u = 0.25 / 8 + 0.25 / 5
    assert found.mean == pytest.approx((a.mean() + b.mean()) / 2)
    assert found.fit.se == pytest.approx(np.sqrt(variance + 2 * u**2) / (1 + 2 * u))
    half = special.stdtrit(found.fit.df, 0.975) * found.fit.se
    assert found.high - found.low == pytest.approx(2 * half)


def test_shared_contexts_add_up_before_they_are_squared():
    """Two tasks on the same documents that lose together are one observation a document."""
    values, names = np.array([0.0, -1, 0, 0, -1, 0, 0, 1]), [f"d{i}" for i in range(8)]
    shared = [stratum(values, 0.5, name, names) for name in "ab"]
    alone = [stratum(values, 0.5, name) for name in "ab"]
    narrow, wide = stratified_difference(alone), stratified_difference(shared)
    assert wide.fit.se > 1.2 * narrow.fit.se


def test_a_task_of_one_context_gives_no_interval():
    """One cluster says nothing of its own spread; the reason names the task."""
    found = stratified_difference([stratum([0.0] * 9, 0.5), stratum([0.0], 0.5, "b")])
    assert found.low is None
    assert "b: one independent cluster" in found.reason


@pytest.mark.parametrize("lost", [0.02, 0.1, 0.3])
def test_macro_averages_are_covered(lost):
    """Thirteen tasks of unequal size, half of them losing: at least 93 %."""
    rng, held, sets = np.random.default_rng(31), 0, 600
    sizes = [10, 10, 10, 20, 20, 5, 5, 30, 10, 10, 40, 10, 10]
    losses = [lost * 2 * (k % 2) for k in range(13)]
    truth = -np.mean(losses)
    for _ in range(sets):
        found = stratified_difference(
            [
                stratum(-(rng.random(n) < loss).astype(float), 1 / 13, f"t{k}_")
                for k, (n, loss) in enumerate(zip(sizes, losses, strict=True))
            ]
        )
        held += found.low <= truth <= found.high
    assert held / sets >= 0.93
