"""RULER's variable tracking: follow one chain of assignments through noise.

Source: arXiv 2404.06654, and NVIDIA/RULER's variable_tracking settings (1 chain, 4 hops, one
worked example of at most 500 tokens in front).
"""

import random
import string
from typing import Any

from harness.tasks.framing import Frame, largest_fit
from harness.tasks.generation import Request, Sample, generate
from harness.tasks.official import Steps

NOISE = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."
HOPS = 4
HEAD = "Memorize and track the chain(s) of variable assignment hidden in the following text.\n\n"
TAIL = "\nQuestion: Find all variables that are assigned the value {value} in the text above."
PREFIX = (
    "Answer: According to the chain(s) of variable assignment in the text above, "
    "{count} variables are assigned the value {value}, they are:"
)
EXAMPLE_TOKENS = 500
"""Most tokens of the worked example (RULER)."""


def dataset(**metadata: Any) -> dict[str, Any]:
    """Generate the task's samples; lm-eval's ``custom_dataset``."""
    request = Request.from_metadata(metadata, task="ruler_vt")

    def draw(rng: random.Random, _: int) -> Sample:
        return Tracking(request.frame, rng)

    return generate(draw, request, name="vt")


class Chain:
    """Five variables, the first one assigned a number, each later one the variable before."""

    def __init__(self, rng: random.Random, letters: int, taken: tuple[str, ...] = ()) -> None:
        self.value = str(rng.randint(10000, 99999))
        self.names: list[str] = []
        while len(self.names) <= HOPS:
            name = "".join(rng.choices(string.ascii_uppercase, k=letters))
            if name not in self.names and name not in taken:
                self.names.append(name)
        self.statements = [
            f"VAR {self.names[0]} = {self.value}",
            # The blank at the end is RULER's.
            *(f"VAR {b} = VAR {a} " for a, b in zip(self.names, self.names[1:], strict=False)),
        ]
        self.places = sorted(rng.random() for _ in self.statements)

    def context(self, units: int) -> str:
        """Noise lines with the statements among them, in order, at most one between two lines."""
        lines = [NOISE] * units
        ranks = [int(place * units) for place in self.places]
        ranks = _apart(ranks, units)
        for statement, rank in reversed(list(zip(self.statements, ranks, strict=True))):
            lines.insert(rank, statement)
        return "\n".join(lines)


def _apart(ranks: list[int], units: int) -> list[int]:
    """Make sorted ranks distinct, as RULER draws them without replacement."""
    out: list[int] = []
    for rank in ranks:
        out.append(max(rank, out[-1] + 1 if out else 0))
    for i in range(len(out) - 1, -1, -1):
        limit = units - (len(out) - i)
        out[i] = min(out[i], limit)
    return out


class Tracking:
    """One sample; a unit is one line of noise."""

    high = 10**9
    slack = 0.0

    def __init__(self, frame: Frame, rng: random.Random) -> None:
        self.frame = frame
        self.unit = float(frame.pieces([f"{NOISE}\n"])[0])
        self.chain = Chain(rng, letters=5)
        self.low = len(self.chain.statements)
        self.prefix = PREFIX.format(count=HOPS + 1, value=self.chain.value)
        self.tail = TAIL.format(value=self.chain.value)
        self.example = worked_example(frame, rng, other=self.chain)

    def guess(self, budget: int) -> int:
        """Lines that fit."""
        bare = self.frame.count(self.text(0), self.prefix)
        return int((budget - bare) / self.unit)

    def steps(self, asked: int, _: int) -> Steps:
        """NVIDIA's steps: ten lines, five below 4,096 tokens."""
        return Steps(10 if asked >= 4096 else 5)

    def text(self, units: int) -> str:
        """Worked example, then the question proper."""
        context = self.chain.context(units) if units else "\n".join(self.chain.statements)
        return f"{self.example}\n{HEAD}{context}{self.tail}"

    def doc(self, units: int) -> dict[str, Any]:
        """Answers, spans' texts and facts."""
        context = self.chain.context(units)
        return {
            "outputs": self.chain.names,
            "instruction": f"{self.example}\n{HEAD}".strip(),
            "documents": [context],
            "question": self.tail.strip(),
            "evidence": [statement.strip() for statement in self.chain.statements],
            "facts": {
                "depth": context.index(self.chain.statements[0]) / len(context),
                "needles": len(self.chain.statements),
                "haystack": "noise",
            },
        }


def worked_example(frame: Frame, rng: random.Random, other: Chain) -> str:
    """Make a solved question with three-letter names, as RULER puts in front of each sample."""
    chain = Chain(rng, letters=3)
    while chain.value == other.value:
        chain = Chain(rng, letters=3)
    answer = PREFIX.format(count=HOPS + 1, value=chain.value)

    def solved(units: int) -> str:
        question = f"{HEAD}{chain.context(units)}{TAIL.format(value=chain.value)}"
        # Two blanks before the names: RULER's prefix ends in one, and it adds another.
        return f"{question} {answer}  {' '.join(chain.names)}\n"

    per_line = float(frame.pieces([f"{NOISE}\n"])[0])
    units = largest_fit(
        lambda n: frame.pieces([solved(n)])[0],
        EXAMPLE_TOKENS,
        guess=int((EXAMPLE_TOKENS - frame.pieces([solved(5)])[0]) / per_line) + 5,
        unit=per_line,
        low=5,
        high=50,
    )
    return solved(units or 5)
