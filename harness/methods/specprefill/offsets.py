"""Scores of one tokenizer's tokens, mapped to another's by characters (ALGORITHM.md).

Offsets are half-open character spans into one and the same text, one a token, in token order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Offsets = Sequence[tuple[int, int]]
Floats = npt.NDArray[np.float32]


def uncovered_character(text: str, offsets: Offsets) -> int | None:
    """Index of the first non-space character that no token covers; None where all are covered.

    Such a tokenizer has rewritten the text (normalization), and its offsets cannot be trusted:
    the method is then ``unsupported``.
    """
    covered = np.zeros(len(text), dtype=bool)
    for start, stop in offsets:
        covered[start:stop] = True
    gaps = (i for i in np.flatnonzero(~covered).tolist() if not text[i].isspace())
    return next(gaps, None)


def character_scores(length: int, offsets: Offsets, scores: Floats) -> Floats:
    """Score of each of ``length`` characters: the maximum over the tokens that cover it.

    Byte-level pieces of one character share it. A character that no token covers (a space that
    a tokenizer drops) takes the score of the next covered one, else of the previous; without any
    covered character all are 0.
    """
    out = np.full(length, -np.inf, dtype=np.float32)
    is_covered = np.zeros(length, dtype=bool)
    for (start, stop), score in zip(offsets, scores, strict=True):
        np.maximum(out[start:stop], score, out=out[start:stop])
        is_covered[start:stop] = True
    covered = np.flatnonzero(is_covered)
    if covered.size == 0:
        return np.zeros(length, dtype=np.float32)
    following = np.searchsorted(covered, np.arange(length))
    source = covered[np.minimum(following, covered.size - 1)]
    filled: Floats = out[source]
    return filled


def token_scores(offsets: Offsets, characters: Floats) -> Floats:
    """Score of each token: the mean over its characters; a zero-width token copies the previous.

    A zero-width token at the start has none to copy and gets 0.
    """
    out = np.zeros(len(offsets), dtype=np.float32)
    for index, (start, stop) in enumerate(offsets):
        if stop > start:
            out[index] = characters[start:stop].mean()
        elif index:
            out[index] = out[index - 1]
    return out


def map_scores(text: str, scores: Floats, speculator: Offsets, target: Offsets) -> Floats:
    """Scores of the target's tokens of ``text`` from those of the speculator's.

    Map each message's content by itself, never a rendered prompt: the two chat templates differ.

    Parameters
    ----------
    scores
        float32, one a speculator token, pooled already.
    speculator, target
        Both tokenizers' offsets into ``text``.
    """
    return token_scores(target, character_scores(len(text), speculator, scores))
