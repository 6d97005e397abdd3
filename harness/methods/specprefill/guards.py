"""When to leave a prompt alone (ALGORITHM.md, Guards)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple

from harness.methods.specprefill.config import SpecPrefillConfig
from harness.methods.specprefill.selection import forced_chunks, keep_count
from harness.schema.receipts import Status

TOOL_SCAN_TOKENS = 256
# The llama.cpp guide's words for a system prompt that defines tools (its list ends in "etc.").
TOOL_WORDS = ("function", "tool", "get_", "set_", "search_")
TOOL_ROLES = frozenset({"tool", "function", "ipython"})


class Skip(NamedTuple):
    """Why a prompt is left alone."""

    status: Status
    reason: str


@dataclass(frozen=True, slots=True)
class RequestFacts:
    """What the guards may know of a request besides its tokens; a task's prompt knows nothing.

    Attributes
    ----------
    head
        Text of the prompt's first 256 tokens.
    roles
        Roles of the request's messages.
    has_tools, has_grammar
        Whether tool definitions, or a structured-output grammar, come with the request.
    """

    head: str = ""
    roles: Sequence[str] = field(default=())
    has_tools: bool = False
    has_grammar: bool = False


def check(
    length: int,
    config: SpecPrefillConfig,
    request: RequestFacts,
    rates: Mapping[str, float] | None = None,
) -> Skip | None:
    """Return the first guard that holds a prompt of ``length`` tokens back, or None.

    ``rates`` are measured tokens per second of ``scorer`` and ``target``; the configuration's own
    take precedence. Without rates the break-even guard cannot judge and lets the prompt pass.
    """
    if not config.enabled:
        return Skip(Status.DISABLED, "SpecPrefill is switched off")
    if length < config.min_tokens:
        return Skip(
            Status.SKIPPED_MIN_TOKENS, f"{length} tokens, below min_tokens {config.min_tokens}"
        )
    if config.tool_guard and (why := tool_reason(request)):
        return Skip(Status.SKIPPED_TOOL_GUARD, why)
    if config.break_even and (why := break_even_reason(length, config, rates)):
        return Skip(Status.SKIPPED_BREAK_EVEN, why)
    return None


def tool_reason(request: RequestFacts) -> str | None:
    """Say why a request looks like tool use, or None."""
    if request.has_tools:
        return "the request defines tools"
    if request.has_grammar:
        return "the request asks for structured output"
    role = next((role for role in request.roles if role in TOOL_ROLES), None)
    if role is not None:
        return f"a message has the role '{role}'"
    head = request.head.lower()
    word = next((word for word in TOOL_WORDS if word in head), None)
    return None if word is None else f"'{word}' in the first {TOOL_SCAN_TOKENS} tokens"


def break_even_reason(
    length: int, config: SpecPrefillConfig, rates: Mapping[str, float] | None
) -> str | None:
    """Say why scoring would cost more than it saves, or None.

    Skips when (M / scorer rate) × safety > (M − kept) / target rate.
    """
    measured = rates or {}
    scorer = config.scorer_rate or measured.get("scorer")
    target = config.target_rate or measured.get("target")
    if not scorer or not target:
        return None
    cost = length / scorer * config.safety
    saved = (length - expected_kept(length, config)) / target
    if cost <= saved:
        return None
    return f"scoring {cost:.2f} s (safety {config.safety:g} in it) against {saved:.2f} s saved"


def expected_kept(length: int, config: SpecPrefillConfig) -> int:
    """Tokens that will be kept; for ``select: mass``, known only afterwards, as if by rate."""
    count = keep_count(ceil(length / config.chunk), config.keep)
    forced = len(forced_chunks(length, config.chunk, config.always_keep))
    kept = max(config.min_keep, max(count, forced) * config.chunk)
    if config.max_keep is not None:
        kept = min(kept, max(config.max_keep, forced * config.chunk))
    return min(length, kept)
