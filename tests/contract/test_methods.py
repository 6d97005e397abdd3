"""The contract that every method passes, on a tiny real model in the transformers engine."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from tiny import needle_prompt, tiny_model, tiny_tokenizer

from harness.engines.base import EngineSpec, Generation, Sampling
from harness.engines.hf.engine import HfEngine
from harness.methods import METHODS
from harness.methods.arms import build_method, list_arms, method_class, option_defaults
from harness.methods.base import Method, MethodContext
from harness.methods.specprefill.hf_scorer import HfScorer
from harness.models.tokenizer import Tokenizer
from harness.schema.prompts import PreparedPair, PreparedPrompt, Prompt, Segments, Span
from harness.schema.receipts import BudgetKind, Receipt, Status

ALL = list(METHODS)
TOKEN_METHODS = [name for name in ALL if method_class(name).budget_kind is BudgetKind.TOKENS]
WHOLE_AT_ONE = [name for name in ALL if "keep" in option_defaults(name)]
EXACT = {"rag", "truncate_middle", "gemfilter"}
"""Methods that choose tokens rather than chunks, and meet the budget to the token."""
PROMISES_QUESTION = ["full", "rag", "llmlingua"]
SAMPLING = Sampling(max_tokens=6, logprobs=True, ignore_eos=True)
PACKAGES = {"llmlingua": "llmlingua"}
STAGES = {
    "specprefill": {"score", "select"},
    "rag": {"score", "select", "other"},
    "llmlingua": {"score", "other"},
    "gemfilter": {"score", "other"},
    "draft_verify": {"score", "other"},
    "random": {"select", "other"},
    "sink_recent": {"select", "other"},
    "oracle": {"select", "other"},
}
"""Stages that a method's receipt must time, beside the prefill; ``other`` for the rest."""


_OPEN: dict[EngineSpec, HfEngine] = {}


@pytest.fixture(scope="module", autouse=True)
def engines() -> Iterator[None]:
    """Engines are opened once for each spec, and closed at the end."""
    yield
    while _OPEN:
        _OPEN.popitem()[1].close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with its tokenizer."""
    path = tmp_path_factory.mktemp("tiny")
    tiny_model(path)
    tiny_tokenizer(path)
    return path


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Tokenizer:
    """The tiny model's tokenizer."""
    return Tokenizer.load(str(folder))


@pytest.fixture(scope="module")
def base(folder: Path) -> EngineSpec:
    """The tiny model in float32."""
    return EngineSpec("hf", str(folder), "float32", 4096)


@pytest.fixture(scope="module")
def context(tokenizer: Tokenizer, folder: Path, base: EngineSpec) -> Iterator[MethodContext]:
    """Handles as the runner makes them, with the model as its own speculator."""
    with closing(HfScorer.open(base)) as scorer:
        yield MethodContext(tokenizer, scorer, str(folder), max_positions=4096, method_seed=7)


@pytest.fixture(scope="module")
def prompts(tokenizer: Tokenizer) -> list[Prompt]:
    """Three haystacks of several documents."""
    return [needle_prompt(tokenizer, 9, documents=4, seed=seed) for seed in range(3)]


def method_of(name: str, **options: object) -> Method:
    """Build a method; skip where its optional package is not installed."""
    if name in PACKAGES:
        pytest.importorskip(PACKAGES[name])
    return build_method(name, options)


def run(
    method: Method, prompts: list[Prompt], context: MethodContext, base: EngineSpec
) -> list[tuple[PreparedPrompt, Generation, Receipt]]:
    """Prepare and generate; the receipts are the completed ones."""
    prepared = list(method.prepare(prompts, context.cold()))
    spec = method.engine_spec(base)
    if spec not in _OPEN:
        _OPEN[spec] = HfEngine.open(spec)
    outputs = list(_OPEN[spec].generate(prepared, SAMPLING))
    return [(p, g, g.receipt or p.receipt) for p, g in zip(prepared, outputs, strict=True)]


@pytest.mark.parametrize("name", ALL)
def test_describes_itself(name: str) -> None:
    """The registry's name is the class's own, and it says what the report and CLI need."""
    method = method_of(name)
    assert isinstance(method, Method)
    assert method.name == name
    assert isinstance(method.budget_kind, BudgetKind)


