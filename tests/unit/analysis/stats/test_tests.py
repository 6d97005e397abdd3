"""Holm, McNemar and the split of variance."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from harness.analysis.stats.holm import holm
from harness.analysis.stats.mcnemar import mcnemar
from harness.analysis.stats.variance import mean_of_repeats, split_variance


def test_holm_by_hand():
    """Holm's own steps: 3 × 0.01, 2 × 0.02, then never less than the one before."""
    assert holm([0.02, 0.01, 0.03]) == pytest.approx([0.04, 0.03, 0.04])
    assert holm([None, 0.4]) == [None, 0.4]
    assert holm([]) == []


def test_holm_is_statsmodels_holm():
    """Thirty random p-values, ties among them, are adjusted as statsmodels does."""
    values = np.random.default_rng(0).random(30).round(2).tolist()
    assert holm(values) == pytest.approx(multipletests(values, method="holm")[1].tolist())


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_holm_is_between_raw_and_bonferroni(values):
    """Adjusted p-values are never below the raw ones nor above Bonferroni's, in one order."""
    adjusted = holm(values)
    for raw, value in zip(values, adjusted, strict=True):
        assert raw - 1e-12 <= value <= min(1.0, raw * len(values)) + 1e-12
    pairs = sorted(zip(values, adjusted, strict=True))
    assert [a for _, a in pairs] == sorted(a for _, a in pairs)


def test_mcnemar_mid_p():
    """Published example (1 and 8 discordant pairs: 0.0215); no discordance is no evidence."""
    assert mcnemar(1, 8).mid_p == pytest.approx(0.0215, abs=1e-4)
    assert mcnemar(8, 1).mid_p == mcnemar(1, 8).mid_p
    assert mcnemar(0, 0).mid_p == 1
    assert mcnemar(5, 5).mid_p == pytest.approx(1)


def test_variance_is_split_into_items_and_seeds():
    """Known components (items 0.04, seeds 0.01) come back within a few per cent."""
    rng = np.random.default_rng(0)
    scores = rng.normal(0.5, 0.2, (5_000, 1)) + rng.normal(0, 0.1, (5_000, 4))
    split = split_variance(scores)
    assert split.items == pytest.approx(0.04, rel=0.08)
    assert split.seeds == pytest.approx(0.01, rel=0.08)
    assert split.deterministic is False


def test_repetitions_that_agree_are_deterministic():
    """Equal repetitions say so; a single one leaves the question open."""
    once = np.array([[1.0], [0.0], [1.0]])
    assert split_variance(np.repeat(once, 3, axis=1)).deterministic is True
    assert split_variance(once).deterministic is None
    assert split_variance(once).seeds is None
    assert mean_of_repeats(np.array([[1.0, 0.0], [1.0, 1.0]])).tolist() == [0.5, 1.0]
