"""``harness.inspect``: what a method keeps of one prompt, for a person to look at."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

from harness.api.options import (
    EngineArguments,
    Names,
    Overrides,
    make_config,
    make_overrides,
)
from harness.errors import ConfigError
from harness.schema.prompts import PreparedPrompt, Prompt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.models.tokenizer import Tokenizer
    from harness.run.config import RunConfig


@dataclass(frozen=True)
class Inspection:
    """One prompt under one arm."""

    arm: str
    prompt: Prompt
    prepared: PreparedPrompt
    tokenizer: Tokenizer

    def to_json(self) -> dict[str, Any]:
        """Receipt, kept text spans, and the prompt's facts."""
        return {
            "arm": self.arm,
            "example_id": self.prompt.example_id,
            "tokens": len(self.prompt.token_ids),
            "prefill_tokens": len(self.prepared.token_ids),
            "receipt": self.prepared.receipt.to_json(),
        }

    def pieces(self) -> list[tuple[str, bool]]:
        """Text in order, each piece with whether it was kept; no characters are lost."""
        spans = self.prepared.receipt.kept_spans
        if spans is None:
            whole = self.tokenizer.decode(self.prepared.token_ids, skip_special_tokens=False)
            return [(whole, True)]
        _, offsets = self.tokenizer.encode_with_offsets(self.prompt.text)
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


def inspect(
    task: Names = "ruler_niah_single_2",
    keep: float = 0.1,
    method: Names = "specprefill",
    *,
    index: int = 0,
    look_ahead: int = 8,
    length: int = 2048,
    seed: int = 0,
    preset: str | None = None,
    target: str | None = None,
    speculator: str | None = None,
    data: str | PathLike[str] | None = None,
    engine: str = "vllm",
    dtype: str = "bfloat16",
    engine_args: EngineArguments = None,
    speculator_args: EngineArguments = None,
    set_: Overrides = None,
) -> list[Inspection]:
    """Show what methods keep of one prompt; the target is not run.

    Parameters
    ----------
    index
        Which example of the task; the other options are those of :func:`harness.run`.

    Returns
    -------
    list of Inspection
        One an arm: the prompt, what is prefilled of it, and the receipt.

    Raises
    ------
    HarnessError
        An option is wrong, or there is no such example.
    """
    config = make_config(
        "harness.inspect",
        task=task,
        data=data,
        method=method,
        keep=keep,
        look_ahead=look_ahead,
        length=length,
        seed=seed,
        limit=index + 1,
        preset=preset,
        target=target,
        speculator=speculator,
        engine=engine,
        dtype=dtype,
        engine_args=engine_args,
        speculator_args=speculator_args,
        reference=False,
    )
    return inspect_prompt(config, make_overrides(set_), index)


def inspect_prompt(
    config: RunConfig, overrides: Mapping[str, Mapping[str, Any]], index: int
) -> list[Inspection]:
    """Prepare example ``index`` under every arm of the configuration; the target is not run.

    Raises
    ------
    ConfigError
        There is no such example.
    """
    from harness.run.cells import by_examples
    from harness.run.opener import open_models
    from harness.run.plan import build_plan

    plan = build_plan(config, overrides)
    first, *_ = by_examples(plan.cells)
    examples = first[0].examples.examples
    if index >= len(examples):
        raise ConfigError(f"--index {index}: there are only {len(examples)} examples")
    prompt = examples[index].prompt
    scored = [cell for cell in first if "scorer" in cell.method.needs]
    with ExitStack() as stack:
        opened = open_models(
            (scored or first)[0].spec,
            plan.models,
            plan.tokenizer,
            stack,
            target=False,
            speculator=bool(scored),
        )
        found = []
        for cell in first:
            context = opened.context(
                max_tokens=cell.max_tokens, method_seed=cell.record.method_seed
            )
            (prepared,) = cell.method.prepare([prompt], context)
            found.append(Inspection(cell.record.arm, prompt, prepared, plan.tokenizer))
    return found
