"""Selection: exact counts, exact order, limits, and no order made up from nothing."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from harness.engines.scorer import Scores
from harness.methods.specprefill.config import SelectionConfig, SpecPrefillConfig
from harness.methods.specprefill.selection import (
    boosted,
    forced_chunks,
    keep_count,
    merged_importance,
    normalize,
    select,
)
from harness.schema.receipts import Status

NONE = {"first": 0, "last": 0}


def config(**options):
    """Return a selection configuration that forces nothing unless told to."""
    return SelectionConfig(**{"always_keep": NONE, **options})


def f32(*values):
    """Return float32 scores."""
    return np.array(values, dtype=np.float32)


def per_chunk(scores, chunk=4):
    """Token scores that are constant within chunks."""
    return np.repeat(f32(*scores), chunk)


@pytest.mark.parametrize(
    ("chunks", "keep", "count"),
    [(100, 0.07, 7), (100, 0.29, 29), (64, 0.3, 20), (128, 0.1, 13), (1, 0.001, 1), (10, 1.0, 10)],
)
def test_count_is_exact_decimal(chunks, keep, count):
    """ceil(100 × 0.07) is 7 although 100 × 0.07 is 7.000000000000001 in floating point."""
    assert keep_count(chunks, keep) == count


def test_floating_point_would_be_wrong():
    """The pinned case can fail: the plain expression gives 8."""
    assert ceil(100 * 0.07) == 8


@pytest.mark.parametrize(("length", "keep", "tokens"), [(2048, 0.3, 640), (2048, 0.1, 224)])
def test_tokens_kept_of_a_known_prompt(length, keep, tokens):
    """2,048 tokens at 0.3 are 20 of 64 chunks, 640 tokens (224 would be the default 0.1)."""
    scores = np.random.default_rng(0).random(length).astype(np.float32)
    got = select(scores, config(keep=keep))
    assert len(got.kept) == tokens
    assert got.achieved == tokens / length


def test_highest_chunks_in_prompt_order():
    """Chunks are ranked by mean score and kept in prompt order."""
    got = select(per_chunk([1, 5, 2, 4, 3]), config(chunk=4, keep=0.4))
    assert got.kept == (4, 5, 6, 7, 12, 13, 14, 15)
    assert got.status == Status.ACTIVE


def test_ties_go_to_the_earlier_chunk():
    """Equal scores are ordered by index, for either order."""
    assert select(per_chunk([2, 2, 2, 2]), config(chunk=4, keep=0.5)).kept == tuple(range(8))
    lowest = config(chunk=4, keep=0.5, order="lowest")
    assert select(per_chunk([2, 2, 2, 2]), lowest).kept == tuple(range(8))


def test_lowest_order_is_the_ablation():
    """``order: lowest`` keeps the least important chunks."""
    got = select(per_chunk([1, 5, 2, 4]), config(chunk=4, keep=0.5, order="lowest"))
    assert got.kept == (0, 1, 2, 3, 8, 9, 10, 11)


def test_short_last_chunk_counts_as_one():
    """Its score is the mean of the tokens it has, and it takes one place in the budget."""
    scores = np.concatenate([per_chunk([1, 2]), f32(3)])
    got = select(scores, config(chunk=4, keep=0.3))
    assert got.details["chunks"] == 3
    assert got.kept == (8,)


def test_chunk_one_is_per_token():
    """``chunk: 1`` selects tokens."""
    got = select(f32(0.1, 0.9, 0.2, 0.8, 0.3), config(chunk=1, keep=0.4))
    assert got.kept == (1, 3)


@pytest.mark.parametrize(
    ("length", "chunk", "ends", "expected"),
    [
        (10, 4, {"first": 1, "last": 1}, [0, 2]),
        (12, 4, {"first": 0, "last": 1}, [2]),
        (12, 4, {"first": 4, "last": 4}, [0, 2]),
        (12, 4, {"first": 5, "last": 5}, [0, 1, 2]),
        (10, 4, {"first": 0, "last": 3}, [1, 2]),
        (3, 4, {"first": 9, "last": 9}, [0]),
        (12, 4, NONE, []),
    ],
)
def test_always_kept_ends_are_whole_chunks(length, chunk, ends, expected):
    """First and last tokens are rounded to the chunks that hold them."""
    got = forced_chunks(length, chunk, config(always_keep=ends).always_keep)
    assert got.tolist() == expected


def test_default_forces_the_last_chunk_within_the_budget():
    """By default the chunk of the prompt's last token is kept, and counted."""
    scores = per_chunk([9, 8, 7, 0.1])
    got = select(scores, SelectionConfig(chunk=4, keep=0.5))
    assert got.kept == (0, 1, 2, 3, 12, 13, 14, 15)


