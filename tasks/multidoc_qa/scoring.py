"""The multi-document tasks' segments and metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.tasks.scoring.multidoc import in_words, with_subspan


def process(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """Token F1 and containment, both with the best accepted answer; lm-eval's hook."""
    return in_words(results[0], doc["answers"])


def process_nq(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """*Lost in the Middle*'s own rule first."""
    return with_subspan(results[0], doc["answers"])


def segments(doc: Mapping[str, Any]) -> dict[str, Sequence[Any]]:
    """Return the texts of documents, question and gold evidence; the rest is instruction."""
    return {
        "documents": doc["documents"],
        "question": [doc["question"]],
        "evidence": doc["evidence"],
    }
