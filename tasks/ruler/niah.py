"""RULER's needle in a haystack: the eight variants are one generator with other knobs.

Source: Hsieh et al., "RULER: What's the Real Context Size of Your Long-Context Language Models?"
(arXiv 2404.06654), and the prompts, needle and haystack formats of NVIDIA/RULER
(scripts/data/synthetic, niah).
"""

# No "from __future__ import annotations" in task modules that define dataclasses: lm-eval runs
# a module before it registers it, and dataclasses look string annotations up in the registry.
import random
import uuid
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from harness.tasks.data.words import words
from harness.tasks.framing import Frame, fill
from harness.tasks.generation import Request, Sample, generate
from harness.tasks.haystack import Haystack
from harness.tasks.official import Steps

NOISE = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."
NEEDLE = "One of the special magic {kind} for {key} is: {value}."
PLURAL = (
    "Some special magic {kind} are hidden within the following text. Make sure to memorize it. "
    "I will quiz you about the {kind} afterwards.\n",
    "\nWhat are all the special magic {kind} for {query} mentioned in the provided text?",
    "The special magic {kind} for {query} mentioned in the provided text are",
)
SINGULAR = (
    "A special magic {kind} is hidden within the following text. Make sure to memorize it. "
    "I will quiz you about the {kind} afterwards.\n",
    "\nWhat is the special magic {kind} for {query} mentioned in the provided text?",
    "The special magic {kind} for {query} mentioned in the provided text is",
)
DEPTHS = tuple(round(step * 100 / 39) for step in range(40))
"""Depths in per cent at which a needle may stand in essays: 40 even steps (RULER)."""


@dataclass(frozen=True)
class Knobs:
    """What tells the eight variants apart, by RULER's names.

    ``haystack`` is ``noise``, ``essay`` or ``needle``; ``type_needle_k`` and ``type_needle_v`` are
    ``words``, ``numbers`` or ``uuids``.
    """

    haystack: str
    type_needle_k: str = "words"
    type_needle_v: str = "numbers"
    num_needle_k: int = 1
    num_needle_v: int = 1
    num_needle_q: int = 1

    @property
    def keys(self) -> int:
        """Distinct keys: at least as many as are asked for."""
        return max(self.num_needle_k, self.num_needle_q)

    @property
    def kind(self) -> str:
        """The values' name in needles, always plural (RULER)."""
        return self.type_needle_v

    def needle(self, key: str, value: str) -> str:
        """The sentence that states one value."""
        return NEEDLE.format(kind=self.kind, key=key, value=value)


def dataset(
    *,
    haystack: str,
    type_needle_k: str = "words",
    type_needle_v: str = "numbers",
    num_needle_k: int = 1,
    num_needle_v: int = 1,
    num_needle_q: int = 1,
    **metadata: Any,
) -> dict[str, Any]:
    """Generate the task's samples; lm-eval's ``custom_dataset``."""
    knobs = Knobs(haystack, type_needle_k, type_needle_v, num_needle_k, num_needle_v, num_needle_q)
    request = Request.from_metadata(metadata, task=str(metadata.get("name", "niah")))
    build = {"noise": Noise, "essay": Essay, "needle": Needles}[haystack]

    def draw(rng: random.Random, _: int) -> Sample:
        sample = build(knobs, request.frame, rng)
        sample.by_count = request.official is not None
        return sample

    return generate(draw, request, name=f"niah/{knobs}")


def random_value(kind: str, rng: random.Random) -> str:
    """Draw a key or value: an adjective-noun pair, a seven-digit number, or a UUID."""
    if kind == "words":
        return f"{rng.choice(words('adjective'))}-{rng.choice(words('noun'))}"
    if kind == "numbers":
        return str(rng.randint(10**6, 10**7 - 1))
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))


class Niah:
    """What all three haystacks share: keys, values, needles, question and answers."""

    low = 1
    high = 10**9
    unit = 1.0
    slack = 0.002
    joint = "\n"
    by_count = False

    def __init__(self, knobs: Knobs, frame: Frame, rng: random.Random) -> None:
        self.knobs, self.frame, self.rng = knobs, frame, rng
        self._seen: set[str] = set()
        keys = [self.fresh(knobs.type_needle_k) for _ in range(knobs.keys)]
        self.values = {
            key: [self.fresh(knobs.type_needle_v) for _ in range(knobs.num_needle_v)]
            for key in keys
        }
        self.asked = rng.sample(keys, knobs.num_needle_q)
        self.needles = [knobs.needle(k, v) for k, vs in self.values.items() for v in vs]
        rng.shuffle(self.needles)
        single = knobs.num_needle_q * knobs.num_needle_v == 1
        names = {"kind": knobs.kind[:-1] if single else knobs.kind, "query": listed(self.asked)}
        self.head, self.tail, self.prefix = (
            part.format(**names) for part in (SINGULAR if single else PLURAL)
        )
        self._texts: dict[int, tuple[str, list[str]]] = {}

    def fresh(self, kind: str) -> str:
        """Draw a key or value that this sample has not used."""
        while (value := random_value(kind, self.rng)) in self._seen:
            pass
        self._seen.add(value)
        return value

    @cached_property
    def fixed(self) -> int:
        """About how many tokens everything but the haystack takes."""
        needles = self.joint.join(self.needles)
        return self.frame.count(self.head + needles + self.joint + self.tail, self.prefix)

    def guess(self, budget: int) -> int:
        """About how many units make a prompt of ``budget`` tokens."""
        raise NotImplementedError

    def steps(self, asked: int, _: int) -> Steps:
        """NVIDIA's steps: 500 words, or 25 lines, 5 below 4,096 tokens."""
        if self.knobs.haystack == "essay":
            return Steps(500)
        return Steps(25 if asked >= 4096 else 5)

    def sentences(self, units: int) -> list[str]:
        """The haystack with the needles in it."""
        raise NotImplementedError

    def text(self, units: int) -> str:
        """The user's turn (see :class:`harness.tasks.generation.Sample`)."""
        return self.head + self.joint.join(self.sentences(units)) + self.tail

    def doc(self, units: int) -> dict[str, Any]:
        """Answers, spans' texts and facts."""
        text = self.text(units)
        context = text[len(self.head) : len(text) - len(self.tail)]
        gold = [self.knobs.needle(key, value) for key in self.asked for value in self.values[key]]
        gold.sort(key=context.index)
        return {
            "outputs": [value for key in self.asked for value in self.values[key]],
            "instruction": self.head.strip(),
            "documents": [context],
            "question": self.tail.strip(),
            "evidence": gold,
            "facts": {
                "depth": context.index(gold[0]) / max(1, len(context) - len(gold[0])),
                "needles": len(self.needles),
                "haystack": self.source(units),
            },
        }

    def source(self, units: int) -> str:
        """What the haystack is made of, for the records."""
        return self.knobs.haystack


