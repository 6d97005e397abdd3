"""What every method must hold, whoever wrote it; a failed assertion says the rule."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import pickle
import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from harness.engines.base import EngineSpec
from harness.engines.registry import ENGINES
from harness.methods.base import MethodContext
from harness.methods.contract.bench import (
    SAMPLING,
    at_half,
    engine_of,
    method_of,
    run,
    short_prompt,
    unicode_prompt,
)
from harness.methods.options import build, defaults_of
from harness.methods.registry import method_class
from harness.models.tokenizer import Tokenizer
from harness.schema.prompts import PreparedPair, Prompt
from harness.schema.receipts import BudgetKind, Receipt, Status

PARTS = {"question", "documents", "evidence"}
"""Needs that a task's segments fill; a prompt without them cannot be taken."""

NEEDS = PARTS | {"scorer", "speculator", "segments"}


def test_describes_itself(name: str) -> None:
    """Tables, reports and the command line find all that they ask for."""
    cls = method_class(name)
    defaults = defaults_of(cls)
    assert build(cls, json.loads(json.dumps(defaults))) == build(cls, {}), "defaults are its own"
    known = NEEDS | {f"engine:{engine}" for engine in ENGINES}
    assert all(need in known or need.startswith("package:") for need in cls.needs), (
        f"needs are words of {sorted(known)} or package:NAME, not {sorted(cls.needs)}"
    )
    assert (cls.__doc__ or "").strip(), "the class says in one line what it does"
    with pytest.raises(dataclasses.FrozenInstanceError):
        build(cls, {}).another = 1  # type: ignore[attr-defined]  # a knob set later would be lost


@pytest.mark.parametrize("keep", [0.3, 0.5])
def test_meets_its_budget(
    name: str, keep: float, prompts: list[Prompt], context: MethodContext, base: EngineSpec
) -> None:
    """Kept tokens lie within one chunk or 2 % of the budget, and the receipt counts them."""
    cls = method_class(name)
    if cls.budget_kind is not BudgetKind.TOKENS or "keep" not in defaults_of(cls):
        pytest.skip("it has no budget in tokens")
    for prepared, _, receipt in run(method_of(name, keep=keep), prompts[:1], context, base):
        length = len(prompts[0].token_ids)
        kept = receipt.cost.prefill_tokens
        assert kept is not None, "the receipt's cost says how many tokens were prefilled"
        assert abs(kept - keep * length) <= max(32, 0.02 * keep * length), (
            f"{kept} of {length} tokens are kept where {keep:g} was asked"
        )
        assert receipt.keep_achieved == pytest.approx(kept / length)
        assert receipt.keep_requested == keep
        assert prepared.original_length == length


def test_completes_its_receipt(
    name: str, prompts: list[Prompt], context: MethodContext, base: EngineSpec
) -> None:
    """After generation nothing of the receipt is unknown, and it survives a round trip."""
    method = method_of(name, **at_half(name))
    ((prepared, generation, receipt),) = run(method, prompts[:1], context, base)
    assert receipt.method == method.name
    assert receipt.status in {Status.ACTIVE, Status.KEPT_ALL}
    assert receipt.budget_kind is method.budget_kind
    told = {
        "keep_achieved": receipt.keep_achieved,
        "prefill_tokens": receipt.cost.prefill_tokens,
        "attention_share": receipt.cost.attention_share,
        "kv_tokens": receipt.cost.kv_tokens,
        "flops_share": receipt.cost.flops_share,
    }
    assert None not in told.values(), f"the receipt leaves something out: {told}"
    stages = receipt.stages_s
    assert set(stages) > {"prefill"}, "the receipt times the method's own stages (Stopwatch)"
    assert set(stages) <= {"score", "select", "prefill", "other"}
    assert all(math.isfinite(seconds) and seconds >= 0 for seconds in stages.values())
    assert sum(stages.values()) > stages["prefill"] > 0
    assert Receipt.from_json(receipt.to_json()) == receipt, "details hold what JSON can hold"
    assert len(generation.token_ids) == SAMPLING.max_tokens
    assert prepared.example_id == prompts[0].example_id


def test_same_again_alone_and_in_a_batch(
    name: str, prompts: list[Prompt], context: MethodContext, base: EngineSpec
) -> None:
    """Neither repetition nor company changes what a prompt becomes or what comes out."""
    method = method_of(name, **at_half(name))
    together = run(method, prompts[:2], context, base)
    alone = run(method, prompts[1:2], context, base)
    for (p, g, r), (q, h, s) in zip(together[1:], alone, strict=True):
        assert (p.token_ids, p.positions) == (q.token_ids, q.positions)
        assert g.token_ids == h.token_ids
        assert (r.kept_spans, r.keep_achieved, r.cost) == (s.kept_spans, s.keep_achieved, s.cost)


