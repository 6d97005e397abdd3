"""Which queries are kept, step by step, without an engine."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.engines.scorer import ScoringConfig
from harness.engines.vllm.wire import ROWS_KEY, Rows, WindowPart
from harness.methods.specprefill.vllm.capture import Capture, CaptureMixin

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


@settings(deadline=None)
@given(st.data())
def test_any_chunking_keeps_exactly_the_rows(data):
    """Prefill in any pieces beside another request: row i is the query of token first + i."""
    length = data.draw(st.integers(1, 12))
    count = data.draw(st.integers(1, 5))
    layers = [make_layer(), make_layer()]
    capture = Capture(layers)
    capture.learn("a", wants(length - 1, count), length, 99)
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
    capture.learn("a", wants(2, 2), 3, 99)
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
    capture.learn("a", wants(2, 8), 3, 99)
    for done, step in ((0, 3), (3, 1)):
        capture.plan(["a"], [done], {"a": step})
        layer.impl.forward(layer, queries(done, step), "key")
    assert capture._requests["a"].filled == 2


def test_requests_that_ask_for_nothing_cost_nothing():
    """A plain prefill beside a scored one plans no copy."""
    capture = Capture([make_layer()])
    capture.learn("plain", None, 9, 99)
    capture.plan(["plain"], [0], {"plain": 9})
    assert capture._copies == []
    assert capture.take(["plain"]) == {}


class FakeRunner:
    """What the mixin reads of vLLM's runner: states of finished requests go, new ones come."""

    def __init__(self):
        self.requests = {}
        self.kv_cache_config = None
        self.max_model_len = 99
        self.input_batch = SimpleNamespace(req_ids=[], num_computed_tokens_cpu=[])

    def _update_states(self, output):
        for name in output.finished_req_ids:
            self.requests.pop(name, None)
        for new in output.scheduled_new_reqs:
            self.requests[new.req_id] = SimpleNamespace(
                block_ids=([0],), output_token_ids=[], sampling_params=new.sampling_params
            )

    def _preprocess(self, output):
        return None


class Recording(Capture):
    """Who is scored; what is read from the blocks is a matter of the engine tests."""

    def _score(self, request, block_ids, cache_config):
        return {"captured": request.captured}


class Runner(CaptureMixin, FakeRunner):
    """The mixin in its place, run step by step."""

    def __init__(self):
        super().__init__()
        self.layer = make_layer()
        self._capture = Recording([self.layer])

    def step(self, *, new=(), run=(), finished=(), preempted=(), sampled=()):
        """Run one step: ``run`` is (name, computed, scheduled), ``sampled`` is (name, token)."""
        output = SimpleNamespace(
            scheduled_new_reqs=[
                SimpleNamespace(
                    req_id=name, sampling_params=params, prompt_token_ids=[1] * params.tokens
                )
                for name, params in new
            ],
            finished_req_ids=set(finished),
            preempted_req_ids=set(preempted) or None,
            num_scheduled_tokens={name: count for name, _, count in run},
        )
        self._update_states(output)
        self.input_batch.req_ids = [name for name, _, _ in run]
        self.input_batch.num_computed_tokens_cpu = [done for _, done, _ in run]
        self._preprocess(output)
        query = torch.cat([queries(done, count) for _, done, count in run] or [queries(0, 0)])
        self.layer.impl.forward(self.layer, query, "key")
        for name, token in sampled:
            self.requests[name].output_token_ids.append(token)


@pytest.mark.parametrize(
    "part",
    [None, ("prompt", 9, 300), ("prompt", 0, 300)],
    ids=["no-such-rows", "no-such-window", "another-length"],
)
def test_what_cannot_be_read_is_not_scored(part, caplog):
    """A worker that meets rows that are none logs one line; nothing is kept and nothing dies."""
    window = part and WindowPart(*part, 64, False, None)
    rows = Rows(4, 2, {"look_ahead": 2}, window).encode()
    capture = Capture([make_layer()])
    capture.learn("a", {ROWS_KEY: rows if window else {**rows, "first": 5}}, 5, 99)
    assert capture.census()["held"] == 0
    (line,) = caplog.messages
    assert "request a is not scored" in line


STOP = 7


def scored(first: int, count: int, ignore_eos: bool = False):
    """Sampling parameters of a request with ``first + 1`` prompt tokens and ``count`` rows."""
    return SimpleNamespace(
        tokens=first + 1,
        extra_args=wants(first, count),
        eos_token_id=None if ignore_eos else STOP,
        stop_token_ids=[] if ignore_eos else [STOP + 1],
    )


