"""A user's own rows, and RULER's own samples, as lm-eval documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.tasks.data.own_rows import read_own_rows
from harness.tasks.scoring.multidoc import best_f1, contains_answer
from harness.tasks.scoring.ruler import string_match_all


def dataset(*, file: str, **_: Any) -> dict[str, Any]:
    """Return the file's rows; lm-eval's ``custom_dataset``."""
    import datasets

    docs = [row.doc(index) for index, row in enumerate(read_own_rows(Path(file)))]
    return {"test": datasets.Dataset.from_list(docs)}


def process(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """Score a row; RULER's samples want every answer, a user's rows any of them."""
    if doc["every_answer"]:
        return {"string_match_all": string_match_all(results[0], doc["answers"])}
    return {
        "contains_answer": contains_answer(results[0], doc["answers"]),
        "qa_f1": best_f1(results[0], doc["answers"]),
    }


def segments(doc: Mapping[str, Any]) -> dict[str, Sequence[str]]:
    """Return what the row itself names; the rest is instruction where it names documents."""
    return {
        "documents": doc["documents"],
        "question": [doc["question"]] if doc["question"] else [],
        "evidence": doc["evidence"],
    }
