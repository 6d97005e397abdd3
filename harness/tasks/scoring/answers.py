"""Metrics of an answer in words, for a user's own rows and multi-document tasks.

Each is a function of a prediction and the accepted answers, in [0, 1], the best answer counting.
An answer that cannot be told from an empty prediction is refused, never scored.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from harness.errors import DataError
from harness.tasks.scoring.text import english_tokens, qa_f1, rouge_l, token_f1
from harness.tasks.scoring.words import comparable, is_unspaced, refuse_blank, words

LETTER = re.compile(r"[(\[]?([A-Za-z])[)\].:]?")
"""A reference that is a choice's letter: ``B``, ``(b)``, ``B.``."""

CHOSEN = (
    re.compile(
        r"(?i:\banswer|\bchoice|\boption)\b(?i:\s+(?:is|would be|should be))?\s*[:=]?\s*"
        r"(?i:option\s+|choice\s+)?[*_]{0,2}"
        r"(?:[(\[]([A-Za-z])[)\]]|([A-Z])(?![\w'’])|([a-z])(?=\W*$))",
        re.MULTILINE,
    ),
    re.compile(r"^\W*(?:([A-Z])(?=\s*(?:$|[)\].:,;\n]))|([a-z])\W*$)"),
    re.compile(r"[(\[]([A-Z])[)\]]"),
    re.compile(r"(?<![\w'’])([B-HJ-Z])(?![\w'’])|(?<=[a-z,;:] )(A)(?![\w'’])"),
)
"""Where a prediction names its choice, from the clearest place to the least clear. A lone ``I``
in running text is a word, and so is an ``A`` that begins a sentence."""

NUMBER = re.compile(r"(?<![\w.])[-+−]?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?")
SAID = re.compile(r"(?i)\banswer\b(?:\s+is)?\s*[:=]?")


def contains_answer(prediction: str, answers: Sequence[str]) -> float:
    """1.0 where a whole accepted answer stands in the prediction, both normalised, else 0.0.

    On whole words: ``10`` is not contained in ``1910``. Scripts without spaces are compared by
    character (:mod:`harness.tasks.scoring.words`).

    >>> contains_answer("It was the Blue Whale, I think.", ["blue whale"])
    1.0
    >>> contains_answer("", ["the"])
    0.0
    """
    return float(any(_holds(*comparable(prediction, answer)) for answer in answers))


def _holds(text: Sequence[str], wanted: Sequence[str]) -> bool:
    def joined(tokens: Sequence[str]) -> str:
        return " ".join(("", *tokens, ""))

    return joined(wanted) in joined(text)


def exact_match(prediction: str, answers: Sequence[str]) -> float:
    """1.0 where the prediction is an accepted answer and nothing else, both normalised.

    >>> exact_match("The blue whale.", ["Blue whale"])
    1.0
    """
    pairs = (comparable(prediction, answer) for answer in answers)
    return float(any(text == wanted for text, wanted in pairs))


def best_f1(prediction: str, answers: Sequence[str]) -> float:
    """Token F1 with the best accepted answer, in [0, 1]; SQuAD's where words have spaces."""
    return max(_f1(prediction, answer) for answer in answers)


def _f1(prediction: str, answer: str) -> float:
    text, wanted = comparable(prediction, answer)
    spaced = english_tokens(answer) and not is_unspaced(answer)
    return qa_f1(prediction, answer) if spaced else token_f1(text, wanted)


def choice(prediction: str, answers: Sequence[str]) -> float:
    """1.0 where the prediction chooses an accepted letter, else 0.0.

    The letter is looked for behind "answer", "choice" or "option", the last one counting; then at
    the start; then in brackets; then alone in the text, where all of them must be the same.

    >>> choice("I first thought of B, but the answer is (C).", ["C"])
    1.0
    >>> choice("A dog is an animal.", ["A"])
    0.0
    """
    accepted = {_letter(answer) for answer in answers}
    return float(letter_of(prediction) in accepted)


