"""Metrics of an answer in words: no answer is found in nothing, in no script."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import DataError
from harness.tasks.scoring.answers import (
    ANSWER_METRICS,
    best_f1,
    check_answer,
    choice,
    contains_answer,
    exact_match,
    letter_of,
    number,
    score_answer,
)
from harness.tasks.scoring.multidoc import best_subspan_em
from harness.tasks.scoring.text import qa_f1
from harness.tasks.scoring.words import words

IN_WORDS = (contains_answer, exact_match, best_f1, best_subspan_em)
SAID = "The answer is A."


@pytest.mark.parametrize("metric", IN_WORDS)
@pytest.mark.parametrize("answer", ["A", "+", "the", "An", "...", "?", "。"])
def test_a_blank_prediction_scores_nothing(
    metric: Callable[[str, list[str]], float], answer: str
) -> None:
    """What the normalisation empties is compared as written: itself 1, nothing 0."""
    assert metric("", [answer]) == 0.0
    assert metric(" \n ", [answer]) == 0.0
    assert metric(answer, [answer]) == 1.0


@pytest.mark.parametrize(
    ("answer", "prediction", "expected"),
    [
        ("A", SAID, 1.0),
        ("the", SAID, 1.0),
        ("+", SAID, 0.0),
        ("+", "It is +.", 1.0),
        ("A", "It is a dog.", 0.0),
        ("A", "Bananas", 0.0),
    ],
)
def test_emptied_answers_are_compared_as_written(
    answer: str, prediction: str, expected: float
) -> None:
    """A capital is meant as one; a lower-case answer matches either case (VLMEvalKit#1701)."""
    assert contains_answer(prediction, [answer]) == expected


def test_containment_is_by_whole_words() -> None:
    """The year 10 is not in 1910; case, articles and punctuation do not matter."""
    assert contains_answer("in 1910", ["10"]) == 0.0
    assert contains_answer("The Blue-Whale!", ["a blue-whale"]) == 1.0
    assert contains_answer("“Oslo”, he said", ["Oslo"]) == 1.0


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ("蓝鲸", "答案是蓝鲸。"),
        ("東京", "首都は東京です。"),
        ("서울", "수도는 서울입니다."),
        ("กรุงเทพ", "เมืองหลวงคือกรุงเทพมหานคร"),
        ("2021", "在２０２１年"),
    ],
)
def test_scripts_without_spaces(answer: str, sentence: str) -> None:
    """An answer is found inside a sentence, character by character; its parts give F1."""
    assert contains_answer(sentence, [answer]) == 1.0
    assert exact_match(answer + "。", [answer]) == 1.0
    assert contains_answer(sentence.replace(answer[0], "x"), [answer]) == float(answer == "2021")
    if answer != "2021":
        assert 0.0 < best_f1(sentence, [answer]) < 1.0


def test_f1_of_english_is_squads() -> None:
    """Typographic punctuation stays where SQuAD's rule leaves it."""
    for prediction, answer in [("a “blue” whale", "blue whale"), ("in 1914–1918", "1914-1918")]:
        assert best_f1(prediction, [answer]) == qa_f1(prediction, answer)


def test_exact_match_wants_nothing_else() -> None:
    """A sentence around the answer is too much."""
    assert exact_match("The Blue Whale.", ["x", "blue whale"]) == 1.0
    assert exact_match("It is the blue whale", ["blue whale"]) == 0.0


@pytest.mark.parametrize(
    ("prediction", "letter"),
    [
        ("B", "B"),
        ("(B)", "B"),
        ("b", "B"),
        ("B) Paris", "B"),
        (SAID, "A"),
        ("The answer is: **C**", "C"),
        ("the correct answer is (b) Paris", "B"),
        ("First B, but the answer is C. So the answer is (D).", "D"),
        ("option C is right", "C"),
        ("I think it must be A", "A"),
        ("I would take [C]", "C"),
        ("A dog is an animal.", None),
        ("The answer is a dog", None),
        ("Both B and C", None),
        ("Both A and C", None),
        ("I do not know.", None),
        ("D'oh", None),
        ("", None),
    ],
)
def test_the_letter_of_a_choice(prediction: str, letter: str | None) -> None:
    """Clear places first; a word that is also a letter is none, and two letters are no choice."""
    assert letter_of(prediction) == letter
    assert choice(prediction, ["B"]) == float(letter == "B")
    assert choice(prediction, ["(c)", "D."]) == float(letter in {"C", "D"})


@pytest.mark.parametrize(
    ("prediction", "expected"),
    [
        ("1234", 1.0),
        ("1,234", 1.0),
        ("It is $1,234.00.", 1.0),
        ("1000 and 234 make 1234", 1.0),
        ("The answer is 1234, which is 1000 + 234.", 1.0),
        ("1234 or 5", 0.0),
        ("-1234", 0.0),
        ("12345", 0.0),
        ("v1234", 0.0),
        ("１２３４", 1.0),
        ("none", 0.0),
        ("", 0.0),
    ],
)
def test_numbers_are_compared_by_value(prediction: str, expected: float) -> None:
    """The number behind "answer is", else the last one; grouping and zeros do not matter."""
    assert number(prediction, ["1234"]) == expected


@pytest.mark.parametrize(
    ("metric", "answer"),
    [
        *((name, blank) for name in ANSWER_METRICS for blank in ("", " ", "\n")),
        ("choice", "Oslo"),
        ("choice", "AB"),
        ("number", "none"),
        ("number", "3 or 4"),
        ("rouge_l", "."),
    ],
)
def test_answers_that_are_refused(metric: str, answer: str) -> None:
    """Blank answers by every metric, and answers that are not of a metric's kind."""
    with pytest.raises(DataError):
        check_answer(metric, answer)


def test_metrics_in_words_come_together() -> None:
    """The asked one is first; a letter or a number has no others."""
    assert list(score_answer("contains", "Oslo", ["Oslo"])) == [
        "contains_answer", "exact_match", "qa_f1",
    ]  # fmt: skip
    assert next(iter(score_answer("f1", "Oslo", ["Oslo"]))) == "qa_f1"
    assert list(score_answer("choice", "B", ["B"])) == ["choice"]


@pytest.mark.parametrize(
    ("prediction", "expected"),
    [
        ("Oslo\nand Bergen", 1.0),
        ("\nOslo", 0.0),
        ("I say\nOslo", 0.0),
        ("Oslofjord", 1.0),
        ("the oslo.", 1.0),
        ("", 0.0),
    ],
)
def test_lost_in_the_middle_reads_a_substring_of_the_first_line(
    prediction: str, expected: float
) -> None:
    """The official rule, unlike containment by words over the whole answer."""
    assert best_subspan_em(prediction, ["Stockholm", "Oslo"]) == expected


@given(st.text(max_size=40), st.sampled_from(["contains", "exact_match", "f1"]))
def test_whatever_passes_the_check_is_told_from_nothing(answer: str, metric: str) -> None:
    """An accepted answer scores 1 as its own prediction, and an empty prediction 0."""
    try:
        check_answer(metric, answer)
    except DataError:
        assert not answer.strip() or "against itself" in _why(metric, answer)
        return
    score = ANSWER_METRICS[metric].score
    assert score(answer, [answer]) == pytest.approx(1.0)
    assert score("", [answer]) == 0.0


def _why(metric: str, answer: str) -> str:
    with pytest.raises(DataError) as error:
        check_answer(metric, answer)
    return str(error.value)


def test_words_of_two_scripts() -> None:
    """Words stay words beside characters, and full-width digits are digits."""
    assert words("在 Oslo 的 ２ 个") == ["在", "oslo", "的", "2", "个"]
