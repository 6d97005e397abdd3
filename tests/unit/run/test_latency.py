"""The latency protocol on the fake engine: orders, stages, nothing kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest

from harness.engines.base import EngineSpec, Generation, Sampling
from harness.engines.fake import SECONDS_PER_STEP, SECONDS_PER_TOKEN, FakeEngine
from harness.methods.base import Method, MethodContext
from harness.methods.full import Full
from harness.models.embedded import prepare_smollm2
from harness.models.tokenizer import Tokenizer
from harness.run.latency import TIMED_TOKENS, BlockPlan, measure_blocks, time_request
from harness.run.proof import UnprovenError
from harness.schema.prompts import PreparedPrompt, Prompt
from harness.schema.receipts import BudgetKind, Receipt, Status


@dataclass(frozen=True)
class Half(Method):
    """Keeps the first half; notes what it was given, and leaves a note behind."""

    seen: list[tuple[dict[str, Any], dict[str, Any]]]
    status: Status = Status.ACTIVE
    name: ClassVar[str] = "half"
    budget_kind: ClassVar[BudgetKind] = BudgetKind.TOKENS

    def prepare(
        self, prompts: Sequence[Prompt], context: MethodContext
    ) -> Iterator[PreparedPrompt]:
        for prompt in prompts:
            self.seen.append((context.handles, dict(context.memo)))
            context.memo["scores"] = prompt.example_id
            kept = len(prompt.token_ids) // 2
            receipt = Receipt("half", self.status, "why", stages_s={"score": 0.25, "select": 0.05})
            yield PreparedPrompt(
                prompt.example_id, prompt.token_ids[:kept], tuple(range(kept)), 2 * kept, receipt
            )


@pytest.fixture(scope="module")
def path() -> str:
    """The embedded model's folder: its tokenizer is what the fake engine needs."""
    return str(prepare_smollm2())


@pytest.fixture
def context(path: str) -> MethodContext:
    """Handles with one model, and one result kept per example."""
    return MethodContext(Tokenizer.load(path), handles={"model": "m"}, memo={"scores": "kept"})


def prompts(context: MethodContext, count: int) -> list[Prompt]:
    """Prompts that differ."""
    texts = [f"{i} " + "word " * 99 for i in range(count)]
    return [Prompt(str(i), t, context.tokenizer.encode(t)) for i, t in enumerate(texts)]


