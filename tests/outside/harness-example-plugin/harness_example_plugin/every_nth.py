"""Evenly spread chunks: a control without scores."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from harness.methods.base import MethodContext
from harness.methods.one_by_one import KeepsShare
from harness.methods.pruning import STRICT, Positions, Stopwatch, prune, token_budget
from harness.schema.prompts import PreparedPrompt, Prompt


@dataclass(frozen=True, config=STRICT)
class EveryNth(KeepsShare):
    """Keep ceil(keep × chunks) chunks at even distances, the last one always."""

    name: ClassVar[str] = "every_nth"

    chunk: Annotated[int, Field(ge=1)] = 32
    positions: Positions = "original"

    def prepare_one(
        self, prompt: Prompt, context: MethodContext, watch: Stopwatch
    ) -> PreparedPrompt:
        """Return a prompt with its evenly spread chunks."""
        length = len(prompt.token_ids)
        chunks = -(-length // self.chunk)
        count = token_budget(chunks, self.keep)
        chosen = {chunks - 1 - i * chunks // count for i in range(count)}
        kept = [i for i in range(length) if i // self.chunk in chosen]
        watch.lap("select")
        return prune(self, prompt, kept, context, watch, positions=self.positions)
