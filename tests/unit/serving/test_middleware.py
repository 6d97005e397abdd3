import asyncio
import json

import pytest

from harness.schema.prompts import PreparedPrompt
from harness.schema.receipts import Receipt, Status
from harness.serving.middleware import SpecPrefillMiddleware
from harness.serving.receipts import ServedReceipt
from harness.serving.tickets import current_ticket

CHAT = "/v1/chat/completions"
OK = {"status": "ok", "target": "up", "speculator": "up"}


def prepared() -> PreparedPrompt:
    """Three of ten tokens kept."""
    receipt = Receipt("specprefill", Status.ACTIVE, keep_requested=0.3, details={"rows": 8})
    return PreparedPrompt("r", (1, 2, 3), (0, 4, 9), 10, receipt)


class App:
    """Stands for vLLM's app: keeps what it got, answers with JSON or events."""

    def __init__(self, *, stream=False, status=200, plans=1, answer=None):
        self.stream, self.status, self.plans, self.answer = stream, status, plans, answer
        self.ticket = self.body = self.scope = None

    async def __call__(self, scope, receive, send):
        self.scope, self.ticket = scope, current_ticket.get()
        message = await receive()
        self.body = message["body"]
        if self.ticket is not None:
            self.ticket.receipts += [ServedReceipt(prepared()) for _ in range(self.plans)]
        kind = b"text/event-stream; charset=utf-8" if self.stream else b"application/json"
        start = {"type": "http.response.start", "status": self.status}
        await send({**start, "headers": [(b"content-type", kind), (b"content-length", b"2")]})
        content = self.answer or b'{"a":1}'
        if self.stream:
            content = b'data: {"choices":[{"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
        await send({"type": "http.response.body", "body": content[:5], "more_body": True})
        await send({"type": "http.response.body", "body": content[5:]})


def call(app, path=CHAT, body=b"{}", *, method="POST", headers=(), health=OK, chunks=1):
    """Send one request through the middleware; status, headers and body of the answer."""
    sent = []
    size = max(1, -(-len(body) // chunks))
    parts = [body[i : i + size] for i in range(0, len(body), size)] or [b""]
    messages = [
        {"type": "http.request", "body": part, "more_body": number < len(parts) - 1}
        for number, part in enumerate(parts)
    ]

    async def receive():
        return messages.pop(0) if messages else {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": method, "path": path, "headers": list(headers)}
    middleware = SpecPrefillMiddleware(app, max_body=1000, health=lambda: health)
    asyncio.run(middleware(scope, receive, send))
    assert current_ticket.get() is None
    content = b"".join(m.get("body", b"") for m in sent[1:])
    return sent[0]["status"], dict(sent[0]["headers"]), content


def test_our_fields_are_taken_out_and_the_rest_is_passed_on():
    """VLLM sees its own fields, and a content length that fits them."""
    app = App()
    body = json.dumps({"model": "m", "keep": 0.5, "temperature": 0.7}).encode()
    call(app, body=body, headers=[(b"content-length", str(len(body)).encode())], chunks=3)
    assert json.loads(app.body) == {"model": "m", "temperature": 0.7}
    assert dict(app.scope["headers"])[b"content-length"] == str(len(app.body)).encode()
    assert app.ticket.keep == 0.5


def test_a_body_without_our_fields_is_passed_on_byte_for_byte():
    """Nothing is written anew where nothing has to be."""
    app, body = App(), b'{"model": "m",  "seed": 1e3}'
    call(app, body=body)
    assert app.body == body


def test_the_receipt_is_in_the_response():
    """One prompt gives an object, with the length of what is sent."""
    status, headers, content = call(App())
    made = json.loads(content)
    assert (status, made["a"]) == (200, 1)
    assert made["timings"]["specprefill"]["status"] == "active"
    assert made["timings"]["specprefill"]["kept_tokens"] == 3
    assert headers[b"content-length"] == str(len(content)).encode()


def test_several_prompts_give_a_list():
    """In the order in which the engine got them."""
    _, _, content = call(App(plans=2))
    assert len(json.loads(content)["timings"]["specprefill"]) == 2


def test_the_receipt_is_in_the_last_event():
    """Streams carry it too."""
    _, _, content = call(App(stream=True))
    first = json.loads(content.split(b"\n")[0][6:])
    assert first["timings"]["specprefill"]["status"] == "active"


@pytest.mark.parametrize("app", [App(status=400), App(plans=0), App(answer=b"[1, 2]")])
def test_errors_and_unplanned_answers_stay_as_they_are(app):
    """No receipt is made up."""
    _, _, content = call(app)
    assert content == (app.answer or b'{"a":1}')


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"nonsense", 400),
        (b"[]", 400),
        (b'"text"', 400),
        (b"\xff\xfe", 400),
        (b'{"keep": 2}', 400),
        (b"[" * 900, 400),
        (b'{"a": "' + b"x" * 2000 + b'"}', 413),
    ],
)
def test_a_wrong_body_is_answered_here(body, status):
    """One line of JSON in OpenAI's form; the app is never called."""
    app = App()
    answered, headers, content = call(app, body=body, chunks=4)
    error = json.loads(content)["error"]
    assert (answered, error["code"]) == (status, status)
    assert error["message"]
    assert "\n" not in error["message"]
    assert headers[b"content-type"] == b"application/json"
    assert app.body is None


def test_a_declared_length_is_enough_to_refuse():
    """Before a byte of the body has come."""
    status, _, _ = call(App(), body=b"{}", headers=[(b"content-length", b"99999999")])
    assert status == 413


def test_other_routes_have_no_ticket_but_the_same_limit():
    """``/tokenize`` and the like are vLLM's own."""
    app = App()
    status, _, content = call(app, path="/tokenize", body=b"not json")
    assert (status, app.ticket, content) == (200, None, b'{"a":1}')
    assert call(App(), path="/tokenize", body=b"x" * 2000)[0] == 413


@pytest.mark.parametrize(
    ("state", "health", "ready"),
    [("ok", 200, 200), ("degraded", 200, 503), ("draining", 200, 503), ("down", 503, 503)],
)
def test_health_and_readiness_count_both_engines(state, health, ready):
    """Answered requests make it healthy; both engines make it ready."""
    found = {**OK, "status": state}
    assert call(App(), "/health", method="GET", health=found)[0] == health
    status, _, content = call(App(), "/ready", method="GET", health=found)
    assert (status, json.loads(content)) == (ready, found)


def test_nothing_new_is_taken_while_draining():
    """A 503, so that a client tries elsewhere."""
    app = App()
    status, _, content = call(app, body=b"{}", health={**OK, "status": "draining"})
    assert (status, json.loads(content)["error"]["code"]) == (503, 503)
    assert app.body is None
