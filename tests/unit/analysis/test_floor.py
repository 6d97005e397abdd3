"""The floor rule: by the interval's upper end, by metric, never on a handful of examples."""

import numpy as np
import pytest

from harness.analysis.floor import MIN_EXAMPLES, is_floor


def floor(scores, metric="string_match_all"):
    """The rule for independent examples."""
    return is_floor(np.asarray(scores, float), [str(i) for i in range(len(scores))], metric)


@pytest.mark.parametrize("n", range(1, MIN_EXAMPLES + 1))
def test_a_handful_of_zeros_is_no_floor(n):
    """Nothing right in up to ten examples excludes neither 0.2 nor luck."""
    assert not floor(np.zeros(n))


def test_twenty_zeros_are_a_floor_and_a_fifth_right_is_not():
    """The upper end decides: 0 of 20 (0.16) is near chance, 3 of 20 (mean 0.15) is not shown."""
    assert floor(np.zeros(20))
    assert not floor([1.0] * 3 + [0.0] * 17)


def test_the_rule_knows_the_metric():
    """A ROUGE-L of 0.15 is an ordinary summary; the same share of right answers is a floor."""
    graded = np.full(200, 0.15) + np.tile([0.02, -0.02], 100)
    assert not floor(graded, "rouge_l")
    assert floor(graded, "string_match_part")
    assert floor([1.0] * 80 + [0.0] * 320, "choice")  # 0.20 of four letters: not above a guess
    assert not floor([1.0] * 160 + [0.0] * 240, "choice")


def test_missing_scores_show_nothing():
    """A NaN, or no example at all, is no evidence against the model."""
    assert not floor([0.0] * 30 + [np.nan])
    assert not floor([])


def test_the_rule_hardly_selects_on_luck():
    """At no true effect and a rate of 0.35, one task in a thousand is called floor by chance."""
    rng = np.random.default_rng(3)
    called = [floor((rng.random(12) < 0.35).astype(float)) for _ in range(1_000)]
    assert np.mean(called) <= 0.01
