"""RULER's question answering: gold paragraphs among paragraphs from the same data set.

Source: arXiv 2404.06654, and NVIDIA/RULER's qa settings. Distractors of SQuAD are drawn from the
gold paragraph's article first, then from all others; HotpotQA brings its own ten paragraphs.
"""

import hashlib
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from harness.errors import DataError
from harness.tasks.data.library import Installed, installed
from harness.tasks.data.readers import read_set
from harness.tasks.framing import Frame, fill
from harness.tasks.generation import Request, Sample, generate, rng_for
from harness.tasks.official import Steps

HEAD = (
    "Answer the question based on the given documents. Only give me the answer and do not output "
    "any other words.\n\nThe following are given documents.\n\n"
)
TAIL = (
    "\n\nAnswer the question based on the given documents. Only give me the answer and do not "
    "output any other words.\n\nQuestion: {question}"
)
PREFIX = "Answer:"
SPARE = 30
"""Distractors to choose from, beyond those that fit, to fill the last gap."""
FEWEST = 5
"""Documents in the smallest prompt: with fewer there would be little to search through."""


@dataclass(frozen=True)
class Question:
    """One question over a shared list of paragraphs, all by index.

    ``facts`` are the sentences that support the answer, as (gold paragraph, text); empty where
    the data set names none, and then the gold paragraphs themselves are the evidence.
    """

    text: str
    answers: tuple[str, ...]
    gold: tuple[int, ...]
    near: tuple[int, ...]
    cluster: str
    facts: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True)
class Corpus:
    """A data set as RULER sees it."""

    paragraphs: tuple[str, ...]
    questions: tuple[Question, ...]


def dataset(*, source: str, **metadata: Any) -> dict[str, Any]:
    """Generate the task's samples; lm-eval's ``custom_dataset``."""
    request = Request.from_metadata(metadata, task=str(metadata.get("name", source)))
    corpus = load(source)
    questions = list(corpus.questions)
    random.Random(f"{source}/{request.seed}").shuffle(questions)
    sizes, name = Sizes(corpus, request.frame), f"qa/{source}"
    chosen = that_fit(questions, sizes, request, name)

    def draw(rng: random.Random, index: int) -> Sample:
        return Answering(sizes, chosen[index], request, rng)

    return generate(draw, request.at_most(len(chosen)), name=name)


def that_fit(
    questions: Sequence[Question], sizes: "Sizes", request: Request, name: str
) -> list[Question]:
    """Return the first questions whose smallest prompts fit the shortest length asked for.

    HotpotQA's ten paragraphs are beyond 2,048 tokens for some questions: these are passed over.

    Raises
    ------
    TooShortError
        No question fits.
    """
    length = min(request.lengths)
    chosen: list[Question] = []
    smallest: list[int] = []
    for question in questions:
        rng = rng_for(name, request.seed, len(chosen))
        sample = Answering(sizes, question, request, rng)
        # Only near the limit is the estimate not enough.
        near = 0.9 * length < sample.least
        least = request.frame.count(sample.text(sample.low), PREFIX) if near else sample.least
        smallest.append(least)
        if smallest[-1] <= length:
            chosen.append(question)
        if len(chosen) == request.count:
            break
    if not chosen:
        raise request.too_short(length, min(smallest))
    return chosen


def numbered(paragraphs: Iterable[str]) -> str:
    """Join paragraphs as RULER shows them."""
    return "\n\n".join(f"Document {i}:\n{text}" for i, text in enumerate(paragraphs, 1))


def load(source: str) -> Corpus:
    """Read an installed data set; once a process, until another is installed in its place."""
    return _load(source, installed(source))


@lru_cache(maxsize=2)
def _load(source: str, _: Installed | None) -> Corpus:
    rows = read_set(source)
    return {"squad": squad, "hotpotqa": hotpotqa}[source](rows)


def squad(articles: Sequence[Any]) -> Corpus:
    """Every answerable question; distractors from its article come first."""
    paragraphs = tuple(sorted({p.context for article in articles for p in article.paragraphs}))
    at = {text: index for index, text in enumerate(paragraphs)}
    questions: list[Question] = []
    for article in articles:
        article_indices = tuple(dict.fromkeys(at[p.context] for p in article.paragraphs))
        for paragraph in article.paragraphs:
            gold = at[paragraph.context]
            near = tuple(index for index in article_indices if index != gold)
            cluster = hashlib.sha256(paragraph.context.encode()).hexdigest()[:16]
            for qa in paragraph.qas:
                if not qa.is_impossible:
                    answers = tuple(dict.fromkeys(answer.text for answer in qa.answers))
                    questions.append(Question(qa.question, answers, (gold,), near, cluster))
    return Corpus(paragraphs, tuple(questions))


def hotpotqa(rows: Sequence[Any]) -> Corpus:
    """Each question's own ten paragraphs are there always, as in RULER."""
    texts = [[f"{title}\n{''.join(sentences)}" for title, sentences in row.context] for row in rows]
    paragraphs = tuple(sorted({text for own in texts for text in own}))
    at = {text: index for index, text in enumerate(paragraphs)}
    questions: list[Question] = []
    for row, own in zip(rows, texts, strict=True):
        by_title = dict(row.context)
        where = {title: at[text] for (title, _), text in zip(row.context, own, strict=True)}
        facts = tuple(
            (where[title], by_title[title][number].strip())
            for title, number in row.supporting_facts
            if number < len(by_title[title])
        )
        gold = tuple(dict.fromkeys(at[text] for text in own))
        cluster = hashlib.sha256("\0".join(sorted(own)).encode()).hexdigest()[:16]
        questions.append(Question(row.question, (row.answer,), gold, (), cluster, facts))
    return Corpus(paragraphs, tuple(questions))


