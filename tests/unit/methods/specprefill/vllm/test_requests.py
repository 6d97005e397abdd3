"""A plain script's requests: which are pruned, with what, and what their receipts say."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from harness.engines.scorer import Scores
from harness.engines.vllm.wire import POSITIONS_KEY, decode_positions
from harness.errors import ConfigError
from harness.methods.base import MethodContext
from harness.methods.specprefill.config import Ends, SpecPrefillConfig
from harness.methods.specprefill.method import SpecPrefill
from harness.methods.specprefill.paper_config import MIN_TOKENS, read_paper_config
from harness.methods.specprefill.vllm.requests import (
    engine_input,
    parameters,
    prepare,
    refuse_own_keys,
)
from harness.schema.prompts import PreparedPrompt
from harness.schema.receipts import Receipt, Status


class Speculator:
    """Scores a token by its id."""

    max_positions = 10_000

    def score(self, requests):
        for request in requests:
            rows = np.array([request.token_ids], dtype=np.float32)
            yield Scores(request.example_id, rows, (), counters={"rows_captured": 1})


class Params(SimpleNamespace):
    """What is read of vLLM's ``SamplingParams``."""

    def __init__(self, **given: Any) -> None:
        defaults = {"max_tokens": 4, "prompt_logprobs": None, "repetition_penalty": 1.0}
        super().__init__(**{**defaults, "extra_args": None, **given})

    def clone(self) -> Params:
        return copy(self)


PROMPT = [*range(100, 116), 7, 7, 7, 7]


@pytest.fixture
def handles(context: MethodContext) -> MethodContext:
    """The tiny model's tokenizer and the speculator."""
    return replace(context, scorer=Speculator())  # type: ignore[arg-type]


def run(
    handles: MethodContext, params: Any, *, item: Any = None, adapter: Any = None, **options: Any
) -> PreparedPrompt:
    """The prompt prepared for one request: half of its chunks of four."""
    method = SpecPrefill(SpecPrefillConfig(chunk=4, keep=0.5, always_keep=Ends(), pool_kernel=0))
    item = item or {"type": "token", "prompt_token_ids": PROMPT}
    (ready,) = prepare(method, handles, [item], [params], [adapter])
    return ready


def test_a_request_carries_its_positions(handles):
    """Kept tokens in the prompt's place, their positions beside them, a salt of their own."""
    params = Params(extra_args={"mine": 1})
    ready = run(handles, params)
    sent = parameters(ready, PROMPT, params, 100)
    assert sent.extra_args["mine"] == 1
    found = decode_positions(sent.extra_args, len(ready.token_ids), 100)
    assert found is not None
    assert tuple(found.values) == ready.positions == tuple(range(4, 16))
    assert found.resume == len(PROMPT)
    assert len(found.dropped) == 0
    assert params.extra_args == {"mine": 1}
    taken = engine_input(ready, {"type": "token", "prompt_token_ids": PROMPT, "cache_salt": "u"})
    assert taken["prompt_token_ids"] == list(ready.token_ids)
    assert taken["cache_salt"].startswith("u/specprefill-")


def test_a_repetition_penalty_is_told_of_the_dropped_tokens(handles):
    """Ids that only dropped tokens have travel along: the penalty counts the whole prompt."""
    params = Params(repetition_penalty=1.1)
    ready = run(handles, params)
    sent = parameters(ready, PROMPT, params, 100)
    found = decode_positions(sent.extra_args, len(ready.token_ids), 100)
    assert found is not None
    assert found.dropped.tolist() == [7, 100, 101, 102, 103]


@pytest.mark.parametrize(
    ("params", "names"),
    [
        (Params(prompt_logprobs=0), "prompt log probabilities"),
        (Params(prompt_logprob_token_ids=[[1]]), "prompt log probabilities"),
        (Params(thinking_token_budget=9), "thinking_token_budget"),
        (SimpleNamespace(), "pooling"),
    ],
)
def test_requests_that_need_the_whole_prompt_get_it(handles, params, names):
    """Prefilled whole and unchanged, with the reason in the receipt."""
    ready = run(handles, params)
    assert ready.receipt.status is Status.UNSUPPORTED
    assert names in (ready.receipt.reason or "")
    assert ready.token_ids == tuple(PROMPT)
    assert parameters(ready, PROMPT, params, 100) is params
    item = {"type": "token", "prompt_token_ids": PROMPT}
    assert engine_input(ready, item) is item


def test_inputs_other_than_tokens_stay_whole(handles):
    """An image or embeddings: the type is named."""
    ready = run(handles, Params(), item={"type": "embeds"})
    assert ready.receipt.status is Status.UNSUPPORTED
    assert "embeds" in (ready.receipt.reason or "")


def test_an_adapter_of_the_target_is_noted(handles):
    """The speculator has none: a pruned prompt's receipt names it, a whole one's does not."""
    adapter = SimpleNamespace(lora_name="poet")
    pruned = run(handles, Params(), adapter=adapter)
    assert pruned.receipt.status is Status.ACTIVE
    assert pruned.receipt.details["lora"] == "the speculator scored without the adapter poet"
    whole = run(handles, Params(prompt_logprobs=0), adapter=adapter)
    assert "lora" not in whole.receipt.details
    assert "lora" not in run(handles, Params()).receipt.details


def test_answers_stay_inside_the_target_s_range(handles):
    """In original positions: refused by name, and no limit means up to the range's end."""
    ready = run(handles, Params())
    with pytest.raises(ConfigError, match="20 prompt tokens and 5 new ones exceed"):
        parameters(ready, PROMPT, Params(max_tokens=5), 24)
    assert parameters(ready, PROMPT, Params(max_tokens=None), 24).max_tokens == 4


def test_a_caller_s_own_positions_are_refused():
    """Whatever stands under our name, pruned or not; other names are the caller's."""
    with pytest.raises(ConfigError, match="leave it out"):
        refuse_own_keys(Params(extra_args={POSITIONS_KEY: {}}))
    refuse_own_keys(Params(extra_args={"mine": 1}))
    refuse_own_keys(SimpleNamespace())


@pytest.mark.parametrize("length", [33, MIN_TOKENS - 1, MIN_TOKENS])
def test_short_prompts_are_prefilled_whole(handles, length):
    """33 tokens at 10 % were one token: below the least length nothing is pruned."""
    config = read_paper_config(None)
    item = {"type": "token", "prompt_token_ids": list(range(length))}
    (ready,) = prepare(SpecPrefill(config), handles, [item], [Params()], [None])
    if length < MIN_TOKENS:
        assert ready.receipt.status is Status.SKIPPED_MIN_TOKENS
        assert ready.positions is None
        assert len(ready.token_ids) == length
    else:
        assert ready.receipt.status is Status.ACTIVE
        assert ready.receipt.details["chunks_kept"] == 2


def test_receipts_of_whole_prompts_are_receipts(handles):
    """They can be stored like any other."""
    receipt = run(handles, Params(prompt_logprobs=0)).receipt
    assert Receipt.from_json(receipt.to_json()) == receipt
