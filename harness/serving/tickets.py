"""What a request's body says that its tokens do not: overrides, roles, tools.

The HTTP side (:mod:`harness.serving.middleware`) reads the body and leaves a :class:`Ticket` in a
context variable; the engine side (:mod:`harness.serving.client`), which vLLM calls with token ids
alone, finds it there and hangs the receipts on it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

from harness.engines.vllm.wire import POSITIONS_KEY
from harness.methods.specprefill.guards import RequestFacts
from harness.serving.receipts import ServedReceipt

MAX_LOOK_AHEAD = 64
"""Query rows that one request may ask for: each is a decode step of the speculator."""

ENABLED, KEEP, LOOK_AHEAD = "speculative_prefill", "keep", "look_ahead"
OWN_FIELDS = (ENABLED, KEEP, LOOK_AHEAD)
"""Fields of a request's body that are ours; vLLM never sees them."""

ROUTES = {
    "/v1/chat/completions": "messages",
    "/v1/chat/completions/batch": "messages",
    "/v1/completions": "prompt",
    "/v1/responses": "input",
    "/v1/messages": "messages",
}
"""Routes whose requests go through SpecPrefill → the field that holds their text."""


class RequestError(Exception):
    """A request that is refused: one line for the client, and the field at fault."""

    def __init__(self, message: str, param: str | None = None, status: int = 400) -> None:
        super().__init__(message)
        self.param = param
        self.status = status


@dataclass
class Ticket:
    """One HTTP request on its way.

    Attributes
    ----------
    enabled, keep, look_ahead
        The request's own settings; None where the server's hold.
    facts
        Roles and tools, for the tool guard.
    question
        Text of the last message, None where there is none: where the prompt's last segment starts.
    receipts
        One for each prompt, in the order in which vLLM hands them to the engine.
    """

    enabled: bool | None = None
    keep: float | None = None
    look_ahead: int | None = None
    facts: RequestFacts = field(default_factory=RequestFacts)
    question: str | None = None
    receipts: list[ServedReceipt] = field(default_factory=list)

    def settings(self) -> dict[str, Any]:
        """The request's own settings as SpecPrefill's options."""
        own = {"enabled": self.enabled, "keep": self.keep, "look_ahead": self.look_ahead}
        return {name: value for name, value in own.items() if value is not None}

    def with_grammar(self) -> Ticket:
        """Return a ticket for a prompt whose answer must follow a grammar."""
        return replace(self, facts=replace(self.facts, has_grammar=True))


current_ticket: ContextVar[Ticket | None] = ContextVar("specprefill_ticket", default=None)


def read_ticket(path: str, body: Mapping[str, Any]) -> Ticket:
    """Read a request's body.

    Parameters
    ----------
    path
        One of :data:`ROUTES`.

    Raises
    ------
    RequestError
        One of our fields has a wrong value, or the request asks for what is refused.
    """
    _refuse(body)
    messages = list(_messages(body.get(ROUTES[path])))
    return Ticket(
        enabled=_boolean(body),
        keep=_share(body),
        look_ahead=_count(body),
        facts=RequestFacts(
            roles=tuple(role for message in messages for role in _roles(message)),
            has_tools=bool(body.get("tools") or body.get("functions")),
        ),
        question=_text(messages[-1]) if messages else None,
    )


def _refuse(body: Mapping[str, Any]) -> None:
    extra = body.get("vllm_xargs")
    if isinstance(extra, Mapping):
        for name in extra:
            if str(name).startswith(POSITIONS_KEY):
                raise RequestError(
                    f"vllm_xargs.{name} is the server's own: use {', '.join(OWN_FIELDS)}",
                    "vllm_xargs",
                )
    if body.get("use_beam_search"):
        raise RequestError("beam search is not supported with SpecPrefill", "use_beam_search")


def _boolean(body: Mapping[str, Any]) -> bool | None:
    value = body.get(ENABLED)
    if value is not None and not isinstance(value, bool):
        raise RequestError(f"{ENABLED} must be true or false", ENABLED)
    return value


def _share(body: Mapping[str, Any]) -> float | None:
    value = body.get(KEEP)
    if value is None:
        return None
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or not 0 < value <= 1:
        raise RequestError(f"{KEEP} must be a number above 0 and at most 1", KEEP)
    return float(value)


def _count(body: Mapping[str, Any]) -> int | None:
    value = body.get(LOOK_AHEAD)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_LOOK_AHEAD:
        raise RequestError(f"{LOOK_AHEAD} must be a whole number 1…{MAX_LOOK_AHEAD}", LOOK_AHEAD)
    return value


def _messages(value: Any) -> Iterable[Mapping[str, Any]]:
    """Messages of a body, conversations of a batch one after another; nothing of a plain text.

    vLLM checks their form; here whatever is not a message is passed over.
    """
    if not isinstance(value, list):
        return
    for item in value:
        if isinstance(item, Mapping):
            yield item
        elif isinstance(item, list):
            yield from (inner for inner in item if isinstance(inner, Mapping))


def _roles(message: Mapping[str, Any]) -> Iterable[str]:
    """A message's role; ``tool`` too where it carries a tool's call or answer."""
    role = message.get("role")
    if isinstance(role, str):
        yield role
    kinds = [message.get("type")]
    content = message.get("content")
    if isinstance(content, list):
        kinds += [part.get("type") for part in content if isinstance(part, Mapping)]
    tool = any(isinstance(kind, str) and kind in _TOOL_KINDS for kind in kinds)
    if tool or message.get("tool_calls") or message.get("function_call"):
        yield "tool"


_TOOL_KINDS = {"function_call", "function_call_output", "tool_use", "tool_result"}


def _text(message: Mapping[str, Any]) -> str | None:
    content = message.get("content")
    if isinstance(content, str):
        return content or None
    if not isinstance(content, list):
        return None
    parts = [part.get("text") for part in content if isinstance(part, Mapping)]
    texts = [part for part in parts if isinstance(part, str) and part]
    return texts[-1] if texts else None
