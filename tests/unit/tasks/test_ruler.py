"""RULER's tasks: exact lengths, needles where they should be, the same bytes for a seed."""

from __future__ import annotations

import hashlib
import itertools
import re
import statistics
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.errors import ConfigError, DataError
from harness.models.tokenizer import Tokenizer
from harness.tasks.catalogue import resolve
from harness.tasks.data.essays import split_sentences
from harness.tasks.data.prose import endless
from harness.tasks.examples import TaskExamples, load_examples, min_length
from harness.tasks.framing import Frame
from harness.tasks.generation import Request, TooShortError, generate

NIAH = [
    "single_1", "single_2", "single_3", "multikey_1", "multikey_2", "multikey_3", "multivalue",
    "multiquery",
]  # fmt: skip
OFFLINE = [*(f"ruler_niah_{name}" for name in NIAH), "ruler_vt", "ruler_cwe", "ruler_fwe"]
NEEDLE = re.compile(r"One of the special magic (\w+) for ([\w' -]+?) is: ([\w-]+)\.")


def load(
    name: str, tokenizer: Tokenizer, *, length: int = 1024, limit: int = 6, seed: int = 0
) -> TaskExamples:
    """Load a task's examples for a model of a long range."""
    (task,) = resolve([name])
    return load_examples(
        task, length=length, seed=seed, limit=limit, tokenizer=tokenizer, max_positions=200_000
    )


@pytest.mark.parametrize("name", [*OFFLINE, "ruler_qa_1", "multidoc_fiction"])
def test_lengths_are_exact(name: str, tokenizer: Tokenizer, library: Path) -> None:
    """Never above the length, the median within 2 %, the same ids when tokenized again."""
    examples = load(name, tokenizer, length=2048, limit=9).examples
    lengths = [len(example.prompt.token_ids) for example in examples]
    assert max(lengths) <= 2048
    assert statistics.median(lengths) >= 0.98 * 2048
    for example in examples:
        ids = tokenizer.hf(example.prompt.text, add_special_tokens=False)["input_ids"]
        assert tuple(ids) == example.prompt.token_ids
        assert example.record.token_count == len(ids)


@pytest.mark.parametrize("name", OFFLINE)
def test_exactly_one_start_token(name: str, tokenizer: Tokenizer) -> None:
    """The prompt begins with the start token, and what follows is not a second one."""
    for example in load(name, tokenizer, length=2048, limit=2).examples:
        ids = example.prompt.token_ids
        assert ids[0] == tokenizer.bos_token_id
        assert ids[1] != tokenizer.bos_token_id


@pytest.mark.parametrize("name", [*OFFLINE, "ruler_qa_1", "ruler_qa_2", "multidoc_fiction"])
def test_the_same_seed_gives_the_same_bytes(name: str, smollm2: Tokenizer, library: Path) -> None:
    """Prompts repeat by seed, differ between seeds, and do not depend on the limit."""

    def digest(seed: int, limit: int) -> list[str]:
        found = load(name, smollm2, seed=seed, limit=limit).examples
        return [hashlib.sha256(e.prompt.text.encode()).hexdigest() for e in found[:3]]

    assert digest(0, 3) == digest(0, 5) == digest(0, 3)
    assert digest(0, 3) != digest(1, 3)


@pytest.mark.parametrize("name", NIAH)
def test_needles_stand_as_often_as_said(name: str, smollm2: Tokenizer) -> None:
    """Each asked value stands once, keys and values differ, and evidence is the asked needles."""
    counts = {"multikey_1": 4, "multivalue": 4, "multiquery": 4}
    for example in load(f"ruler_niah_{name}", smollm2, limit=8).examples:
        text, segments = example.prompt.text, example.prompt.segments
        assert segments is not None
        needles = NEEDLE.findall(text)
        if "multikey_" in name and name != "multikey_1":
            assert len(needles) > 5
        else:
            assert len(needles) == counts.get(name, 1)
        values = Counter(value for *_, value in needles)
        assert max(values.values()) == 1
        assert set(example.record.references) <= set(values)
        evidence = [text[a:b] for a, b in segments.evidence]
        assert sorted(m[2] for e in evidence for m in NEEDLE.findall(e)) == sorted(
            example.record.references
        )
        (question,) = (text[a:b] for a, b in segments.question)
        asked = {key for _, key, value in needles if value in example.record.references}
        assert all(key in question for key in asked)