class Answering:
    """One sample.

    A unit is one token of room for distractors, or one document where lengths are filled as
    NVIDIA does.
    """

    low = 0
    high = 10**9
    unit = 1.0
    slack = 0.01
    prefix = PREFIX

    def __init__(
        self, sizes: "Sizes", question: Question, request: Request, rng: random.Random
    ) -> None:
        self.sizes, self.question, self.request = sizes, question, request
        self.corpus = sizes.corpus
        self.rng = rng
        self.shuffle_seed = rng.getrandbits(64)
        self.others = rng.sample(question.near, len(question.near))
        self._seen = {*question.gold, *question.near}
        while len(self.others) + len(question.gold) < FEWEST and self._draw():
            pass
        self.needed = self.others[: max(0, FEWEST - len(question.gold))]
        self.by_count = request.official is not None
        if self.by_count:
            self.low, self.high = len(question.gold), len(self.corpus.paragraphs)
            self.unit = sizes.average
        self.tail = TAIL.format(question=question.text)
        self._chosen: dict[int, list[int]] = {0: []}

    def _draw(self) -> bool:
        """Add one more distractor at random; False where there is none left."""
        total = len(self.corpus.paragraphs)
        if len(self._seen) == total:
            return False
        while (index := self.rng.randrange(total)) in self._seen:
            pass
        self._seen.add(index)
        self.others.append(index)
        return True

    def guess(self, budget: int) -> int:
        """The room beside the documents that are always there, or the documents that fit."""
        if self.by_count:
            bare = self.request.frame.count(HEAD + self.tail, PREFIX)
            return int((budget - bare) / self.unit)
        return max(0, budget - self.least)

    def steps(self, *_: int) -> Steps:
        """NVIDIA's steps: ten documents."""
        return Steps(10)

    @cached_property
    def least(self) -> int:
        """About how many tokens the documents that are always there make."""
        frame = self.request.frame
        shortest = self.documents(self.low)
        return frame.count(HEAD + self.tail, PREFIX) + sum(map(self.sizes.of, shortest))

    def _distractors(self, room: int) -> list[int]:
        """More distractors that fill the room."""
        if room not in self._chosen:
            at, total, taken, spare = len(self.needed), 0, 0, 0
            while spare < SPARE:
                if at + taken == len(self.others) and not self._draw():
                    break
                spare += total > room
                total += self.sizes.of(self.others[at + taken])
                taken += 1
            if total < room:
                raise DataError(self._too_long(total))
            candidates = self.others[at : at + taken]
            sizes = [self.sizes.of(index) for index in candidates]
            # Paragraphs of the article alone, as RULER has it, unless they leave a gap.
            article = max(0, len(self.question.near) - at)
            picked = fill(sizes[:article], room, close=int(room * 0.005))
            if room - sum(sizes[i] for i in picked) > 0.02 * room:
                picked = fill(sizes, room, close=int(room * 0.005))
            self._chosen[room] = [candidates[i] for i in picked]
        return self._chosen[room]

    def _too_long(self, total: int) -> str:
        reach = total + self.request.frame.count(self.text(0), PREFIX)
        return (
            f"length {self.request.lengths[0]} is too long for {self.request.task}: the data that "
            f"are here make prompts of at most about {reach} tokens; import the full data set"
        )

    def documents(self, units: int) -> list[int]:
        """Paragraphs in the prompt's order."""
        gold = self.question.gold
        if self.by_count:
            while len(gold) + len(self.others) < units and self._draw():
                pass
            chosen = [*gold, *self.others[: units - len(gold)]]
        else:
            chosen = [*gold, *self.needed, *self._distractors(units)]
        random.Random(f"{self.shuffle_seed}/{len(chosen)}").shuffle(chosen)
        return chosen

    def text(self, units: int) -> str:
        """The user's turn."""
        context = numbered(self.corpus.paragraphs[index] for index in self.documents(units))
        return f"{HEAD}{context}{self.tail}"

    def doc(self, units: int) -> dict[str, Any]:
        """Answers, spans' texts and facts."""
        order = self.documents(units)
        texts = [
            f"Document {i}:\n{self.corpus.paragraphs[index]}" for i, index in enumerate(order, 1)
        ]
        evidence = [[str(order.index(index)), text] for index, text in self.question.facts]
        if not self.question.facts:
            evidence = [
                [str(order.index(index)), self.corpus.paragraphs[index]]
                for index in self.question.gold
            ]
        first = min(int(index) for index, _ in evidence)
        return {
            "outputs": list(self.question.answers),
            "documents": texts,
            "question": self.question.text.strip(),
            "evidence": evidence,
            "cluster": self.question.cluster,
            "facts": {
                "depth": first / max(1, len(order) - 1),
                "documents": len(order),
                "gold_documents": len({index for index, _ in evidence}),
            },
        }


class Sizes:
    """Token counts of paragraphs with their headings, each measured once."""

    def __init__(self, corpus: Corpus, frame: Frame) -> None:
        self.corpus, self.frame = corpus, frame
        self.known: dict[int, int] = {}

    @cached_property
    def average(self) -> float:
        """Tokens of a paragraph, by a hundred of them spread over the list."""
        total = len(self.corpus.paragraphs)
        some = range(0, total, -(-total // 100))
        return sum(map(self.of, some)) / len(some)

    def of(self, index: int) -> int:
        """Tokens of paragraph ``index``."""
        if index not in self.known:
            text = f"\n\nDocument 10:\n{self.corpus.paragraphs[index]}"
            self.known[index] = self.frame.pieces([text])[0]
        return self.known[index]
