"""The parts of a RULER prompt, which its generators note down in every document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def segments(doc: Mapping[str, Any]) -> dict[str, Sequence[str]]:
    """Return the texts of instruction, documents, question and gold evidence.

    Question answering names no instruction: what is neither document nor question is one.
    """
    parts = {
        "documents": doc["documents"],
        "question": [doc["question"]],
        "evidence": doc["evidence"],
    }
    return {"instruction": [doc["instruction"]], **parts} if "instruction" in doc else parts
