"""GemFilter: the target's own early layers choose the tokens that the target then prefills.

Source: Shi et al. 2024, "Discovering the Gems in Early Layers" (arXiv:2409.17422).
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from harness.methods.base import MethodContext
from harness.methods.costs import target_shape
from harness.methods.one_by_one import KeepsShare
from harness.methods.pruning import (
    STRICT,
    PoolKernel,
    Positions,
    Stopwatch,
    token_budget,
)
from harness.methods.strategic import HasStrategy, whole_prompt
from harness.schema.prompts import PreparedPrompt, Prompt
from harness.schema.receipts import BudgetKind, Cost


@dataclass(frozen=True, config=STRICT)
class GemFilter(KeepsShare, HasStrategy):
    """Run the first layers on the whole prompt, keep ceil(keep × M) tokens, prefill those.

    Attributes
    ----------
    filter_layer
        Layers that run on the whole prompt; None is two fifths of the target's, as the paper's
        layer 13 of 32. The last one's attention of the last token, summed over heads, decides.
    pool_kernel
        Odd width of the average pool over the scores; 1 switches it off.
    positions
        ``compacted`` as in the paper, or ``original``.
    """

    name: ClassVar[str] = "gemfilter"
    budget_kind: ClassVar[BudgetKind] = BudgetKind.TOKENS

    filter_layer: Annotated[int, Field(ge=1)] | None = None
    pool_kernel: PoolKernel = 5
    positions: Positions = "compacted"

    def prepare_one(
        self, prompt: Prompt, context: MethodContext, watch: Stopwatch
    ) -> PreparedPrompt:
        """Return a prompt whole; the strategy says which tokens it kept."""
        length = len(prompt.token_ids)
        budget = token_budget(length, self.keep)
        return whole_prompt(
            self,
            prompt,
            watch,
            keep_achieved=budget / length if length else None,
            cost=Cost(kv_tokens=budget),
            directives={
                "budget": budget,
                "filter_layer": self.filter_layer,
                "pool_kernel": self.pool_kernel,
                "positions": self.positions,
                "shape": target_shape(context),
            },
        )
