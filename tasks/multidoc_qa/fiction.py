"""Questions about invented worlds: nothing that a model has read can answer them.

A world is told in short documents. The question needs one document, or two in turn; the
distractors are about the same world and share its names, but never contain the answer.
"""

import random
from dataclasses import dataclass
from functools import cache
from typing import Any

from harness.tasks.data.invented import Entity, Statement, World
from harness.tasks.data.words import all_words
from harness.tasks.documents import Document, at_depth, evidence, facts, show
from harness.tasks.framing import Frame, fill
from harness.tasks.generation import Request, Sample, generate
from harness.tasks.scoring.text import english_tokens

HEAD = (
    "Answer the question based on the given documents. Only give me the answer and do not output "
    "any other words.\n\nThe following are given documents.\n\n"
)
TAIL = (
    "\n\nAnswer the question based on the given documents. Only give me the answer and do not "
    "output any other words.\n\nQuestion: {question}"
)
PREFIX = "Answer:"
DEPTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Depths of the gold documents, taken in turn unless the task names one."""
SPARE = 40
"""Distractors to choose from, beyond those that fit, to fill the last gap."""

ONE_HOP = (
    ("place", "founded", "In which year was {name} founded?"),
    ("place", "river", "Which river runs past {name}?"),
    ("person", "birthplace", "Where was {name} born?"),
    ("work", "finished", "In which year was {name} finished?"),
    ("work", "maker", "Who made {name}?"),
    ("work", "kept", "Where is the original of {name} kept?"),
)
TWO_HOP = (
    ("work", "maker", "birthplace", "Where was the maker of {name} born?"),
    ("work", "maker", "trade", "What was the trade of the maker of {name}?"),
    ("work", "kept", "founded", "In which year was the place that keeps {name} founded?"),
    ("work", "kept", "river", "Which river runs past the place that keeps {name}?"),
    ("person", "birthplace", "founded", "In which year was the birthplace of {name} founded?"),
    ("person", "birthplace", "river", "Which river runs past the birthplace of {name}?"),
)


@dataclass(frozen=True)
class Question:
    """A question, its answer, and the statements that lead to it, each with its entity."""

    text: str
    answer: str
    steps: tuple[tuple[Entity, Statement], ...]


def dataset(*, depth: float | None = None, **metadata: Any) -> dict[str, Any]:
    """Generate the task's samples; lm-eval's ``custom_dataset``.

    ``depth`` in [0, 1] places the gold documents; None takes five depths in turn.
    """
    request = Request.from_metadata(metadata, task=str(metadata.get("name", "multidoc_fiction")))

    def draw(rng: random.Random, index: int) -> Sample:
        here = DEPTHS[index // 2 % len(DEPTHS)] if depth is None else depth
        return Fiction(request.frame, rng, hops=1 + index % 2, depth=here)

    return generate(draw, request, name="fiction")


@cache
def known_words() -> frozenset[str]:
    """English words, which no invented name may be."""
    return frozenset(word.lower() for word in all_words())


def ask(world: World, rng: random.Random, hops: int) -> Question:
    """Draw a question about the world's first entities."""
    if hops == 1:
        kind, relation, text = rng.choice(ONE_HOP)
        subject = rng.choice(world.of_kind(kind))
        statement = subject.says(relation)
        return Question(text.format(name=subject.name), statement.value, ((subject, statement),))
    kind, first, second, text = rng.choice(TWO_HOP)
    subject = rng.choice(world.of_kind(kind))
    step = subject.says(first)
    assert step.refers_to is not None
    middle = world.entities[step.refers_to]
    last = middle.says(second)
    return Question(text.format(name=subject.name), last.value, ((subject, step), (middle, last)))


class Fiction:
    """One sample; a unit is one token of room for distractors."""

    low = 0
    high = 10**9
    unit = 1.0
    slack = 0.01
    prefix = PREFIX

    def __init__(self, frame: Frame, rng: random.Random, *, hops: int, depth: float) -> None:
        self.frame, self.depth, self.hops = frame, depth, hops
        self.world = World(rng, known_words())
        self.question = ask(self.world, rng, hops)
        self.tail = TAIL.format(question=self.question.text)
        self.gold = [
            Document(entity.name, entity.document, gold=True, facts=(statement.sentence,))
            for entity, statement in self.question.steps
        ]
        self._seen = 0
        self.pool: list[Document] = []
        self.sizes: list[int] = []
        self._chosen: dict[int, list[Document]] = {0: []}

    def guess(self, budget: int) -> int:
        """The room beside the gold documents."""
        return max(0, budget - self.frame.count(self.text(0), PREFIX))

    def _draw(self) -> None:
        """Move the world's next entity that gives nothing away into the pool."""
        gold = {entity.index for entity, _ in self.question.steps}
        while True:
            if self._seen == len(self.world.entities):
                self.world.add()
            entity = self.world.entities[self._seen]
            self._seen += 1
            if entity.index not in gold and not _mentions(entity, self.question.answer):
                break
        document = Document(entity.name, entity.document)
        self.pool.append(document)
        self.sizes += self.frame.pieces([f"{show([document])[0]}\n"])

    def _distractors(self, room: int) -> list[Document]:
        if room not in self._chosen:
            taken = total = 0
            while total <= room or taken < SPARE:
                if taken == len(self.pool):
                    self._draw()
                total += self.sizes[taken]
                taken += 1
            picked = fill(self.sizes[:taken], room, close=int(room * 0.005))
            self._chosen[room] = [self.pool[index] for index in picked]
        return self._chosen[room]

    def documents(self, units: int) -> list[Document]:
        """Documents in the prompt's order."""
        return at_depth([*self.gold, *self._distractors(units)], self.depth)

    def text(self, units: int) -> str:
        """The user's turn."""
        shown = "\n".join(show(self.documents(units)))
        return f"{HEAD}{shown}{self.tail}"

    def doc(self, units: int) -> dict[str, Any]:
        """Answers, spans' texts and facts."""
        documents = self.documents(units)
        return {
            "answers": [self.question.answer],
            "documents": show(documents),
            "question": self.question.text,
            "evidence": evidence(documents),
            "facts": {**facts(documents), "hops": self.hops, "asked_depth": self.depth},
        }


def _mentions(entity: Entity, answer: str) -> bool:
    """Whether an entity's document or title contains the answer as whole words."""
    text = f" {' '.join(english_tokens(f'{entity.name} {entity.document}'))} "
    return f" {' '.join(english_tokens(answer))} " in text
