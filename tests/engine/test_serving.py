"""``harness serve`` as its clients see it: real engines, real connections."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest
from served import MODEL, Server, haystack

from harness.methods.base import MethodContext
from harness.methods.specprefill.method import SpecPrefill
from harness.models.tokenizer import Tokenizer
from harness.schema.prompts import Prompt
from harness.serving.options import JoinOptions

pytestmark = pytest.mark.engine

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
QUESTION = " What is the special magic number?"
KNOBS = {"keep": 0.3, "look_ahead": 4, "min_tokens": 256}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """One server for all tests here; float32, so that what runs beside a request cannot matter."""
    options = ("--keep", "0.3", "--look-ahead", "4", "--min-tokens", "256")
    started = Server(
        *("--preset", "smollm2", "--dtype", "float32", "--max-model-len", "2304"), *options
    )
    yield started
    assert started.stop() == 0
    assert started.left_over == []


def chat(number: int = 0, **fields) -> dict:
    """A chat whose prompt is long enough to be pruned."""
    message = {"role": "user", "content": haystack(number) + QUESTION}
    base = {"model": MODEL, "messages": [message], "max_tokens": 12, "temperature": 0}
    return {**base, **fields}


def completion(number: int = 0, **fields) -> dict:
    """The same text as a completion."""
    base = {"model": MODEL, "prompt": haystack(number) + QUESTION, "max_tokens": 12}
    return {**base, "temperature": 0, **fields}


def test_a_long_chat_is_pruned_and_told_in_the_users_terms(server):
    """Receipt, usage of the whole prompt, and positions that end inside the answer's range."""
    answer = server.post(CHAT, chat())
    receipt = answer.receipt
    assert receipt["status"] == "active"
    assert receipt["prompt_tokens"] == answer.json["usage"]["prompt_tokens"] > 500
    assert receipt["scored_tokens"] == receipt["prompt_tokens"]
    assert 0.25 < receipt["keep_achieved"] < 0.4
    assert all(receipt["seconds"][stage] > 0 for stage in ("score", "select", "prefill"))


def test_the_request_overrides_on_every_route(server):
    """Off, another rate, everything; and what is short goes whole."""
    messages = {"model": MODEL, "max_tokens": 4, "messages": chat()["messages"]}
    routes = {
        CHAT: chat(max_tokens=4),
        COMPLETIONS: completion(max_tokens=4),
        "/v1/responses": {
            "model": MODEL,
            "input": haystack(0),
            "max_output_tokens": 4,
            "temperature": 0,
        },
        "/v1/messages": messages,
    }
    for path, body in routes.items():
        assert server.post(path, body).receipt["status"] == "active", path
        off = server.post(path, {**body, "speculative_prefill": False}).receipt
        assert (off["status"], off["kept_tokens"]) == ("disabled", off["prompt_tokens"]), path
        assert server.post(path, {**body, "keep": 1}).receipt["status"] == "kept_all", path
        half = server.post(path, {**body, "keep": 0.5, "look_ahead": 2}).receipt
        assert half["keep_requested"] == 0.5, path
        assert half["look_ahead"] in {1, 2}, path  # an EOS ends the rows
    short = server.post(COMPLETIONS, completion(prompt="Hello there"))
    assert short.receipt["status"] == "skipped_min_tokens"


def test_the_official_client_works_unchanged(server):
    """openai: chat, streams, completions, Responses; the receipt is where its extras are."""
    client = openai.OpenAI(base_url=server.url, api_key="none")
    asked = chat(extra_body={"keep": 0.4})
    whole = client.chat.completions.create(**asked)
    assert whole.timings["specprefill"]["keep_requested"] == 0.4
    chunks = list(
        client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True})
    )
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == whole.choices[0].message.content
    assert chunks[-1].usage.prompt_tokens == whole.usage.prompt_tokens
    assert chunks[-1].timings["specprefill"]["status"] == "active"
    assert [hasattr(c, "timings") for c in chunks[:-1]] == [False] * (len(chunks) - 1)
    finished = list(client.completions.create(**completion(), stream=True))
    assert finished[-1].timings["specprefill"]["status"] == "active"
    answered = client.responses.create(model=MODEL, input=haystack(1), max_output_tokens=4)
    assert answered.timings["specprefill"]["status"] == "active"
    events = list(
        client.responses.create(model=MODEL, input=haystack(1), max_output_tokens=4, stream=True)
    )
    assert events[-1].response.timings["specprefill"]["status"] == "active"


