"""``harness run --data``: a user's own rows, and publishers' files as they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from unit.tasks.data.files import HOTPOT, LONGBENCH, MUSIQUE, RULER, SQUAD, lines

from harness.errors import DataError
from harness.models.tokenizer import Tokenizer
from harness.tasks.examples import TaskExamples, examples_from_file

MILL = {
    "document": "The mill stands by the river.",
    "question": "Where is the mill?",
    "answers": ["by the river"],
}


def load(tmp_path: Path, tokenizer: Tokenizer, *rows: Any, name: str = "mine.jsonl",
         limit: int | None = None, max_positions: int = 8192,
         metric: str | None = None) -> TaskExamples:  # fmt: skip
    """Write rows and load them."""
    path = tmp_path / name
    path.write_text(lines(*rows), encoding="utf-8")
    return examples_from_file(
        path, limit=limit, tokenizer=tokenizer, max_positions=max_positions, metric=metric
    )


def test_a_document_and_a_question(smollm2: Tokenizer, tmp_path: Path) -> None:
    """The prompt holds both word for word; spans and query say where; scoring takes any answer."""
    found = load(tmp_path, smollm2, MILL)
    (example,) = found.examples
    assert example.prompt.segments is not None
    (document,) = example.prompt.segments.documents
    assert example.prompt.text[document.start : document.stop] == MILL["document"]
    assert example.prompt.query == MILL["question"]
    assert found.score(example, "It is by the river, I think.")["contains_answer"] == 1.0
    assert found.task.name == "mine"


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "Say hello.", "answers": ["hello"]},
        {"prompt": "Say hello.", "answer": "hello"},
        {"context": "A b c.", "input": "What?", "answers": ["b"]},
        {"documents": ["A b.", "C d."], "question": "What?", "answers": "d", "evidence": "C d."},
        {"prompt": "A b. C d. What?", "documents": ["A b.", "C d."], "question": "What?",
         "answers": ["d"], "id": 7, "facts": {"source": "me"}, "answer_prefix": "It is"},
        {**MILL, "instruction": "Answer in one word."},
    ],
)  # fmt: skip
def test_shapes_that_are_taken(row: dict[str, Any], smollm2: Tokenizer, tmp_path: Path) -> None:
    """Names of other tools are understood, and single texts stand for lists of one."""
    found = load(tmp_path, smollm2, row)
    (example,) = found.examples
    assert found.score(example, example.record.references[0])["contains_answer"] == 1.0


@pytest.mark.parametrize(
    ("row", "match"),
    [
        ({**MILL, "evidnce": "x"}, "unknown key 'evidnce'; did you mean 'evidence'"),
        ({"question": "What?", "answers": ["b"]}, "a document and a 'question'"),
        ({"document": "A b.", "answers": ["b"]}, "a document and a 'question'"),
        ({**MILL, "answers": []}, "answers"),
        ({**MILL, "answers": [""]}, "answers.0: is blank"),
        ({**MILL, "answers": ["x", " \n"]}, "answers.1: is blank"),
        ({**MILL, "metric": "chioce"}, "metric: unknown metric 'chioce'; did you mean 'choice'"),
        ({**MILL, "metric": "choice"}, "answers: 'by the river' cannot be scored by choice"),
        ({**MILL, "metric": "number"}, "answers: .* number wants one number"),
        ({**MILL, "metric": "rouge_l", "answers": ["."]}, "answers: '.' cannot be scored"),
        ({**MILL, "answers": None}, "answers"),
        ({"document": "A b.", "question": "What?"}, "answers: field required"),
        ({**MILL, "evidence": ["not there"]}, "evidence: .* word for word"),
        ({"prompt": "A", "documents": ["B"], "answers": ["x"]}, "documents: .* word for word"),
        ({"prompt": "A", "question": "B?", "answers": ["x"]}, "question: .* word for word"),
        ([1], "object"),
    ],
)
def test_rows_that_are_refused(row: Any, match: str, smollm2: Tokenizer, tmp_path: Path) -> None:
    """One line with file, line number and field."""
    with pytest.raises(DataError, match=match) as error:
        load(tmp_path, smollm2, MILL, row)
    assert "mine.jsonl line 2: " in str(error.value)


def test_the_same_id_twice(smollm2: Tokenizer, tmp_path: Path) -> None:
    """Records could not be told apart."""
    with pytest.raises(DataError, match="'a' stands twice"):
        load(tmp_path, smollm2, {**MILL, "id": "a"}, {**MILL, "id": "a"})


def test_a_prompt_beyond_the_range(smollm2: Tokenizer, tmp_path: Path) -> None:
    """A user's prompt is never cut silently."""
    with pytest.raises(DataError, match="positions"):
        load(tmp_path, smollm2, {"prompt": "word " * 600, "answers": ["x"]}, max_positions=512)


def test_the_limit_takes_the_first_rows(smollm2: Tokenizer, tmp_path: Path) -> None:
    """A file of one's own is read from its beginning."""
    rows = [{**MILL, "id": i} for i in range(5)]
    found = load(tmp_path, smollm2, *rows, limit=2)
    assert [e.record.facts["id"] for e in found.examples] == ["0", "1"]


