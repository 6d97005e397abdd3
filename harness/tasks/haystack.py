"""Running prose for needles to be hidden in, measured in tokens once."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cache

from harness.tasks.data.essays import Essays, load_essays
from harness.tasks.data.prose import endless
from harness.tasks.framing import Frame

BLOCK = 500
"""Generated sentences that are measured at a time."""


class Haystack:
    """The essays as words with running token counts, as many as are asked for.

    Built-in essays go on in generated prose, so that no sentence comes twice. Essays of the
    user's own are repeated where they run out, as RULER repeats its own.

    Attributes
    ----------
    words
        Every word so far, once.
    ends
        For each sentence, the number of words up to its end.
    tokens
        For each word, the tokens up to its end.
    """

    def __init__(self, frame: Frame, essays: Essays) -> None:
        self.frame, self.essays = frame, essays
        self.words: list[str] = []
        self.ends: list[int] = []
        self.tokens: list[int] = []
        self._more: Iterator[str] | None = endless() if essays.is_built_in else None
        self._add(essays.sentences)
        self.written = len(self.words)

    @classmethod
    def of(cls, frame: Frame) -> Haystack:
        """Measure the essays once a tokenizer."""
        return _measured(frame, load_essays())

    def words_in(self, tokens: int) -> int:
        """Words whose running count stays within ``tokens``."""
        while self._more is not None and self.tokens[-1] <= tokens:
            self._grow()
        whole, rest = divmod(max(0, tokens), self.tokens[-1])
        return whole * len(self.words) + bisect_right(self.tokens, rest)

    def first(self, count: int) -> list[str]:
        """The first ``count`` words as sentences, the last one cut short where it must be."""
        while self._more is not None and len(self.words) < count:
            self._grow()
        whole, rest = divmod(count, len(self.words))
        every = self._sentences(len(self.words)) if whole else []
        return every * whole + self._sentences(rest)

    def source(self, count: int) -> str:
        """What the first ``count`` words are made of, for the records."""
        if count <= self.written:
            return self.essays.source
        if self._more is not None:
            return f"{self.essays.source}+generated"
        return f"{self.essays.source}, {-(-count // self.written)} times"

    def _grow(self) -> None:
        assert self._more is not None, "a user's own essays do not grow"
        self._add(itertools.islice(self._more, BLOCK))

    def _add(self, sentences: Iterable[str]) -> None:
        parts = [sentence.split() for sentence in sentences]
        words = [word for part in parts for word in part]
        sizes = self.frame.pieces([f" {word}" for word in words])
        ends = itertools.accumulate((len(part) for part in parts), initial=len(self.words))
        tokens = itertools.accumulate(sizes, initial=self.tokens[-1] if self.tokens else 0)
        self.ends += list(ends)[1:]
        self.tokens += list(tokens)[1:]
        self.words += words

    def _sentences(self, count: int) -> list[str]:
        last = bisect_right(self.ends, count)
        bounds = [0, *self.ends[:last]]
        out = [" ".join(self.words[a:b]) for a, b in itertools.pairwise(bounds)]
        tail = " ".join(self.words[bounds[-1] : count])
        return [*out, tail] if tail else out


@cache
def _measured(frame: Frame, essays: Essays) -> Haystack:
    return Haystack(frame, essays)
