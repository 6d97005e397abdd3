"""Error rates of the gate, by simulation with a fixed seed: tests that can fail."""

import numpy as np
import pytest
from designs import DESIGNS, binary_changes, graded_changes
from scipy import special

from harness.analysis.gate.baseline import Cell, Example
from harness.analysis.gate.pairing import PairedCell
from harness.analysis.gate.quality import judge_quality
from harness.analysis.gate.verdicts import Verdict
from harness.analysis.stats.jackknife import DIFFERENCE_BOUNDS, augmented_t

SETS = 4_000
ARMS = 6


def cell_of(differences, sizes):
    """A paired cell with these differences; clusters in order."""
    clusters = np.repeat(np.arange(len(sizes)), sizes.astype(int)).astype(str)
    candidate = Cell(
        task="t", group="g", category="c", metric="m", length=None, arm="a", method="full",
        reference=False, keep=None, look_ahead=None, options={}, engine="e", dtype="d",
        target="t", speculator=None,
        examples=tuple[Example, ...](),
    )  # fmt: skip
    return PairedCell(candidate, differences, tuple(clusters), bool((differences == 0).all()))


def decisions(sums, sizes, margin):
    """Whether each data set passes, and its p of "no loss", for all sets at once.

    The gate's own formulas on arrays; :func:`test_the_gate_decides_so` ties them to the gate.
    """
    centre, se, df = augmented_t(sums, sizes, DIFFERENCE_BOUNDS)
    passes = centre - special.stdtrit(df, 0.975) * se > -margin
    return passes, special.stdtr(df, centre / se)


def test_the_gate_decides_so():
    """On 200 data sets the gate's verdicts are those that the rates below count."""
    rng = np.random.default_rng(29)
    for name, sizes in DESIGNS.items():
        group = np.repeat(np.arange(len(sizes)), sizes.astype(int))
        for _ in range(50):
            items = rng.choice([1.0, -1.0, 0.0], p=[0.05, 0.25, 0.7], size=len(group))
            sums = np.bincount(group, weights=items)
            passes, p = decisions(sums[None], sizes, 0.1)
            (found,) = judge_quality([(cell_of(items, sizes), 0.1)])
            expected = Verdict.INCONCLUSIVE
            if passes[0]:
                expected = Verdict.PASS
            elif p[0] <= 0.05:
                expected = Verdict.REGRESSION
            assert found.verdict is expected, name
            assert found.p == pytest.approx(p[0])


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("half", [0.005, 0.02, 0.1, 0.2])
def test_false_alarms_are_rare_over_the_family(design, half):
    """At zero effect at most 6 % of families of six comparisons raise any regression.

    Holm rejects anything exactly where the smallest p is at most 0.05 / 6.
    """
    sizes = DESIGNS[design]
    alarm = np.zeros(SETS, bool)
    for arm in range(ARMS):
        sums = binary_changes(sizes, half, half, seed=100 + arm, sets=SETS)
        passes, p = decisions(sums, sizes, 0.02)
        alarm |= ~passes & (p <= 0.05 / ARMS)
    assert alarm.mean() <= 0.06


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize(("gain", "loss"), [(0.0, 0.02), (0.0, 0.1), (0.05, 0.15), (0.0, 0.2)])
def test_a_loss_of_the_margin_rarely_passes(design, gain, loss):
    """A true loss of exactly the margin passes in at most 7 % of the sets."""
    sizes = DESIGNS[design]
    sums = binary_changes(sizes, gain, loss, seed=37, sets=SETS)
    assert decisions(sums, sizes, loss - gain)[0].mean() <= 0.07


@pytest.mark.parametrize(("changed", "lost"), [(0.2, 0.1), (0.3, 0.3), (0.6, 0.2)])
def test_a_graded_loss_of_the_margin_rarely_passes(changed, lost):
    """The same for F1-like scores at n = 200."""
    differences, truth = graded_changes(200, changed, lost, seed=41, sets=SETS)
    assert decisions(differences, np.ones(200), -truth)[0].mean() <= 0.07


def test_a_broken_selector_is_found():
    """Power: seven in ten answers lost at n = 30 is a regression in every set."""
    rng, sizes = np.random.default_rng(43), np.ones(30)
    for _ in range(200):
        family = [(cell_of(-1.0 * (rng.random(30) < 0.7), sizes), 0.1)]
        family += [(cell_of(np.zeros(30), sizes), 0.1)] * (ARMS - 1)
        assert judge_quality(family)[0].verdict is Verdict.REGRESSION
