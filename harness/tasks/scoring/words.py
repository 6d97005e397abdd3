"""Words of an answer, in any script, for the metrics that compare words.

English is normalised as in SQuAD: lower case, no punctuation, no articles. Scripts that are
written without spaces, and Korean with its particles, are compared character by character, so
that an answer is found inside a sentence. An answer that the normalisation would empty (``A``,
``+``, ``the``) is compared as it is written: emptied, it would be found in anything.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import cache

from harness.errors import DataError
from harness.tasks.scoring.text import english_tokens

UNSPACED = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\u1780-\u17ff"  # Myanmar, Khmer
    "\u1100-\u11ff\uac00-\ud7af"  # Hangul
    "\u3040-\u30ff\u31f0-\u31ff"  # Hiragana, Katakana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"  # Han
)
"""Ranges of characters that count as a word each."""

TOKEN = re.compile(f"[{UNSPACED}]|[^\\s{UNSPACED}]+")
CHARACTER = re.compile(f"[{UNSPACED}]")
APOSTROPHES = frozenset("‘’")


def refuse_blank(answers: Iterable[str]) -> None:
    """Refuse an answer that any text would contain.

    Raises
    ------
    DataError
        An answer is empty or white space.
    """
    if not all(answer.strip() for answer in answers):
        raise DataError("an answer is blank: any prediction would match it")


@cache
def _without_typography() -> dict[int, str | None]:
    """What becomes of punctuation beyond ASCII: apostrophes go, as ASCII's do; the rest parts."""
    marks = (chr(code) for code in range(0x80, 0x10000))
    return {
        ord(mark): None if mark in APOSTROPHES else " "
        for mark in marks
        if unicodedata.category(mark).startswith("P")
    }


def words(text: str) -> list[str]:
    """Normalised words, and characters of scripts that have no spaces.

    >>> words("The blue whale, a mammal.")
    ['blue', 'whale', 'mammal']
    >>> words("答案是 12 只，鲸鱼。")
    ['答', '案', '是', '12', '只', '鲸', '鱼']
    """
    flat = unicodedata.normalize("NFKC", text.translate(_without_typography()))
    return [token for word in english_tokens(flat) for token in TOKEN.findall(word)]


def is_unspaced(text: str) -> bool:
    """Whether a text holds characters of a script that is compared by character."""
    return CHARACTER.search(text) is not None


def as_written(text: str, like: str) -> list[str]:
    """Pieces of a text for an answer that :func:`words` would empty.

    Pieces are runs of letters and digits where the answer has such, else single characters. An
    answer in lower case matches either case, capitals match as they stand: ``A`` is no article.

    >>> as_written("The answer is A.", like="A")
    ['The', 'answer', 'is', 'A']
    """
    folded = text.lower() if like == like.lower() else text
    pieces = re.findall(r"\w+", folded) if re.search(r"\w", like) else folded.split()
    return pieces if re.search(r"\w", like) else [c for piece in pieces for c in piece]


def comparable(prediction: str, answer: str) -> tuple[list[str], list[str]]:
    """Words of a prediction and an answer that may be compared; the answer's are never empty.

    Raises
    ------
    DataError
        The answer is blank.
    """
    refuse_blank((answer,))
    wanted = words(answer)
    if wanted:
        return words(prediction), wanted
    return as_written(prediction, answer), as_written(answer, answer)
