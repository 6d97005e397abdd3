"""SnapKV: full prefill, then a pruned key-value cache for decoding.

Source: Li et al. 2024, "SnapKV" (arXiv:2404.14469). An attention-based neighbour of SpecPrefill
that by design does not improve TTFT: the target computes the whole prompt.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from harness.methods.base import MethodContext
from harness.methods.costs import prefill_cost, target_shape
from harness.methods.one_by_one import KeepsShare
from harness.methods.pruning import STRICT, PoolKernel, Stopwatch, token_budget
from harness.methods.strategic import HasStrategy, whole_prompt
from harness.schema.prompts import PreparedPrompt, Prompt
from harness.schema.receipts import BudgetKind


@dataclass(frozen=True, config=STRICT)
class SnapKV(KeepsShare, HasStrategy):
    """Keep, in each layer and key head, the ceil(keep × M) entries that the last window attends to.

    Attributes
    ----------
    window
        Last queries that vote; their own entries are kept.
    pool_kernel
        Odd width of the average pool over the votes; 1 switches it off.
    """

    name: ClassVar[str] = "snapkv"
    budget_kind: ClassVar[BudgetKind] = BudgetKind.KV
    improves_ttft: ClassVar[bool] = False

    window: Annotated[int, Field(ge=1)] = 32
    pool_kernel: PoolKernel = 5

    def prepare_one(
        self, prompt: Prompt, context: MethodContext, watch: Stopwatch
    ) -> PreparedPrompt:
        """Return a prompt whole."""
        length = len(prompt.token_ids)
        budget = token_budget(length, self.keep)
        return whole_prompt(
            self,
            prompt,
            watch,
            keep_achieved=budget / length if length else None,
            cost=prefill_cost(length, length, target_shape(context), kv_tokens=budget),
            directives={
                "budget": budget,
                "window": self.window,
                "pool_kernel": self.pool_kernel,
            },
        )