@pytest.mark.parametrize("name", TOKEN_METHODS)
@pytest.mark.parametrize("keep", [0.3, 0.5])
def test_meets_its_budget(
    name: str, keep: float, prompts: list[Prompt], context: MethodContext, base: EngineSpec
) -> None:
    """Kept tokens lie within one chunk or 2 % of the budget, and the receipt counts them."""
    for prepared, _, receipt in run(method_of(name, keep=keep), prompts[:1], context, base):
        length = len(prompts[0].token_ids)
        kept = receipt.cost.prefill_tokens
        assert kept is not None
        slack = 1 if name in EXACT else max(32, 0.02 * keep * length)
        assert abs(kept - keep * length) <= slack
        assert receipt.keep_achieved == pytest.approx(kept / length)
        assert receipt.keep_requested == keep
        assert prepared.original_length == length


@pytest.mark.parametrize("name", ALL)
def test_completes_its_receipt(
    name: str, prompts: list[Prompt], context: MethodContext, base: EngineSpec
) -> None:
    """After generation nothing of the receipt is unknown, and it survives a round trip."""
    options = {"keep": 0.5} if name in WHOLE_AT_ONE else {}
    ((prepared, generation, receipt),) = run(method_of(name, **options), prompts[:1], context, base)
    assert receipt.method == name
    assert receipt.status in {Status.ACTIVE, Status.KEPT_ALL}
    assert receipt.budget_kind is method_class(name).budget_kind
    assert None not in (
        receipt.keep_achieved,
        receipt.cost.prefill_tokens,
        receipt.cost.attention_share,
        receipt.cost.kv_tokens,
        receipt.cost.flops_share,
    )
    assert set(receipt.stages_s) >= {"prefill"} | STAGES.get(name, {"other"})
    assert all(seconds > 0 for seconds in receipt.stages_s.values())
    assert Receipt.from_json(receipt.to_json()) == receipt
    assert len(generation.token_ids) == SAMPLING.max_tokens
    assert prepared.example_id == prompts[0].example_id


@pytest.mark.parametrize("name", PROMISES_QUESTION)
def test_keeps_question_and_instruction(
    name: str, prompts: list[Prompt], context: MethodContext
) -> None:
    """A method that promises it leaves instruction and question word for word."""
    options = {"keep": 0.3} if name in WHOLE_AT_ONE else {}
    (prepared,) = method_of(name, **options).prepare(prompts[:1], context)
    text = context.tokenizer.decode(prepared.token_ids)
    segments = prompts[0].segments
    assert segments is not None
    for start, stop in (*segments.instruction, *segments.question):
        assert prompts[0].text[start:stop] in text


@pytest.mark.parametrize("name", ALL)
def test_same_again_alone_and_in_a_batch(
    name: str, prompts: list[Prompt], context: MethodContext, base: EngineSpec
) -> None:
    """Neither repetition nor company changes what a prompt becomes or what comes out."""
    options = {"keep": 0.5} if name in WHOLE_AT_ONE else {}
    method = method_of(name, **options)
    together = run(method, prompts[:2], context, base)
    alone = run(method, prompts[1:2], context, base)
    for (p, g, r), (q, h, s) in zip(together[1:], alone, strict=True):
        assert (p.token_ids, p.positions) == (q.token_ids, q.positions)
        assert g.token_ids == h.token_ids
        assert (r.kept_spans, r.keep_achieved, r.cost) == (s.kept_spans, s.keep_achieved, s.cost)


@pytest.mark.parametrize("name", ALL)
def test_leaves_global_state_alone(
    name: str, prompts: list[Prompt], context: MethodContext, base: EngineSpec
) -> None:
    """Random states, environment and transformers' registry are as they were."""
    import torch
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    method = method_of(name)
    run(method, prompts[:1], context, base)  # what a first import sets is not the method's

    def state() -> tuple[object, ...]:
        draws = random.getstate(), np.random.get_state()[1].tobytes()
        return (
            *draws,
            torch.get_rng_state().tolist(),
            dict(os.environ),
            sorted(ALL_ATTENTION_FUNCTIONS),
            torch.is_grad_enabled(),
        )

    before = state()
    run(method, prompts[:1], context, base)
    assert state() == before


