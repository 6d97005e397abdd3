"""The multi-document tasks' metrics beside token F1."""

from __future__ import annotations

from collections.abc import Sequence

from harness.tasks.scoring.text import english_tokens, qa_f1


def best_f1(prediction: str, answers: Sequence[str]) -> float:
    """Token F1 with the best of the accepted answers, in [0, 1]."""
    return max(qa_f1(prediction, answer) for answer in answers)


def contains_answer(prediction: str, answers: Sequence[str]) -> float:
    """1.0 where a whole accepted answer stands in the prediction, both normalised, else 0.0.

    The rule of lost-in-the-middle's ``best_subspan_em`` (Liu et al., arXiv 2307.03172), on whole
    words: ``10`` is not contained in ``1910``.

    >>> contains_answer("It was the Blue Whale, I think.", ["blue whale"])
    1.0
    """
    text = f" {' '.join(english_tokens(prediction))} "
    return float(any(f" {' '.join(english_tokens(answer))} " in text for answer in answers))