def test_forced_chunks_beyond_the_budget_are_kept_and_told():
    """If the ends exceed the budget all of them stay, and the facts say so."""
    scores = per_chunk([1, 2, 3, 4])
    got = select(scores, config(chunk=4, keep=0.25, always_keep={"first": 8, "last": 4}))
    assert got.kept == (0, 1, 2, 3, 4, 5, 6, 7, 12, 13, 14, 15)
    assert got.details["always_keep_exceeds_budget"] is True


def test_mass_keeps_until_the_sum_is_reached():
    """Chunks are kept until their token scores *sum* to the mass, not their means."""
    scores = per_chunk([8, 4, 3, 1])  # of 16
    assert len(select(scores, config(chunk=4, select="mass", mass=0.5)).kept) == 4
    assert len(select(scores, config(chunk=4, select="mass", mass=0.51)).kept) == 8
    assert len(select(scores, config(chunk=4, select="mass", mass=0.9375)).kept) == 12
    assert len(select(scores, config(chunk=4, select="mass", mass=1.0)).kept) == 16
    short = np.concatenate([per_chunk([0.5, 0.3]), f32(0.9)])  # sums 2.0, 1.2, 0.9 of 4.1
    got = select(short, config(chunk=4, select="mass", mass=0.7))
    assert got.kept == (0, 1, 2, 3, 8)


def test_mass_counts_boosts():
    """The total is taken after boosts."""
    scores = per_chunk([1, 1, 1, 1])
    boost = {"first": {"tokens": 4, "factor": 5.0}}
    got = select(scores, config(chunk=4, select="mass", mass=0.6, boost=boost))
    assert got.kept == (0, 1, 2, 3)  # 5 of 8


@pytest.mark.parametrize("how", ["rate", "mass"])
def test_max_keep_drops_the_lowest_scores(how):
    """The cap keeps the best chunks whole; it does not thin every n-th token."""
    scores = per_chunk([1, 5, 2, 4, 3])
    got = select(scores, config(chunk=4, select=how, keep=0.8, mass=0.99, max_keep=11))
    assert got.kept == (4, 5, 6, 7, 12, 13, 14, 15)
    assert got.details["max_keep_applied"] is True


@pytest.mark.parametrize("how", ["rate", "mass"])
def test_min_keep_adds_the_next_best(how):
    """The floor goes on down the same order."""
    scores = per_chunk([1, 5, 2, 4, 3])
    got = select(scores, config(chunk=4, select=how, keep=0.2, mass=0.1, min_keep=9))
    assert got.kept == (4, 5, 6, 7, 12, 13, 14, 15, 16, 17, 18, 19)
    assert got.details["min_keep_applied"] is True


def test_a_cap_below_one_chunk_keeps_one():
    """There must be something to prefill."""
    got = select(per_chunk([1, 2]), config(chunk=4, keep=0.5, max_keep=1))
    assert got.kept == (4, 5, 6, 7)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("how", ["rate", "mass"])
def test_non_finite_scores_fail_to_full_prefill(bad, how):
    """One bad score is a failure that keeps everything and says why."""
    scores = per_chunk([1, 2, 3])
    scores[5] = bad
    got = select(scores, config(chunk=4, select=how))
    assert got.status == Status.FAILED
    assert len(got.kept) == 12
    assert "1 of 12" in (got.reason or "")


@pytest.mark.parametrize("how", ["rate", "mass"])
def test_zero_scores_fail_to_full_prefill(how):
    """All-zero scores give no order: nothing is made up."""
    got = select(np.zeros(12, dtype=np.float32), config(chunk=4, select=how))
    assert got.status == Status.FAILED
    assert got.kept == tuple(range(12))


def test_empty_prompt_has_no_achieved_rate():
    """Missing is None, never 0."""
    got = select(np.zeros(0, dtype=np.float32), config())
    assert got.achieved is None


def test_normalizations():
    """Each normalization by hand."""
    x = f32(1, 3, 3, 5)
    assert normalize(x, "none").tolist() == [1, 3, 3, 5]
    assert normalize(x, "minmax").tolist() == [0, 0.5, 0.5, 1]
    assert normalize(x, "percentile").tolist() == [0.25, 0.625, 0.625, 1]
    np.testing.assert_allclose(normalize(x, "zscore"), [-(2**0.5), 0, 0, 2**0.5])
    assert normalize(f32(2, 2), "minmax").tolist() == [0, 0]
    assert normalize(f32(2, 2), "zscore").tolist() == [0, 0]


def test_boosts_overlap_on_a_short_prompt():
    """A token at both ends gets both factors."""
    boost = SpecPrefillConfig(
        boost={"first": {"tokens": 2, "factor": 2.0}, "last": {"tokens": 2, "factor": 3.0}}
    ).boost
    assert boosted(np.ones(3), boost).tolist() == [2, 6, 3]


