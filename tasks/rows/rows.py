"""A user's own rows, and RULER's own samples, as lm-eval documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.tasks.data.own_rows import MIXED, metric_of, read_own_rows
from harness.tasks.scoring.answers import ANSWER_METRICS, score_answer
from harness.tasks.scoring.ruler import RULER_METRICS


def dataset(*, file: str, metric: str | None = None, **_: Any) -> dict[str, Any]:
    """Return the file's rows; lm-eval's ``custom_dataset``."""
    import datasets

    rows = read_own_rows(Path(file), metric)
    mixed = metric_of(rows) == MIXED
    docs = [{**row.doc(index), "mixed": mixed} for index, row in enumerate(rows)]
    return {"test": datasets.Dataset.from_list(docs)}


def process(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """Score a row by its own metric."""
    name, answers = doc["metric"], doc["answers"]
    if name in ANSWER_METRICS:
        scores = score_answer(name, results[0], answers)
    else:
        scores = {name: RULER_METRICS[name](results[0], answers)}
    return {MIXED: next(iter(scores.values())), **scores} if doc["mixed"] else scores


def segments(doc: Mapping[str, Any]) -> dict[str, Sequence[str]]:
    """Return what the row itself names; the rest is instruction where it names documents."""
    return {
        "documents": doc["documents"],
        "question": [doc["question"]] if doc["question"] else [],
        "evidence": doc["evidence"],
    }
