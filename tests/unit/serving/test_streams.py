import json

import pytest

from harness.serving.streams import EventStream, dumped

FOUND = {"specprefill": {"status": "active"}}


def event(content) -> bytes:
    """One event as vLLM writes it."""
    return b"data: " + dumped(content) + b"\n\n"


def chunk(text=None, finish=None) -> bytes:
    """A chat chunk."""
    return event({"choices": [{"delta": {"content": text}, "finish_reason": finish}]})


DONE = b"data: [DONE]\n\n"


def objects(data: bytes) -> list:
    """The JSON objects of a stream."""
    lines = [line[6:] for line in data.split(b"\n") if line.startswith(b"data: {")]
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("size", [1, 7, 64, 10_000])
def test_the_last_chunk_carries_the_receipt(size):
    """However the bytes are cut: the chunk with the finish reason, and no other."""
    data = chunk("a") + chunk("b") + chunk("", "stop") + DONE
    stream = EventStream(lambda: FOUND)
    out = b"".join(stream.feed(data[i : i + size]) for i in range(0, len(data), size))
    out += stream.end()
    found = objects(out)
    assert [item.get("timings") for item in found] == [None, None, FOUND]
    assert [{k: v for k, v in item.items() if k != "timings"} for item in found] == objects(data)
    assert out.endswith(DONE)


def test_usage_after_the_finish_reason_is_the_last():
    """``include_usage``: the chunk without choices carries the receipt, the one before does not."""
    usage = event({"choices": [], "usage": {"prompt_tokens": 9}})
    stream = EventStream(lambda: FOUND)
    found = objects(stream.feed(chunk("a", "stop") + usage + DONE))
    assert [item.get("timings") for item in found] == [None, FOUND]


def test_no_token_waits_for_the_next():
    """A chunk without a finish reason leaves at once."""
    stream = EventStream(lambda: FOUND)
    assert stream.feed(chunk("a")) == chunk("a")
    assert stream.feed(chunk("b", "length")) == b""
    assert stream.feed(chunk("c")).startswith(chunk("b", "length"))  # n = 2: the other goes on


def test_content_that_looks_like_an_end_is_content():
    """Quotes inside a string are escaped, so text cannot hold a chunk back."""
    tricky = chunk('{"finish_reason":"stop","choices":[]}')
    assert EventStream(lambda: FOUND).feed(tricky) == tricky


def test_an_error_and_an_unplanned_stream_stay_as_they_are():
    """No receipt where nothing was planned, none in an error."""
    error = event({"error": {"message": "m"}}) + DONE
    assert EventStream(lambda: FOUND).feed(error) == error
    plain = chunk("a", "stop") + DONE
    assert EventStream(lambda: None).feed(plain) == plain


def test_comments_pass():
    """Keep-alive comments are not events to hold back."""
    assert EventStream(lambda: FOUND).feed(b": keep-alive\n\n") == b": keep-alive\n\n"


def test_responses_and_messages_end_by_their_type():
    """Responses: inside the response object; Messages: in ``message_stop``."""
    completed = b"event: response.completed\n" + event({"response": {"id": "r"}})
    (found,) = objects(EventStream(lambda: FOUND).feed(completed))
    assert found == {"response": {"id": "r", "timings": FOUND}}
    stop = b"event: message_stop\n" + event({"type": "message_stop"})
    (found,) = objects(EventStream(lambda: FOUND).feed(stop))
    assert found == {"type": "message_stop", "timings": FOUND}


def test_a_stream_that_breaks_off_loses_nothing():
    """Held back, half received: sent when the stream ends."""
    stream = EventStream(lambda: FOUND)
    out = stream.feed(chunk("a", "stop") + b"data: {") + stream.end()
    assert objects(out.removesuffix(b"data: {"))[0]["timings"] == FOUND
    assert out.endswith(b"data: {")


def test_half_a_surrogate_pair_is_written_as_an_escape():
    """JSON can carry what UTF-8 cannot."""
    assert json.loads(dumped({"text": "\ud800"})) == {"text": "\ud800"}
    assert dumped({"text": "é"}) == '{"text":"é"}'.encode()
