"""The blocks of a message, named as the Messages API names them, and their JSON.

Values only: frozen, compared by content, never changed after they are made. A block of a type or with
fields that this version does not know is kept and sent back untouched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

_NOTHING: Mapping[str, Any] = MappingProxyType({})


def empty_mapping() -> Mapping[str, Any]:
    """The empty mapping that all values share."""
    return _NOTHING


@dataclass(frozen=True, slots=True)
class TextBlock:
    text: str
    extra: Mapping[str, Any] = field(default_factory=empty_mapping)


@dataclass(frozen=True, slots=True)
class ThinkingBlock:
    """Reasoning of the model; `signature` binds it to everything sent before it, `thinking` may be empty."""

    thinking: str
    signature: str
    extra: Mapping[str, Any] = field(default_factory=empty_mapping)


@dataclass(frozen=True, slots=True)
class RedactedThinkingBlock:
    data: str
    extra: Mapping[str, Any] = field(default_factory=empty_mapping)


@dataclass(frozen=True, slots=True)
class ToolUseBlock:
    """A call of a tool. `input` is always an object; text that was no JSON object is under INVALID_JSON."""

    id: str
    name: str
    input: Mapping[str, Any]
    extra: Mapping[str, Any] = field(default_factory=empty_mapping)


@dataclass(frozen=True, slots=True)
class ImageBlock:
    """An image of the user or of a result: `data` is base64, `media_type` one of png, jpeg, gif, webp."""

    media_type: str
    data: str


@dataclass(frozen=True, slots=True)
class ToolResultBlock:
    tool_use_id: str
    content: tuple[Block, ...]
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class UnknownBlock:
    """A block of a type that we do not know, as it came."""

    raw: Mapping[str, Any]


Block = (
    TextBlock
    | ThinkingBlock
    | RedactedThinkingBlock
    | ToolUseBlock
    | ImageBlock
    | ToolResultBlock
    | UnknownBlock
)
INVALID_JSON = "INVALID_JSON"


@dataclass(frozen=True, slots=True)
class Usage:
    """What one reply cost, in tokens. The whole prompt is input + cache_read + cache_written."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_written: int = 0
    cache_written_hour: int = 0  # the part of cache_written that lives one hour

    @property
    def prompt(self) -> int:
        return self.input + self.cache_read + self.cache_written

    @property
    def total(self) -> int:
        return self.prompt + self.output

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_written + other.cache_written,
            self.cache_written_hour + other.cache_written_hour,
        )


def is_thinking(block: Block) -> bool:
    return isinstance(block, ThinkingBlock | RedactedThinkingBlock)


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which no UTF-8 file and no API request can carry."""
    if text.isascii():
        return text
    return text.encode("utf-8", "replace").decode("utf-8")


def replace_surrogates_in_json(value: Any) -> Any:
    """`clean`, for every string within a JSON value."""
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, Mapping):
        return {replace_surrogates(str(key)): replace_surrogates_in_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [replace_surrogates_in_json(item) for item in value]
    return value


def block_to_json(block: Block) -> dict[str, Any]:
    """The block as the JSON object that the API takes, fields in a fixed order."""
    match block:
        case TextBlock():
            return {"type": "text", "text": block.text, **block.extra}
        case ThinkingBlock():
            head = {"type": "thinking", "thinking": block.thinking, "signature": block.signature}
            return {**head, **block.extra}
        case RedactedThinkingBlock():
            return {"type": "redacted_thinking", "data": block.data, **block.extra}
        case ToolUseBlock():
            use = {"type": "tool_use", "id": block.id, "name": block.name, "input": dict(block.input)}
            return {**use, **block.extra}
        case ImageBlock():
            source = {"type": "base64", "media_type": block.media_type, "data": block.data}
            return {"type": "image", "source": source}
        case ToolResultBlock():
            return _result_to_api(block)
        case UnknownBlock():
            return dict(block.raw)


def _result_to_api(block: ToolResultBlock) -> dict[str, Any]:
    answer: dict[str, Any] = {"type": "tool_result", "tool_use_id": block.tool_use_id}
    answer["content"] = [block_to_json(part) for part in block.content]
    if block.is_error:
        answer["is_error"] = True
    return answer


def block_from_json(raw: Mapping[str, Any]) -> Block:
    """The block that a JSON object stands for; what we cannot read whole becomes `UnknownBlock`."""
    try:
        return _READERS[raw["type"]](raw)
    except (AttributeError, KeyError, TypeError, ValueError):
        return UnknownBlock(dict(raw))


def blocks_from_json(content: str | Iterable[Mapping[str, Any]] | None) -> tuple[Block, ...]:
    """Message content as the API has it: a string or a list of blocks."""
    if content is None:
        return ()
    if isinstance(content, str):
        return (TextBlock(content),) if content else ()
    return tuple(map(block_from_json, content))


def _extra(raw: Mapping[str, Any], *known: str) -> Mapping[str, Any]:
    rest = {key: value for key, value in raw.items() if key != "type" and key not in known}
    rest.pop("cache_control", None)  # where the marks stand is decided anew for each request
    return rest or _NOTHING


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a text is needed, not {value!r:.40}")
    return value


def _read_tool_use(raw: Mapping[str, Any]) -> Block:
    arguments = raw["input"]
    if not isinstance(arguments, Mapping):
        arguments = {INVALID_JSON: arguments if isinstance(arguments, str) else repr(arguments)}
    extra = _NOTHING if len(raw) == 4 else _extra(raw, "id", "name", "input")
    return ToolUseBlock(str(raw["id"]), str(raw["name"]), arguments, extra)


def _read_image(raw: Mapping[str, Any]) -> Block:
    source = raw["source"]
    if source.get("type") != "base64":
        return UnknownBlock(dict(raw))
    return ImageBlock(_string(source["media_type"]), _string(source["data"]))


def _read_result(raw: Mapping[str, Any]) -> Block:
    return ToolResultBlock(
        str(raw["tool_use_id"]), blocks_from_json(raw.get("content")), bool(raw.get("is_error", False))
    )


_READERS: dict[str, Callable[[Mapping[str, Any]], Block]] = {
    "text": lambda raw: TextBlock(_string(raw["text"]), _NOTHING if len(raw) == 2 else _extra(raw, "text")),
    "thinking": lambda raw: ThinkingBlock(
        _string(raw["thinking"]), _string(raw.get("signature") or ""), _extra(raw, "thinking", "signature")
    ),
    "redacted_thinking": lambda raw: RedactedThinkingBlock(_string(raw["data"]), _extra(raw, "data")),
    "tool_use": _read_tool_use,
    "image": _read_image,
    "tool_result": _read_result,
}