def letter_of(prediction: str) -> str | None:
    """The letter that a prediction chooses; None where it names none, or several alike."""
    said, start, bracketed, alone = CHOSEN
    for pattern, at in ((said, -1), (start, 0)):
        found = _letters(pattern, prediction)
        if found:
            return found[at]
    for pattern in (bracketed, alone):
        named = set(_letters(pattern, prediction))
        if named:
            return named.pop() if len(named) == 1 else None
    return None


def _letters(pattern: re.Pattern[str], text: str) -> list[str]:
    return [next(filter(None, match.groups())).upper() for match in pattern.finditer(text)]


def _letter(answer: str) -> str:
    found = LETTER.fullmatch(answer.strip())
    if found is None:
        raise ValueError("choice wants one letter, as B")
    return found.group(1).upper()


def number(prediction: str, answers: Sequence[str]) -> float:
    """1.0 where the prediction's number equals an accepted one in value, else 0.0.

    The number behind the last "answer is" counts, else the last number of the text. Thousands may
    be grouped by commas; ``3`` and ``3.0`` are equal.

    >>> number("6 times 7 is 42.", ["42.0"])
    1.0
    """
    accepted = {_one_number(answer) for answer in answers}
    said = [match.end() for match in SAID.finditer(prediction)]
    behind = _numbers(prediction[said[-1] :]) if said else []
    found = behind[:1] or _numbers(prediction)[-1:]
    return float(not accepted.isdisjoint(found))


def _numbers(text: str) -> list[Decimal]:
    plain = unicodedata.normalize("NFKC", text)
    return [Decimal(m.replace(",", "").replace("−", "-")) for m in NUMBER.findall(plain)]


def _one_number(answer: str) -> Decimal:
    found = _numbers(answer)
    if len(found) != 1:
        raise ValueError("number wants one number")
    return found[0]


def best_rouge_l(prediction: str, answers: Sequence[str]) -> float:
    """ROUGE-L's F with the best accepted answer, by characters in scripts without spaces."""
    return max(_rouge(prediction, answer) for answer in answers)


def _rouge(prediction: str, answer: str) -> float:
    if is_unspaced(answer):
        return rouge_l(" ".join(words(prediction)), " ".join(words(answer)))
    return rouge_l(prediction, answer)


@dataclass(frozen=True, slots=True)
class AnswerMetric:
    """A metric to choose for own rows: its name in records, and what it computes."""

    name: str
    score: Callable[[str, Sequence[str]], float]


ANSWER_METRICS: Mapping[str, AnswerMetric] = {
    "contains": AnswerMetric("contains_answer", contains_answer),
    "exact_match": AnswerMetric("exact_match", exact_match),
    "f1": AnswerMetric("qa_f1", best_f1),
    "choice": AnswerMetric("choice", choice),
    "rouge_l": AnswerMetric("rouge_l", best_rouge_l),
    "number": AnswerMetric("number", number),
}
"""What ``--metric`` and a row's ``metric`` take; the first is what rows have that name none."""

DEFAULT_METRIC = "contains"
IN_WORDS = ("contains", "exact_match", "f1")
"""Metrics that any answer in words has: each of them brings the others along."""


def score_answer(metric: str, prediction: str, answers: Sequence[str]) -> dict[str, float]:
    """Score one prediction.

    Parameters
    ----------
    metric
        Key of :data:`ANSWER_METRICS`.

    Returns
    -------
    dict
        Metrics by their names in records, the asked one first.
    """
    beside = IN_WORDS if metric in IN_WORDS else ()
    chosen = [ANSWER_METRICS[name] for name in dict.fromkeys((metric, *beside))]
    return {one.name: one.score(prediction, answers) for one in chosen}


def check_answer(metric: str, answer: str) -> None:
    """Refuse an answer that the metric cannot tell from nothing.

    Raises
    ------
    DataError
        The answer is blank or not of the metric's kind, or does not score 1 as its own prediction.
    """
    refuse_blank((answer,))
    score = ANSWER_METRICS[metric].score
    try:
        itself, nothing = score(answer, [answer]), score("", [answer])
    except ValueError as error:
        raise DataError(f"{answer!r} cannot be scored by {metric}: {error}") from error
    if itself < 0.99 or nothing:  # ROUGE adds a hair to its denominator
        raise DataError(
            f"{answer!r} cannot be scored by {metric}: it scores {itself:g} against itself"
        )
