"""The multi-document tasks: invented worlds, and published sets with gold documents in place."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import sample

from harness.errors import DataError
from harness.models.tokenizer import Tokenizer
from harness.tasks.catalogue import resolve
from harness.tasks.data.importing import import_path
from harness.tasks.data.invented import World
from harness.tasks.data.words import all_words
from harness.tasks.documents import Document, at_depth
from harness.tasks.examples import TaskExamples, load_examples
from harness.tasks.info import from_file
from harness.tasks.scoring.text import english_tokens

WORDS = frozenset(word.lower() for word in all_words())


def load(name: str, tokenizer: Tokenizer, *, length: int | None = None, limit: int | None = 10,
         seed: int = 0) -> TaskExamples:  # fmt: skip
    """Load a task's examples."""
    (task,) = resolve([name])
    return load_examples(
        task, length=length, seed=seed, limit=limit, tokenizer=tokenizer, max_positions=8192
    )


@given(st.integers(0, 10**9))
@settings(max_examples=25, deadline=None)
def test_names_mean_nothing(seed: int) -> None:
    """No invented name is an English word, and no two are the same."""
    world = World(random.Random(seed), WORDS)
    for _ in range(60):
        world.add()
    names = [entity.name for entity in world.entities]
    assert len(set(names)) == len(names)
    invented = {w for n in names for w in english_tokens(n)} - {"of"}
    assert not invented & WORDS


@given(st.integers(0, 10**9))
@settings(max_examples=25, deadline=None)
def test_facts_agree(seed: int) -> None:
    """Every statement stands in its document, and what it refers to is the entity it names."""
    world = World(random.Random(seed), WORDS)
    for _ in range(30):
        world.add()
    for entity in world.entities:
        for statement in entity.statements:
            assert statement.sentence in entity.document
            assert statement.value in statement.sentence
            if statement.refers_to is not None:
                assert world.entities[statement.refers_to].name == statement.value


def test_answers_are_not_in_distractors(smollm2: Tokenizer) -> None:
    """Only gold documents hold the answer, and the evidence sentences lead to it."""
    for example in load("multidoc_fiction", smollm2, length=3000, limit=20).examples:
        text, segments = example.prompt.text, example.prompt.segments
        assert segments is not None
        (answer,) = example.record.references
        documents = [text[a:b] for a, b in segments.documents]
        evidence = [text[a:b] for a, b in segments.evidence]
        assert len(evidence) == example.record.facts["hops"]
        whole = re.compile(rf"\b{re.escape(answer)}\b")
        for document in documents:
            gold = any(sentence in document for sentence in evidence)
            assert gold or not whole.search(document)
        assert any(whole.search(sentence) for sentence in evidence)
        assert answer not in (example.prompt.query or answer)


def test_distractors_share_names_with_the_gold_documents(smollm2: Tokenizer) -> None:
    """Distractors are about the same world: some name what a gold document names."""
    shared = 0
    for example in load("multidoc_fiction", smollm2, length=3000, limit=10).examples:
        text, segments = example.prompt.text, example.prompt.segments
        assert segments is not None
        documents = [text[a:b] for a, b in segments.documents]
        titles = [re.findall(r"\(Title: (.*?)\)", d)[0] for d in documents]
        shared += any(t in d for t in titles for d in documents if f"(Title: {t})" not in d)
    assert shared >= 8


def test_one_and_two_hops_at_five_depths(smollm2: Tokenizer) -> None:
    """Hops alternate; the gold documents stand at each depth in turn."""
    facts = [e.record.facts for e in load("multidoc_fiction", smollm2, length=3000).examples]
    assert [f["hops"] for f in facts] == [1, 2] * 5
    assert [f["asked_depth"] for f in facts] == [0, 0, 0.25, 0.25, 0.5, 0.5, 0.75, 0.75, 1, 1]
    for fact in facts:
        assert abs(fact["depth"] - fact["asked_depth"]) < 0.12


