"""The method: what to ask of the engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from pydantic.dataclasses import dataclass

from harness.engines.base import EngineSpec
from harness.methods.base import Method, MethodContext
from harness.methods.costs import target_shape
from harness.methods.draft_verify.config import PrefillConfig
from harness.methods.pruning import STRICT, Stopwatch, unsupported
from harness.methods.strategic import on_transformers, whole_prompt
from harness.schema.prompts import PreparedPrompt, Prompt
from harness.schema.receipts import BudgetKind, Cost


@dataclass(frozen=True, config=STRICT)
class DraftVerify(PrefillConfig, Method):
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

    def engine_spec(self, base: EngineSpec) -> EngineSpec:
        """Return the transformers engine with this prefill strategy."""
        return on_transformers(base, prefill=self.name)

    def prepare(
        self, prompts: Sequence[Prompt], context: MethodContext
    ) -> Iterator[PreparedPrompt]:
        """Yield each prompt whole; the strategy says what was accepted."""
        draft = self.draft or context.speculator
        for prompt in prompts:
            if draft is None:
                reason = "draft/verify needs a draft: give `draft` or a speculator"
                kind = self.budget_kind
                yield unsupported(prompt, method=self.name, keep=None, kind=kind, reason=reason)
                continue
            watch = Stopwatch()
            shape = target_shape(context)
            watch.lap("other")
            yield whole_prompt(
                prompt,
                method=self.name,
                kind=self.budget_kind,
                keep=None,
                keep_achieved=None,
                cost=Cost(kv_tokens=len(prompt.token_ids)),
                directives={
                    "draft": draft,
                    "calibration": self.calibration,
                    "config": self.config(),
                    "shape": shape,
                },
                seconds=watch.stages["other"],
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
