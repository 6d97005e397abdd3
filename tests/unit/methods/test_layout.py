"""Where documents, questions and sentences lie, in tokens."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny import needle_prompt

from harness.methods.layout import LayoutError, layout_of, sentences, token_offsets, windows
from harness.models.tokenizer import Tokenizer
from harness.schema.prompts import Prompt, Span


@given(st.text(st.sampled_from('ab .!?\n。！”"3'), max_size=60), st.data())
def test_sentences_cover_their_span(text: str, data: st.DataObject) -> None:
    """Sentences join to exactly the span they were cut from."""
    start = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(start, len(text)))
    found = sentences(text, Span(start, stop))
    assert "".join(text[a:b] for a, b in found) == text[start:stop]
    assert all(b > a for a, b in found)


def test_sentences_keep_keys_whole() -> None:
    """Numerals and hyphenated names do not end a sentence; marks of other scripts do."""
    text = 'The blue-cat has 3.14 lives. "Really?" Yes! 你好。再见！\nEnd'
    found = [text[a:b].strip() for a, b in sentences(text, Span(0, len(text)))]
    expected = ["The blue-cat has 3.14 lives.", '"Really?"', "Yes!", "你好。", "再见！", "End"]
    assert found == expected


def test_a_straddling_token_belongs_to_no_document(tokenizer: Tokenizer) -> None:
    """A token with a character outside the documents is not theirs to drop."""
    prompt = needle_prompt(tokenizer, 5)
    layout = layout_of(prompt, tokenizer)
    inside = layout.inside(layout.documents)
    (document,) = layout.documents
    assert (layout.starts[inside] >= document.start).all()
    assert (layout.stops[inside] <= document.stop).all()
    kept = tokenizer.decode([prompt.token_ids[i] for i in np.flatnonzero(~inside)])
    assert "What is the special magic number for blue-cat?" in kept


def test_a_query_alone_is_enough(tokenizer: Tokenizer) -> None:
    """Without segments the query's last occurrence is the question."""
    text = "Where is it? Some text. Where is it?"
    prompt = Prompt("q", text, tokenizer.encode(text), None, "Where is it?")
    assert layout_of(prompt, tokenizer).documents == (Span(0, 24),)


def test_what_is_missing_is_said(tokenizer: Tokenizer) -> None:
    """No question, no document, or text that does not give the ids: each has its reason."""
    prompt = Prompt("q", "Some text.", tokenizer.encode("Some text."))
    with pytest.raises(LayoutError, match="question"):
        layout_of(prompt, tokenizer)
    with pytest.raises(LayoutError, match="documents"):
        layout_of(replace(prompt, query="absent"), tokenizer)
    with pytest.raises(LayoutError, match="token ids"):
        token_offsets(replace(prompt, token_ids=(1, 2)), tokenizer)


def test_windows_stop_at_gaps() -> None:
    """A window is a run of neighbours, at most so long."""
    mask = np.array([1, 1, 1, 0, 1, 1], dtype=bool)
    assert [w.tolist() for w in windows(mask, 2)] == [[0, 1], [2], [4, 5]]
    assert windows(np.zeros(3, dtype=bool), 2) == []
