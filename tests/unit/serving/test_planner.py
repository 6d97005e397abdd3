import asyncio

import pytest
from tiny import needle_prompt
from unit.serving.conftest import ProcessScorer

from harness.engines.base import EngineSpec
from harness.engines.fake import FakeScorer
from harness.methods.base import MethodContext
from harness.methods.specprefill.config import SpecPrefillConfig
from harness.methods.specprefill.guards import RequestFacts
from harness.methods.specprefill.method import SpecPrefill
from harness.models.embedded import prepare_smollm2
from harness.schema.receipts import Status
from harness.serving.options import JoinOptions
from harness.serving.planner import Planner
from harness.serving.speculator import Speculator
from harness.serving.tickets import Ticket


@pytest.fixture
def plan(smollm2, scorers, metrics):
    """Plan a needle prompt with the server's defaults and what a test changes."""
    prompt = needle_prompt(smollm2, sentences=80)

    def start():
        scorers.append(ProcessScorer())
        return scorers[-1]

    def run(ticket=None, *, unsupported=None, lost=False, **knobs):
        async def go():
            speculator = Speculator(start, 5.0, metrics)
            await speculator.open()
            if lost:
                scorers[-1].process.kill()
                scorers[-1].process.wait()
            config = JoinOptions("unused", {"keep": 0.2, **knobs}).config()
            planner = Planner(config, MethodContext(smollm2), speculator)
            try:
                return await planner.plan(
                    "r", prompt.token_ids, prompt.text, ticket or Ticket(), unsupported
                )
            finally:
                planner.close()
                speculator.close()

        return asyncio.run(go())

    run.prompt = prompt
    return run


def test_a_plan_is_what_the_method_prepares(plan, smollm2):
    """The same tokens, positions and status as SpecPrefill itself, offline."""
    ready = plan()
    config = JoinOptions("unused", {"keep": 0.2}).config()
    scorer = FakeScorer(EngineSpec("fake", str(prepare_smollm2())))
    context = MethodContext(smollm2, scorer=scorer)
    (offline,) = SpecPrefill(config).prepare([plan.prompt], context)
    assert (ready.token_ids, ready.positions) == (offline.token_ids, offline.positions)
    assert ready.receipt.status is Status.ACTIVE
    assert len(ready.token_ids) < 0.3 * len(plan.prompt.token_ids)


@pytest.mark.parametrize(
    ("ticket", "status"),
    [
        (Ticket(enabled=False), Status.DISABLED),
        (Ticket(keep=1.0), Status.KEPT_ALL),
        (Ticket(facts=RequestFacts(has_tools=True)), Status.SKIPPED_TOOL_GUARD),
        (Ticket(facts=RequestFacts(roles=("user", "tool"))), Status.SKIPPED_TOOL_GUARD),
        (Ticket().with_grammar(), Status.SKIPPED_TOOL_GUARD),
    ],
)
def test_the_request_decides(plan, ticket, status):
    """Its own settings, and what its body says of tools and grammars."""
    ready = plan(ticket)
    assert ready.receipt.status is status
    assert ready.token_ids == plan.prompt.token_ids


def test_the_tool_guard_can_be_switched_off(plan):
    """Then a request with tools is pruned like any other."""
    ready = plan(Ticket(facts=RequestFacts(has_tools=True)), tool_guard=False)
    assert ready.receipt.status is Status.ACTIVE


def test_short_prompts_are_left_alone(plan):
    """The server's least length."""
    assert plan(min_tokens=5000).receipt.status is Status.SKIPPED_MIN_TOKENS


def test_a_lost_speculator_means_full_prefill(plan):
    """Status failed, with the reason, and every token."""
    ready = plan(lost=True)
    assert ready.receipt.status is Status.FAILED
    assert "restarting" in (ready.receipt.reason or "")
    assert ready.token_ids == plan.prompt.token_ids


def test_what_needs_its_whole_prompt_gets_it(plan):
    """Status unsupported; a server that is switched off says so rather."""
    ready = plan(unsupported="repetition_penalty counts the whole prompt")
    assert ready.receipt.status is Status.UNSUPPORTED
    assert ready.token_ids == plan.prompt.token_ids
    assert plan(Ticket(enabled=False), unsupported="x").receipt.status is Status.DISABLED


def test_a_request_may_ask_for_another_rate(plan):
    """``keep`` and ``look_ahead`` of the request hold for it alone."""
    ready = plan(Ticket(keep=0.5, look_ahead=3))
    assert ready.receipt.keep_requested == 0.5
    assert ready.receipt.details["rows"] == 3
    assert plan().receipt.keep_requested == 0.2


def test_defaults_are_the_documented_ones():
    """Guards on, break-even off, the template's own tokens kept."""
    config = JoinOptions("unused").config()
    assert (config.min_tokens, config.tool_guard, config.break_even) == (512, True, False)
    assert config.always_keep.template
    assert config.keep == SpecPrefillConfig().keep
