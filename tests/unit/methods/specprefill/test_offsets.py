"""Scores cross tokenizers by characters."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.methods.specprefill.offsets import (
    character_scores,
    map_scores,
    token_scores,
    uncovered_character,
)


def f32(*values):
    """Return float32 scores."""
    return np.array(values, dtype=np.float32)


def test_character_takes_the_maximum_of_its_tokens():
    """Byte pieces share a character."""
    got = character_scores(3, [(0, 1), (1, 2), (1, 2), (2, 3)], f32(1, 2, 5, 3))
    assert got.tolist() == [1, 5, 3]


def test_uncovered_characters_take_the_next_then_the_previous():
    """A dropped space goes with the word after it; trailing ones with the word before."""
    got = character_scores(7, [(1, 3), (4, 6)], f32(1, 2))
    assert got.tolist() == [1, 1, 1, 2, 2, 2, 2]


def test_nothing_covered():
    """Without any covered character there is no score."""
    assert character_scores(3, [(0, 0)], f32(1)).tolist() == [0, 0, 0]


def test_a_non_finite_score_is_not_hidden():
    """NaN from the speculator reaches the selection, which fails on it."""
    assert np.isnan(character_scores(2, [(0, 1), (1, 2)], f32(np.nan, 1))[0])


def test_token_takes_the_mean_of_its_characters():
    """A zero-width token copies the token before it."""
    got = token_scores([(0, 0), (0, 2), (2, 2), (2, 4)], f32(1, 3, 5, 6))
    assert got.tolist() == [0, 2, 2, 5.5]


@pytest.mark.parametrize(
    ("text", "offsets", "gap"),
    [
        ("ab cd", [(0, 2), (3, 5)], None),
        ("ab cd", [(0, 2), (3, 4)], 4),
        ("ab", [], 0),
        ("  ", [], None),
    ],
)
def test_uncovered_character(text, offsets, gap):
    """Only spaces may stay uncovered."""
    assert uncovered_character(text, offsets) == gap


@st.composite
def segmentations(draw):
    """A text length with two ways to cut it into tokens, and scores for the first."""
    length = draw(st.integers(1, 60))
    cuts = [sorted(draw(st.sets(st.integers(1, max(1, length - 1))))) for _ in range(2)]
    spans = [[(a, b) for a, b in zip([0, *c], [*c, length], strict=True) if b > a] for c in cuts]
    scores = draw(
        st.lists(st.floats(0, 1, width=32), min_size=len(spans[0]), max_size=len(spans[0]))
    )
    return length, *spans, f32(*scores)


@given(segmentations())
def test_mapping_properties(case):
    """The same cut is the identity; another stays inside the scores' range."""
    length, first, second, scores = case
    text = "x" * length
    np.testing.assert_allclose(map_scores(text, scores, first, first), scores, rtol=1e-6)
    mapped = map_scores(text, scores, first, second)
    assert mapped.min() >= scores.min() - 1e-6
    assert mapped.max() <= scores.max() + 1e-6
    weights = np.array([b - a for a, b in second])
    sizes = np.array([b - a for a, b in first])
    np.testing.assert_allclose((mapped * weights).sum(), (scores * sizes).sum(), rtol=1e-4)