def results(runner) -> set[str]:
    """Names of the requests that were scored."""
    return set(runner.specprefill_capture._results)


def test_a_complete_request_is_scored_and_given_back():
    """All rows there: scored in the step that names it finished; nothing stays after taking."""
    runner = Runner()
    runner.step(new=[("a", scored(9, 2))], run=[("a", 0, 10)], sampled=[("a", 1)])
    runner.step(run=[("a", 10, 1)], sampled=[("a", 1)])
    runner.step(finished=["a"])
    assert results(runner) == {"a"}
    assert runner.specprefill_capture.take(["a"])["a"]["captured"] == 2
    assert runner.specprefill_capture.census()["held"] == 0


@pytest.mark.parametrize("stop", [STOP, STOP + 1])
def test_a_request_that_a_stop_token_ended_is_complete(stop):
    """Fewer rows than asked for, the last token is one that ends generation: scored."""
    runner = Runner()
    runner.step(new=[("a", scored(9, 8))], run=[("a", 0, 10)], sampled=[("a", stop)])
    runner.step(finished=["a"])
    assert results(runner) == {"a"}


def test_an_ignored_stop_token_does_not_complete_a_request():
    """With ignore_eos the same tokens were an abort in the middle of decoding."""
    runner = Runner()
    params = scored(9, 8, ignore_eos=True)
    runner.step(new=[("a", params)], run=[("a", 0, 10)], sampled=[("a", STOP)])
    runner.step(finished=["a"])
    assert results(runner) == set()


@pytest.mark.parametrize("done", [4, 9, 10], ids=["mid-prefill", "before-row-0", "mid-decode"])
def test_an_aborted_request_is_dropped(done):
    """Aborted before its rows are all there: not scored, and nothing is kept of it."""
    runner = Runner()
    runner.step(new=[("a", scored(9, 3))], run=[("a", 0, done)])
    if done == 10:
        runner.requests["a"].output_token_ids.append(1)
    runner.step(finished=["a"])
    assert results(runner) == set()
    assert runner.specprefill_capture.census()["held"] == 0


def test_an_aborted_request_does_not_harm_the_others():
    """The one beside it is scored, and its id may be used again in the step that ends it."""
    runner = Runner()
    new = [("a", scored(9, 1)), ("b", scored(9, 1))]
    runner.step(new=new, run=[("a", 0, 4), ("b", 0, 10)], sampled=[("b", 1)])
    runner.step(new=[("a", scored(4, 1))], run=[("a", 0, 5)], finished=["a", "b"])
    assert results(runner) == {"b"}
    runner.step(finished=["a"])
    assert results(runner) == {"a", "b"}


def test_a_preempted_request_that_is_aborted_is_never_scored():
    """Its blocks are others' by then: not even where all its rows had been seen."""
    runner = Runner()
    runner.step(new=[("a", scored(9, 1))], run=[("a", 0, 10)], sampled=[("a", 1)])
    runner.step(preempted=["a"], finished=["a"])
    assert results(runner) == set()
    runner.step(new=[("b", scored(9, 2))], run=[("b", 0, 10)], sampled=[("b", 1)])
    runner.step(preempted=["b"])
    runner.step(finished=["b"])
    assert results(runner) == set()
    assert runner.specprefill_capture.census()["held"] == 0


def test_a_preempted_request_that_is_resumed_is_scored():
    """Its keys are there again: rows found in the prefix cache need not be computed anew."""
    runner = Runner()
    runner.step(new=[("a", scored(9, 3))], run=[("a", 0, 10)], sampled=[("a", 1)])
    runner.step(run=[("a", 10, 1)], sampled=[("a", 1)])
    runner.step(preempted=["a"])
    runner.step(run=[("a", 11, 1)], sampled=[("a", 1)])  # 11 tokens from the prefix cache
    runner.step(finished=["a"])
    assert results(runner) == {"a"}


def test_given_up_requests_are_forgotten_wherever_they_stand():
    """Scored and not taken, running, or never heard of: discarding leaves nothing."""
    runner = Runner()
    new = [("done", scored(3, 1)), ("running", scored(9, 1))]
    runner.step(new=new, run=[("done", 0, 4), ("running", 0, 4)], sampled=[("done", 1)])
    runner.step(run=[("running", 4, 2)], finished=["done"])
    assert results(runner) == {"done"}
    runner.specprefill_capture.discard(["done", "running", "unknown"])
    assert runner.specprefill_capture.census()["held"] == 0
    runner.step(finished=["running"])
    assert runner.specprefill_capture.census()["held"] == 0
