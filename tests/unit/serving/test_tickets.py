import pytest

from harness.serving.tickets import ROUTES, RequestError, read_ticket

CHAT = "/v1/chat/completions"


def chat(**fields):
    """A chat body of one message."""
    return {"model": "m", "messages": [{"role": "user", "content": "Hello?"}], **fields}


def test_a_plain_request_changes_nothing():
    """Without our fields the server's settings hold, and the last message is the question."""
    ticket = read_ticket(CHAT, chat())
    assert ticket.settings() == {}
    assert ticket.facts.roles == ("user",)
    assert not ticket.facts.has_tools
    assert ticket.question == "Hello?"


def test_own_fields_become_settings():
    """The three fields arrive under SpecPrefill's own option names."""
    ticket = read_ticket(CHAT, chat(speculative_prefill=False, keep=0.3, look_ahead=4))
    assert ticket.settings() == {"enabled": False, "keep": 0.3, "look_ahead": 4}


def test_null_is_as_good_as_absent():
    """Clients that send every field they know send null."""
    assert read_ticket(CHAT, chat(speculative_prefill=None, keep=None)).settings() == {}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("speculative_prefill", v) for v in ("false", 0, 1, [], {}, "")),
        *(("keep", v) for v in (0, -0.1, 1.01, "0.2", True, float("nan"), float("inf"), [0.2])),
        *(("look_ahead", v) for v in (0, -1, 65, 10**30, 1.5, "8", True, [8])),
        ("use_beam_search", True),
        ("vllm_xargs", {"specprefill": {"pos": "", "len": 9}}),
        ("vllm_xargs", {"specprefill_rows": 1}),
    ],
)
def test_a_wrong_field_is_refused_by_name(field, value):
    """One line that names the field; the request reaches no engine."""
    with pytest.raises(RequestError) as caught:
        read_ticket(CHAT, chat(**{field: value}))
    assert caught.value.param == field
    assert caught.value.status == 400
    assert "\n" not in str(caught.value)


def test_others_xargs_are_not_ours():
    """VLLM's own custom arguments pass."""
    read_ticket(CHAT, chat(vllm_xargs={"session_id": "a"}, use_beam_search=False))


@pytest.mark.parametrize(
    "message",
    [
        {"role": "tool", "content": "42"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "a"}]},
        {"role": "user", "content": [{"type": "tool_result", "content": "42"}]},
        {"type": "function_call_output", "call_id": "a", "output": "42"},
    ],
)
def test_messages_of_tools_are_told(message):
    """Calls and answers of tools, in the forms of chat, Messages and Responses."""
    for route, field in ROUTES.items():
        if field != "prompt":
            assert "tool" in read_ticket(route, {field: [message]}).facts.roles


def test_tool_definitions_are_told():
    """``tools``, and the older ``functions``; an empty list defines none."""
    assert read_ticket(CHAT, chat(tools=[{"type": "function"}])).facts.has_tools
    assert read_ticket(CHAT, chat(functions=[{"name": "f"}])).facts.has_tools
    assert not read_ticket(CHAT, chat(tools=[])).facts.has_tools


@pytest.mark.parametrize("messages", ["text", 7, None, [1, "a", None], [[{"role": 3}]], {"a": 1}])
def test_what_is_no_message_is_left_to_vllm(messages):
    """Nothing here fails on a body that vLLM will refuse with its own words."""
    ticket = read_ticket(CHAT, {"messages": messages})
    assert ticket.facts.roles == ()
    assert ticket.question is None


def test_the_question_is_the_last_text_part():
    """Content in parts: images and others are passed over."""
    parts = [{"type": "text", "text": "a"}, {"type": "image_url"}, {"type": "text", "text": "b"}]
    assert read_ticket(CHAT, {"messages": [{"role": "user", "content": parts}]}).question == "b"


def test_a_batch_has_the_roles_of_all_its_conversations():
    """Conversations one after another."""
    batch = [[{"role": "system", "content": "s"}], [{"role": "user", "content": "u"}]]
    ticket = read_ticket("/v1/chat/completions/batch", {"messages": batch})
    assert ticket.facts.roles == ("system", "user")