@pytest.mark.parametrize(
    "case",
    [
        (None, "A", "The answer is A.", "contains_answer", 1.0),
        ("contains", "蓝鲸", "答案是蓝鲸。", "contains_answer", 1.0),
        ("exact_match", "Oslo", "Oslo.", "exact_match", 1.0),
        ("exact_match", "Oslo", "It is Oslo.", "exact_match", 0.0),
        ("f1", "blue whale", "whale", "qa_f1", 2 / 3),
        ("choice", "B", "The answer is (B).", "choice", 1.0),
        ("rouge_l", "the cat sat", "the cat ran", "rouge_l", 2 / 3),
        ("number", "1,234", "That makes 1234.0", "number", 1.0),
    ],
)
def test_a_metric_to_choose(
    case: tuple[str | None, str, str, str, float], smollm2: Tokenizer, tmp_path: Path
) -> None:
    """``--metric`` or a row's own: the primary metric has its name, and nothing scores 0."""
    metric, answer, prediction, name, score = case
    row = {**MILL, "answers": [answer]}
    for found in (
        load(tmp_path, smollm2, row, metric=metric),
        load(tmp_path, smollm2, row if metric is None else {**row, "metric": metric}),
    ):
        (example,) = found.examples
        assert found.task.metric == name
        scores = found.score(example, prediction)
        assert next(iter(scores)) == name
        assert scores[name] == pytest.approx(score)
        assert set(found.score(example, "").values()) == {0.0}


def test_rows_of_several_metrics(smollm2: Tokenizer, tmp_path: Path) -> None:
    """A row's own metric wins over the option; their common name says that they differ."""
    rows = [{**MILL, "id": 1}, {**MILL, "id": 2, "answers": ["B"], "metric": "choice"}]
    found = load(tmp_path, smollm2, *rows, metric="exact_match")
    assert found.task.metric == "mixed"
    first, second = found.examples
    assert found.score(first, "the river") == {
        "mixed": 0.0, "exact_match": 0.0, "contains_answer": 0.0, "qa_f1": pytest.approx(2 / 3),
    }  # fmt: skip
    assert found.score(second, "(B)") == {"mixed": 1.0, "choice": 1.0}


def test_another_metric_is_another_example(smollm2: Tokenizer, tmp_path: Path) -> None:
    """Scores by two metrics are never paired; the usual metric's digest is the old one."""
    digests = {
        metric: load(tmp_path, smollm2, MILL, metric=metric).examples[0].record.content_digest
        for metric in (None, "contains", "f1")
    }
    assert digests[None] == digests["contains"] != digests["f1"]


def test_a_publishers_rows_have_their_own_metric(smollm2: Tokenizer, tmp_path: Path) -> None:
    """``--metric`` does not turn LongBench's scores into other ones."""
    with pytest.raises(DataError, match="leave --metric out"):
        load(tmp_path, smollm2, LONGBENCH, metric="f1")


@pytest.mark.parametrize("ids", ["r{}", None])
def test_identical_rows_are_one_cluster(
    ids: str | None, smollm2: Tokenizer, tmp_path: Path
) -> None:
    """One prompt thirty times is one measurement, whatever its ids (HELMET#36)."""
    rows = [
        {"prompt": "The grass is green. What is green?", "answers": ["grass"]}
        | ({"id": ids.format(i)} if ids else {})
        for i in range(30)
    ]
    found = load(tmp_path, smollm2, *rows, {"prompt": "Another one?", "answers": ["x"]})
    assert len({example.record.cluster for example in found.examples[:30]}) == 1
    assert len({example.record.cluster for example in found.examples}) == 2


def test_rulers_questions_have_alternative_answers(smollm2: Tokenizer, tmp_path: Path) -> None:
    """Samples of RULER's qa tasks want one of their references, all others each."""
    row = {**RULER, "outputs": ["42", "43"], "answer_prefix": " Answer:"}
    found = load(tmp_path, smollm2, row)
    assert found.task.metric == "string_match_part"
    assert found.score(found.examples[0], "42") == {"string_match_part": 1.0}


def test_rulers_own_samples(smollm2: Tokenizer, tmp_path: Path) -> None:
    """A file of RULER's scripts runs as it is and wants every reference."""
    row = {**RULER, "outputs": ["42", "43"]}
    found = load(tmp_path, smollm2, row)
    (example,) = found.examples
    assert example.prompt.text.endswith("assistant\nIt is")
    assert found.score(example, "42") == {"string_match_all": 0.5}


@pytest.mark.parametrize(
    ("row", "metric", "score"),
    [
        ({**LONGBENCH, "answers": ["Oslo"]}, "qa_f1", 1.0),
        (MUSIQUE, "qa_f1", 1.0),
        (HOTPOT, "qa_f1", 1.0),
    ],
)
def test_publishers_rows_run_as_their_task(
    row: dict[str, Any], metric: str, score: float, smollm2: Tokenizer, tmp_path: Path
) -> None:
    """LongBench's and the multi-hop sets' rows need no import to be run once."""
    found = load(tmp_path, smollm2, row)
    (example,) = found.examples
    assert found.task.metric == metric
    assert found.score(example, example.record.references[0])[metric] == score


def test_squad_has_to_be_imported(smollm2: Tokenizer, tmp_path: Path) -> None:
    """SQuAD alone is no set of prompts; the line says what to do with it."""
    path = tmp_path / "squad.json"
    path.write_text(json.dumps(SQUAD), encoding="utf-8")
    with pytest.raises(DataError, match="import it"):
        examples_from_file(path, limit=None, tokenizer=smollm2, max_positions=8192)


def test_a_missing_file(smollm2: Tokenizer, tmp_path: Path) -> None:
    """A file that is not there is named."""
    with pytest.raises(DataError, match=r"none\.jsonl: No such file"):
        examples_from_file(
            tmp_path / "none.jsonl", limit=None, tokenizer=smollm2, max_positions=8192
        )
