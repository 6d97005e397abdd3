"""Controls keep as much as SpecPrefill, of something else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import needle_prompt

from harness.methods.base import MethodContext
from harness.methods.controls import Oracle, RandomChunks, SinkRecent
from harness.methods.pruning import token_budget
from harness.methods.specprefill.selection import keep_count
from harness.methods.truncate_middle import TruncateMiddle
from harness.models.tokenizer import Tokenizer
from harness.schema.prompts import Prompt
from harness.schema.receipts import Status


def bare(length: int, name: str = "bare") -> Prompt:
    """A prompt of which only the length matters."""
    return Prompt(name, "", tuple(range(length)))


def kept_of(method: object, prompt: Prompt, context: MethodContext) -> list[int]:
    """Indices that a method keeps."""
    (prepared,) = method.prepare([prompt], context)  # type: ignore[attr-defined]
    return [i for a, b in prepared.receipt.kept_spans for i in range(a, b)]


@settings(max_examples=30)
@given(
    length=st.integers(1, 400),
    keep=st.sampled_from([0.07, 0.1, 0.3, 1.0]),
    chunk=st.sampled_from([1, 32]),
    kind=st.sampled_from([RandomChunks, SinkRecent]),
)
def test_same_chunk_count_as_specprefill(
    tokenizer: Tokenizer, length: int, keep: float, chunk: int, kind: type
) -> None:
    """ceil(keep × chunks) chunks, the last token always among them, positions in order."""
    context = MethodContext(tokenizer)
    (prepared,) = kind(keep=keep, chunk=chunk).prepare([bare(length)], context)
    chunks = {i // chunk for i in prepared.positions}
    forced = 1 if kind is RandomChunks else len({0, 3 // chunk, *range(-(-4 // chunk))}) + 1
    count = -(-length // chunk)
    assert len(chunks) == min(count, max(keep_count(count, keep), min(forced, count))) or (
        kind is SinkRecent and len(chunks) <= max(keep_count(count, keep), forced)
    )
    assert length - 1 in prepared.positions
    assert list(prepared.positions) == sorted(set(prepared.positions))


def test_random_is_seeded_nested_and_per_example(context: MethodContext) -> None:
    """A seed fixes the order of chunks; a higher rate only adds; seeds and examples differ."""
    prompt = bare(3200)
    low = kept_of(RandomChunks(keep=0.1), prompt, context)
    assert low == kept_of(RandomChunks(keep=0.1), prompt, context)
    assert set(low) < set(kept_of(RandomChunks(keep=0.3), prompt, context))
    assert low != kept_of(RandomChunks(keep=0.1), prompt, replace(context, method_seed=4))
    assert low != kept_of(RandomChunks(keep=0.1), bare(3200, "other"), context)


def test_sink_recent_keeps_both_ends(context: MethodContext) -> None:
    """The first chunk and the latest ones."""
    kept = kept_of(SinkRecent(keep=0.1), bare(1000), context)
    assert kept == [*range(32), *range(1000 - 1000 % 32 - 64, 1000)]


def test_oracle_keeps_the_evidence(tokenizer: Tokenizer, context: MethodContext) -> None:
    """Every token of the needle, then of the question, at a rate that allows it."""
    prompt = needle_prompt(tokenizer, 60)
    (prepared,) = Oracle(keep=0.2).prepare([prompt], context)
    text = tokenizer.decode(prepared.token_ids)
    assert "The special magic number for blue-cat is 73194." in text
    assert "What is the special magic number for blue-cat?" in text
    chance = tokenizer.decode(next(RandomChunks(keep=0.2).prepare([prompt], context)).token_ids)
    assert "73194" not in chance


def test_oracle_needs_marked_evidence(context: MethodContext, tokenizer: Tokenizer) -> None:
    """A task without gold spans has no oracle."""
    prompt = needle_prompt(tokenizer, 5)
    assert prompt.segments is not None
    blind = replace(prompt, segments=replace(prompt.segments, evidence=()))
    (prepared,) = Oracle().prepare([blind], context)
    assert prepared.receipt.status is Status.UNSUPPORTED
    assert "evidence" in str(prepared.receipt.reason)


@pytest.mark.parametrize("kind", [RandomChunks, SinkRecent, TruncateMiddle])
def test_positions_are_an_option(kind: type, context: MethodContext) -> None:
    """The same tokens at their own positions, or renumbered."""
    (gapped,) = kind(positions="original").prepare([bare(640)], context)
    (dense,) = kind(positions="compacted").prepare([bare(640)], context)
    assert gapped.token_ids == dense.token_ids
    assert gapped.positions == gapped.token_ids  # the id of a bare token is its index
    assert dense.positions is None


@given(st.integers(0, 300), st.sampled_from([0.1, 0.33, 0.5, 1.0]))
def test_truncate_middle_keeps_two_halves(tokenizer: Tokenizer, length: int, keep: float) -> None:
    """Exactly the budget: its larger half from the start, the other from the end."""
    budget = token_budget(length, keep)
    kept = kept_of(TruncateMiddle(keep=keep), bare(length), MethodContext(tokenizer))
    head = budget - budget // 2
    assert kept == [*range(head), *range(length - budget // 2, length)]


def test_an_oracle_without_room_says_what_it_lost(
    tokenizer: Tokenizer, context: MethodContext
) -> None:
    """The last chunk is forced: where that is the whole budget, the receipt says so."""
    prompt = needle_prompt(tokenizer, 7)
    (short,) = Oracle(keep=0.05).prepare([prompt], context)
    assert "73194" not in tokenizer.decode(short.token_ids)
    assert "the budget holds 0 of" in str(short.receipt.reason)
    (enough,) = Oracle(keep=0.9).prepare([prompt], context)
    assert enough.receipt.reason is None
