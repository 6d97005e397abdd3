"""SnapKV: full prefill, then a pruned key-value cache for decoding.

Source: Li et al. 2024, "SnapKV" (arXiv:2404.14469). An attention-based neighbour of SpecPrefill
that by design does not improve TTFT: the target computes the whole prompt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from harness.engines.base import EngineSpec
from harness.methods.base import Method, MethodContext
from harness.methods.costs import prefill_cost, target_shape
from harness.methods.pruning import STRICT, Keep, PoolKernel, Stopwatch, token_budget
from harness.methods.strategic import on_transformers, whole_prompt
from harness.schema.prompts import PreparedPrompt, Prompt
from harness.schema.receipts import BudgetKind


@dataclass(frozen=True, config=STRICT)
class SnapKV(Method):
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
    needs: ClassVar[frozenset[str]] = frozenset({"engine:hf"})
    improves_ttft: ClassVar[bool] = False

    keep: Keep = 0.1
    window: Annotated[int, Field(ge=1)] = 32
    pool_kernel: PoolKernel = 5

    def engine_spec(self, base: EngineSpec) -> EngineSpec:
        """Return the transformers engine with this prefill strategy."""
        return on_transformers(base, prefill=self.name)

    def prepare(
        self, prompts: Sequence[Prompt], context: MethodContext
    ) -> Iterator[PreparedPrompt]:
        """Yield each prompt whole."""
        for prompt in prompts:
            watch = Stopwatch()
            length = len(prompt.token_ids)
            budget = token_budget(length, self.keep)
            cost = prefill_cost(length, length, target_shape(context), kv_tokens=budget)
            watch.lap("other")
            yield whole_prompt(
                prompt,
                method=self.name,
                kind=self.budget_kind,
                keep=self.keep,
                keep_achieved=budget / length if length else None,
                cost=cost,
                directives={
                    "budget": budget,
                    "window": self.window,
                    "pool_kernel": self.pool_kernel,
                },
                seconds=watch.stages["other"],
            )
