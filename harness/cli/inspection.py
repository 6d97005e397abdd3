"""What a method keeps of one prompt, for a person to look at."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.errors import ConfigError
from harness.methods.base import MethodContext
from harness.schema.prompts import PreparedPrompt, Prompt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.models.tokenizer import Tokenizer
    from harness.run.cells import PlannedCell
    from harness.run.config import RunConfig
    from harness.run.plan import Plan


@dataclass(frozen=True)
class Inspection:
    """One prompt under one arm."""

    arm: str
    prompt: Prompt
    prepared: PreparedPrompt

    def to_json(self) -> dict[str, Any]:
        """Receipt, kept text spans, and the prompt's facts."""
        return {
            "arm": self.arm,
            "example_id": self.prompt.example_id,
            "tokens": len(self.prompt.token_ids),
            "prefill_tokens": len(self.prepared.token_ids),
            "receipt": self.prepared.receipt.to_json(),
        }

    def pieces(self, tokenizer: Tokenizer) -> list[tuple[str, bool]]:
        """Text in order, each piece with whether it was kept; no characters are lost."""
        spans = self.prepared.receipt.kept_spans
        if spans is None:
            return [(tokenizer.decode(self.prepared.token_ids, skip_special_tokens=False), True)]
        _, offsets = tokenizer.encode_with_offsets(self.prompt.text)
        kept = [False] * len(offsets)
        for start, stop in spans:
            kept[start:stop] = [True] * (stop - start)
        pieces: list[tuple[str, bool]] = []
        at = 0
        for (_, stop), keep in zip(offsets, kept, strict=True):
            text = self.prompt.text[at:stop]
            at = max(at, stop)
            if pieces and pieces[-1][1] == keep:
                pieces[-1] = (pieces[-1][0] + text, keep)
            else:
                pieces.append((text, keep))
        return pieces


def inspect_prompt(
    config: RunConfig, overrides: Mapping[str, Mapping[str, Any]], index: int
) -> tuple[list[Inspection], Tokenizer]:
    """Prepare example ``index`` under every arm of the configuration; the target is not run.

    Raises
    ------
    ConfigError
        There is no such example.
    """
    from harness.run.plan import build_plan

    plan = build_plan(config, overrides)
    workload = plan.workloads[0]
    examples = workload.examples.examples
    if index >= len(examples):
        raise ConfigError(f"--index {index}: there are only {len(examples)} examples")
    prompt = examples[index].prompt
    with ExitStack() as stack:
        found = []
        for cell in workload.cells:
            context = _context(plan, cell, workload.max_tokens, stack)
            (prepared,) = cell.method.prepare([prompt], context)
            found.append(Inspection(cell.record.arm, prompt, prepared))
    return found, plan.tokenizer


def _context(plan: Plan, cell: PlannedCell, max_tokens: int, stack: ExitStack) -> MethodContext:
    from harness.engines.base import EngineSpec
    from harness.methods.specprefill.scorers import open_scorer

    models = plan.models
    scorer = None
    if "scorer" in cell.method.needs:
        scorer = open_scorer(
            EngineSpec(
                cell.spec.engine,
                str(models.speculator),
                cell.spec.dtype,
                models.speculator_max_positions,
            )
        )
        stack.callback(scorer.close)
    return MethodContext(
        tokenizer=plan.tokenizer,
        scorer=scorer,
        speculator=str(models.speculator),
        max_positions=models.max_positions,
        max_tokens=max_tokens,
        method_seed=cell.record.method_seed,
    )
