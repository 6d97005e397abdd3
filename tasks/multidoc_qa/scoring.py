"""The multi-document tasks' segments and metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.tasks.scoring.multidoc import best_f1, contains_answer


def process(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """Token F1 and containment, both with the best accepted answer; lm-eval's hook."""
    return {
        "qa_f1": best_f1(results[0], doc["answers"]),
        "contains_answer": contains_answer(results[0], doc["answers"]),
    }


def segments(doc: Mapping[str, Any]) -> dict[str, Sequence[Any]]:
    """Return the texts of documents, question and gold evidence; the rest is instruction."""
    return {
        "documents": doc["documents"],
        "question": [doc["question"]],
        "evidence": doc["evidence"],
    }
