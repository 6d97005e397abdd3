"""Receipts in event streams: into the last event that carries a JSON object.

An event is held back only where it may be that last one, so that no token waits for the next.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

_END = b"\n\n"
_DONE = b"data: [DONE]"
# Text inside a JSON string has its quotes escaped, so content cannot look like these.
_MAY_BE_LAST = (b'"finish_reason":"', b'"choices":[]')
_LAST_TYPES = ("response.completed", "response.incomplete", "response.failed", "message_stop")


class EventStream:
    """Passes server-sent events on and writes ``timings`` into the last one.

    Chat and completions end with a chunk that has a finish reason, or one with usage alone, and
    ``[DONE]``; Responses and Messages with an event whose type says so.
    """

    def __init__(self, timings: Callable[[], dict[str, Any] | None]) -> None:
        self._timings = timings
        self._buffer = b""
        self._held: bytes | None = None

    def feed(self, data: bytes) -> bytes:
        """Take bytes of the stream; returns what can be sent now."""
        self._buffer += data
        out: list[bytes] = []
        while (at := self._buffer.find(_END)) >= 0:
            event, self._buffer = self._buffer[: at + 2], self._buffer[at + 2 :]
            out += self._event(event)
        return b"".join(out)

    def end(self) -> bytes:
        """What is left where the stream ends without ``[DONE]``."""
        rest, self._buffer = self._buffer, b""
        return self._released() + rest

    def _released(self) -> bytes:
        """The event held back, which was the last."""
        held, self._held = self._held, None
        return b"" if held is None else self._completed(held)

    def _event(self, event: bytes) -> list[bytes]:
        if event.startswith(b":"):
            return [event]  # a comment keeps the connection alive
        if event.startswith(_DONE):
            return [self._released(), event]
        out = [] if self._held is None else [self._held]
        self._held = None
        if any(mark in event for mark in _MAY_BE_LAST):
            self._held = event
            return out
        if event.startswith(b"event: ") and event[7:].split(b"\n", 1)[0].decode() in _LAST_TYPES:
            return [*out, self._completed(event)]
        return [*out, event]

    def _completed(self, event: bytes) -> bytes:
        """The event with ``timings`` in its object, or in the response that it carries."""
        found = self._timings()
        head, mark, data = event.rpartition(b"data: ")
        if found is None or not mark:
            return event
        made = json.loads(data)
        owner = made["response"] if isinstance(made.get("response"), dict) else made
        owner["timings"] = found
        return head + mark + dumped(made) + _END


def dumped(content: Any) -> bytes:
    """JSON as vLLM writes it: compact, and in UTF-8 where it can be."""
    try:
        return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which only an escape can carry
        return json.dumps(content, separators=(",", ":")).encode()
