"""Full prefill: the reference that every delta and speed-up refers to."""

from __future__ import annotations

from typing import ClassVar

from pydantic.dataclasses import dataclass

from harness.methods.base import MethodContext
from harness.methods.costs import prefill_cost, target_shape
from harness.methods.one_by_one import OneByOne
from harness.methods.pruning import STRICT, Stopwatch
from harness.schema.prompts import PreparedPrompt, Prompt
from harness.schema.receipts import BudgetKind, Receipt, Status


@dataclass(frozen=True, config=STRICT)
class Full(OneByOne):
    """Prefill every token, on the engine's ordinary path, with no positions given."""

    name: ClassVar[str] = "full"
    budget_kind: ClassVar[BudgetKind] = BudgetKind.NONE
    improves_ttft: ClassVar[bool] = False

    def prepare_one(
        self, prompt: Prompt, context: MethodContext, watch: Stopwatch
    ) -> PreparedPrompt:
        """Return a prompt as it is."""
        length = len(prompt.token_ids)
        cost = prefill_cost(length, length, target_shape(context))
        watch.lap("other")
        receipt = Receipt(
            method=self.name,
            status=Status.KEPT_ALL,
            keep_achieved=1.0,
            cost=cost,
            kept_spans=((0, length),) if length else (),
            stages_s=watch.stages,
        )
        return PreparedPrompt(prompt.example_id, prompt.token_ids, None, length, receipt)
