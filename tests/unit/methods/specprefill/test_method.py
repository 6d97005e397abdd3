"""SpecPrefill as a method: streaming, caching, guards and receipts."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from tokenizers import Tokenizer as Backend
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import PreTrainedTokenizerFast

from harness.engines.scorer import Scores
from harness.errors import ConfigError
from harness.methods.base import MethodContext
from harness.methods.specprefill.config import SpecPrefillConfig
from harness.methods.specprefill.method import SpecPrefill
from harness.models.tokenizer import Tokenizer
from harness.schema.prompts import Prompt, Segments, Span
from harness.schema.receipts import BudgetKind, Receipt, Status

WORDS = ["tool", "get_", *(f"w{i}" for i in range(200))]


@pytest.fixture(scope="module")
def tokenizer():
    """Return a tokenizer with one token a word."""
    backend = Backend(WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="w0"))
    backend.pre_tokenizer = Whitespace()
    return Tokenizer(PreTrainedTokenizerFast(tokenizer_object=backend))


@dataclass
class Speculator:
    """Scores a token by its id; notes what it was asked and when."""

    max_positions: int = 10_000
    bad: float | None = None
    windows: int = 1
    asked: list = field(default_factory=list)

    def score(self, requests):
        """Yield scores one by one, pulling requests as it goes."""
        for request in requests:
            self.asked.append(request)
            base = np.array(request.token_ids, dtype=np.float32) + 1
            if self.bad is not None:
                base[3] = self.bad
            rows = np.stack([base + row for row in range(request.config.look_ahead)])
            yield Scores(request.example_id, rows, (), self.windows, 0.25, {"rows_captured": 8})


def prompt(name, length, first=0, **more):
    """Return a prompt of ``length`` distinct words."""
    words = [f"w{(first + i) % 200}" for i in range(length)]
    ids = tuple(2 + (first + i) % 200 for i in range(length))
    return Prompt(name, " ".join(words), ids, **more)


def method(**options):
    """Return SpecPrefill that forces nothing, with chunks of four."""
    defaults = {"chunk": 4, "keep": 0.5, "always_keep": {"first": 0, "last": 0}}
    return SpecPrefill(SpecPrefillConfig(**{**defaults, **options}))


def context(tokenizer, scorer, **more):
    """Return a context with a speculator."""
    return MethodContext(tokenizer=tokenizer, scorer=scorer, **more)


def one(tokenizer, prompt_, scorer=None, **options):
    """Prepare one prompt."""
    scorer = scorer or Speculator()
    (prepared,) = method(**options).prepare([prompt_], context(tokenizer, scorer))
    return prepared


def test_kept_tokens_stay_at_their_positions(tokenizer):
    """The higher half of the ids is kept where it stood."""
    prepared = one(tokenizer, prompt("a", 16))
    assert prepared.positions == tuple(range(8, 16))
    assert prepared.token_ids == prompt("a", 16).token_ids[8:]
    assert prepared.original_length == 16
    receipt = prepared.receipt
    assert receipt.status == Status.ACTIVE
    assert (receipt.keep_requested, receipt.keep_achieved) == (0.5, 0.5)
    assert receipt.budget_kind == BudgetKind.TOKENS
    assert receipt.kept_spans == ((8, 16),)
    assert receipt.cost.prefill_tokens == receipt.cost.kv_tokens == 8
    assert receipt.cost.attention_share == 36 / 136
    assert receipt.cost.flops_share is None  # the tokenizer names no model
    assert receipt.stages_s["score"] == 0.25
    assert receipt.details["rows"] == 8
    assert Receipt.from_json(receipt.to_json()) == receipt


def test_keep_one_goes_through_the_hook(tokenizer):
    """Rate 1 gives explicit positions 0…M−1, not the ordinary path."""
    prepared = one(tokenizer, prompt("a", 10), keep=1.0)
    assert prepared.positions == tuple(range(10))
    assert prepared.receipt.status == Status.KEPT_ALL


def test_compacted_positions_are_the_ablation(tokenizer):
    """Kept tokens are renumbered, so no positions are given."""
    prepared = one(tokenizer, prompt("a", 16), positions="compacted")
    assert prepared.positions is None
    assert len(prepared.token_ids) == 8


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({"enabled": False}, Status.DISABLED),
        ({"min_tokens": 17}, Status.SKIPPED_MIN_TOKENS),
        ({"break_even": True, "scorer_rate": 1, "target_rate": 1e6}, Status.SKIPPED_BREAK_EVEN),
    ],
)
def test_guards_mean_full_prefill_without_scoring(tokenizer, options, status):
    """A skipped prompt costs the speculator nothing and runs the ordinary path, with a reason."""
    scorer = Speculator()
    prepared = one(tokenizer, prompt("a", 16), scorer, **options)
    assert scorer.asked == []
    assert prepared.positions is None
    assert prepared.token_ids == prompt("a", 16).token_ids
    assert prepared.receipt.status == status
    assert prepared.receipt.reason
    assert prepared.receipt.keep_achieved == 1.0
    assert prepared.receipt.cost.attention_share == 1.0


def test_tool_guard_reads_the_prompts_head(tokenizer):
    """The scan sees the first tokens' text."""
    tools = Prompt("t", "w1 get_ w2 w3", tokenizer.encode("w1 get_ w2 w3"))
    assert one(tokenizer, tools, tool_guard=True).receipt.status == Status.SKIPPED_TOOL_GUARD
    late = Prompt("l", "w1 " * 300 + "get_", tokenizer.encode("w1 " * 300 + "get_"))
    assert one(tokenizer, late, tool_guard=True).receipt.status == Status.ACTIVE


