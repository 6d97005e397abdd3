"""What travels to the workers: read back as sent, and refused in one line when it is not ours."""

from __future__ import annotations

import base64

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.engines.scorer import ScoringConfig
from harness.engines.vllm.wire import (
    POSITIONS_KEY,
    ROWS_KEY,
    Rows,
    WindowPart,
    check_request,
    decode_positions,
    decode_rows,
    encode_positions,
    own_keys,
    without_own_keys,
)
from harness.errors import ConfigError

LIMIT = 4096
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
POSITIONS = st.lists(st.integers(0, LIMIT - 1), min_size=1, max_size=60, unique=True).map(sorted)


def refused(extra: object, tokens: int) -> str:
    """The one line that a request with this ``extra_args`` is refused with."""
    with pytest.raises(ConfigError) as caught:
        check_request(extra, tokens, LIMIT)  # type: ignore[arg-type]
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith("leave it out")
    return message


@settings(deadline=None)
@given(POSITIONS, st.integers(1, 10), st.sets(st.integers(0, 2**31 - 1)))
def test_positions_round_trip(positions, more, dropped):
    """What a worker reads is what the engine sent."""
    resume = positions[-1] + more
    entry = encode_positions(positions, resume, dropped)
    found = decode_positions({POSITIONS_KEY: entry}, len(positions))
    assert found is not None
    assert np.array_equal(found.values, positions)
    assert found.dropped.tolist() == sorted(dropped)
    assert found.resume == resume


@settings(deadline=None)
@given(ANYTHING, st.integers(0, 9))
def test_any_entry_is_read_or_refused(entry, tokens):
    """Whatever stands under our names, admission ends in None, the thing itself, or one line."""
    for key, decode in ((POSITIONS_KEY, decode_positions), (ROWS_KEY, decode_rows)):
        try:
            found = decode({key: entry}, tokens, LIMIT)
        except ConfigError:
            continue
        assert (found is None) == (entry is None)


@settings(deadline=None)
@given(st.binary(max_size=40), st.integers(), st.integers(0, 9))
def test_any_bytes_are_positions_in_order_or_refused(raw, resume, tokens):
    """Positions that come through are as many as the tokens, increasing, and in the prompt."""
    entry = {"pos": base64.b64encode(raw).decode(), "len": resume}
    try:
        found = decode_positions({POSITIONS_KEY: entry}, tokens, LIMIT)
    except ConfigError:
        return
    assert found is not None
    assert len(found.values) == tokens > 0
    assert (np.diff(found.values) > 0).all()
    assert 0 <= found.values[0] <= found.values[-1] < found.resume <= LIMIT


@settings(deadline=None)
@given(POSITIONS, st.data())
def test_every_fault_in_positions_is_named(positions, data):
    """One more token, two places exchanged, one before the prompt, one after it."""
    resume = positions[-1] + 1
    good = encode_positions(positions, resume)
    count = len(positions)
    assert "positions for" in refused({POSITIONS_KEY: good}, count + 1)
    outside = encode_positions(positions, positions[-1])
    assert "outside" in refused({POSITIONS_KEY: outside}, count)
    before = encode_positions([-1, *positions], resume)
    assert "outside" in refused({POSITIONS_KEY: before}, count + 1)
    twice = sorted([*positions, data.draw(st.sampled_from(positions))])
    again = encode_positions(twice, resume)
    assert "increasing" in refused({POSITIONS_KEY: again}, count + 1)
    assert "exceed" in refused({POSITIONS_KEY: {**good, "len": LIMIT + 1}}, count)


@pytest.mark.parametrize(
    "entry",
    [
        {"pos": "AAAA", "len": 4},
        {"pos": "AAAAAA=", "len": 4},
        {"pos": "naïve===", "len": 4},
        {"pos": [0], "len": 4},
        {"pos": "AAAAAA==", "len": True},
        {"pos": "AAAAAA==", "len": 4.0},
        {"pos": "AAAAAA==", "len": 4, "more": 1},
        {"pos": "AAAAAA==", "len": 4, "dropped": [7]},
        {"pos": "AAAAAA==", "len": 4, "dropped": "/////w=="},
        {"pos": "AAAAAA==", "len": 4, "dropped": "AAAAAAAAAAA="},
        {"pos": "AAAAAA=="},
        "AAAAAA==",
    ],
)
def test_no_such_thing_as_positions(entry):
    """Wrong types, missing and unknown fields, text that is no base64 or no whole numbers."""
    assert POSITIONS_KEY in refused({POSITIONS_KEY: entry}, 1)
    check_request({POSITIONS_KEY: {"pos": "AAAAAA==", "len": 4}}, 1, LIMIT)


def part(**changes: object) -> WindowPart:
    """Window 2 of a prompt of 9,000 tokens."""
    given = {"prompt": "p", "number": 2, "length": 9000, "max_positions": 4096, "has_bos": True}
    return WindowPart(**{**given, "tail_tokens": None, **changes})  # type: ignore[arg-type]


def test_rows_travel_with_their_window():
    """What the worker decodes is what the scorer encoded; others are not scored."""
    rows = Rows(4, 3, ScoringConfig(look_ahead=3).model_dump(), part())
    found = decode_rows({ROWS_KEY: rows.encode()}, 5)
    assert found == rows
    assert found.keys == 5
    assert found.config() == ScoringConfig(look_ahead=3)
    assert decode_rows({"other": 1}, 5) is None
    assert decode_rows(None, 5) is None


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"first": 5}, "5 on, in a prompt of 5"),
        ({"first": -1}, "first"),
        ({"first": True}, "first"),
        ({"first": "4"}, "first"),
        ({"first": 2, "count": 2}, "2 rows from token 2 on"),
        ({"count": 0}, "count"),
        ({"count": LIMIT}, "4096 positions"),
        ({"scoring": {"look_ahead": 0}}, "look_ahead"),
        ({"scoring": {"look": 1}}, "look"),
        ({"window": {"prompt": "p"}}, "window.number"),
        ({"window": 3}, "window"),
        ({"more": 1}, "more"),
    ],
)
def test_every_fault_in_rows_is_named(changes, names):
    """Rows outside the prompt or the model's range, and fields that are none."""
    good = Rows(4, 3, ScoringConfig(look_ahead=3).model_dump()).encode()
    check_request({ROWS_KEY: good}, 5, LIMIT)
    assert names in refused({ROWS_KEY: {**good, **changes}}, 5)


def test_a_client_s_own_keys_are_found_and_stripped():
    """A server passes on what is the client's, without the names that only we may write."""
    given = {"mine": 1, ROWS_KEY: {}, POSITIONS_KEY: None, "minference": {}}
    assert own_keys(given) == ["minference", POSITIONS_KEY, ROWS_KEY]
    assert without_own_keys(given) == {"mine": 1}
    assert own_keys(None) == []
    assert without_own_keys(None) is None
