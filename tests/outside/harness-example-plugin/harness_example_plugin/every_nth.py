"""Evenly spread chunks: a control without scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from harness.methods.base import Method, MethodContext
from harness.methods.pruning import STRICT, Keep, Positions, Stopwatch, prune, token_budget
from harness.schema.prompts import PreparedPrompt, Prompt


@dataclass(frozen=True, config=STRICT)
class EveryNth(Method):
    """Keep ceil(keep × chunks) chunks at even distances, the last one always."""

    name: ClassVar[str] = "every_nth"

    keep: Keep = 0.1
    chunk: Annotated[int, Field(ge=1)] = 32
    positions: Positions = "original"

    def prepare(
        self, prompts: Sequence[Prompt], context: MethodContext
    ) -> Iterator[PreparedPrompt]:
        """Yield each prompt with its evenly spread chunks."""
        for prompt in prompts:
            watch = Stopwatch()
            length = len(prompt.token_ids)
            chunks = -(-length // self.chunk)
            count = token_budget(chunks, self.keep)
            chosen = {chunks - 1 - i * chunks // count for i in range(count)}
            kept = [i for i in range(length) if i // self.chunk in chosen]
            watch.lap("select")
            yield prune(
                prompt,
                kept,
                context,
                method=self.name,
                keep=self.keep,
                positions=self.positions,
                watch=watch,
            )
