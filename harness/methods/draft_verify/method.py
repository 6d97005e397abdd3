"""The method: what to ask of the engine."""

from __future__ import annotations

from typing import ClassVar

from pydantic.dataclasses import dataclass

from harness.errors import ModelError
from harness.methods.base import MethodContext
from harness.methods.costs import target_shape
from harness.methods.draft_verify.config import PrefillConfig
from harness.methods.pruning import STRICT, Stopwatch
from harness.methods.strategic import HasStrategy, whole_prompt
from harness.schema.prompts import PreparedPrompt, Prompt
from harness.schema.receipts import BudgetKind, Cost


@dataclass(frozen=True, config=STRICT)
class DraftVerify(PrefillConfig, HasStrategy):
    """The speculator drafts the target's key-value cache, the target verifies it.

    Attributes
    ----------
    draft
        Folder or cached hub name of the draft; None is the run's speculator.
    calibration
        Text file to fit the maps on; None is prose that comes with Python (see
        :mod:`harness.methods.draft_verify.corpus`).
    """

    name: ClassVar[str] = "draft_verify"
    budget_kind: ClassVar[BudgetKind] = BudgetKind.ADAPTIVE
    needs: ClassVar[frozenset[str]] = frozenset({"engine:hf", "speculator"})

    draft: str | None = None
    calibration: str | None = None

    def prepare_one(
        self, prompt: Prompt, context: MethodContext, watch: Stopwatch
    ) -> PreparedPrompt:
        """Return a prompt whole; the strategy says what was accepted."""
        draft = self.draft or context.speculator
        if draft is None:
            raise ModelError("draft/verify needs a draft: give `draft` or a speculator")
        return whole_prompt(
            self,
            prompt,
            watch,
            keep_achieved=None,
            cost=Cost(kv_tokens=len(prompt.token_ids)),
            directives={
                "draft": draft,
                "calibration": self.calibration,
                "config": self.config(),
                "shape": target_shape(context),
            },
        )

    def config(self) -> PrefillConfig:
        """Return the knobs without the method around them."""
        return PrefillConfig(
            draft_chunk_size=self.draft_chunk_size,
            verify_stride=self.verify_stride,
            acceptance_threshold=self.acceptance_threshold,
            max_rejection_rate=self.max_rejection_rate,
            fallback_to_full=self.fallback_to_full,
        )