@pytest.mark.long
def test_concurrent_requests_answer_as_if_alone(server):
    """Ten of all kinds at once, with the async client: same tokens, each with its receipt."""
    bodies = [mixed(number) for number in range(10)]
    alone = [outcome(server.post(path, body)) for path, body in bodies]

    async def together() -> list:
        async with openai.AsyncOpenAI(base_url=server.url, api_key="none") as client:
            return await asyncio.gather(*(send(client, *item) for item in bodies))

    assert asyncio.run(together()) == alone
    assert len({text for text, *_ in alone}) > 5  # mixed up, they would be told apart
    assert server.idle()


def mixed(number: int) -> tuple[str, dict]:
    """One of several kinds of request; no two alike."""
    kinds = [
        (CHAT, chat(number)),
        (COMPLETIONS, completion(number)),
        (CHAT, chat(number, extra={"speculative_prefill": False})),
        (COMPLETIONS, completion(number, extra={"keep": 0.6})),
        (COMPLETIONS, completion(number, prompt=f"Count from {number}:")),
    ]
    path, body = kinds[number % len(kinds)]
    own = body.pop("extra", {})
    return path, {**body, **own}


async def send(client: openai.AsyncOpenAI, path: str, body: dict) -> tuple:
    """Send with the official client; every other one streams."""
    own = {key: body[key] for key in ("keep", "speculative_prefill") if key in body}
    known = {key: value for key, value in body.items() if key not in own}
    kind = client.chat.completions if path == CHAT else client.completions
    if hash(str(body["max_tokens"]) + str(own)) % 2:
        made = await kind.create(**known, extra_body=own)
        receipt, choice = made.timings["specprefill"], made.choices[0]
        text = choice.message.content if path == CHAT else choice.text
    else:
        text = ""
        async for chunk in await kind.create(**known, extra_body=own, stream=True):
            choice = chunk.choices[0]
            text += (choice.delta.content if path == CHAT else choice.text) or ""
            last = chunk
        receipt = last.timings["specprefill"]
    return text, receipt["status"], receipt["prompt_tokens"], receipt["kept_tokens"]


def outcome(answer) -> tuple:
    """What must not depend on what runs beside a request."""
    choice, receipt = answer.json["choices"][0], answer.receipt
    text = choice["message"]["content"] if "message" in choice else choice["text"]
    return text, receipt["status"], receipt["prompt_tokens"], receipt["kept_tokens"]


def test_the_server_gives_what_the_offline_engines_give(server, vllm_engine, vllm_scorer):
    """The same kept tokens and the same answer as method and engine without a server."""
    tokenizer = Tokenizer.load(vllm_engine._host.options.model)
    config = JoinOptions("unused", KNOBS).config()
    prompts = [
        Prompt(str(number), text := haystack(number) + QUESTION, tokenizer.encode(text))
        for number in range(3)
    ]
    context = MethodContext(tokenizer, scorer=vllm_scorer)
    prepared = list(SpecPrefill(config).prepare(prompts, context))
    from harness.engines.base import Sampling

    found = {g.example_id: g.text for g in vllm_engine.generate(prepared, Sampling(12))}
    for prompt, ready in zip(prompts, prepared, strict=True):
        body = completion(prompt=list(prompt.token_ids))
        answer = server.post(COMPLETIONS, body)
        assert answer.json["choices"][0]["text"] == found[prompt.example_id]
        assert answer.receipt["kept_tokens"] == len(ready.token_ids)
        assert answer.receipt["keep_achieved"] == pytest.approx(ready.receipt.keep_achieved)


