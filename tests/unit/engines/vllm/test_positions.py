"""The position table: what a step's buffer becomes."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness.engines.vllm.positions import PositionTable
from harness.engines.vllm.wire import POSITIONS_KEY, decode_positions, encode_positions


def extra(positions: list[int], resume: int) -> dict[str, object]:
    """``extra_args`` of a sparse request."""
    return {POSITIONS_KEY: encode_positions(positions, resume)}


@given(st.lists(st.integers(0, 10**6), min_size=1, unique=True).map(sorted), st.integers(1, 10))
def test_wire_format_round_trips(positions, more):
    """What a worker reads is what the engine sent."""
    found = decode_positions(extra(positions, positions[-1] + more))
    assert found is not None
    assert np.array_equal(found.values, positions)
    assert found.resume == positions[-1] + more


def test_requests_without_positions_are_no_concern_of_ours():
    """Other plugins' extra_args, and none, give None."""
    assert decode_positions(None) is None
    assert decode_positions({"other": 1}) is None


@given(st.data())
def test_any_chunking_places_every_token_once(data):
    """However prefill is cut and decode goes on, token i stands where it should."""
    positions = sorted(data.draw(st.sets(st.integers(0, 200), min_size=1, max_size=40)))
    resume = positions[-1] + data.draw(st.integers(1, 9))
    decoded = 5
    wanted = [*positions, *range(resume, resume + decoded)]
    table = PositionTable()
    table.learn("a", extra(positions, resume), "cpu")
    done, steps = 0, 0
    while done < len(wanted):
        count = data.draw(st.integers(1, len(wanted) - done))
        beside = torch.tensor([7, 8])
        buffer = torch.cat([beside, torch.arange(done, done + count), beside])
        table.edit(buffer, ["x", "a", "y"], [7, done, 7], {"x": 2, "a": count, "y": 2})
        assert buffer.tolist() == [7, 8, *wanted[done : done + count], 7, 8]
        done, steps = done + count, steps + 1
    assert table.take_steps(["a"]) == {"a": steps}


def test_counters_outlive_their_request_until_taken():
    """A finished request's steps can be asked for once; its entry is gone at once."""
    table = PositionTable()
    table.learn("a", extra([0, 5], 9), "cpu")
    table.edit(torch.arange(2), ["a"], [0], {"a": 2})
    table.forget(["a", "unknown"])
    untouched = torch.arange(2)
    table.edit(untouched, ["a"], [0], {"a": 2})
    assert untouched.tolist() == [0, 1]
    assert table.take_steps(["a"]) == {"a": 1}
    assert table.take_steps(["a"]) == {"a": 0}