def test_a_memo_changes_no_result(name: str, prompts: list[Prompt], context: MethodContext) -> None:
    """What is remembered of an example saves time only: quality and latency see one method."""
    method = method_of(name, **at_half(name))
    warm = context.cold()
    first, again = (list(method.prepare(prompts[:1], warm)) for _ in range(2))
    cold = list(method.prepare(prompts[:1], context.cold()))
    kept = [[(p.token_ids, p.positions) for p in prepared] for prepared in (first, again, cold)]
    assert kept[0] == kept[1] == kept[2]


def test_its_seed_matters_where_it_says_so(
    name: str, prompts: list[Prompt], context: MethodContext
) -> None:
    """``stochastic`` is true of methods that ``method_seed`` changes, and of no others."""
    method = method_of(name, **at_half(name))
    found = {
        tuple((p.token_ids, p.positions) for p in method.prepare(prompts[:1], seeded))
        for seeded in (replace(context.cold(), method_seed=seed) for seed in range(4))
    }
    assert (len(found) > 1) is method.stochastic


def test_leaves_global_state_alone(
    name: str, prompts: list[Prompt], context: MethodContext, base: EngineSpec
) -> None:
    """Random states, environment and transformers' registry are as they were."""
    import torch
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    method = method_of(name)
    run(method, prompts[:1], context, base)  # what a first import sets is not the method's

    def state() -> dict[str, object]:
        return {
            "random": random.getstate(),
            "numpy": pickle.dumps(np.random.get_state()),
            "torch": torch.get_rng_state().tolist(),
            "environment": dict(os.environ),
            "attention": sorted(ALL_ATTENTION_FUNCTIONS),
            "gradients": torch.is_grad_enabled(),
        }

    before = state()
    run(method, prompts[:1], context, base)
    after = state()
    assert [part for part in before if before[part] != after[part]] == []


def test_scores_continuations(
    name: str, prompts: list[Prompt], context: MethodContext, base: EngineSpec
) -> None:
    """Log-likelihoods go on from the method's own prefill, with a complete receipt."""
    method = method_of(name, **at_half(name))
    ((prepared, generation, _),) = run(method, prompts[:1], context, base)
    continuations = generation.token_ids, (5, 6), generation.token_ids
    pairs = [PreparedPair(prepared, tokens) for tokens in continuations]
    greedy, other, again = engine_of(method, base).loglikelihood(pairs)
    assert greedy.is_greedy
    assert not other.is_greedy
    assert again.logprob == pytest.approx(greedy.logprob, abs=1e-4)
    assert greedy.logprob == pytest.approx(sum(generation.logprobs or ()), abs=1e-3)
    receipt = greedy.receipt or prepared.receipt
    assert receipt.keep_achieved is not None
    assert receipt.cost.flops_share is not None


def test_keep_one_is_full_prefill(
    name: str, prompts: list[Prompt], context: MethodContext, base: EngineSpec
) -> None:
    """At keep = 1 tokens and log-probabilities equal full prefill's."""
    if "keep" not in defaults_of(method_class(name)):
        pytest.skip("it has no option keep")
    ((_, full, _),) = run(method_of("full"), prompts[:1], context, base)
    ((_, whole, receipt),) = run(method_of(name, keep=1.0), prompts[:1], context, base)
    assert whole.token_ids == full.token_ids
    assert whole.logprobs == pytest.approx(full.logprobs, abs=1e-4)
    assert receipt.keep_achieved == pytest.approx(1.0)


@pytest.mark.parametrize("make", [unicode_prompt, short_prompt])
def test_takes_odd_prompts(
    name: str,
    make: Callable[[Tokenizer], Prompt],
    tokenizer: Tokenizer,
    context: MethodContext,
    base: EngineSpec,
) -> None:
    """Unicode, empty documents and prompts under one chunk run, or are refused with a reason."""
    prompt = make(tokenizer)
    (prepared,) = method_of(name).prepare([prompt], context.cold())
    if prepared.receipt.status is Status.UNSUPPORTED:
        assert prepared.receipt.reason
        assert prepared.receipt.keep_achieved is None
        return
    assert set(prepared.token_ids) <= set(tokenizer.hf.get_vocab().values())
    ((_, generation, receipt),) = run(method_of(name), [prompt], context, base)
    assert len(generation.token_ids) == SAMPLING.max_tokens
    assert receipt.keep_achieved is not None


def test_says_what_it_lacks(name: str, tokenizer: Tokenizer, context: MethodContext) -> None:
    """A foreign task without segments is unsupported with a reason, never run as something else."""
    method = method_of(name)
    if not method.needs & PARTS:
        pytest.skip("it needs no parts of a prompt")
    prompt = Prompt("foreign", "Just text.", tokenizer.encode("Just text."))
    (prepared,) = method.prepare([prompt], context.cold())
    assert prepared.receipt.status is Status.UNSUPPORTED
    assert prepared.receipt.reason