@pytest.mark.parametrize(
    ("name", "beginning", "ending"),
    [
        (
            "single_2",
            "A special magic number is hidden within the following text. Make sure to memorize it. "
            "I will quiz you about the number afterwards.\n",
            "The special magic number for {} mentioned in the provided text is",
        ),
        (
            "multivalue",
            "Some special magic numbers are hidden within the following text. Make sure to "
            "memorize it. I will quiz you about the numbers afterwards.\n",
            "The special magic numbers for {} mentioned in the provided text are",
        ),
        (
            "single_3",
            "A special magic uuid is hidden within the following text. Make sure to memorize it. "
            "I will quiz you about the uuid afterwards.\n",
            "The special magic uuid for {} mentioned in the provided text is",
        ),
    ],
)
def test_prompts_are_rulers(name: str, beginning: str, ending: str, smollm2: Tokenizer) -> None:
    """Instruction and answer prefix read as RULER's; the prefix begins the assistant's turn."""
    (example,) = load(f"ruler_niah_{name}", smollm2, limit=1).examples
    _, _, turn = example.prompt.text.partition("<|im_start|>user\n")
    user, _, answer = turn.partition("<|im_end|>\n<|im_start|>assistant\n")
    assert user.startswith(beginning)
    key = NEEDLE.search(user)
    assert key is not None
    assert answer == ending.format(key.group(2))
    assert example.sampling.stop == ()
    assert example.sampling.max_tokens == 128


def test_a_reference_answer_scores_one(smollm2: Tokenizer, library: Path) -> None:
    """Scoring goes through the lm-eval task: all references for most, any for QA."""
    for name in [*OFFLINE, "ruler_qa_1"]:
        found = load(name, smollm2, limit=1)
        (example,) = found.examples
        assert found.score(example, " ".join(example.record.references)) == {found.task.metric: 1.0}
        assert found.score(example, "nothing of it") == {found.task.metric: 0.0}
    qa = load("ruler_qa_1", smollm2, limit=1)
    assert len(qa.examples[0].record.references) == 2
    assert qa.score(qa.examples[0], qa.examples[0].record.references[0])["string_match_part"] == 1.0


def test_variable_tracking_has_one_chain(smollm2: Tokenizer) -> None:
    """Five variables in order, the worked example's value another one."""
    for example in load("ruler_vt", smollm2, limit=5).examples:
        text, segments = example.prompt.text, example.prompt.segments
        assert segments is not None
        statements = [text[a:b] for a, b in segments.evidence]
        names = list(example.record.references)
        assert [s.split()[1] for s in statements] == names
        assert [s.split(" = ")[1] for s in statements[1:]] == [f"VAR {n}" for n in names[:-1]]
        value = statements[0].split(" = ")[1]
        (question,) = (text[a:b] for a, b in segments.question)
        assert value in question
        assert text.count(f"= {value}") == 1


def test_common_words_are_the_commonest(smollm2: Tokenizer) -> None:
    """The ten answers stand 6 times, or 30 at 4,096 tokens and more; all others less often."""
    for length, often, seldom in ((1500, 6, 1), (4096, 30, 3)):
        (example,) = load("ruler_cwe", smollm2, length=length, limit=1).examples
        assert example.prompt.segments is not None
        ((start, stop),) = example.prompt.segments.documents
        words = Counter(
            re.sub(r"^\d+\. ", "", w) for w in _entries(example.prompt.text[start:stop])
        )
        top = {word for word, count in words.items() if count == often}
        assert top == set(example.record.references)
        assert {count for word, count in words.items() if word not in top} == {seldom}


def _entries(text: str) -> list[str]:
    return re.split(r" (?=\d+\. )", text)


@pytest.mark.parametrize("length", [400, 1024, 4096])
def test_frequent_words_have_one_answer(length: int, smollm2: Tokenizer) -> None:
    """Ranks two to four are the answer, and rank five appears less often than rank four."""
    for example in load("ruler_fwe", smollm2, length=length, limit=3).examples:
        assert example.prompt.segments is not None
        ((start, stop),) = example.prompt.segments.documents
        counts = Counter(example.prompt.text[start:stop].split()).most_common()
        assert counts[0][0] == "..."
        assert {word for word, _ in counts[1:4]} == set(example.record.references)
        assert len(counts) == 4 or counts[4][1] < min(c for _, c in counts[1:4])


