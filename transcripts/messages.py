"""The blocks of a message, named as in the Messages API, and their JSON.

A block whose type or fields this version does not know is kept and sent back unchanged.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, TypeVar, cast, get_args

from msgspec import Struct, field

from .data_tags import (
    ATTACHED_LINE,
    HOOK_OPENING_TAG,
    INJECTED_OPENING_TAG,
    INJECTED_TAGS,
    OWN_COMMAND_OPENING_TAG,
    DataTag,
    quoted,
)
from .images import image_tokens

MAX_INPUT_VALUES = 50_000  # in the input of one tool call, excluding keys
MAX_INPUT_DEPTH = 100  # nesting of lists and objects
_EMPTY_MAPPING: Mapping[str, Any] = MappingProxyType({})
JsonValue = TypeVar("JsonValue")


class Attached(NamedTuple):
    """A file, directory, image or resource that is attached to a prompt: its kind, and its name with size."""

    kind: str
    name: str


def empty_mapping() -> Mapping[str, Any]:
    """Return the immutable empty mapping that all values share."""
    return _EMPTY_MAPPING


class BaseBlock(Struct, frozen=True, array_like=True, tag=True, gc=False):
    """The questions that every block answers.

    `is_thinking`: it is reasoning, readable or redacted.
    """

    is_thinking: ClassVar[bool] = False

    @property
    def injected_text(self) -> str | None:
        """The text that makeroom put into a prompt, without tags; None for other blocks.

        It is makeroom's own words or data such as an attached file. A text between such tags proves nothing:
        `Channel.words` returns what only makeroom can have said.
        """
        return None

    @property
    def is_injected(self) -> bool:
        """Return whether makeroom put the block into a prompt."""
        return self.injected_text is not None

    @property
    def is_put_back(self) -> bool:
        """Return whether the block of a result is text of an earlier one that was put back."""
        return False

    @property
    def attachment(self) -> Attached | None:
        """The attachment in a block of a prompt, such as Attached("File", "a.py (lines 1-20 of 80)")."""
        return None

    def to_json(self) -> dict[str, Any]:
        """Return the block as the JSON object that the API accepts, with its fields in a fixed order."""
        raise NotImplementedError


class TextBlock(BaseBlock, frozen=True):
    """A text; `extra` has the fields that this version does not know, here and in the other blocks."""

    # Says of a text from OpenAI whether it is the answer or an intermediate comment; goes back only there.
    PHASE: ClassVar = "phase"
    PUT_BACK_START: ClassVar = "[put back:"  # of text that an earlier result showed; the file's path follows

    text: str
    extra: Mapping[str, Any] = field(default_factory=empty_mapping)

    @property
    def injected_text(self) -> str | None:
        text = self.text.rstrip()
        for opening, closing in INJECTED_TAGS:
            if text.startswith(opening) and text.endswith(closing):
                return text.removeprefix(opening).removesuffix(closing).strip("\n")
        return None

    @property
    def is_put_back(self) -> bool:
        return self.text.startswith(self.PUT_BACK_START)

    @property
    def attachment(self) -> Attached | None:
        openings = (f"<{DataTag.ATTACHED}>\n", f"{INJECTED_OPENING_TAG}\n{ATTACHED_LINE}\n")
        if not (self.text.startswith(openings) and self.is_injected):
            return None
        opening = next(opening for opening in openings if self.text.startswith(opening))
        kind, _, name = self.text.removeprefix(opening).partition("\n")[0].partition(": ")
        return Attached(kind, name)

    def to_json(self) -> dict[str, Any]:
        return {"type": "text", "text": self.text, **self.extra}


class ChannelBlock(TextBlock, frozen=True):
    """makeroom's own words to the model, see channel.py.

    in_place    they are about the result that contains them, and stay in it: the user's decision about a call
    introduces  they introduce the texts behind them in the same prompt: "The user sent this ..."
    """

    in_place: bool = False
    introduces: bool = False

    @property
    def injected_text(self) -> str | None:
        return None if self.in_place else self.text.rstrip()


class ThinkingBlock(BaseBlock, frozen=True):
    """Reasoning of the model; `signature` covers the messages before it, `thinking` may be empty."""

    # Names the field of thinking that a server does not sign and expects back unchanged.
    UNSIGNED: ClassVar = "unsigned"
    DETAILS: ClassVar = "reasoning_details"  # OpenRouter's form of the thinking, expected back unchanged

    thinking: str
    signature: str
    extra: Mapping[str, Any] = field(default_factory=empty_mapping)
    is_thinking: ClassVar[bool] = True

    def to_json(self) -> dict[str, Any]:
        head = {"type": "thinking", "thinking": self.thinking, "signature": self.signature}
        return {**head, **self.extra}


class RedactedThinkingBlock(BaseBlock, frozen=True):
    """Reasoning that the API returns only in encrypted form."""

    data: str
    extra: Mapping[str, Any] = field(default_factory=empty_mapping)
    is_thinking: ClassVar[bool] = True

    def to_json(self) -> dict[str, Any]:
        return {"type": "redacted_thinking", "data": self.data, **self.extra}


class ToolUseBlock(BaseBlock, frozen=True):
    """A call of a tool. `input` is always an object; input of another type is under INVALID_JSON."""

    INVALID_JSON: ClassVar = "INVALID_JSON"  # the key of a tool input that is not a JSON object
    EXTRA_CONTENT: ClassVar = "extra_content"  # Gemini's signature of the call, expected back unchanged

    id: str
    name: str
    input: Mapping[str, Any]
    extra: Mapping[str, Any] = field(default_factory=empty_mapping)

    def to_json(self) -> dict[str, Any]:
        use = {"type": "tool_use", "id": self.id, "name": self.name, "input": dict(self.input)}
        return {**use, **self.extra}


class ImageBlock(BaseBlock, frozen=True):
    """An image in a prompt or result: `data` in base64; the API accepts image/png, jpeg, gif and webp."""

    media_type: str
    data: str

    @property
    def tokens(self) -> int:
        """Its estimated tokens."""
        return image_tokens(self.data)

    def to_json(self) -> dict[str, Any]:
        source = {"type": "base64", "media_type": self.media_type, "data": self.data}
        return {"type": "image", "source": source}


class ToolResultBlock(BaseBlock, frozen=True):
    """The answer to the call with the id `tool_use_id`."""

    tool_use_id: str
    content: tuple[Block, ...]
    is_error: bool = False

    def to_json(self) -> dict[str, Any]:
        content = [part.to_json() for part in self.content]
        result = {"type": "tool_result", "tool_use_id": self.tool_use_id, "content": content}
        return {**result, "is_error": True} if self.is_error else result


class UnknownBlock(BaseBlock, frozen=True):
    """A block of a type that this version does not know, unchanged."""

    raw: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        return dict(self.raw)


Block = (
    TextBlock
    | ChannelBlock
    | ThinkingBlock
    | RedactedThinkingBlock
    | ToolUseBlock
    | ImageBlock
    | ToolResultBlock
    | UnknownBlock
)
BLOCK_TYPES = get_args(Block)


class Usage(Struct, frozen=True, array_like=True, gc=False):
    """The tokens that the API charges for one reply."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_written: int = 0
    cache_written_hour: int = 0  # the part of cache_written that lasts one hour
    searches: int = 0  # web searches by the server, charged individually
    thinking: int = 0  # the part of output that is thinking, if the server reports it

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Usage:
        """Return the usage in a transcript; missing figures count as 0, unknown ones are ignored."""
        return cls(**{name: int(raw[name]) for name in cls.__struct_fields__ if name in raw})

    @property
    def prompt(self) -> int:
        """The tokens of the whole prompt."""
        return self.input + self.cache_read + self.cache_written

    @property
    def total(self) -> int:
        """The tokens of prompt and output."""
        return self.prompt + self.output

    def __add__(self, other: Usage) -> Usage:
        return Usage(  # spelled out, since the fold adds up every reply of a session
            input=self.input + other.input,
            output=self.output + other.output,
            cache_read=self.cache_read + other.cache_read,
            cache_written=self.cache_written + other.cache_written,
            cache_written_hour=self.cache_written_hour + other.cache_written_hour,
            searches=self.searches + other.searches,
            thinking=self.thinking + other.thinking,
        )

    def __sub__(self, other: Usage) -> Usage:
        return Usage(*(getattr(self, name) - getattr(other, name) for name in Usage.__struct_fields__))


