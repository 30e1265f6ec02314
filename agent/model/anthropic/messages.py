"""The messages of a view in the form of the Messages API.

One message of the user may become two: makeroom's own words (`ChannelBlock`) go into a message of role
"system" after it, if the model supports that. The API requires such a message to contain only text, to follow
a message of the user directly, and to be the last one or followed by the assistant's.

    user: environment, "fix it"        ->  user: "fix it"      system: environment
    user: result of r7 with news       ->  user: result        system: news

Otherwise, and in a message that would be empty without them, they stay in place between tags.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from agent.errors import BlockRejected
from agent.model_port import RequestSettings
from transcripts import (
    Block,
    Channel,
    ChannelBlock,
    DataTag,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
    is_deferred_tool,
    map_strings,
    to_json_bytes,
)

FORMAT = "anthropic messages"  # the name of the encoding, and the key of what `Message.encoded` keeps for it
_FOUND_TOOLS = "tool_search_tool_result"
# Our marks in blocks of other services, and fields of theirs.
_LABELS = (ThinkingBlock.UNSIGNED, ThinkingBlock.DETAILS, TextBlock.PHASE, ToolUseBlock.EXTRA_CONTENT)
_DATA = tuple(f"<{tag}" for tag in DataTag)


class MessageForm(NamedTuple):
    """The settings that decide how a message is encoded.

    omits_unsigned  unsigned thinking is left out
    system_role     the model supports messages of role "system"
    tag             the suffix of the tags around makeroom's own words elsewhere
    deferred        names of the deferred tools, the only ones that results of the API's search may name
    key             the key of the bytes in `Message.encoded`
    """

    omits_unsigned: bool = False
    system_role: bool = False
    tag: str = ""
    deferred: frozenset[str] = frozenset()
    key: str = FORMAT


PLAIN_FORM = MessageForm()


class SentBlock(NamedTuple):
    """A block as sent, and the index of the part of the message that it shows."""

    part: int
    block: Block
    raw: dict[str, Any]


class SentMessage(NamedTuple):
    """A message as sent: its blocks, and makeroom's words for a message of role "system" after it."""

    role: str
    blocks: list[SentBlock]
    words: str = ""


def message_form(settings: RequestSettings) -> MessageForm:
    """Return the form of the messages of a request with these settings."""
    omits_unsigned = "unsigned thinking" in settings.rejected
    deferred = frozenset(str(tool["name"]) for tool in settings.tools if is_deferred_tool(tool))
    key = f"{FORMAT}, {omits_unsigned=}, {settings.system_role=}, {settings.tag}, {sorted(deferred)}"
    return MessageForm(
        omits_unsigned, system_role=settings.system_role, tag=settings.tag, deferred=deferred, key=key
    )


def encode_message(
    message: Message,
    form: MessageForm = PLAIN_FORM,
    mark: dict[str, Any] | None = None,
    instruction: str = "",
) -> bytes:
    """Return a message as JSON, or two with a comma between them; the bytes are stored with it.

    `mark` is a cache_control for the last block that may have one, and `instruction` another text of makeroom
    at the end. Only the last message of a request has an instruction; the bytes with either are not stored.
    """
    sent = as_sent(message, form)
    content = [each.raw for each in sent.blocks]
    own_words = [_text(sent.words)] if sent.words else []
    if mark is not None and own_words:
        own_words[0]["cache_control"] = mark
    elif mark is not None and (place := _last_markable([each.block for each in sent.blocks])) is not None:
        content[place] = {**content[place], "cache_control": mark}
    if instruction:
        own_words.append(_text(instruction))
    pieces = [{"role": sent.role, "content": content}]
    if own_words:
        pieces.append({"role": "system" if sent.words else "user", "content": own_words})
    encoded = b",".join(map(to_json_bytes, pieces))
    if mark is None and not instruction:
        message.encoded[form.key] = encoded
    return encoded