def test_what_depends_on_the_whole_prompt_is_honoured_or_told(server):
    """Samples, stops, log-probabilities, echo, token ids, penalties, grammars, tools."""
    two = server.post(
        COMPLETIONS, completion(n=2, temperature=1.0, seed=1, logprobs=2, ignore_eos=True)
    )
    assert [len(c["logprobs"]["tokens"]) for c in two.json["choices"]] == [12, 12]
    assert two.receipt["status"] == "active"
    stopped = server.post(COMPLETIONS, completion(stop=["number"], max_tokens=40))
    assert "number" not in stopped.json["choices"][0]["text"]
    echoed = server.post(COMPLETIONS, completion(echo=True))
    text = echoed.json["choices"][0]["text"]
    assert (text.startswith(haystack(0)), echoed.receipt["status"]) == (True, "active")
    told = server.post(COMPLETIONS, completion(return_token_ids=True))
    ids = told.json["choices"][0]["prompt_token_ids"]
    assert len(ids) == told.json["usage"]["prompt_tokens"] > told.receipt["kept_tokens"]
    for fields in ({"echo": True, "logprobs": 1}, {"repetition_penalty": 1.2}):
        assert server.post(COMPLETIONS, completion(**fields)).receipt["status"] == "unsupported"
    schema = {"type": "object", "properties": {"number": {"type": "integer"}}}
    grammar = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    shaped = server.post(CHAT, chat(response_format=grammar, max_tokens=40))
    assert shaped.receipt["status"] == "skipped_tool_guard"
    function = {"name": "look", "parameters": {"type": "object", "properties": {}}}
    tools = {"tools": [{"type": "function", "function": function}], "tool_choice": "none"}
    assert server.post(CHAT, chat(**tools)).receipt["status"] == "skipped_tool_guard"
    several = server.post(COMPLETIONS, completion(prompt=[haystack(1), "short", haystack(2)]))
    found = [item["status"] for item in several.receipt]
    assert found == ["active", "skipped_min_tokens", "active"]


def test_the_range_is_that_of_the_whole_prompt(server):
    """A pruned prompt's answer ends where the whole prompt's would; a longer prompt is refused."""
    long = " ".join(["word"] * 2299)
    cut = server.post(COMPLETIONS, completion(prompt=long, max_tokens=100, ignore_eos=True))
    assert cut.receipt["status"] == "active"
    assert cut.json["usage"]["total_tokens"] == 2304
    assert cut.json["usage"]["completion_tokens"] < 100
    assert server.post(COMPLETIONS, completion(prompt=long * 2)).status == 400


def test_metrics_agree_with_the_receipts(server):
    """Counted by status; tokens as the receipts and usage say."""
    names = ("prompt", "scored", "kept")
    totals = [f"specprefill_{name}_tokens_total" for name in names]
    before = [server.metric(name) for name in totals]
    active = server.metric("specprefill_requests_total", status="active")
    first = server.metric("specprefill_stage_seconds_count", stage="prefill")
    answers = [server.post(CHAT, chat(number, max_tokens=2)) for number in (50, 51)]
    answers.append(server.post(COMPLETIONS, completion(prompt="short")))
    grown = [server.metric(name) - was for name, was in zip(totals, before, strict=True)]
    told = [sum(a.receipt[f"{name}_tokens"] for a in answers) for name in names]
    assert grown == told
    assert told[0] == sum(a.json["usage"]["prompt_tokens"] for a in answers)
    assert server.metric("specprefill_requests_total", status="active") == active + 2
    assert server.metric("specprefill_stage_seconds_count", stage="prefill") == first + 3


def test_a_client_that_leaves_frees_both_engines(server):
    """While its prompt is scored, while it decodes, streaming or not."""
    for wait in (0.0, 0.15, 0.6):
        for stream in (False, True):
            number = int(100 + wait * 100 + stream)
            body = chat(number, max_tokens=1200, ignore_eos=True, stream=stream)
            connection = server.begin(CHAT, body)
            asyncio.run(asyncio.sleep(wait))
            connection.close()
    assert server.idle()
    assert server.post(CHAT, chat()).receipt["status"] == "active"