class CacheMiss(Struct, frozen=True, array_like=True):
    """The API's reason why it could not reuse the cached prefix of the previous request.

    `reason` is a value of the API, such as "tools_changed", and `tokens` is about what would have been read.
    """

    reason: str
    tokens: int = 0

    @classmethod
    def from_json(cls, raw: Any) -> CacheMiss | None:
        """Return the reason in the API's form or in a transcript's; None if none can be read."""
        if not isinstance(raw, Mapping):
            return None
        reason = raw.get("reason", raw.get("type"))
        tokens = raw.get("tokens", raw.get("cache_missed_input_tokens"))
        is_valid = isinstance(tokens, int | float) and 0 < tokens < 1e12
        return cls(reason[:100], int(tokens) if is_valid else 0) if isinstance(reason, str) else None


def attached(kind: str, name: str, text: str) -> TextBlock:
    """Return a block with the text of something that the prompt mentions, which is its `attachment`."""
    return TextBlock(quoted(f"{kind}: {name}\n{text}", DataTag.ATTACHED))


def is_added(block: Block) -> bool:
    """Return whether a block of a prompt is makeroom's own context or the output of a hook."""
    hook = isinstance(block, TextBlock) and block.text.startswith(HOOK_OPENING_TAG)
    return hook or block.is_injected