def as_sent(message: Message, form: MessageForm) -> SentMessage:
    """Return the blocks of a message in the form of the API."""
    parts = enumerate(part.block for part in message.parts)
    if message.role == "assistant":
        blocks = [SentBlock(at, block, block.to_json()) for at, block in parts]
        if form.omits_unsigned:
            blocks = [each for each in blocks if ThinkingBlock.UNSIGNED not in each.raw]
        if any(label in each.raw for each in blocks for label in _LABELS):
            blocks = [_without_labels(each) for each in blocks]
        if any(each.raw.get("type") == _FOUND_TOOLS for each in blocks):
            blocks = [_with_known_tools(each, form.deferred) for each in blocks]
        return SentMessage("assistant", blocks)
    if form.system_role and (sent := _with_words_behind(message, form.tag)) is not None:
        return sent
    return SentMessage("user", [_user_block(at, block, form.tag) for at, block in parts])


def _with_words_behind(message: Message, tag: str) -> SentMessage | None:
    """Return a message of the user with makeroom's own words after it; None if it contains nothing else."""
    blocks = list[SentBlock]()
    words = list[str]()
    introduced: int | None = None  # seq of the prompt whose texts are sent with makeroom's words
    for at, part in enumerate(message.parts):
        block = part.block
        if isinstance(block, ChannelBlock) and not block.in_place:
            words.append(block.text)
            introduced = part.seq if block.introduces else None
        elif part.seq == introduced and isinstance(block, TextBlock) and _is_typed(block):
            words.append(block.text)
        elif isinstance(block, ToolResultBlock):
            result, news = _without_words(block)
            words += news
            blocks.append(_user_block(at, result, tag))
        else:
            blocks.append(_user_block(at, block, tag))
    return SentMessage("user", blocks, Channel(tag).escape("\n\n".join(words))) if blocks else None


def _is_typed(block: TextBlock) -> bool:
    """Return whether a text of a prompt is only the user's, since no data is sent with makeroom's words."""
    return not isinstance(block, ChannelBlock) and not any(tag in block.text for tag in _DATA)


def _without_words(result: ToolResultBlock) -> tuple[ToolResultBlock, list[str]]:
    """Return a result without makeroom's own words, and these words; a result of nothing else keeps them."""
    words = [block for block in result.content if isinstance(block, ChannelBlock) and not block.in_place]
    kept = tuple(block for block in result.content if block not in words)
    if not words or not kept:
        return result, []
    return replace(result, content=kept), [block.text for block in words]


def _user_block(at: int, block: Block, tag: str) -> SentBlock:
    """Return a block of a message of the user, with our tags in it escaped."""
    raw = block.to_json()
    match block:
        case TextBlock():
            raw["text"] = Channel(tag).text_for_model(block)
        case ToolResultBlock():
            raw["content"] = [_user_block(at, part, tag).raw for part in block.content]
        case UnknownBlock():
            raw = map_strings(raw, Channel(tag).escape, keys=False)
    return SentBlock(at, block, raw)


def _with_known_tools(block: SentBlock, deferred: frozenset[str]) -> SentBlock:
    """Return a result of the API's search without tools that are no longer offered, which it rejects."""
    content = block.raw.get("content")
    if block.raw.get("type") != _FOUND_TOOLS or not isinstance(content, Mapping):
        return block
    found = content.get("tool_references")
    if not isinstance(found, list):
        return block
    kept = [each for each in found if isinstance(each, Mapping) and each.get("tool_name") in deferred]
    return block._replace(raw={**block.raw, "content": {**content, "tool_references": kept}})


def _without_labels(block: SentBlock) -> SentBlock:
    return block._replace(raw={name: value for name, value in block.raw.items() if name not in _LABELS})


def markable_part(message: Message) -> int | None:
    """Return the index of the last part that may have a cache mark (thinking may not), or None."""
    return _last_markable([part.block for part in message.parts])


def _last_markable(blocks: Sequence[Block]) -> int | None:
    for at, block in reversed(list(enumerate(blocks))):
        if not (block.is_thinking or isinstance(block, UnknownBlock)):
            return at
    return None


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def locate_in_view(error: BlockRejected, view: Sequence[Message], settings: RequestSettings) -> None:
    """Change an error's places from messages and blocks as sent to messages and parts of the view.

    A place that shows no part becomes one outside of the view, since no place means that none is named.
    """
    form = message_form(settings)
    parts: dict[tuple[int, int], tuple[int, int]] = {}
    at = 0
    for index, message in enumerate(view):
        sent = as_sent(message, form)
        parts.update(((at, number), (index, block.part)) for number, block in enumerate(sent.blocks))
        at += 2 if sent.words else 1
    error.places = tuple(parts.get(place, (len(view), 0)) for place in error.places)
