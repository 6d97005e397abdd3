"""The multi-document tasks' metrics; *Lost in the Middle*'s is Liu et al.'s (arXiv 2307.03172)."""

from __future__ import annotations

from collections.abc import Sequence

from harness.tasks.scoring.answers import best_f1, contains_answer
from harness.tasks.scoring.text import english_tokens


def best_subspan_em(prediction: str, answers: Sequence[str]) -> float:
    r"""1.0 where a normalised answer is a substring of the prediction's first line, else 0.0.

    The official rule: only the text up to the first newline counts, or a model could score by
    copying its documents; and it is a substring's, so ``10`` is found in ``1910``. One thing is
    not official: an answer that the normalisation empties (``the``), and which any text would
    contain, is compared as :func:`harness.tasks.scoring.answers.contains_answer` does.

    >>> best_subspan_em("in 1910, I think\nOslo", ["10"])
    1.0
    >>> best_subspan_em("\nOslo", ["Oslo"])
    0.0
    """
    line = prediction.split("\n", maxsplit=1)[0].strip()
    text = " ".join(english_tokens(line))

    def found(answer: str) -> bool:
        wanted = " ".join(english_tokens(answer))
        return wanted in text if wanted else bool(contains_answer(line, [answer]))

    return float(any(map(found, answers)))


def in_words(prediction: str, answers: Sequence[str]) -> dict[str, float]:
    """Token F1 and containment with the best accepted answer."""
    return {
        "qa_f1": best_f1(prediction, answers),
        "contains_answer": contains_answer(prediction, answers),
    }


def with_subspan(prediction: str, answers: Sequence[str]) -> dict[str, float]:
    """*Lost in the Middle*'s metric, and the others beside it."""
    official = {"best_subspan_em": best_subspan_em(prediction, answers)}
    return official | in_words(prediction, answers)
