"""The position table: what a step's buffer becomes."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.engines.vllm.positions import PositionTable
from harness.engines.vllm.wire import POSITIONS_KEY, encode_positions


def extra(positions: list[int], resume: int) -> dict[str, object]:
    """``extra_args`` of a sparse request."""
    return {POSITIONS_KEY: encode_positions(positions, resume)}


@settings(deadline=None)
@given(st.data())
def test_any_chunking_places_every_token_once(data):
    """However prefill is cut and decode goes on, token i stands where it should."""
    positions = sorted(data.draw(st.sets(st.integers(0, 200), min_size=1, max_size=40)))
    resume = positions[-1] + data.draw(st.integers(1, 9))
    decoded = 5
    wanted = [*positions, *range(resume, resume + decoded)]
    table = PositionTable()
    table.learn("a", extra(positions, resume), len(positions), "cpu")
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
    table.learn("a", extra([0, 5], 9), 2, "cpu")
    table.edit(torch.arange(2), ["a"], [0], {"a": 2})
    table.forget(["a", "unknown"])
    untouched = torch.arange(2)
    table.edit(untouched, ["a"], [0], {"a": 2})
    assert untouched.tolist() == [0, 1]
    assert table.take_steps(["a"]) == {"a": 1}
    assert table.take_steps(["a"]) == {"a": 0}


def test_dropped_tokens_widen_the_prompts_that_are_penalized():
    """A row a request in the batch's order; what is no id of the vocabulary becomes padding."""
    table = PositionTable()
    one = {POSITIONS_KEY: encode_positions([0, 5], 9, {3, 4, 700})}
    table.learn("a", one, 2, "cpu")
    table.learn("b", extra([0], 3), 1, "cpu")
    prompts = torch.tensor([[1, 500], [1, 2], [8, 9]])
    widened = table.widen(prompts, ["b", "a", "x"], 500)
    assert widened.tolist() == [
        [1, 500, 500, 500, 500],
        [1, 2, 3, 4, 500],
        [8, 9, 500, 500, 500],
    ]
    table.forget(["a"])
    assert table.widen(prompts, ["b", "x", "y"], 500) is prompts


@pytest.mark.parametrize("entry", [{"pos": "!", "len": 9}, 7, {"len": 9}])
def test_what_cannot_be_read_is_left_alone(entry, caplog):
    """A worker that meets a faulty entry logs one line and prefills the request as it stands."""
    table = PositionTable()
    table.learn("a", {POSITIONS_KEY: entry}, 2, "cpu")
    untouched = torch.arange(2)
    table.edit(untouched, ["a"], [0], {"a": 2})
    assert untouched.tolist() == [0, 1]
    assert table.take_steps(["a"]) == {"a": 0}
    (line,) = caplog.messages
    assert "request a" in line
