"""The rules of the Messages API for a conversation, written apart from the code that keeps them."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from transcripts.view import Message, to_json_bytes

Json = dict[str, Any]
_IDENT = re.compile(r"[a-zA-Z0-9_-]+\Z")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}\Z")
_IN_USER = {"text", "image", "tool_result", "document"}
_IN_ASSISTANT = {"text", "thinking", "redacted_thinking", "tool_use"}


def as_sent(message: Message) -> Json:
    """A message of a view as the API takes it."""
    return {"role": message.role, "content": [part.block.to_json() for part in message.parts]}


def bytes_sent(message: Message) -> bytes:
    """Return the JSON of a message as sent."""
    return to_json_bytes(as_sent(message))


def violations(messages: Iterable[Json]) -> list[str]:
    """Return what the API would reject, in order; empty for a conversation that it accepts."""
    return list(_violations(list(messages)))


def _violations(messages: list[Json]) -> Iterator[str]:
    if not messages:
        yield "no messages"
        return
    if messages[-1]["role"] != "user":
        yield "the last message is not the user's"
    taken: set[str] = set()
    calls: list[str] = []
    for index, message in enumerate(messages):
        expected = "user" if index % 2 == 0 else "assistant"
        if message["role"] != expected:
            yield f"{index}: {message['role']} where {expected} should be"
        blocks = message["content"]
        if not isinstance(blocks, list) or not blocks:
            yield f"{index}: no content"
            continue
        if message["role"] == "user":
            yield from _user(index, blocks, calls)
            calls = []
        else:
            yield from _assistant(index, blocks, taken)
            calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
    if calls:
        yield f"calls without results: {calls}"
    yield from _server_calls([message for message in messages if message["role"] == "assistant"])


def _server_calls(replies: list[Json]) -> Iterator[str]:
    """Yield the errors in calls that the API runs: each has its result in its reply or in the next."""
    waiting: set[str] = set()
    for index, reply in enumerate(replies):
        blocks = reply["content"]
        calls = {block["id"] for block in blocks if block["type"] == "server_tool_use"}
        answered = {block["tool_use_id"] for block in blocks if block["type"] == "web_search_tool_result"}
        if strange := answered - calls - waiting:
            yield f"reply {index}: results of the service without calls: {strange}"
        waiting = calls - answered
        if waiting and not any(block["type"] == "tool_use" for block in blocks):
            yield f"reply {index}: calls of the service without results: {waiting}"


def _user(index: int, blocks: list[Json], calls: list[str]) -> Iterator[str]:
    kinds = [block["type"] for block in blocks]
    results = [block for block in blocks if block["type"] == "tool_result"]
    if kinds[: len(results)] != ["tool_result"] * len(results):
        yield f"{index}: results do not come first: {kinds}"
    if [block["tool_use_id"] for block in results] != calls:
        yield f"{index}: results {[block['tool_use_id'] for block in results]} for calls {calls}"
    for block in blocks:
        if block["type"] in _IN_ASSISTANT - {"text"}:
            yield f"{index}: {block['type']} of a user"
        yield from _text(index, block)
        if block["type"] == "tool_result":
            yield from _result(index, block)


def _result(index: int, block: Json) -> Iterator[str]:
    if not isinstance(block["content"], list) or not block["content"]:
        yield f"{index}: an empty result"
        return
    for part in block["content"]:
        yield from _text(index, part)
        if part["type"] in ("tool_use", "tool_result", "thinking", "redacted_thinking"):
            yield f"{index}: {part['type']} in a result"


def _assistant(index: int, blocks: list[Json], taken: set[str]) -> Iterator[str]:
    if all(block["type"] in ("thinking", "redacted_thinking") for block in blocks):
        yield f"{index}: nothing but thinking"
    for block in blocks:
        yield from _text(index, block)
        if block["type"] in _IN_USER - {"text"}:
            yield f"{index}: {block['type']} of an assistant"
        if block["type"] == "thinking" and not block["signature"]:
            yield f"{index}: thinking without a signature"
        if block["type"] == "tool_use":
            if not _IDENT.match(block["id"]) or not _NAME.match(block["name"]):
                yield f"{index}: a call named {block['id']!r} {block['name']!r}"
            if not isinstance(block["input"], dict):
                yield f"{index}: input {block['input']!r}"
            if block["id"] in taken:
                yield f"{index}: the id {block['id']} again"
            taken.add(block["id"])


def _text(index: int, block: Json) -> Iterator[str]:
    if block["type"] == "text" and not block["text"].strip():
        yield f"{index}: an empty text"
