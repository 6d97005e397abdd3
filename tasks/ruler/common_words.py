"""RULER's common words extraction: name the ten words that a numbered list repeats most.

Source: arXiv 2404.06654, and NVIDIA/RULER's common_words_extraction settings: common words 30
times and others 3 times, or 6 and 1 times below 4,096 tokens; one worked example in front. A list
of more words than wonderwords has is drawn from a dictionary, whole, as RULER does.
"""

import random
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from harness.tasks.data.words import all_words, dictionary
from harness.tasks.framing import Frame
from harness.tasks.generation import Request, Sample, generate
from harness.tasks.official import Steps

HEAD = (
    "Below is a numbered list of words. In these words, some appear more often than others. "
    "Memorize the ones that appear most often.\n"
)
TAIL = "\nQuestion: What are the 10 most common words in the above list?"
PREFIX = "Answer: The top 10 words that appear most often in the list are:"
COMMON = 10
EXAMPLE_WORDS = 40
"""Words of the worked example at most; they stand apart from the list's own."""
SHORT = 4096
"""Prompts below this many tokens repeat words less often (RULER)."""


def dataset(**metadata: Any) -> dict[str, Any]:
    """Generate the task's samples; lm-eval's ``custom_dataset``."""
    request = Request.from_metadata(metadata, task="ruler_cwe")

    def draw(rng: random.Random, _: int) -> Sample:
        # One request may ask for several lengths, so the sample learns its own in guess().
        return CommonWords(request, rng)

    return generate(draw, request, name="cwe")


class CommonWords:
    """One sample; a unit is one distinct word."""

    low = 2 * COMMON
    slack = 0.0
    prefix = PREFIX
    unit = 6.0

    def __init__(self, request: Request, rng: random.Random) -> None:
        self.request, self.frame, self.rng = request, request.frame, rng
        self.shuffle_seed = rng.getrandbits(64)
        self.source = all_words
        self.words = rng.sample(all_words(), len(all_words()))
        self.repeats, self.example_repeats, self.example_words = (6, 1), (3, 1), 20
        self._large = False
        self._example()

    @property
    def high(self) -> int:
        """Most words that a list can have, those of the worked example kept apart."""
        return len(self.words) - EXAMPLE_WORDS

    def _example(self) -> None:
        """Make the worked example of words that the sample itself does not use."""
        words = self.words[-self.example_words :]
        listed = " ".join(f"{i}. {word}" for i, word in enumerate(words[:COMMON], 1))
        numbered = self._numbered(words, self.example_repeats)
        self.head = f"{HEAD}{numbered}{TAIL} {PREFIX} {listed}\n{HEAD}"

    def _numbered(self, words: list[str], repeats: tuple[int, int]) -> str:
        return numbered(words, repeats, self.shuffle_seed)

    def guess(self, budget: int) -> int:
        """Distinct words that fit, by what a word costs on the average."""
        if self.request.asked(budget) >= SHORT and not self._large:
            self._large = True
            self.repeats, self.example_repeats = (30, 3), (10, 3)
            self.example_words = EXAMPLE_WORDS
            self._example()
        units = self._estimate(budget)
        if units > self.high and self.source is all_words:
            self.source = dictionary
            self.words = self.rng.sample(dictionary(), len(dictionary()))
            self._example()
            units = self._estimate(budget)
        return units

    def steps(self, *_: int) -> Steps:
        """NVIDIA's steps: ten words."""
        return Steps(10)

    def _estimate(self, budget: int) -> int:
        bare = self.frame.count(self.text(self.low), PREFIX)
        self.unit = tokens_a_word(self.frame, self.source, self.repeats, budget)
        return self.low + max(0, int((budget - bare) / self.unit))

    def text(self, units: int) -> str:
        """Worked example, then the list proper."""
        return f"{self.head}{self._numbered(self.words[:units], self.repeats)}{TAIL}"

    def doc(self, units: int) -> dict[str, Any]:
        """Answers, spans' texts and facts; no evidence, for the whole list is."""
        return {
            "outputs": self.words[:COMMON],
            "instruction": self.head.strip(),
            "documents": [self._numbered(self.words[:units], self.repeats)],
            "question": TAIL.strip(),
            "evidence": [],
            "facts": {
                "distinct_words": units,
                "repeats": self.repeats[0],
                "words": "wonderwords" if self.source is all_words else "dictionary",
            },
        }


def numbered(words: Sequence[str], repeats: tuple[int, int], seed: int) -> str:
    """Repeat the common words and the others, shuffle, and number the list."""
    often, seldom = repeats
    entries = [*words[:COMMON]] * often + [*words[COMMON:]] * seldom
    random.Random(f"{seed}/{len(entries)}").shuffle(entries)
    return " ".join(f"{i}. {word}" for i, word in enumerate(entries, 1))


@cache
def tokens_a_word(
    frame: Frame, source: Callable[[], tuple[str, ...]], repeats: tuple[int, int], budget: int
) -> float:
    """Tokens that one more distinct word takes on the average, in prompts of about this size."""
    known = source()
    few = 2 * COMMON
    many = min(len(known), few + max(20, budget // (8 * repeats[1])))
    words = random.Random("cwe").sample(known, many)
    texts = [numbered(words[:count], repeats, 0) for count in (few, many)]
    cost_few, cost_many = frame.pieces(texts)
    return (cost_many - cost_few) / (many - few)
