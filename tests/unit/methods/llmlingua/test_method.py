"""The search for a budget, and the package behind its adapter."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny import needle_prompt

from harness.methods.base import MethodContext
from harness.methods.layout import LayoutError, layout_of
from harness.methods.llmlingua.method import (
    ATTEMPTS,
    PASSAGE_TOKENS,
    TOLERANCE,
    LlmLingua,
    passages_of,
    search,
)
from harness.models.tokenizer import Tokenizer
from harness.schema.prompts import Span
from harness.schema.receipts import Status


@given(
    budget=st.integers(20, 4000),
    gain=st.floats(0.2, 4),
    offset=st.integers(0, 5),
    fixed=st.integers(0, 10),
)
def test_search_meets_the_budget(budget: int, gain: float, offset: int, fixed: int) -> None:
    """Whatever the compressor's own idea of a rate, the result is within 2 %."""

    def compress(room: int, asked: float) -> str:
        return "x" * int(gain * asked + offset)

    found = search(compress, lambda text: (0,) * (fixed + len(text)), budget)
    assert abs(len(found.token_ids) - budget) <= max(1, TOLERANCE * budget)
    assert found.attempts <= ATTEMPTS


def test_search_says_what_came_closest() -> None:
    """A compressor that does not compress is refused with the figure, never passed off."""
    with pytest.raises(LayoutError, match="closest of 10 compressions has 300"):
        search(lambda room, asked: "x" * 300, lambda text: (0,) * len(text), 100)
    with pytest.raises(LayoutError, match="alone take 120 of 100"):
        search(lambda room, asked: "", lambda text: (0,) * 120, 100)


def test_passages_cover_the_documents(tokenizer: Tokenizer) -> None:
    """Nothing is lost between passages, and none is longer than one step of the package."""
    prompt = needle_prompt(tokenizer, 60, documents=3)
    layout = layout_of(prompt, tokenizer)
    passages = passages_of(prompt, layout)
    first, last = layout.documents[0], layout.documents[-1]
    assert "".join(passages) == prompt.text[first.start : last.stop]
    assert max(len(tokenizer.encode(p)) for p in passages) <= PASSAGE_TOKENS + 2


def test_a_question_between_documents_is_refused(tokenizer: Tokenizer) -> None:
    """Where compressing would reach the question, the method says so."""
    prompt = needle_prompt(tokenizer, 4, documents=2)
    assert prompt.segments is not None
    gap = Span(prompt.segments.documents[0].stop, prompt.segments.documents[1].start)
    moved = replace(prompt, segments=replace(prompt.segments, question=(gap,)))
    with pytest.raises(LayoutError, match="between the documents"):
        passages_of(moved, layout_of(moved, tokenizer))


@pytest.fixture
def with_speculator(context: MethodContext, tiny_folder: Path) -> MethodContext:
    """The tiny model as the compressor."""
    pytest.importorskip("llmlingua")
    return replace(context, speculator=str(tiny_folder))


@pytest.mark.parametrize("variant", ["llmlingua", "longllmlingua"])
@pytest.mark.parametrize("keep", [0.3, 0.6])
def test_the_package_compresses_to_the_budget(
    tokenizer: Tokenizer, with_speculator: MethodContext, variant: str, keep: float
) -> None:
    """Both perplexity variants run on today's transformers; the answer is text, not a mapping."""
    prompt = needle_prompt(tokenizer, 8, documents=4)
    (prepared,) = LlmLingua(keep=keep, variant=variant).prepare([prompt], with_speculator)
    budget = keep * len(prompt.token_ids)
    assert prepared.receipt.status is Status.ACTIVE
    assert abs(len(prepared.token_ids) - budget) <= max(1, TOLERANCE * budget)
    text = tokenizer.decode(prepared.token_ids)
    assert text.startswith("Read the text, then answer.")
    assert text.endswith("Question: What is the special magic number for blue-cat?\nAnswer:")
    assert "compressed_prompt" not in text


def test_short_prompts_are_compressed_too(
    tokenizer: Tokenizer, with_speculator: MethodContext
) -> None:
    """Under one step of the package (200 tokens) the asked rate still holds."""
    prompt = needle_prompt(tokenizer, 4)
    assert len(prompt.token_ids) < 200
    (prepared,) = LlmLingua(keep=0.7).prepare([prompt], with_speculator)
    assert 0.68 <= prepared.receipt.keep_achieved <= 0.72


def test_what_is_not_here_is_unsupported(tokenizer: Tokenizer, context: MethodContext) -> None:
    """No compressor, or one that is not on this machine: the reason says which."""
    pytest.importorskip("llmlingua")
    prompt = needle_prompt(tokenizer, 3)
    for method, word in ((LlmLingua(), "speculator"), (LlmLingua(compressor="no/such"), "no/such")):
        (prepared,) = method.prepare([prompt], context)
        assert prepared.receipt.status is Status.UNSUPPORTED
        assert word in str(prepared.receipt.reason)
