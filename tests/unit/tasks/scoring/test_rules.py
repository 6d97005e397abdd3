"""The rules around the metrics, each on the smallest input that shows it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import DataError
from harness.tasks.scoring.answers import best_f1
from harness.tasks.scoring.longbench import METRIC_OF, classification, score
from harness.tasks.scoring.ruler import string_match_all, string_match_part
from harness.tasks.scoring.text import code_similarity, qa_f1, rouge_l

TEXT = st.text(max_size=60)


def test_best_of_answers_counts() -> None:
    """A second answer that fits gives the full score (lm-evaluation-harness#2932)."""
    assert score("hotpotqa", "  the whale \n", ["blue whale", "A whale"]) == 1.0


@pytest.mark.parametrize(
    ("prediction", "expected"), [("段落13和段落3", 0.5), ("段落30", 0.0), ("答案是段落3", 1.0)]
)
def test_retrieval_compares_whole_numbers(prediction: str, expected: float) -> None:
    """Paragraph 3 is not found in 13 or 30 (LongBench#4)."""
    assert score("passage_retrieval_zh", prediction, ["段落3"]) == expected


def test_retrieval_refuses_an_answer_without_a_number() -> None:
    """A malformed reference is an error with its text, not an index error."""
    with pytest.raises(DataError, match="第三段"):
        score("passage_retrieval_zh", "段落3", ["第三段"])


@pytest.mark.parametrize("dataset", ["trec", "triviaqa", "samsum", "lsht"])
def test_only_the_first_line_counts(dataset: str) -> None:
    """Leading newlines are passed over, then one line is read."""
    classes = ["Oslo", "Bergen"]
    first = score(dataset, "\n\nOslo\nBergen", ["Oslo"], classes)
    assert first == pytest.approx(1.0)
    assert score(dataset, "Bergen\nOslo", ["Oslo"], classes) == 0.0


def test_other_datasets_read_every_line() -> None:
    """The first-line rule is for four data sets alone."""
    assert 0 < score("hotpotqa", "Bergen\nOslo", ["Oslo"]) < 1


def test_classification_skips_the_name_after_a_dropped_one() -> None:
    """The official loop drops from the list it walks along, so one of two part-names stays."""
    classes = ["City", "Cit", "City name"]
    assert classification("City name", "City name", classes) == 0.5
    assert classification("City name", "City name", ["City", "City name"]) == 1.0


def test_classification_needs_class_names() -> None:
    """Without class names there is no score, not a score of 0."""
    with pytest.raises(DataError, match="all_classes"):
        score("trec", "City", ["City"], None)


def test_code_similarity_takes_the_first_line_of_code() -> None:
    """Comments and mark-up in front are passed over; an empty line is a line."""
    assert code_similarity("# first\n```\nx = 1\ny = 2", "x = 1") == 1.0
    assert code_similarity("  \nx = 1", "x = 1") < 0.6


def test_ruler_question_answering_takes_any_reference() -> None:
    """Three alternative answers, one given: 1.0, where the other tasks score a third."""
    answers = ["Oslo", "Christiania", "the capital"]
    assert string_match_part("in oslo.", answers) == 1.0
    assert string_match_all("in oslo.", answers) == pytest.approx(1 / 3)


def test_ruler_reads_control_characters_as_line_ends() -> None:
    """A value that control characters cut in two is not found."""
    assert string_match_all("73\x0119", ["7319"]) == 0.0


@pytest.mark.parametrize("metric", [string_match_all, string_match_part])
@pytest.mark.parametrize("reference", ["", "  ", "\n"])
def test_ruler_refuses_a_blank_reference(metric: Any, reference: str) -> None:
    """A blank text is part of every prediction, so it is no reference."""
    with pytest.raises(DataError, match="blank"):
        metric("I do not know.", ["7319", reference])


@pytest.mark.parametrize("dataset", METRIC_OF)
def test_empty_predictions_score_zero(dataset: str) -> None:
    """An empty answer is wrong, and stays in the mean."""
    assert score(dataset, "", ["Paragraph 1, 段落1"], ["City"]) == 0.0


@given(TEXT, TEXT)
def test_scores_lie_in_the_unit_interval(prediction: str, answer: str) -> None:
    """Whatever the texts, a score is a number in [0, 1]."""
    for metric in (qa_f1, rouge_l, code_similarity):
        assert 0.0 <= metric(prediction, answer) <= 1.0
    if answer.strip():
        assert 0.0 <= best_f1(prediction, [answer, "x"]) <= 1.0


@given(st.text(alphabet="abcdef gh", min_size=1, max_size=40))
def test_an_answer_matches_itself(text: str) -> None:
    """F1 of a text with itself is 1, unless normalisation leaves nothing of it."""
    assert qa_f1(text, text) in {0.0, 1.0}
    if text.strip():
        assert string_match_all(f"so {text} it is", [text]) == 1.0