def test_a_users_yaml_can_fix_the_depth(smollm2: Tokenizer, tmp_path: Path) -> None:
    """Three lines of YAML make a task of their own with the gold documents last."""
    (task,) = resolve(["multidoc_fiction"])
    path = tmp_path / "last.yaml"
    path.write_text(
        f"include: {task.path}\ntask: fiction_last\ndataset_kwargs:\n  depth: 1.0\n",
        encoding="utf-8",
    )
    (own,) = resolve([str(path)])
    found = load_examples(own, length=2048, seed=0, limit=4, tokenizer=smollm2, max_positions=8192)
    assert own.name == "fiction_last"
    assert {e.record.facts["asked_depth"] for e in found.examples} == {1.0}


@pytest.mark.parametrize("depth", [0.0, 0.5, 1.0])
def test_gold_documents_move_together(depth: float) -> None:
    """Before all others, between them, or after them; the others keep their order."""
    documents = [Document(str(i), "x", gold=i in {1, 4}) for i in range(6)]
    moved = [d.title for d in at_depth(documents, depth)]
    assert moved[round(depth * 4) :][:2] == ["1", "4"]
    assert [t for t in moved if t not in {"1", "4"}] == ["0", "2", "3", "5"]


@pytest.mark.parametrize("name", ["hotpotqa", "musique", "nq"])
def test_published_sets_run(name: str, smollm2: Tokenizer, library: Path) -> None:
    """Every question brings its documents; the reference scores full on both metrics."""
    found = load(f"multidoc_{name}", smollm2)
    for example in found.examples:
        assert example.prompt.segments is not None
        assert example.prompt.segments.evidence
        scores = found.score(example, example.record.references[0])
        assert next(iter(scores)) == found.task.metric
        assert scores["contains_answer"] == 1.0


def test_lost_in_the_middle_takes_each_depth(smollm2: Tokenizer, library: Path) -> None:
    """The one gold passage stands first for some questions and last for others."""
    facts = [e.record.facts["depth"] for e in load("multidoc_nq", smollm2).examples]
    assert {0.0, 1.0} <= set(facts)


SAMPLES = {
    "hotpotqa_distractor_60.json": ("multidoc_hotpotqa", 60),
    "musique_60.jsonl": ("multidoc_musique", 60),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_real_files(
    name: str, smollm2: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real questions: spans name what they should, and a length leaves distractors out only."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    import_path(sample(name))
    task, count = SAMPLES[name]
    whole = load(task, smollm2, limit=None).examples
    cut = load(task, smollm2, limit=None, length=2048).examples
    assert len(whole) == count
    for full, short in zip(whole, cut, strict=True):
        assert len(short.prompt.token_ids) <= 2048
        lost = len(full.prompt.token_ids) - len(short.prompt.token_ids)
        assert short.record.facts["cut_tokens"] == lost
        assert full.record.facts["cut_tokens"] == 0
        assert full.prompt.segments is not None
        assert short.prompt.segments is not None
        assert [full.prompt.text[a:b] for a, b in full.prompt.segments.evidence] == [
            short.prompt.text[a:b] for a, b in short.prompt.segments.evidence
        ]


def test_gold_documents_that_do_not_fit(smollm2: Tokenizer, library: Path) -> None:
    """Where gold documents alone are too long, the question is named."""
    with pytest.raises(DataError, match="length 60 is too short for question"):
        load("multidoc_hotpotqa", smollm2, length=60)


def test_the_data_seed_chooses_questions(smollm2: Tokenizer, library: Path) -> None:
    """A limit takes questions by the seed, the same ones each time."""

    def ids(seed: int) -> list[str]:
        found = load("multidoc_hotpotqa", smollm2, limit=6, seed=seed).examples
        return [e.record.facts["id"] for e in found]

    assert ids(3) == ids(3)
    assert ids(3) != ids(4)


def test_published_tasks_name_what_they_need() -> None:
    """Each set's task needs that set and nothing else."""
    tasks = {t.name: replace(from_file(t.path)) for t in resolve(["multidoc"])}
    assert tasks["multidoc_fiction"].needs == ()
    assert tasks["multidoc_2wikimultihopqa"].needs == ("2wikimultihopqa",)
    assert tasks["multidoc_nq"].needs == ("nq_lost_in_the_middle",)
