"""LongBench's scores: which metric a data set has, and the rules around the metric.

Source: THUDM/LongBench, ``eval.py`` and ``metrics.py``: the best score over the accepted
answers; only the first line of a prediction for four data sets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from harness.errors import DataError
from harness.tasks.scoring.text import code_similarity, qa_f1, qa_f1_zh, rouge_l, rouge_l_zh

DIGITS = re.compile(r"\d+")
FIRST_LINE_ONLY = frozenset({"trec", "triviaqa", "samsum", "lsht"})

METRIC_OF: Mapping[str, str] = {
    "narrativeqa": "qa_f1",
    "qasper": "qa_f1",
    "multifieldqa_en": "qa_f1",
    "multifieldqa_zh": "qa_f1_zh",
    "hotpotqa": "qa_f1",
    "2wikimqa": "qa_f1",
    "musique": "qa_f1",
    "dureader": "rouge_l_zh",
    "gov_report": "rouge_l",
    "qmsum": "rouge_l",
    "multi_news": "rouge_l",
    "vcsum": "rouge_l_zh",
    "trec": "classification",
    "triviaqa": "qa_f1",
    "samsum": "rouge_l",
    "lsht": "classification",
    "passage_retrieval_en": "retrieval",
    "passage_count": "count",
    "passage_retrieval_zh": "retrieval_zh",
    "lcc": "code_similarity",
    "repobench-p": "code_similarity",
}
"""The official metric of each of the 21 data sets."""


def share_of_numbers(prediction: str, wanted: str) -> float:
    """Share of the prediction's numbers that are the wanted one; 0.0 where there are none."""
    numbers = DIGITS.findall(prediction)
    return sum(number == wanted for number in numbers) / len(numbers) if numbers else 0.0


def count(prediction: str, answer: str) -> float:
    """Counting: the answer is a bare number."""
    return share_of_numbers(prediction, answer)


def retrieval(prediction: str, answer: str, pattern: str = r"Paragraph (\d+)") -> float:
    """Retrieval: the answer names a paragraph by its number.

    Raises
    ------
    DataError
        Where the answer does not have the pattern.
    """
    found = re.search(pattern, answer)
    if found is None:
        shape = pattern.replace(r"(\d+)", "NUMBER")
        raise DataError(f"answer {answer!r} does not read {shape!r}")
    return share_of_numbers(prediction, found.group(1))


def retrieval_zh(prediction: str, answer: str) -> float:
    """Retrieval in Chinese."""
    return retrieval(prediction, answer, r"段落(\d+)")


def classification(prediction: str, answer: str, classes: Sequence[str]) -> float:
    """Classification: 1/k where the answer is among the k class names that the text contains.

    Names that are part of the answer's own name do not count (``City`` beside ``City name``).
    The official loop drops them from the list that it walks along, so the name after a dropped
    one is passed over and stays; published scores have that quirk, and so has this.
    """
    found = [name for name in classes if name in prediction]
    at = 0
    while at < len(found):
        name = found[at]
        if name in answer and name != answer:
            found.remove(name)
        at += 1
    return 1.0 / len(found) if answer in found else 0.0


METRICS: Mapping[str, Callable[[str, str], float]] = {
    "qa_f1": qa_f1,
    "qa_f1_zh": qa_f1_zh,
    "rouge_l": rouge_l,
    "rouge_l_zh": rouge_l_zh,
    "count": count,
    "retrieval": retrieval,
    "retrieval_zh": retrieval_zh,
    "code_similarity": code_similarity,
}
"""Metrics of one prediction and one answer; classification also needs the class names."""


def score(
    dataset: str,
    prediction: str,
    answers: Sequence[str],
    classes: Sequence[str] | None = None,
) -> float:
    """Score one prediction of a LongBench data set, in [0, 1].

    Parameters
    ----------
    dataset
        Key of :data:`METRIC_OF`; LongBench-E's sets score as their originals.
    classes
        The class names (``all_classes``), for trec and lsht.

    Raises
    ------
    DataError
        A malformed answer, or class names missing.
    """
    if dataset in FIRST_LINE_ONLY:
        prediction = prediction.lstrip("\n").split("\n")[0]
    name = METRIC_OF[dataset]
    if name == "classification":
        if not classes:
            raise DataError(f"{dataset} is scored by class names; 'all_classes' has none")
        return max((classification(prediction, a, classes) for a in answers), default=0.0)
    metric = METRICS[name]
    return max((metric(prediction, answer) for answer in answers), default=0.0)
