"""RULER's two metrics (NVIDIA/RULER, scripts/eval/synthetic/constants.py)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from harness.tasks.scoring.words import refuse_blank

CONTROL = re.compile(r"[\x00-\x1f]")


def postprocess(prediction: str) -> str:
    """Strip, and turn control characters into newlines, as RULER does before it scores."""
    return CONTROL.sub("\n", prediction.strip()).strip()


def _found(prediction: str, references: Sequence[str]) -> list[bool]:
    refuse_blank(references)
    text = postprocess(prediction).lower()
    return [reference.lower() in text for reference in references]


def string_match_all(prediction: str, references: Sequence[str]) -> float:
    """Share of the references that occur in the prediction, in [0, 1], case ignored.

    >>> string_match_all("It is 42 and 17.", ["17", "42", "99", "3"])
    0.5
    """
    found = _found(prediction, references)
    return sum(found) / len(found)


def string_match_part(prediction: str, references: Sequence[str]) -> float:
    """1.0 where any reference occurs in the prediction, else 0.0.

    The references are alternative answers to one question, so one is enough.

    >>> string_match_part("in Oslo", ["Oslo", "the city of Oslo", "Christiania"])
    1.0
    """
    return float(any(_found(prediction, references)))


RULER_METRICS: Mapping[str, Callable[[str, Sequence[str]], float]] = {
    "string_match_all": string_match_all,
    "string_match_part": string_match_part,
}
"""By the names that RULER gives them."""