def test_stages_add_up_and_the_scorer_counts(path: str, context: MethodContext) -> None:
    """TTFT is scoring + selection + prefill + the rest; TPOT is the mean of the later steps."""
    (prompt,) = prompts(context, 1)
    timed = time_request(FakeEngine(EngineSpec("fake", path)), Half([]), prompt, context)
    assert timed is not None
    assert sum(timed.stages_s.values()) == pytest.approx(timed.ttft_s)
    assert timed.stages_s["score"] == 0.25
    assert timed.stages_s["prefill"] == SECONDS_PER_TOKEN * (len(prompt.token_ids) // 2)
    assert timed.ttft_s >= 0.3 + timed.stages_s["prefill"]
    assert timed.tokens <= TIMED_TOKENS
    assert timed.tpot_s is None or timed.tpot_s == pytest.approx(SECONDS_PER_STEP)


def test_every_timed_request_finds_the_same_handles_and_an_empty_memo(
    path: str, context: MethodContext
) -> None:
    """Models stay open over a whole block; nothing of an earlier slot or pass is re-used."""
    method = Half([])
    plan = BlockPlan("c", method, context, method, "s")
    list(measure_blocks(FakeEngine(EngineSpec("fake", path)), plan, prompts(context, 2), set()))
    assert len(method.seen) == 8
    assert all(handles is context.handles for handles, _ in method.seen)
    assert [memo for _, memo in method.seen] == [{}] * 8
    assert context.memo == {"scores": "kept"}


def test_blocks_alternate_and_resume(path: str, context: MethodContext) -> None:
    """ABBA, BAAB, ABBA …; one prompt a block; a block that is done is not measured again."""
    plan = BlockPlan("c", Half([]), context, Full(), "s")
    engine = FakeEngine(EngineSpec("fake", path))
    blocks = list(measure_blocks(engine, plan, prompts(context, 3), done={1}))
    assert [[r.block for r in block] for block in blocks] == [[0] * 4, [2] * 4]
    assert [r.role for r in blocks[0]] == ["reference", "arm", "arm", "reference"]
    (second,) = measure_blocks(engine, plan, prompts(context, 2), done={0})
    assert [r.role for r in second] == ["arm", "reference", "reference", "arm"]
    assert {r.example_id for r in blocks[1]} == {"2"}


def test_without_a_reference_every_slot_is_the_arm(path: str, context: MethodContext) -> None:
    """A run with --no-reference still measures the arm's own TTFT."""
    plan = BlockPlan("c", Half([]), context, None, "s")
    (block,) = measure_blocks(
        FakeEngine(EngineSpec("fake", path)), plan, prompts(context, 1), done=set()
    )
    assert {r.role for r in block} == {"arm"}


def test_an_unsupported_prompt_is_not_timed(path: str, context: MethodContext) -> None:
    """Nothing falls back to another method's time."""
    plan = BlockPlan("c", Half([], Status.UNSUPPORTED), context, Full(), "s")
    engine = FakeEngine(EngineSpec("fake", path))
    assert list(measure_blocks(engine, plan, prompts(context, 1), done=set())) == [[]]


class ScoresInside(FakeEngine):
    """An engine whose strategy scores and selects inside the prefill, as GemFilter's does."""

    def time_one(self, prompt: PreparedPrompt, sampling: Sampling) -> Generation:
        """Four tokens: the first after 1 s, of which 0.4 s scored and 0.1 s selected."""
        receipt = replace(
            prompt.receipt,
            stages_s={
                name: prompt.receipt.stages_s.get(name, 0.0) + seconds
                for name, seconds in (("score", 0.4), ("select", 0.1))
            },
        )
        return replace(
            super().time_one(prompt, sampling),
            token_ids=(5, 6, 7, 8),
            ttft_s=1.0,
            token_times_s=(1.0, 1.02, 1.05, 1.06),
            receipt=receipt,
        )


def test_tpot_is_the_mean_of_the_later_tokens(path: str, context: MethodContext) -> None:
    """Three gaps over 0.06 s are 0.02 s a token: the first token's wait is TTFT's alone."""
    (prompt,) = prompts(context, 1)
    timed = time_request(ScoresInside(EngineSpec("fake", path)), Half([]), prompt, context)
    assert timed is not None
    assert timed.tokens == 4
    assert timed.tpot_s == pytest.approx(0.02)


def test_scoring_inside_the_engine_is_no_prefill(path: str, context: MethodContext) -> None:
    """Seconds that a strategy scored or selected leave the prefill stage, and count once."""
    (prompt,) = prompts(context, 1)
    timed = time_request(ScoresInside(EngineSpec("fake", path)), Half([]), prompt, context)
    assert timed is not None
    assert timed.stages_s["prefill"] == pytest.approx(1.0 - 0.5)
    assert timed.stages_s["score"] == pytest.approx(0.25 + 0.4)
    assert timed.stages_s["select"] == pytest.approx(0.05 + 0.1)
    assert sum(timed.stages_s.values()) == pytest.approx(timed.ttft_s)


class WithoutHook(FakeEngine):
    """An engine whose hook never ran: it says so, or says nothing at all."""

    counters: ClassVar[dict[str, int]] = {}

    def time_one(self, prompt: PreparedPrompt, sampling: Sampling) -> Generation:
        """The fake generation without its proof."""
        return replace(super().time_one(prompt, sampling), counters=self.counters)


@pytest.mark.parametrize("counters", [{}, {"positions_applied": 0}])
def test_a_sparse_request_without_proof_is_not_timed(
    path: str, context: MethodContext, monkeypatch: pytest.MonkeyPatch, counters: dict[str, int]
) -> None:
    """A fast answer from tokens at the wrong positions is no measurement; full prefill is."""
    monkeypatch.setattr(WithoutHook, "counters", counters)
    engine = WithoutHook(EngineSpec("fake", path))
    (prompt,) = prompts(context, 1)
    with pytest.raises(UnprovenError, match="applied no positions"):
        time_request(engine, Half([]), prompt, context)
    assert time_request(engine, Full(), prompt, context) is not None
