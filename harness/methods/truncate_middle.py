"""Middle truncation: the first and last halves of the budget, as LongBench fits long prompts.

Source: Bai et al. 2023, "LongBench" (arXiv:2308.14508), section 4.1: a prompt over the model's
range is cut in the middle, since instructions stand at its two ends.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic.dataclasses import dataclass

from harness.methods.base import MethodContext
from harness.methods.one_by_one import KeepsShare
from harness.methods.pruning import (
    STRICT,
    Positions,
    Stopwatch,
    prune,
    token_budget,
)
from harness.schema.prompts import PreparedPrompt, Prompt


@dataclass(frozen=True, config=STRICT)
class TruncateMiddle(KeepsShare):
    """Keep ceil(keep × M) tokens: half from the start (rounded up), half from the end.

    ``positions`` is ``compacted`` unless said otherwise: LongBench cuts text, so the model never
    knows that something stood between the halves.
    """

    name: ClassVar[str] = "truncate_middle"

    positions: Positions = "compacted"

    def prepare_one(
        self, prompt: Prompt, context: MethodContext, watch: Stopwatch
    ) -> PreparedPrompt:
        """Return a prompt without its middle."""
        length = len(prompt.token_ids)
        budget = token_budget(length, self.keep)
        head, tail = budget - budget // 2, budget // 2
        kept = [*range(head), *range(length - tail, length)]
        watch.lap("select")
        return prune(self, prompt, kept, context, watch, positions=self.positions)
