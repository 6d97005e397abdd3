"""The contract on every built-in method, and what single methods promise beyond it."""

from __future__ import annotations

import pytest

from harness.engines.base import EngineSpec
from harness.methods.arms import Arm, build_method, list_arms
from harness.methods.base import MethodContext
from harness.methods.contract.bench import at_half, method_of, run
from harness.schema.prompts import Prompt

STAGES = {
    "specprefill": {"score", "select"},
    "rag": {"score", "select", "other"},
    "llmlingua": {"score", "other"},
    "gemfilter": {"score", "other"},
    "draft_verify": {"score", "other"},
    "random": {"select", "other"},
    "sink_recent": {"select", "other"},
    "oracle": {"select", "other"},
}
"""Stages that a method's receipt must time, beside the prefill; ``other`` for the rest."""


@pytest.mark.parametrize("keep", [0.3, 0.5])
@pytest.mark.parametrize("name", ["rag", "truncate_middle", "gemfilter"])
def test_meets_its_budget_to_the_token(
    name: str, keep: float, prompts: list[Prompt], context: MethodContext, base: EngineSpec
) -> None:
    """Methods that choose tokens rather than chunks miss the budget by less than one."""
    ((_, _, receipt),) = run(method_of(name, keep=keep), prompts[:1], context, base)
    assert receipt.cost.prefill_tokens is not None
    assert abs(receipt.cost.prefill_tokens - keep * len(prompts[0].token_ids)) <= 1


@pytest.mark.parametrize("name", STAGES)
def test_times_its_stages(
    name: str, prompts: list[Prompt], context: MethodContext, base: EngineSpec
) -> None:
    """Scoring and selection are told apart where a method has them, and took time."""
    ((_, _, receipt),) = run(method_of(name, **at_half(name)), prompts[:1], context, base)
    assert set(receipt.stages_s) >= {"prefill"} | STAGES[name]
    assert all(seconds > 0 for seconds in receipt.stages_s.values())


@pytest.mark.parametrize(
    ("name", "options"), [("full", {}), ("rag", {"keep": 0.3}), ("llmlingua", {"keep": 0.3})]
)
def test_keeps_question_and_instruction(
    name: str, options: dict[str, float], prompts: list[Prompt], context: MethodContext
) -> None:
    """A method that promises it leaves instruction and question word for word."""
    (prepared,) = method_of(name, **options).prepare(prompts[:1], context)
    text = context.tokenizer.decode(prepared.token_ids)
    segments = prompts[0].segments
    assert segments is not None
    for start, stop in (*segments.instruction, *segments.question):
        assert prompts[0].text[start:stop] in text


@pytest.mark.parametrize("arm", list_arms(), ids=lambda arm: arm.name)
def test_every_arm_builds(arm: Arm) -> None:
    """Every file under baselines/ names a method and knobs that it has."""
    assert build_method(arm.method, arm.options).name == arm.method