def without_added(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    """Return the blocks of a prompt that the user wrote or ran."""
    return tuple(block for block in blocks if not is_added(block))


def typed_blocks(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    """Return the blocks of a prompt that the user wrote or ran; all of them if there are none."""
    return without_added(blocks) or blocks


def blocks_of_user(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    """Return the blocks of a prompt that the user typed, without hooks' and their own commands' output."""
    return tuple(
        block
        for block in without_added(blocks)
        if not (isinstance(block, TextBlock) and block.text.startswith(OWN_COMMAND_OPENING_TAG))
    )


def replace_surrogates(value: JsonValue) -> JsonValue:
    """Replace each lone surrogate in a text or a JSON value by "?", since UTF-8 cannot encode it.

    Returns the same value if there is none.
    """
    try:
        json.dumps(value, ensure_ascii=False, default=dict).encode()
    except UnicodeEncodeError:
        return cast("JsonValue", map_strings(value, _without_surrogates))
    return value


def _without_surrogates(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def map_strings(value: Any, change: Callable[[str], str], keys: bool = True) -> Any:
    """Return a JSON value with `change` applied to every string in it, and with `keys` to every key."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {
            change(str(key)) if keys else key: map_strings(item, change, keys) for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [map_strings(item, change, keys) for item in value]
    return value


def block_from_json(raw: Mapping[str, Any]) -> Block:
    """Return the block that a JSON object represents; an UnknownBlock if its fields are not as expected.

    An object in the form of makeroom's own words becomes a text, since anyone may have sent it.
    """
    match raw:
        case {"type": "makeroom", "text": str(text)}:
            return TextBlock(text)
        case {"type": "text", "text": str(text)}:
            return TextBlock(text, _extra(raw, "type", "text"))
        case {"type": "tool_use", "id": ident, "name": name, "input": arguments}:
            if not isinstance(arguments, Mapping):
                invalid = arguments if isinstance(arguments, str) else repr(arguments)
                arguments = {ToolUseBlock.INVALID_JSON: invalid}
            return ToolUseBlock(
                str(ident), name=str(name), input=arguments, extra=_extra(raw, "type", "id", "name", "input")
            )
        case {"type": "tool_result", "tool_use_id": ident}:
            with suppress(TypeError, ValueError):
                content = blocks_from_json(raw.get("content"))
                return ToolResultBlock(str(ident), content, bool(raw.get("is_error", False)))
        case {"type": "thinking", "thinking": str(thinking)}:
            if isinstance(signature := raw.get("signature") or "", str):
                return ThinkingBlock(thinking, signature, _extra(raw, "type", "thinking", "signature"))
        case {"type": "redacted_thinking", "data": str(data)}:
            return RedactedThinkingBlock(data, _extra(raw, "type", "data"))
        case {"type": "image", "source": {"type": "base64", "media_type": str(kind), "data": str(data)}}:
            return ImageBlock(kind, data)
    return UnknownBlock({key: raw[key] for key in raw if key != "cache_control"})


def blocks_from_json(content: str | Iterable[Mapping[str, Any]] | None) -> tuple[Block, ...]:
    """Return the blocks of a message's content, which is a string or a list of objects."""
    if content is None:
        return ()
    if isinstance(content, str):
        return (TextBlock(content),) if content else ()
    return tuple(block_from_json(raw) for raw in content)


def blocks_from_record(content: str | Iterable[Mapping[str, Any]] | None) -> tuple[Block, ...]:
    """Return the blocks in a line of the transcript, including makeroom's own words."""
    if content is None or isinstance(content, str):
        return blocks_from_json(content)
    return tuple(map(_block_from_record, content))


def _block_from_record(raw: Mapping[str, Any]) -> Block:
    match raw:
        case {"type": "makeroom", "text": str(text)}:
            in_place = raw.get("in_place") is True
            return ChannelBlock(text, in_place=in_place, introduces=raw.get("introduces") is True)
    return block_from_json(raw)


def _extra(raw: Mapping[str, Any], *known: str) -> Mapping[str, Any]:
    """Return the other fields, without cache breakpoints, which are placed again for each request."""
    if len(raw) == len(known) and known[-1] in raw:  # only the last may be missing
        return _EMPTY_MAPPING
    return {key: raw[key] for key in raw if key not in known and key != "cache_control"} or _EMPTY_MAPPING


def check_shape(value: Any) -> None:
    """Raise ValueError for a JSON value with too many parts or too much nesting.

    Also for NaN and infinite numbers, which Python reads but JSON does not allow in a request.
    """
    level = [value]
    seen = 0
    for _ in range(MAX_INPUT_DEPTH):
        if any(isinstance(part, float) and not math.isfinite(part) for part in level):
            raise ValueError("it contains a number that is not valid in JSON")
        inner = [each for each in level if isinstance(each, dict | list)]
        level = [part for each in inner for part in (each.values() if isinstance(each, dict) else each)]
        seen += len(level)
        if not inner:
            return
        if seen > MAX_INPUT_VALUES:
            raise ValueError(f"it contains more than {MAX_INPUT_VALUES:,} values")
    raise ValueError(f"it is nested more than {MAX_INPUT_DEPTH} levels deep")
