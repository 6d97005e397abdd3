"""Where the parts of a prompt lie, in tokens.

A token belongs to the documents only where its whole character span does: a token that straddles
the edge of a document also carries a character of the question or the instruction, which no
method may lose.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from harness.schema.prompts import Prompt, Span

if TYPE_CHECKING:
    from harness.models.tokenizer import Tokenizer

Mask = npt.NDArray[np.bool_]

_SENTENCE_END = re.compile(r"(?:[.!?…]+[\"'”’)\]]*(?=\s)|[。！？；]+[”’」』）]*|\n)\s*")


class LayoutError(Exception):
    """The prompt does not say what the method needs; the text is the receipt's reason."""


@dataclass(frozen=True)
class Layout:
    """Character offsets of a prompt's tokens, and the spans of its parts in characters.

    Attributes
    ----------
    starts, stops
        int [M]: token i covers the characters ``starts[i]`` up to ``stops[i]``.
    documents
        The spans that a method may drop from; everything else is instruction, question or
        template.
    query
        The question's text.
    """

    text: str
    starts: npt.NDArray[np.int64]
    stops: npt.NDArray[np.int64]
    documents: tuple[Span, ...]
    query: str

    def first_letters(self) -> npt.NDArray[np.int64]:
        """First character of each token that is no blank, its start where all are: int [M].

        Byte-level tokenizers put the blank before a word into the word's token, which belongs to
        the sentence of the word and not to the one that the blank ends.
        """
        pieces = [self.text[a:b] for a, b in zip(self.starts, self.stops, strict=True)]
        blanks = [len(piece) - len(piece.lstrip()) if piece.strip() else 0 for piece in pieces]
        return self.starts + np.asarray(blanks, dtype=np.int64)

    def inside(self, spans: Iterable[Span]) -> Mask:
        """Which tokens lie wholly inside one of ``spans``: bool [M]."""
        mask = np.zeros(len(self.starts), dtype=bool)
        for span in spans:
            mask |= (self.starts >= span.start) & (self.stops <= span.stop)
        return mask


def token_offsets(
    prompt: Prompt, tokenizer: Tokenizer
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """First and end character of each token of ``prompt``: two int arrays [M].

    Raises
    ------
    LayoutError
        The text does not tokenize to the prompt's ids, so that no offset could be trusted.
    """
    ids, offsets = tokenizer.encode_with_offsets(prompt.text)
    if ids != prompt.token_ids:
        raise LayoutError("the prompt's text does not tokenize to its token ids")
    table = np.asarray(offsets, dtype=np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def touching(
    spans: Iterable[tuple[int, int]], starts: npt.NDArray[np.int64], stops: npt.NDArray[np.int64]
) -> Mask:
    """Which tokens share a character with one of ``spans``: bool [M]."""
    mask = np.zeros(len(starts), dtype=bool)
    for span in spans:
        mask |= (starts < span[1]) & (stops > span[0])
    return mask


def layout_of(prompt: Prompt, tokenizer: Tokenizer) -> Layout:
    """Find a prompt's documents and question.

    A task with segments says where they are. Where there is only a query (``--query-from``), its
    last occurrence is the question, and what stands before it is the document.

    Raises
    ------
    LayoutError
        There is no question, or no document.
    """
    starts, stops = token_offsets(prompt, tokenizer)
    segments = prompt.segments
    if segments is not None and segments.documents:
        query = prompt.query or " ".join(prompt.text[a:b] for a, b in segments.question)
        documents = tuple(sorted(segments.documents))
    else:
        query = prompt.query or ""
        at = prompt.text.rfind(query) if query else -1
        documents = (Span(0, at),) if at > 0 else ()
    if not query.strip():
        raise LayoutError("the task gives no question; name its field with --query-from")
    if not documents:
        raise LayoutError("the task does not say where its documents are")
    return Layout(prompt.text, starts, stops, documents, query)


def sentences(text: str, span: Span) -> list[Span]:
    """Split ``text[span]`` into sentences that cover it, each with the blanks that follow it.

    A sentence ends at ``.``, ``!``, ``?`` or ``…`` before a blank, at the full-width marks, and
    at a line's end. A numeral (3.14) or a hyphenated name stays whole; an abbreviation (Dr.) ends
    a sentence early, which costs a retriever little.
    """
    cuts = [match.end() for match in _SENTENCE_END.finditer(text, span.start, span.stop)]
    edges = [span.start, *(c for c in cuts if c < span.stop), span.stop]
    return [Span(a, b) for a, b in pairwise(edges) if b > a]


def windows(mask: Mask, size: int) -> list[npt.NDArray[np.int64]]:
    """Cut the tokens of ``mask`` into runs of at most ``size``, never across a gap."""
    tokens = np.flatnonzero(mask)
    if not len(tokens):
        return []
    runs: Sequence[npt.NDArray[np.int64]] = np.split(
        tokens, np.flatnonzero(np.diff(tokens) > 1) + 1
    )
    return [run[i : i + size] for run in runs for i in range(0, len(run), size)]
