"""The essay haystack: essays that were imported (RULER's, or a user's folder), else ours."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from harness.paths import package_or_checkout
from harness.tasks.data.library import Installed, installed

BUILT_IN = "built_in"
SENTENCE_END = re.compile(r"(?<=[.!?])[\"”’)]*\s+(?=[\"“‘(]?[A-Z0-9])")
"""Where a sentence ends: RULER splits with NLTK's punkt, whose model is a download."""


@dataclass(frozen=True)
class Essays:
    """Running prose as sentences.

    ``source`` is ``built_in`` or ``imported:`` and a digest; it is recorded with every sample.
    """

    source: str
    sentences: tuple[str, ...]

    @property
    def is_built_in(self) -> bool:
        """Whether they are this project's own, which generated prose may continue."""
        return self.source == BUILT_IN


def load_essays() -> Essays:
    """Return the essays that this machine has, imported ones first."""
    return _load(installed("essays"))


@cache
def _load(own: Installed | None) -> Essays:
    if own is not None:
        from harness.tasks.data.readers import read_set

        return Essays(f"imported:{own.digest[:12]}", split_sentences(read_set("essays")[0]))
    folder = package_or_checkout("tasks") / "ruler" / "essays"
    text = " ".join(p.read_text(encoding="utf-8") for p in sorted(folder.glob("*.txt")))
    return Essays(BUILT_IN, split_sentences(text))


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
