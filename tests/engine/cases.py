"""Prompts and selections that several engine tests share."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import NamedTuple

from harness.models.tokenizer import Tokenizer
from harness.schema.prompts import PreparedPrompt
from harness.schema.receipts import Receipt, Status

TOKENS = 24
_SUBJECTS = ("lighthouse", "beekeeper", "tram line", "orchard", "canal", "observatory", "mill")


class Case(NamedTuple):
    """A prompt of M tokens and the indices of the kept ones."""

    name: str
    tokens: tuple[int, ...]
    kept: tuple[int, ...]

    def prepared(self) -> PreparedPrompt:
        """The sparse request."""
        return PreparedPrompt(
            self.name,
            tuple(self.tokens[i] for i in self.kept),
            self.kept,
            len(self.tokens),
            Receipt("test", Status.ACTIVE),
        )

    def full(self, *, explicit: bool) -> PreparedPrompt:
        """Everything kept, with explicit positions 0…M−1 or without."""
        length = len(self.tokens)
        positions = tuple(range(length)) if explicit else None
        prompt = replace(self.prepared(), token_ids=self.tokens, positions=positions)
        return replace(prompt, example_id=f"{self.name}-{'explicit' if explicit else 'full'}")


def make_cases(tokenizer: Tokenizer, count: int = 8) -> list[Case]:
    """Chat prompts of 250 to about 600 tokens, 20 to 60 % kept in chunks of 32."""
    return [_case(tokenizer, number) for number in range(count)]


def _case(tokenizer: Tokenizer, number: int) -> Case:
    draw = random.Random(number)
    sentences = [
        f"In year {draw.randint(1800, 1999)} the {draw.choice(_SUBJECTS)} near village "
        f"{draw.randint(1, 99)} was repaired for {draw.randint(10, 900)} crowns."
        for _ in range(8 + 2 * number)
    ]
    question = f"\n\nWhich {_SUBJECTS[number % len(_SUBJECTS)]} was repaired first, and when?"
    text = tokenizer.chat([{"role": "user", "content": " ".join(sentences) + question}])
    tokens = tokenizer.encode(text)
    chunks = [range(i, min(i + 32, len(tokens))) for i in range(0, len(tokens), 32)]
    inner = draw.sample(range(len(chunks) - 1), max(2, int(len(chunks) * draw.uniform(0.2, 0.6))))
    kept = tuple(i for c in sorted({*inner, len(chunks) - 1}) for i in chunks[c])
    return Case(f"case-{number}", tokens, kept)