HOSTILE: list[tuple[str, bytes | dict]] = [
    *((CHAT, data) for data in (b"", b"{", b"[]", b"null", b'"x"', b"7", b"\xff\xfe\x00", b"{]")),
    (CHAT, b"[" * 100_000),
    (CHAT, b'{"messages":' + b"[" * 5000 + b"]" * 5000 + b"}"),
    (CHAT, b'{"max_tokens": ' + b"9" * 5000 + b"}"),
    *((CHAT, {"model": MODEL, "messages": m}) for m in (None, [], "x", [1], [[]], [{}], {"a": 1})),
    *((CHAT, chat(messages=[{"role": r, "content": "x"}])) for r in (None, 7, [])),
    *((CHAT, chat(messages=[{"role": "user", "content": c}])) for c in (7, [7], [{"a": 1}])),
    *((CHAT, chat(speculative_prefill=v)) for v in ("no", 1, [], {"keep": 1})),
    *((CHAT, chat(keep=v)) for v in (0, -1, 2, "0.5", True, [], {})),
    *((CHAT, chat(look_ahead=v)) for v in (0, -1, 65, 10**20, 1.5, "8", [])),
    *((CHAT, chat(vllm_xargs={k: 1})) for k in ("specprefill", "specprefill_rows")),
    (CHAT, chat(vllm_xargs={"specprefill": [1, 2]}, stream=True)),
    (COMPLETIONS, completion(vllm_xargs={"specprefill": "AAAA"})),
    *((CHAT, chat(vllm_xargs=v)) for v in ("x", 7, [1])),
    *((CHAT, chat(max_tokens=v)) for v in (-1, "x", 1.5, 10**30)),
    *((CHAT, chat(temperature=v)) for v in (-1, "hot", [])),
    *((CHAT, chat(n=v)) for v in (0, -1, "x", 10**9)),
    *((CHAT, chat(top_p=v)) for v in (-1, 2)),
    (CHAT, chat(model="other")),
    (CHAT, chat(use_beam_search=True, n=2)),
    (COMPLETIONS, completion(use_beam_search=True)),
    (CHAT, chat(logprobs=True, top_logprobs=10_000)),
    (CHAT, chat(stop=[1, 2])),
    (CHAT, chat(response_format={"type": "json_schema"})),
    (CHAT, chat(response_format={"type": "poem"})),
    (CHAT, chat(tools=[{"type": "function"}])),
    (CHAT, chat(tool_choice={"type": "function", "function": {"name": "absent"}})),
    (CHAT, chat(chat_template="{{ messages }}")),
    *((COMPLETIONS, completion(prompt=p)) for p in ([], [[]], [-1] * 300, [10**9] * 300, {"a": 1})),
    (COMPLETIONS, completion(prompt=[1] * 299 + [49_999_999], speculative_prefill=True)),
    (COMPLETIONS, completion(logit_bias={"x": 1})),
    (COMPLETIONS, completion(truncate_prompt_tokens=-5)),
    (COMPLETIONS, completion(prompt_embeds="AAAA")),
    ("/v1/responses", {"model": MODEL, "input": 7}),
    ("/v1/responses", {"model": MODEL, "input": haystack(0), "keep": 7}),
    ("/v1/messages", {"model": MODEL}),
    ("/v1/messages", {"model": MODEL, "messages": chat()["messages"], "look_ahead": 0}),
]


@pytest.mark.long
def test_hostile_bodies_are_refused_and_nothing_dies(server):
    """More than sixty: each a 4xx with one line of JSON; then the server answers as before."""
    assert len(HOSTILE) >= 60
    before = {process.pid for process in server.processes()}
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda item: server.post(*item), HOSTILE))
    wrong = [
        (path, str(body)[:80], answer.status, answer.text[:200])
        for (path, body), answer in zip(HOSTILE, answers, strict=True)
        if not 400 <= answer.status < 500 or not message_of(answer)
    ]
    assert not wrong, wrong
    assert server.post(CHAT, b"x" * (17 * 2**20)).status == 413
    assert server.post(CHAT, b"{}", "text/plain").status in {400, 415, 422}
    assert server.post(CHAT, chat()).receipt["status"] == "active"
    assert {process.pid for process in server.processes()} == before


def message_of(answer) -> str:
    """The error's message; empty where the answer is not one line of JSON with one."""
    if not isinstance(answer.json, dict) or "\n" in answer.text.strip():
        return ""
    error = answer.json.get("error", {})
    return str(error.get("message", "")) if isinstance(error, dict) else ""


def test_health_says_what_runs(server):
    """Both engines, for people and for orchestrators."""
    assert server.get("/health").json == {"status": "ok", "target": "up", "speculator": "up"}
    assert server.get("/ready").status == 200
    assert json.loads(server.get("/v1/models").text)["data"][0]["id"] == MODEL
