"""Small invented worlds: places, people and works whose names mean nothing outside them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

ONSETS = (
    "b", "br", "d", "dr", "f", "fl", "g", "gl", "h", "j", "k", "kr", "l", "m", "n", "p", "pr",
    "qu", "r", "s", "sk", "st", "t", "th", "tr", "v", "w", "z", "zh",
)  # fmt: skip
VOWELS = ("a", "ae", "e", "ei", "i", "ia", "o", "oa", "u", "uo")
CODAS = ("", "", "", "l", "n", "r", "s", "sh", "th", "x", "lm", "nd", "rk", "st")
PLACE_KINDS = ["harbour town", "hill village", "island parish", "river port", "walled town"]
CRAFTS = [
    "rope walks", "salt pans", "glass furnaces", "dye works", "bell foundries", "boat yards",
    "paper mills", "orchards", "slate quarries", "tile kilns",
]  # fmt: skip
TRADES = [
    "cartographer", "composer", "clockmaker", "botanist", "printer", "surveyor", "weaver",
    "engraver", "physician", "astronomer", "bookbinder", "stonecutter",
]  # fmt: skip
WORK_KINDS = {
    "novel": "wrote", "opera": "composed", "atlas": "drew", "tapestry": "wove",
    "treatise": "wrote", "mechanical globe": "built", "song cycle": "composed",
}  # fmt: skip
MATERIALS = ["slate", "limestone", "tarred oak", "yellow brick", "basalt", "chestnut boards"]
HABITS = [
    "kept bees on the roof", "refused to travel by water", "answered letters only in winter",
    "collected door keys", "wrote with the left hand and drew with the right",
    "owned the first printed almanac in the district", "walked to work by the longer road",
]  # fmt: skip
FATES = [
    "It was mended twice after floods and once after a fire.",
    "Copies are rare, for most were used to wrap fish in a hard winter.",
    "For a generation it was thought to be lost.",
    "Visitors are asked not to touch it, and most of them do.",
    "A later owner had it bound in green cloth.",
    "Schoolchildren learn its opening by heart.",
]
SIGHTS = [
    "The market is held on the second day of each week, whatever the weather.",
    "Its streets are numbered rather than named.",
    "A bell is rung at dusk to bring the ferries in.",
    "The census counts its goats before its people.",
    "Strangers are given bread on the first night and a bill on the second.",
    "The old wall has three gates, one of which has never been opened.",
]


@dataclass(frozen=True)
class Statement:
    """One fact: ``subject``'s ``relation`` is ``value``, told in one sentence."""

    relation: str
    value: str
    sentence: str
    refers_to: int | None = None


@dataclass(frozen=True)
class Entity:
    """One place, person or work with its document."""

    index: int
    kind: str
    name: str
    statements: tuple[Statement, ...]
    filler: tuple[str, ...] = field(default=())

    @property
    def document(self) -> str:
        """The document's text, its facts among sentences that say nothing to the point."""
        first, *rest = self.statements
        told = [first.sentence, *self.filler[:1], *(s.sentence for s in rest), *self.filler[1:]]
        return " ".join(told)

    def says(self, relation: str) -> Statement:
        """Return the statement of a relation."""
        return next(s for s in self.statements if s.relation == relation)


class World:
    """Entities made one after another; each refers to earlier ones, so documents share names."""

    def __init__(self, rng: random.Random, known_words: frozenset[str]) -> None:
        self.rng, self.known_words = rng, known_words
        self._names: set[str] = set()
        self.entities: list[Entity] = []
        self._makers: dict[str, Callable[[int], Entity]] = {
            "place": self._place,
            "person": self._person,
            "work": self._work,
        }
        for kind in ("place", "place", "person", "person", "work", "work"):
            self.add(kind)

    def add(self, kind: str | None = None) -> Entity:
        """Make the next entity."""
        chosen = kind or self.rng.choice(("place", "person", "person", "work", "work"))
        entity = self._makers[chosen](len(self.entities))
        self.entities.append(entity)
        return entity

    def of_kind(self, kind: str) -> list[Entity]:
        """Every entity of a kind so far."""
        return [entity for entity in self.entities if entity.kind == kind]

    def name(self, syllables: int) -> str:
        """Invent a name that is no English word and that this world has not used."""
        rng = self.rng
        while True:
            parts = [rng.choice(ONSETS) + rng.choice(VOWELS) for _ in range(syllables)]
            word = "".join(parts) + rng.choice(CODAS)
            if len(word) >= 5 and word not in self._names | self.known_words:
                self._names.add(word)
                return word.capitalize()

    def year(self) -> str:
        """A year of the world's own reckoning."""
        return str(self.rng.randint(1001, 9899))

    def _place(self, index: int) -> Entity:
        rng, name = self.rng, self.name(2)
        kind, craft, stone = rng.choice(PLACE_KINDS), rng.choice(CRAFTS), rng.choice(MATERIALS)
        year, river = self.year(), self.name(2)
        founded = f"It was founded in the year {year} by settlers who built in {stone}."
        statements = (
            Statement("kind", kind, f"{name} is {_a(kind)} known for its {craft}."),
            Statement("founded", year, founded),
            Statement("river", river, f"The river {river} runs past it on the eastern side."),
        )
        return Entity(index, "place", name, statements, tuple(rng.sample(SIGHTS, 2)))

    def _person(self, index: int) -> Entity:
        rng, last = self.rng, self.name(3)
        name, trade, year = f"{self.name(2)} {last}", rng.choice(TRADES), self.year()
        home = rng.choice(self.of_kind("place"))
        born = f"{last} was born in {home.name}, in the year {year}."
        statements = [
            Statement("trade", trade, f"{name} was a {trade} of wide reputation."),
            Statement("birthplace", home.name, born, home.index),
        ]
        others = self.of_kind("person")
        if others:
            teacher = rng.choice(others)
            taught = f"As an apprentice {last} was taught by {teacher.name}."
            statements.append(Statement("teacher", teacher.name, taught, teacher.index))
        habit = rng.choice(HABITS)
        filler = (f"It is said that {last} {habit}.", f"Few portraits of {last} survive.")
        return Entity(index, "person", name, tuple(statements), filler)

    def _work(self, index: int) -> Entity:
        rng, year = self.rng, self.year()
        name = f"The {self.name(2)} of {self.name(2)}"
        kind = rng.choice(sorted(WORK_KINDS))
        maker, home = rng.choice(self.of_kind("person")), rng.choice(self.of_kind("place"))
        made = f"{name} is {_a(kind)} that {maker.name} {WORK_KINDS[kind]}."
        statements = (
            Statement("maker", maker.name, made, maker.index),
            Statement("finished", year, f"It was finished in the year {year}."),
            Statement("kept", home.name, f"The original is kept in {home.name}.", home.index),
        )
        return Entity(index, "work", name, statements, tuple(rng.sample(FATES, 2)))


def _a(noun: str) -> str:
    """``noun`` with its indefinite article."""
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