def test_bad_scores_fail_loudly_into_full_prefill(tokenizer):
    """A non-finite score is a failure with full prefill; the speculator's time still counts."""
    prepared = one(tokenizer, prompt("a", 16), Speculator(bad=float("nan")))
    assert prepared.receipt.status == Status.FAILED
    assert prepared.positions is None
    assert len(prepared.token_ids) == 16
    assert prepared.receipt.stages_s["score"] == 0.25


def test_empty_prompt(tokenizer):
    """Nothing to score: kept as it is, no rate invented."""
    prepared = one(tokenizer, Prompt("e", "", ()))
    assert prepared.receipt.status == Status.KEPT_ALL
    assert prepared.receipt.keep_achieved is None


def test_order_is_kept_and_prompts_stream(tokenizer):
    """Guarded and scored prompts come out in order, the first before the last is pulled."""
    scorer = Speculator()
    prompts = [prompt("a", 4), prompt("b", 40), prompt("c", 4), prompt("d", 44), prompt("e", 4)]
    stream = method(min_tokens=10).prepare(prompts, context(tokenizer, scorer))
    assert [next(stream).example_id for _ in range(2)] == ["a", "b"]
    assert [request.example_id for request in scorer.asked] == ["b"]
    assert [p.example_id for p in stream] == ["c", "d", "e"]


def test_one_pass_serves_keep_rates_and_shorter_look_aheads(tokenizer):
    """Scores are made once for the longest look-ahead; results equal those made alone."""
    scorer = Speculator()
    shared = context(tokenizer, scorer)
    for options in ({"look_ahead": 8}, {"look_ahead": 8, "keep": 0.25}, {"look_ahead": 1}):
        (got,) = method(**options).prepare([prompt("a", 32)], shared)
        alone = one(tokenizer, prompt("a", 32), **options)
        assert got.positions == alone.positions
        assert got.receipt.details == alone.receipt.details
    assert len(scorer.asked) == 1


@pytest.mark.parametrize(
    ("then", "passes"),
    [({"look_ahead": 16}, 2), ({"pool_kernel": 5}, 2), ({"chunk": 8}, 1)],
)
def test_other_scoring_needs_its_own_pass(tokenizer, then, passes):
    """A longer look-ahead or other pooling is not served from the cache; selection is."""
    scorer = Speculator()
    shared = context(tokenizer, scorer)
    for options in ({"look_ahead": 8}, then):
        list(method(**options).prepare([prompt("a", 32)], shared))
    assert len(scorer.asked) == passes


def test_windowed_scores_serve_their_own_look_ahead_only(tokenizer):
    """Windows leave room for look-ahead rows: another number would have cut them elsewhere."""
    scorer = Speculator(windows=3)
    shared = context(tokenizer, scorer)
    for look_ahead in (8, 8, 4):
        list(method(look_ahead=look_ahead).prepare([prompt("a", 32)], shared))
    assert [r.config.look_ahead for r in scorer.asked] == [8, 4]


def test_a_cold_context_has_every_request_scored(tokenizer):
    """A latency measurement never finds a score, however many were kept before."""
    scorer = Speculator()
    warm = context(tokenizer, scorer)
    for given in (warm, warm.cold(), warm.cold(), warm):
        list(method().prepare([prompt("a", 32)], given))
    assert len(scorer.asked) == 3


def test_tail_of_a_prompt_beyond_the_window(tokenizer):
    """The last segment's length is told where the prompt will be cut, and only there."""
    segments = Segments(documents=(Span(0, 100),), question=(Span(101, 118),))
    long = prompt("a", 60, segments=segments)
    for limit, tail in ((30, len(long.text[101:].split())), (1000, None)):
        scorer = Speculator(max_positions=limit)
        one(tokenizer, long, scorer)
        assert scorer.asked[0].tail_tokens == tail


def test_mass_is_an_adaptive_budget(tokenizer):
    """By mass nothing is requested; the achieved rate is what came out."""
    prepared = one(tokenizer, prompt("a", 16), select="mass", mass=0.6)
    assert prepared.receipt.keep_requested is None
    assert prepared.receipt.budget_kind == BudgetKind.ADAPTIVE
    assert prepared.receipt.keep_achieved == 0.5


def test_no_speculator_is_one_clear_line(tokenizer):
    """The error says what to give."""
    with pytest.raises(ConfigError, match="needs a speculator"):
        list(method().prepare([prompt("a", 8)], MethodContext(tokenizer=tokenizer)))


def test_a_break_even_guard_without_rates_says_so(tokenizer):
    """Without measured or given rates nothing is judged, and the receipt does not hide it."""
    judged = {"scorer_rate": 100.0, "target_rate": 1.0}
    for more, told in (({}, True), (judged, False)):
        details = one(tokenizer, prompt("a", 64), break_even=True, **more).receipt.details
        assert ("break_even" in details) is told
