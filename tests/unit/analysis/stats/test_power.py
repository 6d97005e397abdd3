"""Planning: examples for a margin, margins for a number of examples, checked by simulation."""

import numpy as np
import pytest
from designs import binary_changes
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from harness.analysis.stats.jackknife import DIFFERENCE_BOUNDS, augmented_t
from harness.analysis.stats.power import examples_needed, pilot_of, resolvable_margin


def test_two_points_need_about_140_examples_when_nothing_changes():
    """The pseudo-clusters' own weight sets the floor that the interval shows."""
    assert examples_needed(0.02, phi=0.0) == pytest.approx(140, abs=3)


@pytest.mark.parametrize(("changed", "size"), [(0.1, 1), (0.3, 1), (0.3, 5)])
@pytest.mark.parametrize("margin", [0.05, 0.1])
def test_the_planned_number_reaches_its_power(changed, size, margin):
    """At the planned n, simulated data without a loss pass in about 80 % of the sets."""
    pilot_sums = binary_changes(np.full(4_000, float(size)), changed / 2, changed / 2, 3, sets=1)
    phi = float((pilot_sums**2).sum() / pilot_sums.shape[1] / size)
    n = examples_needed(margin, phi, size)
    sizes = np.full(n // size, float(size))
    sums = binary_changes(sizes, changed / 2, changed / 2, seed=5, sets=2_000)
    centre, se, df = augmented_t(sums, sizes, DIFFERENCE_BOUNDS)
    passed = np.mean(centre - special.stdtrit(df, 0.975) * se > -margin)
    assert 0.76 <= passed <= 0.86


@pytest.mark.parametrize("size", [12, 20, 50])
@pytest.mark.parametrize("changed", [0.1, 0.4])
def test_a_plan_from_a_small_pilot_keeps_its_power(size, changed):
    """Averaged over pilots, the cautious n passes in at least 80 %; the pilot's own does not."""
    rng = np.random.default_rng(size)
    chances, names = [changed / 2, changed / 2, 1 - changed], [str(i) for i in range(size)]
    powers = {"phi": [], "cautious": []}
    for _ in range(40):
        pilot = pilot_of(rng.choice([1.0, -1.0, 0.0], size, p=chances), names)
        for kind, found in powers.items():
            n = examples_needed(0.1, getattr(pilot, kind))
            gained, lost, _ = rng.multinomial(n, chances, size=300).T
            mean = (gained - lost) / (n + 2)
            se = np.sqrt(((gained + lost + 2) / (n + 2) - mean**2) / (n + 1))
            found.append(np.mean(mean - special.stdtrit(n + 1, 0.975) * se > -0.1))
    assert np.mean(powers["cautious"]) >= 0.8
    assert np.mean(powers["phi"]) < 0.82 < np.mean(powers["cautious"]) + 0.05


@given(st.floats(0.01, 0.5), st.floats(0, 1), st.sampled_from([1.0, 2.5, 5.0]))
def test_needed_and_resolvable_are_inverse(margin, phi, size):
    """The planned n resolves the margin, and one cluster fewer does not."""
    n = examples_needed(margin, phi, size)
    clusters = round(n / size)
    assert resolvable_margin(clusters * size, phi, size) < margin
    if clusters > 5:
        assert resolvable_margin((clusters - 1) * size, phi, size) >= margin


def test_impossible_plans_are_none():
    """A margin of nothing, or one beyond any number of examples, has no plan."""
    assert examples_needed(0.0, 0.1) is None
    assert examples_needed(1e-6, 1.0) is None


def test_pilot_measures_spread_and_design_effect():
    """Whole clusters that change together need as many more examples as the design effect says."""
    d = np.repeat(np.random.default_rng(0).choice([1.0, -1.0, 0.0], 400, p=[0.1, 0.1, 0.8]), 5)
    alone = pilot_of(d, [str(i) for i in range(2_000)])
    together = pilot_of(d, [str(i // 5) for i in range(2_000)])
    assert together.phi == pytest.approx(5 * alone.phi, rel=0.02)
    assert together.cluster_size == 5
    assert together.cautious >= together.phi * 0.99
    assert pilot_of(d[:20], [str(i // 5) for i in range(20)]) is None
