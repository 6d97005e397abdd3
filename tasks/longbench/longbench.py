"""LongBench's documents, segments and scores, from the rows that were imported or pulled.

Source: Bai et al., "LongBench" (arXiv 2308.14508); prompts and generation lengths of
THUDM/LongBench (LongBench/config).
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

from harness.tasks.data.readers import read_file, read_set
from harness.tasks.scoring.longbench import METRIC_OF, score

NUMBERED = {
    "hotpotqa": r"Passage (\d+):\n",
    "2wikimqa": r"Passage (\d+):\n",
    "musique": r"Passage (\d+):\n",
    "multi_news": r"Passage (\d+):\n",
    "passage_count": r"Paragraph (\d+): ",
    "passage_retrieval_en": r"Paragraph (\d+): ",
    "passage_retrieval_zh": r"段落(\d+)：",
}
"""How a context's documents are headed; other contexts are one document."""

WITHOUT_QUESTION = frozenset({"gov_report", "multi_news", "vcsum", "passage_count", "lcc"})
"""Data sets whose prompts do not show a row's ``input``."""


def dataset(*, source: str, file: str | None = None, **_: Any) -> dict[str, Any]:
    """Return the installed rows, or a file's; lm-eval's ``custom_dataset``."""
    import datasets

    docs = [
        {
            "input": row.input,
            "context": row.context,
            "answers": row.answers,
            "all_classes": row.all_classes or [],
            "dataset": row.dataset.removesuffix("_e"),
            "cluster": hashlib.sha256(row.context.encode()).hexdigest()[:16],
            "facts": {"words": row.length, "bucket": bucket(row.length), "id": row.id},
        }
        for row in (read_set(source) if file is None else read_file(file))
    ]
    return {"test": datasets.Dataset.from_list(docs)}


def bucket(length: int) -> str:
    """LongBench-E's length group, by the row's own length in words (or Chinese characters)."""
    if length < 4000:
        return "0-4k"
    return "4-8k" if length < 8000 else "8k+"


def process(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """Score as the official repository does; lm-eval's ``process_results``."""
    name = doc["dataset"]
    return {METRIC_OF[name]: score(name, results[0], doc["answers"], doc["all_classes"])}


def segments(doc: Mapping[str, Any]) -> dict[str, Sequence[Any]]:
    """Return documents, question, and the paragraph to be retrieved as evidence."""
    documents = split(doc["context"], doc["dataset"])
    asked = doc["dataset"] not in WITHOUT_QUESTION and doc["input"].strip()
    gold = []
    if doc["dataset"].startswith("passage_retrieval"):
        number = re.search(r"\d+", doc["answers"][0])
        heading = NUMBERED[doc["dataset"]].replace(r"(\d+)", number.group() if number else "")
        gold = [[i, text] for i, text in enumerate(documents) if re.match(heading, text)]
    return {
        "documents": documents,
        "question": [doc["input"]] if asked else [],
        "evidence": gold,
    }


def split(context: str, name: str) -> list[str]:
    """Split a context at its documents' headings, which stay with their documents."""
    pattern = NUMBERED.get(name)
    starts = [m.start() for m in re.finditer(f"(?m)^{pattern}", context)] if pattern else []
    if not starts:
        return [context]
    bounds = [*starts, len(context)]
    return [context[a:b].rstrip("\n") for a, b in itertools.pairwise(bounds)]
