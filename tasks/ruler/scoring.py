"""RULER's two metrics as lm-eval wants them: a document and its results in, metrics out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.tasks.scoring.ruler import string_match_all, string_match_part


def all_references(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """Share of the references in the answer: every task but question answering."""
    return {"string_match_all": string_match_all(results[0], doc["outputs"])}


def any_reference(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """1.0 where any of the alternative answers is there: question answering."""
    return {"string_match_part": string_match_part(results[0], doc["outputs"])}
