"""Guards: each has its status, its order, and lets everything else pass."""

from __future__ import annotations

import pytest

from harness.methods.specprefill.config import SpecPrefillConfig
from harness.methods.specprefill.guards import RequestFacts, check, expected_kept
from harness.schema.receipts import Status

PLAIN = RequestFacts(head="Once upon a time")
RATES = {"scorer": 600.0, "target": 270.0}


def test_default_lets_everything_pass():
    """No guard is on by default."""
    assert check(10, SpecPrefillConfig(), RequestFacts(head="tool get_x"), RATES) is None


def test_disabled_wins_over_every_other_guard():
    """A switched-off method says so, whatever else holds."""
    skip = check(1, SpecPrefillConfig(enabled=False, min_tokens=10), PLAIN)
    assert skip is not None
    assert skip.status == Status.DISABLED


@pytest.mark.parametrize(("length", "skipped"), [(99, True), (100, False)])
def test_min_tokens_is_inclusive(length, skipped):
    """A prompt of exactly min_tokens is not skipped."""
    skip = check(length, SpecPrefillConfig(min_tokens=100), PLAIN)
    assert (skip is not None) is skipped
    assert skip is None or skip.status == Status.SKIPPED_MIN_TOKENS


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (RequestFacts(has_tools=True), "defines tools"),
        (RequestFacts(has_grammar=True), "structured output"),
        (RequestFacts(roles=("user", "tool")), "role 'tool'"),
        (RequestFacts(head="Call get_weather(city)"), "'get_'"),
        (RequestFacts(head='{"type": "Function"}'), "'function'"),
        (RequestFacts(head="use search_web"), "'search_'"),
    ],
)
def test_tool_guard(request_, why):
    """Definitions, grammars, roles and the guide's words each hold a request back."""
    skip = check(10, SpecPrefillConfig(tool_guard=True), request_)
    assert skip is not None
    assert skip.status == Status.SKIPPED_TOOL_GUARD
    assert why in skip.reason
    assert check(10, SpecPrefillConfig(tool_guard=True), PLAIN) is None


def test_break_even_at_the_guides_rates():
    """At 600 and 270 tokens/s with 30 % kept scoring costs less than it saves: it runs."""
    config = SpecPrefillConfig(break_even=True, keep=0.3)
    assert check(8192, config, PLAIN, RATES) is None
    skip = check(8192, config, PLAIN, {"scorer": 300.0, "target": 270.0})
    assert skip is not None
    assert skip.status == Status.SKIPPED_BREAK_EVEN
    assert "32.77 s" in skip.reason  # 8192 / 300 × 1.2
    assert "21.2" in skip.reason  # (8192 − 77 × 32) / 270


def test_break_even_override_beats_the_measured_rate():
    """The option wins, since the user may know better."""
    config = SpecPrefillConfig(break_even=True, keep=0.3, scorer_rate=10)
    assert check(8192, config, PLAIN, RATES) is not None


def test_break_even_without_rates_cannot_judge():
    """An unknown rate holds nothing back."""
    assert check(8192, SpecPrefillConfig(break_even=True), PLAIN, None) is None
    assert check(8192, SpecPrefillConfig(break_even=True), PLAIN, {"scorer": 1.0}) is None


def test_safety_factor_decides_the_margin():
    """A saving of 1.1 times the cost is too little at safety 1.2 and enough at 1."""
    rates = {"scorer": 100.0, "target": 100.0 * 0.9 / 1.1}
    tight = SpecPrefillConfig(break_even=True, keep=0.1, chunk=1)
    assert check(1000, tight, PLAIN, rates) is not None
    assert check(1000, tight.model_copy(update={"safety": 1.0}), PLAIN, rates) is None


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"keep": 0.3}, 640),
        ({"keep": 0.3, "max_keep": 500}, 500),
        ({"keep": 0.1, "min_keep": 1000}, 1000),
        ({"keep": 1.0}, 2048),
        ({"keep": 0.1, "always_keep": {"first": 1024, "last": 0}}, 1024),
    ],
)
def test_expected_kept(options, kept):
    """The estimate follows the budget, its limits and the forced chunks."""
    assert expected_kept(2048, SpecPrefillConfig(**options)) == kept
