"""Which queries are kept, step by step, without an engine."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from hypothesis import given
from hypothesis import strategies as st

from harness.engines.scorer import ScoringConfig
from harness.engines.vllm.wire import ROWS_KEY, Rows, WindowPart, decode_rows
from harness.methods.specprefill.vllm.capture import Capture

HEADS, WIDTH = 2, 4


def make_layer():
    """What Capture reads of a vLLM attention layer, and an impl that returns its arguments."""
    return SimpleNamespace(
        num_heads=HEADS,
        head_size=WIDTH,
        dtype=torch.float32,
        kv_cache=torch.zeros(1),
        impl=SimpleNamespace(forward=lambda layer, query, *rest: ("ran", query, rest)),
    )


def queries(first: int, count: int) -> torch.Tensor:
    """Query rows that carry their token index."""
    return torch.arange(first, first + count).float()[:, None, None].expand(count, HEADS, WIDTH)


def wants(first: int, count: int):
    """``extra_args`` of a scored request."""
    return {ROWS_KEY: Rows(first, count, ScoringConfig().model_dump()).encode()}


def test_rows_travel_with_their_window():
    """What the worker decodes is what the scorer encoded; others are not scored."""
    part = WindowPart("prompt", 2, 9000, 4096, True, None)
    rows = Rows(4, 3, ScoringConfig(look_ahead=3).model_dump(), part)
    found = decode_rows({ROWS_KEY: rows.encode()})
    assert found == rows
    assert found.keys == 5
    assert found.config() == ScoringConfig(look_ahead=3)
    assert decode_rows({"other": 1}) is None


@given(st.data())
def test_any_chunking_keeps_exactly_the_rows(data):
    """Prefill in any pieces beside another request: row i is the query of token first + i."""
    length = data.draw(st.integers(1, 12))
    count = data.draw(st.integers(1, 5))
    layers = [make_layer(), make_layer()]
    capture = Capture(layers)
    capture.learn("a", wants(length - 1, count))
    done = 0
    while done < length + count - 1:
        step = data.draw(st.integers(1, length + count - 1 - done))
        capture.plan(["x", "a"], [50, done], {"x": 2, "a": step})
        query = torch.cat([queries(900, 2), queries(done, step)])
        for layer in layers:
            assert layer.impl.forward(layer, query, "key")[0] == "ran"
        done += step
    request = capture._requests["a"]
    wanted = queries(length - 1, count)
    assert all(torch.equal(kept, wanted) for kept in request.queries)
    assert (request.filled, request.captured) == (count, count)


def test_rows_computed_again_after_a_preemption_replace_themselves():
    """The first pass's rows are overwritten; the counter shows the repeat."""
    layer = make_layer()
    capture = Capture([layer])
    capture.learn("a", wants(2, 2))
    for done, step in ((0, 3), (3, 1), (0, 4)):
        capture.plan(["a"], [done], {"a": step})
        layer.impl.forward(layer, queries(done, step), "key")
    request = capture._requests["a"]
    assert torch.equal(request.queries[0], queries(2, 2))
    assert (request.filled, request.captured) == (2, 4)


def test_an_ended_request_has_only_the_rows_that_ran():
    """An EOS ends decoding early: fewer rows are filled than were asked for."""
    layer = make_layer()
    capture = Capture([layer])
    capture.learn("a", wants(2, 8))
    for done, step in ((0, 3), (3, 1)):
        capture.plan(["a"], [done], {"a": step})
        layer.impl.forward(layer, queries(done, step), "key")
    assert capture._requests["a"].filled == 2


def test_requests_that_ask_for_nothing_cost_nothing():
    """A plain prefill beside a scored one plans no copy."""
    capture = Capture([make_layer()])
    capture.learn("plain", None)
    capture.plan(["plain"], [0], {"plain": 9})
    assert capture._copies == []
    assert capture.take(["plain"]) == {}
