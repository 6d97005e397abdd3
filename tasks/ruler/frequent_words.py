"""RULER's frequent words extraction: name the three commonest coded words.

Word counts follow a Zipf law, n·k^(−2)/ζ(2) for rank k; rank 1 is noise, written as dots.
Source: arXiv 2404.06654, and NVIDIA/RULER's freq_words_extraction settings.
"""

import math
import random
import string
from bisect import bisect_right
from typing import Any

from harness.tasks.framing import Frame
from harness.tasks.generation import Request, Sample, generate
from harness.tasks.official import Steps

HEAD = (
    "Read the following coded text and track the frequency of each coded word. "
    "Find the three most frequently appeared coded words. "
)
TAIL = (
    "\nQuestion: Do not provide any explanation. Please ignore the dots '....'. "
    "What are the three most frequently appeared words in the above coded text?"
)
PREFIX = "Answer: According to the coded text above, the three most frequently appeared words are:"
NOISE = "..."
ZETA_2 = math.pi**2 / 6
LETTERS = 6


def dataset(**metadata: Any) -> dict[str, Any]:
    """Generate the task's samples; lm-eval's ``custom_dataset``."""
    request = Request.from_metadata(metadata, task="ruler_fwe")

    def draw(rng: random.Random, _: int) -> Sample:
        return FrequentWords(request.frame, rng)

    return generate(draw, request, name="fwe")


class FrequentWords:
    """One sample; a unit is one word of the coded text, before rounding."""

    high = 10**9
    slack = 0.002
    prefix = PREFIX
    low = 132
    """From here on the last word asked for leads the next one by two, so that the answer is
    unique and does not hang on one word."""

    def __init__(self, frame: Frame, rng: random.Random) -> None:
        self.frame, self.rng = frame, rng
        self.shuffle_seed = rng.getrandbits(64)
        self.vocabulary = [NOISE]
        self.unit = 3.0
        self._grow(8)

    def _grow(self, size: int) -> None:
        seen = set(self.vocabulary)
        while len(self.vocabulary) < size:
            word = "".join(self.rng.choices(string.ascii_lowercase, k=LETTERS))
            if word not in seen:
                seen.add(word)
                self.vocabulary.append(word)

    def counts(self, units: int) -> list[int]:
        """How often each rank appears; ranks that would not appear are left out."""
        self._grow(max(8, math.isqrt(int(units / ZETA_2)) + 1))
        every = (int(units / (ZETA_2 * k * k)) for k in range(1, len(self.vocabulary) + 1))
        return [count for count in every if count]

    def guess(self, budget: int) -> int:
        """Words that fit, by the vocabulary's token counts."""
        room = max(budget - self.frame.count(HEAD + TAIL, PREFIX), self.low)
        ranks = len(self.counts(room))  # no word takes less than a token
        sizes = self.frame.pieces([f" {word}" for word in self.vocabulary[:ranks]])

        def tokens(units: int) -> int:
            return sum(c * s for c, s in zip(self.counts(units), sizes, strict=False))

        self.unit = max(1.0, tokens(room) / room)
        return max(self.low, bisect_right(range(room), room, key=tokens) - 1)

    def steps(self, _: int, budget: int) -> Steps:
        """NVIDIA's steps: a thirty-second of the prompt, from a sixth of it up."""
        return Steps(budget // 32, start=budget // LETTERS)

    def coded(self, units: int) -> str:
        """The coded text."""
        words = [
            word
            for word, count in zip(self.vocabulary, self.counts(units), strict=False)
            for _ in range(count)
        ]
        random.Random(f"{self.shuffle_seed}/{units}").shuffle(words)
        return " ".join(words)

    def text(self, units: int) -> str:
        """The user's turn."""
        return f"{HEAD}{self.coded(units)}{TAIL}"

    def doc(self, units: int) -> dict[str, Any]:
        """Answers, spans' texts and facts; no evidence, for the whole text is."""
        return {
            "outputs": self.vocabulary[1:4],
            "instruction": HEAD.strip(),
            "documents": [self.coded(units)],
            "question": TAIL.strip(),
            "evidence": [],
            "facts": {"distinct_words": len(self.counts(units)), "words": units},
        }
