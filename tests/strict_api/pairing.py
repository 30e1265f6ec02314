"""Requirements of the API for the order of messages: roles, and a result for every call.

The documentation gives the rules for messages of role "system"; the wording of their errors is ours.
"""

from collections.abc import Iterator

from msgspec import Struct, field

from .prefix import blocks_of
from .reply import Block, Body

PREFILL = (
    "This model does not support assistant message prefill. The conversation must end with a user message."
)


class MergedMessage(Struct):
    """Neighbouring messages of one role as one message, as the API merges them; each block with its path."""

    role: str
    blocks: list[tuple[str, Block]] = field(default_factory=list)


def merged(body: Body) -> list[MergedMessage]:
    """The messages of a request whose blocks are valid, neighbours of one role merged."""
    found: list[MergedMessage] = []
    for number, message in enumerate(body["messages"]):
        if not found or found[-1].role != message["role"]:
            found.append(MergedMessage(message["role"]))
        for place, block in enumerate(blocks_of(message["content"])):
            found[-1].blocks.append((f"messages.{number}.content.{place}", block))
    return found


def order_violations(body: Body, paused: bool) -> Iterator[str]:
    """Everything that is wrong with the order. `paused`: the last message is a reply that paused."""
    messages = merged(body)
    if messages[0].role != "user":
        yield 'messages: first message must use the "user" role'
    if messages[-1].role == "assistant" and not paused:
        yield PREFILL
    yield from _system_role_violations([message["role"] for message in body["messages"]])
    seen: set[str] = set()
    yield from _server_call_violations(messages)
    for at, message in enumerate(messages):
        following = messages[at + 1] if at + 1 < len(messages) else None
        if message.role == "assistant":
            yield from _call_violations(message, following, seen)
        elif message.role == "user":
            yield from _result_violations(message, messages[at - 1] if at else None)


def _system_role_violations(roles: list[str]) -> Iterator[str]:
    """A message of role "system" stands directly behind the user's, last or before the assistant's."""
    for at, role in enumerate(roles):
        if role != "system":
            continue
        if at == 0 or roles[at - 1] != "user":
            yield f"messages.{at}: a 'system' message must directly follow a 'user' message"
        if at + 1 < len(roles) and roles[at + 1] != "assistant":
            yield f"messages.{at}: a 'system' message must be the last or precede an 'assistant' message"


def _server_call_violations(messages: list[MergedMessage]) -> Iterator[str]:
    """Calls that the service runs stand before their results, and have one unless it is still to run them."""
    called: dict[str, str] = {}
    for at, message in enumerate(messages):
        if message.role != "assistant":
            continue
        for path, block in message.blocks:
            if block["type"] == "server_tool_use":
                called[block["id"]] = path
            elif block["type"].endswith("_tool_result") and called.pop(block["tool_use_id"], None) is None:
                yield f"{path}: unexpected `tool_use_id` found in `{block['type']}`: {block['tool_use_id']}"
        calls_ours = any(block["type"] == "tool_use" for _, block in message.blocks)
        if not calls_ours and at + 1 < len(messages):
            for name, path in called.items():
                yield f"{path}: tool use with id `{name}` was found without a corresponding result block"


def _call_violations(
    message: MergedMessage, following: MergedMessage | None, seen: set[str]
) -> Iterator[str]:
    called: list[str] = []
    for path, block in message.blocks:
        if block["type"] != "tool_use":
            continue
        if block["id"] in seen:
            yield f"{path}: `tool_use` ids must be unique"
        seen.add(block["id"])
        called.append(block["id"])
    if message.blocks[-1][1]["type"] in ("thinking", "redacted_thinking"):
        path = message.blocks[-1][0].rsplit(".content", 1)[0]
        yield f"{path}: The final block in an assistant message cannot be `thinking`."
    answered = {block["tool_use_id"] for block in _leading_results(following)}
    missing = [call for call in called if call not in answered]
    if missing:
        path = message.blocks[-1][0].rsplit(".content", 1)[0]
        yield (
            f"{path}: `tool_use` ids were found without `tool_result` blocks immediately after: "
            f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in "
            "the next message."
        )


def _leading_results(message: MergedMessage | None) -> list[Block]:
    """The results before anything else in a message: later ones do not count as answers."""
    found: list[Block] = []
    for _, block in message.blocks if message is not None else ():
        if block["type"] != "tool_result":
            break
        found.append(block)
    return found


def _result_violations(message: MergedMessage, previous: MergedMessage | None) -> Iterator[str]:
    called = {
        block["id"]
        for _, block in (previous.blocks if previous is not None else ())
        if block["type"] == "tool_use"
    }
    answered: set[str] = set()
    for path, block in message.blocks:
        if block["type"] != "tool_result":
            continue
        name = block["tool_use_id"]
        if name not in called:
            yield (
                f"{path}: unexpected `tool_use_id` found in `tool_result` blocks: {name}. Each `tool_result` "
                "block must have a corresponding `tool_use` block in the previous message."
            )
        elif name in answered:
            yield (
                f"{path}: each tool_use must have a single result. Found multiple `tool_result` blocks with "
                f"id: {name}"
            )
        answered.add(name)