def test_questions_keep_their_gold_documents(smollm2: Tokenizer, library: Path) -> None:
    """The gold paragraph is there once, whole, and is the evidence; numbers run from 1."""
    for example in load("ruler_qa_1", smollm2, limit=6).examples:
        text, segments = example.prompt.text, example.prompt.segments
        assert segments is not None
        (evidence,) = (text[a:b] for a, b in segments.evidence)
        assert text.count(evidence) == 1
        assert example.record.references[0] in evidence
        heads = [text[a:b].split(":")[0] for a, b in segments.documents]
        assert heads == [f"Document {i}" for i in range(1, len(heads) + 1)]
        assert example.prompt.query is not None
        assert example.prompt.query.startswith("In which year was")


@pytest.mark.parametrize("name", ["ruler_cwe", "ruler_vt", "ruler_fwe", "ruler_qa_1",
                                  "ruler_niah_multikey_3", "multidoc_fiction"])  # fmt: skip
def test_too_short_names_the_smallest_that_works(
    name: str, smollm2: Tokenizer, library: Path
) -> None:
    """One line with the smallest length; that length then runs, one less does not."""
    with pytest.raises(TooShortError, match=f"too short for {name}") as error:
        load(name, smollm2, length=100, limit=2)
    smallest = error.value.minimum
    assert f"--length {smallest}" in str(error.value)
    assert len(load(name, smollm2, length=smallest, limit=2).examples) >= 1
    with pytest.raises(TooShortError):
        load(name, smollm2, length=smallest - 1, limit=2)
    (task,) = resolve([name])
    assert min_length(task, smollm2, limit=2) == smallest


def test_too_long_for_the_model(smollm2: Tokenizer) -> None:
    """Prompt and new tokens must lie inside the range; the line says what would fit."""
    (task,) = resolve(["ruler_niah_single_1"])
    with pytest.raises(ConfigError, match="the longest is 8064"):
        load_examples(task, length=8192, seed=0, limit=1, tokenizer=smollm2, max_positions=8192)


def test_too_long_for_the_data(smollm2: Tokenizer, library: Path) -> None:
    """A small file cannot fill a long prompt, and the line says how far it reaches."""
    with pytest.raises(DataError, match=r"too long for ruler_qa_1: .* at most about"):
        load("ruler_qa_1", smollm2, length=100_000, limit=1)


