"""The HTTP side: reads our fields out of a request's body, puts the receipts into the response.

A plain ASGI middleware, innermost of all: vLLM's own authentication has let the request pass.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from harness.serving.receipts import timings
from harness.serving.streams import EventStream, dumped
from harness.serving.tickets import (
    OWN_FIELDS,
    ROUTES,
    RequestError,
    Ticket,
    current_ticket,
    read_ticket,
)

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class SpecPrefillMiddleware:
    """Opens a ticket for each request that generates, and answers ``/health`` and ``/ready``.

    Parameters
    ----------
    max_body
        Bytes that a request's body may have.
    health
        Says what runs: a JSON-ready mapping with ``status`` ``ok``, ``degraded``, ``draining``
        or ``down``.
    """

    def __init__(self, app: App, max_body: int, health: Callable[[], Mapping[str, Any]]) -> None:
        self._app = app
        self._max_body = max_body
        self._health = health

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = str(scope["path"]).removeprefix(scope.get("root_path") or "")
        if path in {"/health", "/ready"} and scope["method"] in {"GET", "HEAD"}:
            await self._report(path, send)
        elif scope["method"] == "POST":
            try:
                await self._post(path, scope, receive, send)
            except RequestError as error:
                await _refused(send, error)
        else:
            await self._app(scope, receive, send)

    async def _report(self, path: str, send: Send) -> None:
        found = self._health()
        status = str(found["status"])
        good = status == "ok" or (path == "/health" and status in {"degraded", "draining"})
        await _answer(send, 200 if good else 503, dict(found))

    async def _post(self, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        body = await self._body(scope, receive)
        if body is None:
            return  # the client has gone
        ticket = None
        if path in ROUTES:
            if self._health()["status"] == "draining":
                raise RequestError("the server is shutting down", status=503)
            ticket, body = _ticket(path, scope, body)
        token = current_ticket.set(ticket)
        try:
            answer = send if ticket is None else Answer(send, ticket)
            await self._app(_resized(scope, len(body)), _replayed(body, receive), answer)
        finally:
            current_ticket.reset(token)

    async def _body(self, scope: Scope, receive: Receive) -> bytes | None:
        """The whole body, refused as soon as it is known to be too long."""
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if declared.isdigit() and int(declared) > self._max_body:
            raise self._too_long()
        parts: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > self._max_body:
                raise self._too_long()
            if not message.get("more_body", False):
                return b"".join(parts)

    def _too_long(self) -> RequestError:
        return RequestError(f"the body is longer than {self._max_body} bytes", status=413)


class Answer:
    """Sends a response with the receipts in it: into its JSON object, or its last event."""

    def __init__(self, send: Send, ticket: Ticket) -> None:
        self._send = send
        self._ticket = ticket
        self._start: Message | None = None  # of a JSON response, whose length is not known yet
        self._parts: list[bytes] = []
        self._stream: EventStream | None = None

    async def __call__(self, message: Message) -> None:
        """Send, or keep for later, one message of the application."""
        if message["type"] == "http.response.start":
            await self._begin(message)
        elif message["type"] == "http.response.body" and self._start is not None:
            self._parts.append(message.get("body", b""))
            if not message.get("more_body", False):
                await self._finish_json()
        elif message["type"] == "http.response.body" and self._stream is not None:
            more = message.get("more_body", False)
            body = self._stream.feed(message.get("body", b""))
            if not more:
                body += self._stream.end()
            if body or not more:
                await self._send({**message, "body": body})
        else:
            await self._send(message)

    async def _begin(self, message: Message) -> None:
        kind = dict(message["headers"]).get(b"content-type", b"")
        if message["status"] == 200 and kind.startswith(b"application/json"):
            self._start = message
            return
        if message["status"] == 200 and kind.startswith(b"text/event-stream"):
            self._stream = EventStream(lambda: timings(self._ticket.receipts))
        await self._send(message)

    async def _finish_json(self) -> None:
        assert self._start is not None
        body = b"".join(self._parts)
        found = timings(self._ticket.receipts)
        if found is not None:
            made = json.loads(body)
            if isinstance(made, dict):
                body = dumped({**made, "timings": found})
        await self._send(
            {**self._start, "headers": _with_length(self._start["headers"], len(body))}
        )
        await self._send({"type": "http.response.body", "body": body})


def _ticket(path: str, scope: Scope, body: bytes) -> tuple[Ticket, bytes]:
    """Read a body, and take our own fields out of it."""
    try:
        read = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"the body is not JSON: {_first_line(error)}") from None
    if not isinstance(read, dict):
        raise RequestError("the body must be a JSON object")
    ticket = read_ticket(path, read)
    own = [name for name in OWN_FIELDS if name in read]
    if own:
        body = dumped({name: value for name, value in read.items() if name not in own})
    return ticket, body


def _first_line(error: Exception) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """A ``receive`` that gives the body once, then what the connection has to say."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _resized(scope: Scope, length: int) -> Scope:
    return {**scope, "headers": _with_length(scope["headers"], length)}


def _with_length(headers: Any, length: int) -> list[tuple[bytes, bytes]]:
    others = [
        (name, value)
        for name, value in headers
        if name.lower() not in {b"content-length", b"transfer-encoding"}
    ]
    return [*others, (b"content-length", str(length).encode())]


async def _refused(send: Send, error: RequestError) -> None:
    """Answer with an error in OpenAI's form."""
    kinds = {413: "PayloadTooLargeError", 503: "ServiceUnavailableError"}
    content = {
        "message": " ".join(str(error).split()),
        "type": kinds.get(error.status, "BadRequestError"),
        "param": error.param,
        "code": error.status,
    }
    await _answer(send, error.status, {"error": content})


async def _answer(send: Send, status: int, content: Mapping[str, Any]) -> None:
    body = dumped(content)
    headers = _with_length([(b"content-type", b"application/json")], len(body))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
