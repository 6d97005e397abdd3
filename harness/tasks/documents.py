"""Several documents in one prompt: how they are shown, ordered and cut down to a length."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Document:
    """One document; ``facts`` are the sentences in it that support the answer."""

    title: str
    text: str
    gold: bool = False
    facts: tuple[str, ...] = ()


def show(documents: Iterable[Document]) -> list[str]:
    """Number documents and show their titles, as lost-in-the-middle does (arXiv 2307.03172)."""
    return [f"Document [{i}](Title: {d.title}) {d.text}" for i, d in enumerate(documents, 1)]


def at_depth(documents: Sequence[Document], depth: float) -> list[Document]:
    """Move the gold documents together to a depth: 0 is before all others, 1 after them."""
    gold = [d for d in documents if d.gold]
    others = [d for d in documents if not d.gold]
    at = round(depth * len(others))
    return [*others[:at], *gold, *others[at:]]


def cluster_of(documents: Iterable[Document]) -> str:
    """Name what questions share that come with the same documents, in whatever order."""
    texts = sorted(f"{document.title}\0{document.text}" for document in documents)
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def evidence(documents: Sequence[Document]) -> list[list[str]]:
    """Gold evidence as ``[index, text]``: supporting sentences, or the whole gold document."""
    return [
        [str(index), text]
        for index, document in enumerate(documents)
        if document.gold
        for text in (document.facts or (document.text,))
    ]


def facts(documents: Sequence[Document]) -> dict[str, float | int | None]:
    """Facts for reports: where the first gold document stands, and how many there are."""
    gold = [index for index, document in enumerate(documents) if document.gold]
    return {
        "depth": gold[0] / max(1, len(documents) - 1) if gold else None,
        "documents": len(documents),
        "gold_documents": len(gold),
    }