def test_imported_essays_replace_the_built_in_ones(
    smollm2: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The haystack that was used is recorded with every example."""
    from harness.tasks.data.importing import import_path

    before = load("ruler_niah_single_2", smollm2, limit=1).examples[0]
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    text = tmp_path / "mine.txt"
    text.write_text("A sentence of mine. And one more of them. " * 30, encoding="utf-8")
    import_path(text)
    after = load("ruler_niah_single_2", smollm2, limit=1).examples[0]
    assert before.record.facts["haystack"] == "built_in"
    assert after.record.facts["haystack"].startswith("imported:")
    assert after.record.facts["haystack"].endswith(" times")
    assert "A sentence of mine." in after.prompt.text


@pytest.mark.parametrize("length", [8_192, 65_536])
def test_built_in_essays_do_not_repeat(length: int, smollm2: Tokenizer) -> None:
    """Beyond the written ones generated prose goes on, and the records say so."""
    (example,) = load("ruler_niah_single_2", smollm2, length=length, limit=1).examples
    assert 0.98 * length <= len(example.prompt.token_ids) <= length
    assert example.prompt.segments is not None
    ((start, stop),) = example.prompt.segments.documents
    sentences = split_sentences(example.prompt.text[start:stop])
    assert max(Counter(sentences).values()) <= (1 if length < 10_000 else 2)
    fact = example.record.facts["haystack"]
    assert fact == ("built_in" if length < 10_000 else "built_in+generated")


def test_generated_prose_is_the_same_for_everybody() -> None:
    """No sentence twice, the same ones each time, and nothing that looks like a needle."""
    first, again = (list(itertools.islice(endless(), 20_000)) for _ in range(2))
    assert first == again
    assert len(set(first)) == len(first)
    assert not any(re.search(r"\d|magic", sentence) for sentence in first)
    assert all(s[0].isupper() and s.endswith(".") for s in first)
    assert len(split_sentences(" ".join(first[:1000]))) == 1000


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    name=st.sampled_from(OFFLINE),
    length=st.integers(900, 3000),
    seed=st.integers(0, 10**6),
)
def test_any_length_and_seed(name: str, length: int, seed: int, smollm2: Tokenizer) -> None:
    """Whatever the length and seed: not above it, near it, and spans lie inside the documents."""
    for example in load(name, smollm2, length=length, seed=seed, limit=2).examples:
        assert 0.97 * length <= len(example.prompt.token_ids) <= length
        segments = example.prompt.segments
        assert segments is not None
        for span in segments.evidence:
            assert any(d.start <= span.start and span.stop <= d.stop for d in segments.documents)


def test_distractors_are_drawn_from_the_article(
    smollm2: Tokenizer,
    library: Path,
    made_up_squad: dict[str, list[dict[str, list[dict[str, str]]]]],
) -> None:
    """Where only some of an article's paragraphs fit, each of them may be the one (RULER, qa)."""
    places = {
        paragraph["context"]: (number, place)
        for number, article in enumerate(made_up_squad["data"])
        for place, paragraph in enumerate(article["paragraphs"])
    }
    seen: Counter[int] = Counter()
    for example in load("ruler_qa_1", smollm2, length=620, limit=60).examples:
        text, segments = example.prompt.text, example.prompt.segments
        assert segments is not None
        shown = [places[text[a:b].split("\n", 1)[1]] for a, b in segments.documents]
        (gold,) = (places[text[a:b]] for a, b in segments.evidence)
        others = sum(article != gold[0] for article, _ in shown)
        assert others < len(shown) / 2  # they close the last gap of a short prompt
        assert 5 <= len(shown) < 10
        seen.update(place for at, place in shown if at == gold[0] and (at, place) != gold)
    assert set(seen) == set(range(10))
    assert max(seen.values()) < 2.5 * min(seen.values())


@pytest.mark.parametrize("length", [2048, 262_144])
def test_long_lists_have_words_enough(length: int, smollm2: Tokenizer) -> None:
    """Beyond wonderwords' 8,000 words a dictionary's are drawn, and the length is filled."""
    (task,) = resolve(["ruler_cwe"])
    (example,) = load_examples(
        task, length=length, seed=0, limit=1, tokenizer=smollm2, max_positions=10**6
    ).examples
    assert 0.98 * length <= len(example.prompt.token_ids) <= length
    assert example.record.facts["words"] == ("wonderwords" if length < 10**5 else "dictionary")


def test_the_end_of_the_words_is_said(smollm2: Tokenizer) -> None:
    """A length that a task's material does not fill is refused with the longest that works."""

    class Short:
        low, high, unit, slack, prefix = 1, 50, 1.0, 0.0, "Answer:"

        def guess(self, budget: int) -> int:
            return budget

        def text(self, units: int) -> str:
            return "one " * units

        def doc(self, units: int) -> dict[str, object]:
            return {"units": units}

    frame = Frame.of(smollm2)
    most = frame.count("one " * 50, "Answer:")
    request = Request(frame, (most,), 0, 1, "short")
    assert generate(lambda *_: Short(), request, name="short")["test"][0]["units"] == 50
    with pytest.raises(DataError, match=f"length {2 * most} is too long for short: .* most {most}"):
        generate(lambda *_: Short(), replace(request, lengths=(2 * most,)), name="short")


@pytest.mark.parametrize("haystack", ["single_1", "multikey_3"])
def test_a_needle_is_never_last(haystack: str, smollm2: Tokenizer) -> None:
    """RULER draws a needle's place among the sentences' own: one always follows it."""
    for example in load(f"ruler_niah_{haystack}", smollm2, limit=40, length=700).examples:
        assert example.prompt.segments is not None
        ((_, stop),) = example.prompt.segments.evidence
        ((_, end),) = example.prompt.segments.documents
        assert stop < end
