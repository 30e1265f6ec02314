"""Requests that the real API rejects are rejected in its words; those that it accepts are accepted."""

import base64
import time
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strict_api.endpoint import Endpoint, Limits
from tests.strict_api.errors import ApiError
from tests.strict_api.reply import Reply, calls, says, thinks
from tests.strict_api.request_checks import BINDING_BETA, UPDATES_BETA
from tests.tables import each_row

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(40)).decode()
TOOL = {"name": "bash", "description": "runs", "input_schema": {"type": "object"}}


def request(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"model": "claude-sonnet-5-5", "max_tokens": 1000, "messages": list(messages), **more}


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def model(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def call(name: str = "t1", **more: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": name, "name": "bash", "input": {}, **more}


def result(name: str = "t1", content: Any = "ok", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": name, "content": content, **more}


def image(data: str = PNG, media: str = "image/png") -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": media, "data": data}}


MARK = {"cache_control": {"type": "ephemeral"}}
HOUR = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
HI = user(text("hi"))
ASKED = (HI, model(call()))


def system_message(words: str, **more: Any) -> dict[str, Any]:
    return {"role": "system", "content": [text(words, **more)]}


def refusal(body: Any, betas: frozenset[str] = frozenset(), **limits: Any) -> str:
    """Return the endpoint's complaint about a body; "" if it accepts it."""
    try:
        Endpoint(Limits(**limits), time.monotonic).admit(body, betas)
    except ApiError as refused:
        return f"{refused.status} {refused.message}"
    return ""


REFUSED = {
    "no messages": (request(), "at least one message"),
    "assistant first": (request(model(text("hi")), HI), "first message must use"),
    "prefill": (request(HI, model(text("so"))), "does not support assistant message prefill"),
    "system role": (
        request(HI, system_message("x"), model="claude-sonnet-4-6"),
        "role 'system' is not supported on this model",
    ),
    "system first": (request(system_message("x"), HI), "first message must use"),
    "system behind the assistant": (
        request(HI, model(text("a")), system_message("x"), HI),
        "messages.2: a 'system' message must directly follow",
    ),
    "two system messages": (
        request(HI, system_message("x"), system_message("y")),
        "messages.1: a 'system' message must be the last",
    ),
    "system before the user": (
        request(HI, system_message("x"), HI),
        "messages.1: a 'system' message must be the last",
    ),
    "image in a system message": (
        request(HI, {"role": "system", "content": [image()]}),
        "messages.1.content.0: Input tag 'image'",
    ),
    "result in a system message": (
        request(*ASKED, user(result()), {"role": "system", "content": [result()]}),
        "messages.3.content.0: Input tag 'tool_result'",
    ),
    "odd role": (request({"role": "tool", "content": "x"}), "Input should be 'user' or 'assistant'"),
    "field in message": (request({**HI, "name": "x"}), "messages.0.name: Extra inputs"),
    "empty content": (request(user()), "must have non-empty content"),
    "empty string": (request({"role": "user", "content": ""}), "must have non-empty content"),
    "no content": (request({"role": "user"}), "Input should be a valid list"),
    "empty text": (request(user(text(""))), "must be non-empty"),
    "blank text": (request(user(text(" \n"))), "non-whitespace"),
    "blank string": (request({"role": "user", "content": " "}), "non-whitespace"),
    "blank text in result": (request(*ASKED, user(result(content=[text(" ")]))), "non-whitespace"),
    "unknown block": (request(user({"type": "mystery"})), "does not match any"),
    "unknown field": (request(HI, foo=1), "foo: Extra inputs are not permitted"),
    "temperature": (request(HI, temperature=1), "temperature: Extra inputs"),
    "top_p": (request(HI, top_p=1), "top_p: Extra inputs"),
    "top_k": (request(HI, top_k=1), "top_k: Extra inputs"),
    "field in block": (request(user(text("x", id=1))), "text.id: Extra inputs"),
    "citations of a user": (request(user(text("x", citations=[{}]))), "citations are not permitted"),
    "document of the model": (request(HI, model({"type": "document"}), HI), "'document'"),
    "max_tokens": (request(HI, max_tokens=128_001), "max_tokens: 128001 > 128000, which is the maximum"),
    "no max_tokens": ({"model": "claude-sonnet-5-5", "messages": [HI]}, "max_tokens: Field required"),
    "unknown model": (request(HI, model="claude-9"), "404 model: claude-9"),
    "no result": (request(*ASKED, HI), "`tool_use` ids were found without `tool_result` blocks"),
    "half the results": (request(HI, model(call(), call("t2")), user(result())), "immediately after: t2"),
    "results last": (request(*ASKED, user(text("x"), result())), "without `tool_result`"),
    "orphan": (request(user(result())), "unexpected `tool_use_id`"),
    "late result": (request(*ASKED, user(result()), model(text("x")), user(result())), "unexpected"),
    "two results": (request(*ASKED, user(result(), result())), "must have a single result"),
    "same id twice": (request(HI, model(call(), call()), user(result())), "ids must be unique"),
    "same id later": (
        request(*ASKED, user(result()), model(call()), user(result())),
        "ids must be unique",
    ),
    "odd id": (request(HI, model(call("a:b")), user(result("a:b"))), "should match pattern"),
    "odd name": (request(HI, model(call() | {"name": "a b"}), user(result())), "pattern"),
    "input a list": (request(HI, model(call(input=[])), user(result())), "valid dictionary"),
    "error with image": (request(*ASKED, user(result(content=[image()], is_error=True))), 'type "text" if'),
    "no base64": (request(user(image("***"))), "valid base64"),
    "no picture": (request(user(image(base64.b64encode(b"hello").decode()))), "Could not process image"),
    "other picture": (request(user(image(media="image/jpeg"))), "appears to be a image/png"),
    "odd media type": (request(user(image(media="image/bmp"))), "media_type"),
    "five marks": (request(user(*[text(str(n), **MARK) for n in range(5)])), "A maximum of 4 blocks"),
    "five with automatic": (request(user(*[text(str(n), **MARK) for n in range(4)]), **MARK), "maximum of 4"),
    "mark on thinking": (
        request(HI, model({"type": "thinking", "thinking": "", "signature": "x", **MARK}, text("x")), HI),
        "thinking.cache_control: Extra inputs",
    ),
    "odd ttl": (request(user(text("x", cache_control={"type": "ephemeral", "ttl": "2h"}))), "'5m' or '1h'"),
    "hour after minutes": (request(user(text("a", **MARK), text("b", **HOUR))), "must not come after"),
    "thinking last": (request(HI, model({"type": "redacted_thinking", "data": "x"}), HI), "final block"),
    "foreign signature": (
        request(HI, model({"type": "thinking", "thinking": "", "signature": "EqQB"}, text("x")), HI),
        "messages.1.content.0: Invalid `signature` in `thinking` block",
    ),
    "thinking disabled": (request(HI, thinking={"type": "disabled"}), "'disabled' is not supported"),
    "odd display": (request(HI, thinking={"type": "adaptive", "display": "updates"}), "display"),
    "binding without beta": (
        request(HI, thinking={"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "error"}}),
        "block_binding: Extra inputs",
    ),
    "forced tool": (request(HI, tools=[TOOL], tool_choice={"type": "any"}), "not supported on this model"),
    "choice without tools": (request(HI, tool_choice={"type": "auto"}), "while providing tools"),
    "same tool twice": (request(HI, tools=[TOOL, TOOL]), "Tool names must be unique"),
    "properties no objects": (
        request(HI, tools=[{"name": "x", "input_schema": {"type": "object", "properties": {"a": 1}}}]),
        "JSON schema is invalid",
    ),
    "odd property": (
        request(HI, tools=[{"name": "x", "input_schema": {"type": "object", "properties": {"a b": {}}}}]),
        "Property keys should match",
    ),
    "choice of schemas": (
        request(HI, tools=[{"name": "x", "input_schema": {"type": "object", "anyOf": []}}]),
        "does not support oneOf",
    ),
    "description no text": (
        request(HI, tools=[{"name": "x", "description": 1, "input_schema": {"type": "object"}}]),
        "description: Input should be a valid string",
    ),
    "odd metadata": (request(HI, metadata={"name": "x"}), "metadata.name: Extra inputs"),
    "large image": (request(user(image("A" * (5 * 1024 * 1024 + 4)))), "image exceeds 5 MB maximum"),
    "odd schema": (request(HI, tools=[{"name": "x", "input_schema": {}}]), "input_schema.type"),
    "odd effort": (request(HI, output_config={"effort": "huge"}), "output_config.effort"),
    "blank system": (request(HI, system=[text(" ")]), "system.0.text"),
    "small budget": (
        request(HI, model="claude-haiku-4-5", thinking={"type": "enabled", "budget_tokens": 10}),
        "greater than or equal to 1024",
    ),
    "budget over max": (
        request(HI, model="claude-haiku-4-5", thinking={"type": "enabled", "budget_tokens": 2000}),
        "must be greater than `thinking.budget_tokens`",
    ),
    "adaptive on an old model": (
        request(HI, model="claude-haiku-4-5", thinking={"type": "adaptive"}),
        "'adaptive' is not supported",
    ),
    "effort on an old model": (
        request(HI, model="claude-haiku-4-5", output_config={"effort": "low"}),
        "does not support the effort",
    ),
    "no object": ([], "valid dictionary"),
}

ACCEPTED = {
    "strings": request({"role": "user", "content": "hi"}),
    "neighbours of one role": request(HI, HI, model(text("a")), model(text("b")), HI),
    "a call and its result": request(*ASKED, user(result(), text("and?"))),
    "results over two messages": request(HI, model(call(), call("t2")), user(result()), user(result("t2"))),
    "an empty result": request(*ASKED, user(result(content=""))),
    "a result without content": request(*ASKED, user({"type": "tool_result", "tool_use_id": "t1"})),
    "a picture in a result": request(*ASKED, user(result(content=[text("x"), image()]))),
    "a system message at the end": request(HI, system_message("x", **MARK)),
    "system messages behind prompts and results": request(
        HI, system_message("x"), model(call()), user(result()), system_message("y"), model(text("a")), HI
    ),
    "everything": request(
        HI,
        system=[text("s", **HOUR)],
        tools=[{**TOOL, "eager_input_streaming": True}],
        tool_choice={"type": "auto"},
        thinking={"type": "adaptive", "display": "summarized"},
        output_config={"effort": "low"},
        stop_sequences=["END"],
        metadata={"user_id": "x"},
        stream=True,
        **MARK,
    ),
    "a block of a kind that only a model makes": request(HI, model({"type": "mystery", "x": 1}), HI),
    "redacted thinking": request(HI, model({"type": "redacted_thinking", "data": "x"}, text("a")), HI),
    "an old model": request(HI, model="claude-haiku-4-5", thinking={"type": "disabled"}),
}


@each_row("name", REFUSED)
def test_refuses(name: str) -> None:
    body, expected = REFUSED[name]
    assert expected in refusal(body)


@each_row("name", ACCEPTED)
def test_accepts(name: str) -> None:
    assert refusal(ACCEPTED[name]) == ""


def test_a_prompt_over_the_window_is_too_long() -> None:
    said = refusal(request(user(text("word " * 3000))), window=2000)
    assert said == "400 prompt is too long: 3004 tokens > 2000 maximum"


def test_input_and_output_over_the_window_ends_with_the_window() -> None:
    endpoint = Endpoint(Limits(window=2000), time.monotonic)
    admitted = endpoint.admit(request(user(text("word " * 1900)), max_tokens=1000), frozenset())
    message = endpoint.message(admitted, Reply([says("more " * 500)]))
    assert message["stop_reason"] == "model_context_window_exceeded"
    assert 0 < len(message["content"][0]["text"]) < 500


def test_max_tokens_cuts_a_call_within_its_input() -> None:
    endpoint = Endpoint(Limits(), time.monotonic)
    admitted = endpoint.admit(request(HI, max_tokens=30), frozenset())
    message = endpoint.message(admitted, Reply([says("x"), calls("write", content="word " * 500)]))
    assert message["stop_reason"] == "max_tokens"
    assert not message["content"][-1]["_json"].endswith("}")


THINKING = {"type": "adaptive", "display": "summarized"}


class Talk:
    """A conversation with an endpoint, kept as the client would keep it."""

    def __init__(self, name: str = "claude-sonnet-5-5", **more: Any) -> None:
        self.endpoint = Endpoint(Limits(), time.monotonic)
        self.body = request(HI, model=name, thinking=THINKING, **more)

    def reply(self, *blocks: Any) -> list[dict[str, Any]]:
        admitted = self.endpoint.admit(self.body, frozenset())
        message = self.endpoint.message(admitted, Reply(blocks))
        self.body["messages"].append(model(*message["content"]))
        content = message["content"]
        assert isinstance(content, list)
        return content

    def answer(self) -> None:
        names = [block["id"] for block in self.body["messages"][-1]["content"] if block["type"] == "tool_use"]
        self.body["messages"].append(user(*map(result, names)))

    def refusal(self, betas: frozenset[str] = frozenset()) -> str:
        return refusal(self.body, betas)


def talked(name: str = "claude-sonnet-5-5") -> Talk:
    """Two calls with thinking, both answered."""
    talk = Talk(name)
    for number in range(2):
        talk.reply(thinks(f"thought {number}"), says("so"), calls("bash", command="ls"))
        talk.answer()
    return talk


def test_thinking_sent_back_unchanged_is_accepted() -> None:
    assert talked().refusal() == ""


@each_row("how", ["text", "system", "tools", "dropped"])
def test_bound_thinking_is_refused_when_anything_before_it_changed(how: str) -> None:
    talk = talked()
    if how == "text":
        talk.body["messages"][0] = user(text("hello"))
    elif how == "system":
        talk.body["system"] = "new"
    elif how == "tools":
        talk.body["tools"] = [TOOL]
    else:
        del talk.body["messages"][1]["content"][0]
    assert "bound to a different conversation" in talk.refusal()


def test_marks_and_the_borders_of_messages_do_not_count_as_changes() -> None:
    talk = talked()
    talk.body["messages"][0]["content"][0]["cache_control"] = {"type": "ephemeral"}
    talk.body["messages"][2]["content"][0]["cache_control"] = {"type": "ephemeral"}
    last = talk.body["messages"].pop(3)
    talk.body["messages"][3:3] = [model(block) for block in last["content"]]
    assert talk.refusal() == ""


def test_thinking_left_out_altogether_is_accepted_and_what_follows_stays_valid() -> None:
    talk = talked()
    for message in talk.body["messages"]:
        message["content"] = [block for block in message["content"] if block["type"] != "thinking"]
    talk.reply(thinks("anew"), calls("bash"))
    talk.answer()
    assert talk.refusal() == ""


def test_mismatching_thinking_is_dropped_on_request() -> None:
    talk = talked()
    talk.body["messages"][0] = user(text("hello"))
    binding = {"block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    talk.body["thinking"] = {**THINKING, **binding}
    admitted = talk.endpoint.admit(talk.body, frozenset({BINDING_BETA}))
    message = talk.endpoint.message(admitted, Reply([thinks("anew"), says("done")]))
    assert [change["path"] for change in message["input_transformations"]] == [
        "messages.1.content.0",
        "messages.3.content.0",
    ]
    talk.body["messages"] += [model(*message["content"]), HI]
    assert talk.refusal(frozenset({BINDING_BETA})) == ""


def test_thinking_is_not_bound_on_an_older_model() -> None:
    talk = talked("claude-sonnet-4-6")
    talk.body["messages"][0] = user(text("hello"))
    assert talk.refusal() == ""


def test_a_changed_thought_is_refused_everywhere() -> None:
    talk = talked("claude-sonnet-4-6")
    talk.body["messages"][1]["content"][0]["thinking"] = "other"
    assert "Invalid `signature`" in talk.refusal()


def test_the_open_turn_keeps_all_its_thinking_or_none_on_an_older_model() -> None:
    talk = talked("claude-sonnet-4-6")
    del talk.body["messages"][1]["content"][0]
    assert "cannot be modified" in talk.refusal()
    del talk.body["messages"][3]["content"][0]
    assert talk.refusal() == ""
    closed = talked("claude-sonnet-4-6")
    closed.reply(says("done"))
    closed.body["messages"].append(HI)
    del closed.body["messages"][1]["content"][0]
    assert closed.refusal() == ""


def test_omitted_thinking_is_empty_and_signed() -> None:
    talk = Talk()
    del talk.body["thinking"]
    content = talk.reply(thinks("secret"), says("x"))
    assert content[0]["thinking"] == "" and content[0]["signature"]


def test_a_paused_reply_may_be_sent_back_unchanged() -> None:
    endpoint = Endpoint(Limits(), time.monotonic)
    body = request(HI)
    message = endpoint.message(endpoint.admit(body, frozenset()), Reply([says("a")], "pause_turn"))
    body["messages"].append(model(*message["content"]))
    endpoint.admit(body, frozenset())
    assert "prefill" in refusal(body)


def test_updates_are_a_display_with_the_beta() -> None:
    body = request(HI, thinking={"type": "adaptive", "display": "updates"})
    assert refusal(body, frozenset({UPDATES_BETA})) == ""


PRINTABLE = st.characters(exclude_categories=["C", "Z"], include_characters=" ")
word = st.text(PRINTABLE, min_size=1, max_size=30).filter(lambda words: not words.isspace())
turns = st.lists(st.tuples(st.booleans(), st.integers(0, 3), st.booleans(), word), min_size=1, max_size=8)


@settings(max_examples=60, deadline=None)
@given(turns, st.sampled_from(["claude-sonnet-5-5", "claude-sonnet-4-6", "makeroom-offline"]))
def test_whatever_the_server_said_may_be_sent_back(
    turns: list[tuple[bool, int, bool, str]], name: str
) -> None:
    talk = Talk(name)
    for thinking, count, speaking, words in turns:
        blocks = [thinks(words)] * thinking + [says(words)] * (speaking or not count)
        talk.reply(*blocks, *[calls("bash", command=words)] * count)
        if count:
            talk.answer()
        if speaking or not count:
            talk.body["messages"].append(user(text(words)))
        assert talk.refusal() == ""
