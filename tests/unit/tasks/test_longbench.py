"""LongBench's tasks: official prompts, limits, truncation, template exceptions, scores."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from samples import sample
from unit.tasks.data.files import LONGBENCH, lines

from harness.errors import DataError
from harness.models.tokenizer import Tokenizer
from harness.tasks.catalogue import list_tasks, resolve
from harness.tasks.data.formats import LONGBENCH_E
from harness.tasks.data.importing import import_path
from harness.tasks.examples import TaskExamples, load_examples
from harness.tasks.scoring.longbench import METRIC_OF

LIMITS = {
    "narrativeqa": 128, "qasper": 128, "multifieldqa_en": 64, "multifieldqa_zh": 64,
    "hotpotqa": 32, "2wikimqa": 32, "musique": 32, "dureader": 128, "gov_report": 512,
    "qmsum": 512, "multi_news": 512, "vcsum": 512, "trec": 64, "triviaqa": 32, "samsum": 128,
    "lsht": 64, "passage_count": 32, "passage_retrieval_en": 32, "passage_retrieval_zh": 32,
    "lcc": 64, "repobench-p": 64,
}  # fmt: skip
"""Tokens generated (THUDM/LongBench, LongBench/config/dataset2maxlen.json)."""

PLAIN = {"trec", "triviaqa", "samsum", "lsht", "lcc", "repobench-p"}


@pytest.fixture(autouse=True)
def _own_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def install(tmp_path: Path, dataset: str, **changes: object) -> None:
    """Install two made-up rows of a data set."""
    answer = {"passage_retrieval_en": "Paragraph 2", "passage_retrieval_zh": "段落2"}
    row = {
        **LONGBENCH,
        "dataset": dataset,
        "context": "Passage 1:\nThe mill is old.\nPassage 2:\nThe mill is new.\n",
        "input": "Which mill?",
        "answers": [answer.get(dataset.removesuffix("_e"), "old")],
        "all_classes": ["old", "new"],
    } | changes
    path = tmp_path / f"{dataset}.jsonl"
    path.write_text(lines(row, {**row, "_id": "r2"}), encoding="utf-8")
    import_path(path)


def load(
    name: str, tokenizer: Tokenizer, *, max_positions: int = 8192, length: int | None = None
) -> TaskExamples:
    """Load every example of a task."""
    (task,) = resolve([name])
    return load_examples(
        task, length=length, seed=0, limit=None, tokenizer=tokenizer, max_positions=max_positions
    )


def test_the_catalogue_is_complete() -> None:
    """21 tasks and 13 of LongBench-E, each with its official metric and generation limit."""
    tasks = {t.name: t for t in list_tasks()}
    assert sum(t.group == "longbench" for t in tasks.values()) == 21
    assert sum(t.group == "longbench_e" for t in tasks.values()) == len(LONGBENCH_E) == 13
    for name, limit in LIMITS.items():
        variants = [f"longbench_{name}"] + [f"longbench_{name}_e"] * (name in LONGBENCH_E)
        for variant in variants:
            task = tasks[variant]
            assert task.max_tokens == limit
            assert task.metric == METRIC_OF[name]
            assert task.truncate
            assert task.chat == (name not in PLAIN)
    assert {t.category for t in tasks.values() if t.group == "longbench"} == {
        "single_doc_qa", "multi_doc_qa", "summarization", "few_shot", "synthetic", "code",
    }  # fmt: skip


@pytest.mark.parametrize("dataset", METRIC_OF)
def test_every_task_runs(dataset: str, smollm2: Tokenizer, tmp_path: Path) -> None:
    """Rows become prompts, greedy and without stop strings; the reference answer scores full."""
    install(tmp_path, dataset)
    found = load(f"longbench_{dataset}", smollm2)
    example = found.examples[0]
    assert example.sampling.stop == ()
    assert example.sampling.temperature == 0.0
    assert ("<|im_start|>" in example.prompt.text) == (dataset not in PLAIN)
    answer = example.record.references[0]
    expected = 0.0 if dataset == "passage_count" else 1.0
    assert found.score(example, answer)[found.task.metric] == pytest.approx(expected)


@pytest.mark.parametrize("dataset", ["samsum", "samsum_e"])
def test_samsum_ends_at_a_newline(dataset: str, smollm2: Tokenizer, tmp_path: Path) -> None:
    """As pred.py has it: the newline's token ends an answer, and no answer begins with it."""
    install(tmp_path, dataset)
    sampling = load(f"longbench_{dataset}", smollm2).examples[0].sampling
    assert sampling.end_tokens == (smollm2.encode("\n")[-1],)
    assert (sampling.min_tokens, sampling.stop) == (1, ())


def test_other_tasks_end_at_the_end_token(smollm2: Tokenizer, tmp_path: Path) -> None:
    """The rule is samsum's alone."""
    install(tmp_path, "trec")
    sampling = load("longbench_trec", smollm2).examples[0].sampling
    assert (sampling.end_tokens, sampling.min_tokens) == ((), 0)
    ending = {task.name for task in list_tasks() if task.end_token}
    assert ending == {"longbench_samsum", "longbench_samsum_e"}


def test_evaluation_set_e_is_its_own_set(smollm2: Tokenizer, tmp_path: Path) -> None:
    """LongBench-E has the same prompts on other rows, with their length groups as facts."""
    install(tmp_path, "qasper_e", length=5000)
    (example, _) = load("longbench_qasper_e", smollm2).examples
    assert example.record.facts["bucket"] == "4-8k"
    with pytest.raises(DataError, match="longbench_qasper"):
        load("longbench_qasper", smollm2)


