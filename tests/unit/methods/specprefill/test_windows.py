"""Window plans: every token scored once, inside the range, and without the published faults."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from harness.engines.scorer import ScoringConfig
from harness.errors import ConfigError
from harness.methods.specprefill.windows import (
    Window,
    WindowPlan,
    guide_window,
    plan_windows,
    tail_length,
)
from harness.schema.prompts import Span


def config(**options):
    """Scoring configuration with short names."""
    return ScoringConfig(**options)


def contributions(plan):
    """Contributed spans window by window."""
    return [tuple(tuple(s) for s in w.contributes) for w in plan.windows]


def test_a_prompt_that_fits_is_one_window():
    """With room for the look-ahead too, nothing is cut."""
    plan = plan_windows(93, 100, config(look_ahead=8), has_bos=True)
    assert plan.windows == (Window((Span(0, 93),), (Span(0, 93),)),)


def test_look_ahead_needs_positions_too():
    """A prompt as long as the range leaves no position for look-ahead: it is cut."""
    assert len(plan_windows(94, 100, config(look_ahead=8), has_bos=True).windows) > 1
    assert len(plan_windows(100, 100, config(look_ahead=1), has_bos=True).windows) == 1


def test_prompt_tail_by_hand():
    """W = 100, |T| = 20, N = 8: B = 100 − 1 − 20 − 7 = 72, S = 36."""
    plan = plan_windows(200, 100, config(look_ahead=8), has_bos=True, tail_tokens=20)
    tail = (180, 200)
    assert [tuple(tuple(s) for s in w.spans) for w in plan.windows] == [
        ((0, 1), (1, 73), tail),
        ((0, 1), (37, 109), tail),
        ((0, 1), (73, 145), tail),
        ((0, 1), (109, 180), tail),
    ]
    assert contributions(plan) == [
        ((1, 73),),
        ((73, 109),),
        ((109, 145),),
        ((0, 1), (145, 180), tail),
    ]
    assert plan.anchor == (Span(0, 1), Span(*tail))


@pytest.mark.parametrize(
    ("known", "width", "expected"),
    [(20, 100, 20), (26, 100, 25), (None, 100, 25), (None, 4096, 128), (0, 4096, 128)],
)
def test_tail_length(known, width, expected):
    """The last segment up to W/4, else min(128, W/4)."""
    assert tail_length(10_000, width, known) == expected


def test_guide_example():
    """The guide's worked example: 4,471 tokens, W = 2000, S = 1000, four windows."""
    plan = plan_windows(
        4471, 8192, config(window=2000, window_query="window_end", look_ahead=3), has_bos=True
    )
    assert [tuple(w.spans[0]) for w in plan.windows] == [
        (0, 2000),
        (1000, 3000),
        (2000, 4000),
        (3000, 4471),
    ]
    assert contributions(plan) == [
        ((0, 1000),),
        ((1000, 2000),),
        ((2000, 3000),),
        ((3000, 4471),),
    ]


def test_guide_window_is_computed():
    """500 MiB over 32 bytes a key of at most 8,192 positions, 512 tokens at least, 128 left."""
    assert [guide_window(n) for n in (32768, 8192, 4096, 2048, 1024, 600)] == [
        *(2000, 2000, 3584, 1536, 512, 472)
    ]
    auto = config(window="auto", window_query="window_end", look_ahead=3)
    assert plan_windows(4471, 8192, auto, has_bos=True) == plan_windows(
        4471, 8192, config(window=2000, window_query="window_end", look_ahead=3), has_bos=True
    )
    for limit in (1024, 2001):  # ranges in which a window of 2,000 is refused
        assert plan_windows(1500, limit, auto, has_bos=True).windows


def test_guide_fault_empty_middle_windows():
    """No window contributes an empty range (public fault: middle windows scored nothing)."""
    plan = plan_windows(9000, 8192, config(window=2000, window_query="window_end"), has_bos=False)
    assert len(plan.windows) == 8
    assert all(len(range(*s)) > 0 for w in plan.windows for s in w.contributes)


def test_guide_fault_redundant_last_window():
    """A window that reaches the end is the last (public fault: one more was run)."""
    plan = plan_windows(4000, 8192, config(window=2000, window_query="window_end"), has_bos=False)
    assert [tuple(w.spans[0]) for w in plan.windows] == [(0, 2000), (1000, 3000), (2000, 4000)]
    tail = plan_windows(190, 100, config(look_ahead=8), has_bos=True, tail_tokens=20)
    ends = [w.spans[1].stop for w in tail.windows]
    assert ends.count(170) == 1


@given(
    length=st.integers(1, 3000),
    width=st.integers(8, 400),
    look_ahead=st.integers(1, 20),
    tail=st.none() | st.integers(1, 300),
    bos=st.booleans(),
    query=st.sampled_from(["prompt_tail", "window_end"]),
)
def test_every_token_is_scored_once_inside_the_range(
    *, length, width, look_ahead, tail, bos, query
):
    """Coverage, the range with look-ahead, the shared tail, and left-to-right contributions."""
    scoring = config(look_ahead=look_ahead, window_query=query)
    try:
        plan = plan_windows(length, width, scoring, has_bos=bos, tail_tokens=tail)
    except ConfigError:
        assume(False)
    counts = [0] * length
    for window in plan.windows:
        assert len(window) + look_ahead - 1 <= width
        tokens = window.tokens(range(length))
        assert tokens == sorted(set(tokens))
        for span in window.contributes:
            assert tokens[window.local(span)] == list(range(*span))
            for index in range(*span):
                counts[index] += 1
    assert counts == [1] * length
    if query == "prompt_tail":
        assert all(w.tokens(range(length))[-1] == length - 1 for w in plan.windows)
    if len(plan.windows) > 1:
        reached = [w for w in plan.windows if w.tokens(range(length))[-1] == length - 1]
        assert query == "prompt_tail" or reached == [plan.windows[-1]]
        for span in plan.anchor:
            assert all(w.local(span) for w in plan.windows)


def test_a_gap_or_overlap_is_caught():
    """A plan that misses or doubles a token cannot be made."""
    one, two = Window((Span(0, 5),), (Span(0, 4),)), Window((Span(4, 9),), (Span(5, 9),))
    with pytest.raises(AssertionError, match="not once"):
        WindowPlan(9, (one, two))
    with pytest.raises(AssertionError, match="not once"):
        WindowPlan(9, (Window((Span(0, 6),), (Span(0, 6),)), two))
    with pytest.raises(AssertionError, match="8 of 9"):
        WindowPlan(9, (Window((Span(0, 8),), (Span(0, 8),)),))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": 200}, "beyond the speculator's range of 100"),
        ({"window": 100, "window_query": "window_end"}, "exceed the speculator's range"),
        ({"look_ahead": 80}, "too short"),
        ({"window": 1, "window_query": "window_end", "look_ahead": 1}, "at least 2"),
    ],
)
def test_impossible_windows_are_one_clear_line(options, message):
    """A window that cannot work names the option to change."""
    with pytest.raises(ConfigError, match=message):
        plan_windows(500, 100, config(**options), has_bos=True)
