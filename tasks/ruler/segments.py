"""The parts of a RULER prompt, which its generators note down in every document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def segments(doc: Mapping[str, Any]) -> dict[str, Sequence[str]]:
    """Return the texts of instruction, documents, question and gold evidence."""
    return {
        "instruction": [doc["instruction"]],
        "documents": doc["documents"],
        "question": [doc["question"]],
        "evidence": doc["evidence"],
    }
