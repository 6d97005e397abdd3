"""Running prose for needles to be hidden in, measured in tokens once."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from dataclasses import dataclass
from functools import cache

from harness.tasks.data.essays import Essays, load_essays
from harness.tasks.framing import Frame


@dataclass(frozen=True)
class Haystack:
    """The essays as words with running token counts, repeated as often as needed.

    Attributes
    ----------
    words
        Every word once.
    ends
        For each sentence, the number of words up to its end.
    tokens
        For each word, the tokens up to its end.
    """

    words: tuple[str, ...]
    ends: tuple[int, ...]
    tokens: tuple[int, ...]

    @classmethod
    def of(cls, frame: Frame) -> Haystack:
        """Measure the essays once a tokenizer."""
        return _measured(frame, load_essays())

    def words_in(self, tokens: int) -> int:
        """Words whose running count stays within ``tokens``."""
        whole, rest = divmod(max(0, tokens), self.tokens[-1])
        return whole * len(self.words) + bisect_right(self.tokens, rest)

    def first(self, count: int) -> list[str]:
        """The first ``count`` words as sentences, the last one cut short where it must be."""
        whole, rest = divmod(count, len(self.words))
        every = self._sentences(len(self.words)) if whole else []
        return every * whole + self._sentences(rest)

    def _sentences(self, count: int) -> list[str]:
        last = bisect_right(self.ends, count)
        bounds = [0, *self.ends[:last]]
        out = [" ".join(self.words[a:b]) for a, b in itertools.pairwise(bounds)]
        tail = " ".join(self.words[bounds[-1] : count])
        return [*out, tail] if tail else out


@cache
def _measured(frame: Frame, essays: Essays) -> Haystack:
    parts = [sentence.split() for sentence in essays.sentences]
    every = [word for part in parts for word in part]
    sizes = frame.pieces([f" {word}" for word in every])
    return Haystack(
        words=tuple(every),
        ends=tuple(itertools.accumulate(len(part) for part in parts)),
        tokens=tuple(itertools.accumulate(sizes)),
    )