class Noise(Niah):
    """The same five sentences again and again, a needle between two repetitions."""

    def __init__(self, knobs: Knobs, frame: Frame, rng: random.Random) -> None:
        super().__init__(knobs, frame, rng)
        self.low = len(self.needles)
        self.unit = float(frame.pieces([NOISE + "\n"])[0])
        self.places = [rng.random() for _ in self.needles]

    def guess(self, budget: int) -> int:
        """Repetitions that fit."""
        return int((budget - self.fixed) / self.unit)

    def sentences(self, units: int) -> list[str]:
        """Insert at distinct random places, as RULER does."""
        return insert(self.needles, [NOISE] * units, self.places)


class Essay(Niah):
    """Running prose, needles between two sentences. A unit is a word, as in RULER."""

    joint = " "
    unit = 1.3

    def __init__(self, knobs: Knobs, frame: Frame, rng: random.Random) -> None:
        super().__init__(knobs, frame, rng)
        self.depths = sorted(rng.sample(DEPTHS, len(self.needles)))

    def source(self, units: int) -> str:
        """Which essays, and whether they sufficed."""
        return Haystack.of(self.frame).source(units)

    def guess(self, budget: int) -> int:
        """Words that fit, by the essays' own running token counts."""
        return Haystack.of(self.frame).words_in(budget - self.fixed)

    def sentences(self, units: int) -> list[str]:
        """Insert each needle at its depth in sentences."""
        hay = Haystack.of(self.frame).first(units)
        out = list(hay)
        for needle, depth in reversed(list(zip(self.needles, self.depths, strict=True))):
            out.insert(int(len(hay) * depth / 100), needle)
        return out


class Needles(Niah):
    """A haystack of needles about other keys.

    A unit is one token of room for them, or one needle where lengths are filled as NVIDIA does.
    """

    slack = 0.008
    low = 0

    def __init__(self, knobs: Knobs, frame: Frame, rng: random.Random) -> None:
        super().__init__(knobs, frame, rng)
        self.places = [rng.random() for _ in self.needles]
        self.pool: list[str] = []
        self.sizes: list[int] = []
        self._chosen: dict[int, list[str]] = {}

    def guess(self, budget: int) -> int:
        """The room itself, or the needles that fit on the average."""
        if not self.by_count:
            return budget - self.fixed
        self._draw(0)
        self.unit = sum(self.sizes) / len(self.sizes)
        return int((budget - self.fixed) / self.unit)

    def sentences(self, units: int) -> list[str]:
        """Fill the room with distractors, then insert the needles at random places."""
        if units not in self._chosen and self.by_count:
            while len(self.pool) < units:
                self._more()
            self._chosen[units] = self.pool[:units]
        if units not in self._chosen:
            self._draw(units)
            close = int(units * 0.004)
            self._chosen[units] = [self.pool[i] for i in fill(self.sizes, units, close=close)]
        return insert(self.needles, self._chosen[units], self.places)

    def _draw(self, room: int) -> None:
        """Have distractors for ``room`` tokens and 40 to choose from."""
        while sum(self.sizes[:-40]) <= room or len(self.sizes) < 41:
            self._more()

    def _more(self) -> None:
        knobs = self.knobs
        more = [
            knobs.needle(self.fresh(knobs.type_needle_k), self.fresh(knobs.type_needle_v))
            for _ in range(40)
        ]
        self.pool += more
        self.sizes += self.frame.pieces([f"{sentence}\n" for sentence in more])


def insert(needles: list[str], hay: list[str], places: list[float]) -> list[str]:
    """Insert needles at the given shares of the haystack, in the needles' order."""
    out = list(hay)
    # Never behind the last sentence: RULER draws the places among the sentences' own.
    ranks = sorted(int(place * len(hay)) for place in places)
    for needle, rank in reversed(list(zip(needles, ranks, strict=True))):
        out.insert(rank, needle)
    return out


def listed(names: list[str]) -> str:
    """``a``, or ``a, and b``, or ``a, b, and c`` (RULER)."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])}, and {names[-1]}"