@pytest.mark.parametrize(
    "options",
    [
        {"keep": 0},
        {"keep": 1.01},
        {"keep": float("nan")},
        {"chunk": 0},
        {"chunk_sise": 32},
        {"min_keep": 5, "max_keep": 4},
        {"normalize_scores": "zscore", "select": "mass"},
        {"normalize_scores": "zscore", "boost": {"first": {"tokens": 1, "factor": 2.0}}},
        {"pool_kernel": 4},
        {"look_ahead": 0},
    ],
)
def test_impossible_options_are_refused(options):
    """Options outside their range, unknown, or against each other do not pass silently."""
    with pytest.raises(ValidationError):
        SpecPrefillConfig(**options)


def scores_of(rows, windows):
    """Scores with given rows."""
    return Scores("x", np.array(rows, dtype=np.float32), (), windows)


def test_merged_windows_are_minmaxed_once():
    """window_end and the minmax merge scale merged scores to [0, 1]; a single window is left."""
    rows = [[1, 2, 3], [1, 4, 9]]
    for options in ({"merge": "minmax"}, {"window_query": "window_end"}):
        scoring = SpecPrefillConfig(look_ahead=2, **options)
        assert merged_importance(scores_of(rows, 3), scoring).tolist() == [0, 0.4000000059604645, 1]
        assert merged_importance(scores_of(rows, 1), scoring).tolist() == [1, 3, 6]
    plain = SpecPrefillConfig(look_ahead=1)
    assert merged_importance(scores_of(rows, 3), plain).tolist() == [1, 2, 3]


@given(
    seed=st.integers(0, 10**6),
    length=st.integers(1, 400),
    chunk=st.integers(1, 50),
    keep=st.integers(1, 1000).map(lambda n: n / 1000),
    first=st.integers(0, 60),
    last=st.integers(0, 60),
)
def test_rate_selection_properties(*, seed, length, chunk, keep, first, last):
    """Sorted and unique, exactly the budget or the forced chunks, and no better chunk dropped."""
    scores = np.random.default_rng(seed).random(length).astype(np.float32) + 0.01
    cfg = config(chunk=chunk, keep=keep, always_keep={"first": first, "last": last})
    got = select(scores, cfg)
    count = ceil(length / chunk)
    budget = ceil(Fraction(str(keep)) * count)
    forced = set(forced_chunks(length, chunk, cfg.always_keep).tolist())
    chunks = sorted({i // chunk for i in got.kept})
    assert list(got.kept) == [
        i for c in chunks for i in range(c * chunk, min(length, (c + 1) * chunk))
    ]
    assert len(chunks) == max(budget, len(forced))
    assert forced <= set(chunks)
    means = [scores[c * chunk : (c + 1) * chunk].astype(float).mean() for c in range(count)]
    free = [means[c] for c in chunks if c not in forced]
    dropped = [means[c] for c in range(count) if c not in chunks]
    assert not free or not dropped or min(free) >= max(dropped)
    assert (got.status == Status.KEPT_ALL) == (len(got.kept) == length)


@given(seed=st.integers(0, 10**6), length=st.integers(1, 300), mass=st.floats(0.01, 1))
def test_mass_selection_properties(seed, length, mass):
    """The kept scores reach the mass, and without the weakest kept chunk they would not."""
    scores = np.random.default_rng(seed).random(length).astype(np.float32) + 0.01
    got = select(scores, config(chunk=8, select="mass", mass=mass))
    values = scores.astype(float)
    kept, total = values[list(got.kept)].sum(), values.sum()
    assert kept >= mass * total * (1 - 1e-9)
    chunks = sorted({i // 8 for i in got.kept})
    weakest = min(chunks, key=lambda c: values[c * 8 : c * 8 + 8].mean())
    without = kept - values[weakest * 8 : weakest * 8 + 8].sum()
    assert without < mass * total * (1 + 1e-9)


@given(length=st.integers(1, 300), chunk=st.integers(1, 40))
def test_keep_one_keeps_everything(length, chunk):
    """Rate 1 runs through the same code and keeps every token."""
    got = select(np.linspace(0.1, 1, length, dtype=np.float32), config(chunk=chunk, keep=1))
    assert got.kept == tuple(range(length))
    assert got.status == Status.KEPT_ALL


def test_template_tokens_are_kept_where_asked():
    """Their chunks stay whatever their scores, within the budget; unasked they are like others."""
    scores = np.arange(1, 101, dtype=np.float32)
    plain = select(scores, config(chunk=10, keep=0.3), (0, 44))
    assert plain.kept == tuple(range(70, 100))
    ends = {"first": 0, "last": 1, "template": True}
    kept = select(scores, config(chunk=10, keep=0.3, always_keep=ends), (0, 44)).kept
    assert kept == (*range(10), *range(40, 50), *range(90, 100))
