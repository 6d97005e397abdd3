"""The essay haystack: RULER's own essays where they were pulled or imported, else ours."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from harness.paths import package_or_checkout

SENTENCE_END = re.compile(r"(?<=[.!?])[\"”’)]*\s+(?=[\"“‘(]?[A-Z0-9])")
"""Where a sentence ends: RULER splits with NLTK's punkt, whose model is a download."""


@dataclass(frozen=True)
class Essays:
    """Running prose as sentences.

    ``source`` is ``paul_graham_essays`` or ``built_in`` and is recorded with every sample.
    """

    source: str
    sentences: tuple[str, ...]


@cache
def load_essays() -> Essays:
    """Return the essays that this machine has, pulled or imported ones first."""
    from harness.data.library import installed_file

    pulled = installed_file("paul_graham_essays")
    if pulled is not None:
        from harness.data.readers import read_essays

        return Essays("paul_graham_essays", split_sentences(read_essays(pulled)))
    folder = package_or_checkout("tasks") / "ruler" / "essays"
    text = " ".join(p.read_text(encoding="utf-8") for p in sorted(folder.glob("*.txt")))
    return Essays("built_in", split_sentences(text))


def split_sentences(text: str) -> tuple[str, ...]:
    r"""Split prose into sentences, white space normalised as RULER does.

    >>> split_sentences("One day.  Two\nnights? Three.")
    ('One day.', 'Two nights?', 'Three.')
    """
    flat = " ".join(text.split())
    pieces: list[str] = []
    start = 0
    for match in SENTENCE_END.finditer(flat):
        pieces.append(flat[start : match.end()].strip())
        start = match.end()
    return tuple(piece for piece in (*pieces, flat[start:].strip()) if piece)
