"""What a comparison is called, by its interval, its p and the margin."""

import numpy as np
import pytest

from harness.analysis.stats.estimate import missing
from harness.analysis.stats.jackknife import paired_difference
from harness.analysis.verdict import between_rivals, needed_for, verdict_of


def measured(gained, lost, n):
    """Estimate, p and needed of n independent pairs with that many changes."""
    d = np.array([1.0] * gained + [-1.0] * lost + [0.0] * (n - gained - lost))
    names = [str(i) for i in range(n)]
    found = paired_difference(d, names)
    return found, found.fit.p_two_sided(), needed_for(found, d, names)


@pytest.mark.parametrize(
    ("gained", "lost", "n", "kind"),
    [
        (20, 2, 60, "improved"),
        (2, 20, 60, "worse"),
        (0, 0, 200, "non_inferior"),
        (0, 8, 600, "non_inferior"),
        (0, 1, 20, "undecided"),
    ],
)
def test_every_kind_is_reached(gained, lost, n, kind):
    """Each verdict follows from the interval; only an undecided one says what would tell."""
    found = verdict_of(*measured(gained, lost, n))
    assert found.kind == kind
    assert (found.needed is not None) == (kind == "undecided")
    if found.needed is not None:
        assert found.needed > n
        assert f"about {found.needed} examples" in found.detail


def test_a_small_loss_within_the_margin_is_named():
    """Non-inferior is not equal: a shown loss inside the margin is said."""
    assert "a small loss is shown" in verdict_of(*measured(0, 9, 600)).detail


def test_a_gain_that_many_tests_explain_is_not_called_improved():
    """With p above 0.05 after Holm an interval above 0 is no shown gain."""
    estimate, p, needed = measured(12, 2, 60)
    assert verdict_of(estimate, p, needed).kind == "improved"
    assert verdict_of(estimate, 0.3, needed).kind == "non_inferior"


def test_no_interval_is_undecided_with_its_reason():
    """Too few clusters decide nothing, and the reason is the row's."""
    found = verdict_of(missing("3 independent clusters; an interval needs 5"), None, None)
    assert (found.kind, found.needed) == ("undecided", None)
    assert "needs 5" in found.detail


def test_rivals_are_better_worse_equivalent_or_undecided():
    """Equivalence needs both ends inside the margin; a difference needs p after Holm."""
    assert between_rivals(*measured(20, 2, 60)).kind == "better"
    assert between_rivals(*measured(2, 20, 60)).kind == "worse"
    assert between_rivals(*measured(0, 0, 200)).kind == "equivalent"
    assert between_rivals(*measured(2, 0, 20)).kind == "undecided"