@pytest.mark.parametrize("name", ALL)
def test_scores_continuations(
    name: str, prompts: list[Prompt], context: MethodContext, base: EngineSpec
) -> None:
    """Log-likelihoods go on from the method's own prefill, with a complete receipt."""
    options = {"keep": 0.5} if name in WHOLE_AT_ONE else {}
    method = method_of(name, **options)
    ((prepared, generation, _),) = run(method, prompts[:1], context, base)
    continuations = generation.token_ids, (5, 6), generation.token_ids
    pairs = [PreparedPair(prepared, tokens) for tokens in continuations]
    greedy, other, again = _OPEN[method.engine_spec(base)].loglikelihood(pairs)
    assert greedy.is_greedy
    assert not other.is_greedy
    assert again.logprob == pytest.approx(greedy.logprob, abs=1e-4)
    assert greedy.logprob == pytest.approx(sum(generation.logprobs or ()), abs=1e-3)
    receipt = greedy.receipt or prepared.receipt
    assert receipt.keep_achieved is not None
    assert receipt.cost.flops_share is not None


@pytest.mark.parametrize("name", WHOLE_AT_ONE)
def test_keep_one_is_full_prefill(
    name: str, prompts: list[Prompt], context: MethodContext, base: EngineSpec
) -> None:
    """At keep = 1 tokens and log-probabilities equal full prefill's."""
    ((_, full, _),) = run(method_of("full"), prompts[:1], context, base)
    ((_, whole, receipt),) = run(method_of(name, keep=1.0), prompts[:1], context, base)
    assert whole.token_ids == full.token_ids
    assert whole.logprobs == pytest.approx(full.logprobs, abs=1e-4)
    assert receipt.keep_achieved == pytest.approx(1.0)


def unicode_prompt(tokenizer: Tokenizer) -> Prompt:
    """Several scripts and an empty document."""
    documents = ["", "Der Müller wohnt in Köln. 你好，世界。磨坊在河边。", "😀 naïve — «да»! " * 8]
    text, spans = "Read.\n\n", []
    for body in documents:
        spans.append(Span(len(text), len(text) + len(body)))
        text += body + "\n"
    question = "Où est le moulin 磨坊?"
    start = len(text)
    text += question
    at = text.index("磨坊在河边")
    segments = Segments(
        instruction=(Span(0, 5),),
        documents=tuple(spans),
        question=(Span(start, len(text)),),
        evidence=(Span(at, at + 5),),
    )
    return Prompt("unicode", text, tokenizer.encode(text), segments, question)


def short_prompt(tokenizer: Tokenizer) -> Prompt:
    """Fewer tokens than one chunk."""
    text = "A mill.\nWhere?"
    segments = Segments(documents=(Span(0, 7),), question=(Span(8, 14),), evidence=(Span(2, 6),))
    return Prompt("short", text, tokenizer.encode(text), segments, "Where?")


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("make", [unicode_prompt, short_prompt])
def test_takes_odd_prompts(
    name: str,
    make: object,
    tokenizer: Tokenizer,
    context: MethodContext,
    base: EngineSpec,
) -> None:
    """Unicode, empty documents and prompts under one chunk run, or are refused with a reason."""
    prompt = make(tokenizer)  # type: ignore[operator]
    (prepared,) = method_of(name).prepare([prompt], context)
    if prepared.receipt.status is Status.UNSUPPORTED:
        assert prepared.receipt.reason
        assert prepared.receipt.keep_achieved is None
        return
    assert set(prepared.token_ids) <= set(range(512))
    ((_, generation, receipt),) = run(method_of(name), [prompt], context, base)
    assert len(generation.token_ids) == SAMPLING.max_tokens
    assert receipt.keep_achieved is not None


@pytest.mark.parametrize("name", ["rag", "llmlingua", "oracle"])
def test_says_what_it_lacks(name: str, tokenizer: Tokenizer, context: MethodContext) -> None:
    """A foreign task without segments is unsupported with a reason, never run as something else."""
    prompt = Prompt("foreign", "Just text.", tokenizer.encode("Just text."))
    (prepared,) = method_of(name).prepare([prompt], context)
    assert prepared.receipt.status is Status.UNSUPPORTED
    assert prepared.receipt.reason


@pytest.mark.parametrize("arm", list_arms(), ids=lambda arm: arm.name)
def test_every_arm_builds(arm: object) -> None:
    """Every file under baselines/ names a method and knobs that it has."""
    assert build_method(arm.method, arm.options).name == arm.method  # type: ignore[attr-defined]