def test_prompts_are_the_official_ones(smollm2: Tokenizer, tmp_path: Path) -> None:
    """The prompt's text around context and question, to the last blank and line end."""
    install(tmp_path, "passage_count")
    install(tmp_path, "repobench-p", context="def f():\n", input="    return")
    user = load("longbench_passage_count", smollm2).examples[0].prompt.text
    assert "The final answer is: <|im_end|>" in user
    code = load("longbench_repobench-p", smollm2).examples[0].prompt.text
    assert (
        code == "Please complete the code given below. \ndef f():\n    returnNext line of code:\n"
    )


def test_every_prompt_is_pinned() -> None:
    """All 21 prompts together have the digest of the official file's texts."""
    from harness.tasks.info import read_yaml

    tasks = {t.name: t.path for t in list_tasks() if t.group == "longbench"}
    texts = [read_yaml(tasks[f"longbench_{name}"])["doc_to_text"] for name in LIMITS]
    joined = "\0".join(t.replace("{{", "{").replace("}}", "}") for t in texts)
    assert hashlib.sha256(joined.encode()).hexdigest() == OFFICIAL_DIGEST


OFFICIAL_DIGEST = "b4af880e8a882dfd3dd33b51a7843aa30f54b2a08d68e3c9a5ce9f4590c19c34"
"""sha256 over dataset2prompt.json's 21 texts in LIMITS' order, joined by NUL characters."""


def test_truncation_takes_the_middle(smollm2: Tokenizer, tmp_path: Path) -> None:
    """Beyond the range both ends stay, prompt and answer fit, and little room is wasted."""
    middle = " ".join(f"word{i}" for i in range(4000))
    install(tmp_path, "qasper", context=f"Beginning. {middle} Ending.")
    (example, _) = load("longbench_qasper", smollm2, max_positions=2048).examples
    (whole, _) = load("longbench_qasper", smollm2, max_positions=60_000).examples
    lost = len(whole.prompt.token_ids) - len(example.prompt.token_ids)
    assert example.record.facts["cut_tokens"] == lost > 1000
    assert "cut_tokens" not in whole.record.facts
    assert 1900 <= len(example.prompt.token_ids) <= 2048 - 128
    assert "Beginning." in example.prompt.text
    assert "Ending." in example.prompt.text
    assert "Which mill?" in example.prompt.text
    assert "word2000" not in example.prompt.text
    ids = smollm2.encode(example.prompt.text)
    assert ids == example.prompt.token_ids


def test_a_length_truncates_too(smollm2: Tokenizer, tmp_path: Path) -> None:
    """``--length`` is a limit for tasks whose prompts come from data."""
    install(tmp_path, "qasper", context="word " * 3000)
    (example, _) = load("longbench_qasper", smollm2, length=1000).examples
    assert 950 <= len(example.prompt.token_ids) <= 1000


def test_segments_survive_truncation(smollm2: Tokenizer, tmp_path: Path) -> None:
    """Documents that the cut took are gone; the others' spans still name their text."""
    passages = [f"Passage {i}:\n{f'Text {i} goes on. ' * 80}" for i in range(1, 21)]
    install(tmp_path, "hotpotqa", context="\n".join(passages))
    (whole, _) = load("longbench_hotpotqa", smollm2, max_positions=20_000).examples
    (cut, _) = load("longbench_hotpotqa", smollm2, max_positions=2048).examples
    assert whole.prompt.segments is not None
    assert cut.prompt.segments is not None
    assert len(whole.prompt.segments.documents) == 20
    shown = [cut.prompt.text[a:b] for a, b in cut.prompt.segments.documents]
    assert 2 <= len(shown) < 20
    assert shown[0].startswith("Passage 1:")
    assert "Text 20 goes on." in shown[-1]
    assert cut.prompt.query == "Which mill?"


def test_retrieval_knows_its_evidence(smollm2: Tokenizer, tmp_path: Path) -> None:
    """The paragraph that the answer names is the gold evidence."""
    context = "段落1：磨坊很旧。\n段落2：磨坊很新。\n段落12：没有磨坊。"
    install(tmp_path, "passage_retrieval_zh", context=context)
    (example, _) = load("longbench_passage_retrieval_zh", smollm2).examples
    assert example.prompt.segments is not None
    evidence = [example.prompt.text[a:b] for a, b in example.prompt.segments.evidence]
    assert evidence == ["段落2：磨坊很新。"]


def test_questions_about_one_context_are_a_cluster(smollm2: Tokenizer, tmp_path: Path) -> None:
    """Rows with the same context are not independent, and the records say so."""
    install(tmp_path, "qasper")
    one, two = load("longbench_qasper", smollm2).examples
    assert one.record.cluster == two.record.cluster
    assert one.record.example_id != two.record.example_id


@pytest.mark.parametrize("name", ["multi_news_30", "passage_retrieval_zh_20"])
def test_real_rows(name: str, smollm2: Tokenizer) -> None:
    """Real rows of both languages fit the embedded model's range, truncated where they must be."""
    import_path(sample(f"longbench_{name}.jsonl"))
    found = load(f"longbench_{name.rsplit('_', 1)[0]}", smollm2)
    assert len(found.examples) == int(name.rsplit("_", 1)[1])
    for example in found.examples:
        assert len(example.prompt.token_ids) + example.sampling.max_tokens <= 8192
        assert found.score(example, example.record.references[0])[found.task.metric] > 0.99
