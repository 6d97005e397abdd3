"""What the methods that change *how* the target prefills have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from harness.engines.base import EngineSpec
from harness.methods.base import Method
from harness.methods.one_by_one import OneByOne
from harness.methods.pruning import Stopwatch
from harness.schema.prompts import PreparedPrompt, Prompt
from harness.schema.receipts import Cost, Receipt, Status

ENGINE = "hf"
"""The engine that has prefill strategies (:mod:`harness.engines.hf.strategies`)."""


class HasStrategy(OneByOne):
    """A method with a prefill strategy of its own name, on transformers."""

    needs: ClassVar[frozenset[str]] = frozenset({f"engine:{ENGINE}"})

    def engine_spec(self, base: EngineSpec) -> EngineSpec:
        """Return the transformers engine with this prefill strategy."""
        return on_transformers(base, prefill=self.name)


def on_transformers(base: EngineSpec, **changes: str) -> EngineSpec:
    """Return ``base`` on the transformers engine with another attention or prefill strategy."""
    options = base.options if base.engine == ENGINE else ()  # another engine's say nothing to it
    return replace(base, engine=ENGINE, options=options, **changes)  # type: ignore[arg-type]


def whole_prompt(
    method: Method,
    prompt: Prompt,
    watch: Stopwatch,
    *,
    keep_achieved: float | None,
    cost: Cost,
    directives: Mapping[str, Any],
) -> PreparedPrompt:
    """Hand the whole prompt to a strategy, whose knobs are the directives.

    ``keep_achieved`` and parts of ``cost`` that only the prefill knows stay None until the
    strategy completes the receipt.
    """
    length = len(prompt.token_ids)
    watch.lap("other")
    receipt = Receipt(
        method=method.name,
        status=Status.ACTIVE if length else Status.KEPT_ALL,
        keep_requested=method.requested,
        keep_achieved=keep_achieved,
        budget_kind=method.budget_kind,
        cost=cost,
        kept_spans=((0, length),) if length else (),
        stages_s=watch.stages,
    )
    return PreparedPrompt(
        prompt.example_id, prompt.token_ids, None, length, receipt, dict(directives)
    )
