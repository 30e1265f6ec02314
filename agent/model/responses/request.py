"""Encode a request for OpenAI's Responses API. Pure.

Nothing is stored on the server: each request contains the whole history. A reply's reasoning comes as an
encrypted item, is kept as the signature of a thinking block, and goes back in its place. The same request
gives the same bytes; messages are encoded once and stored.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from agent.errors import Feature
from agent.model.error_mapping import ServerNames
from agent.model.openai_models import reasons
from agent.model_port import ModelRequest, RequestSettings
from transcripts import (
    Block,
    Channel,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    to_json_bytes,
)

RESPONSES_FORMAT = "responses"  # the key of what `Message.encoded` keeps for this adapter
_SIGNATURE = "openai:"  # begins the signatures that this adapter makes
_NO_REASONING: Feature = "unsigned thinking"
RESPONSES_NAMES = ServerNames(
    {
        r"\breasoning\.effort\b": "effort",
        r"\bprompt_cache_key\b": "cache",
        r"[Ee]ncrypted content is not supported|\binclude\b": _NO_REASONING,
        r"\breasoning\b": "thinking",
    },
    key="OPENAI_API_KEY",
    url="OPENAI_BASE_URL",
)


class ReasoningItem(NamedTuple):
    """The parts of a reasoning item that have to go back."""

    ident: str
    encrypted: str

    def as_signature(self) -> str:
        """Return the signature of a thinking block that keeps this item."""
        return f"{_SIGNATURE}{self.ident}:{self.encrypted}"


def reasoning_of(signature: str) -> ReasoningItem | None:
    """Return the reasoning item that a thinking block keeps; None if it is from another service."""
    if not signature.startswith(_SIGNATURE):
        return None
    ident, _, encrypted = signature.removeprefix(_SIGNATURE).partition(":")
    return ReasoningItem(ident, encrypted)


def encode_responses_request(request: ModelRequest) -> bytes:
    """Return the body of a streamed request. Cache marks have no field here: the service finds prefixes."""
    settings = request.settings
    sends_reasoning = _sends_reasoning(settings)
    form = " ".join((RESPONSES_FORMAT, *((_NO_REASONING,) if not sends_reasoning else ()), settings.tag))
    pieces = []
    for message in request.messages:
        if form not in message.encoded:
            items = _encode_message(message, sends_reasoning, settings.tag)
            message.encoded[form] = b",".join(map(to_json_bytes, items))
        pieces.append(message.encoded[form])
    if request.instruction:
        pieces.append(to_json_bytes(_user_message([_text(request.instruction)])))
    head = to_json_bytes(_head(settings))
    return b'%b,"input":[%b]}' % (head[:-1], b",".join(filter(None, pieces)))


def _sends_reasoning(settings: RequestSettings) -> bool:
    return reasons(settings.model) and _NO_REASONING not in settings.rejected


def _head(settings: RequestSettings) -> dict[str, Any]:
    """Return the request without its input. The cache key sends the requests of a session to one cache."""
    head: dict[str, Any] = {"model": settings.model, "stream": True, "store": False}
    if _sends_reasoning(settings):
        head["include"] = ["reasoning.encrypted_content"]
    if settings.tag and "cache" not in settings.rejected:
        head["prompt_cache_key"] = f"makeroom-{settings.tag}"
    head["max_output_tokens"] = settings.max_tokens
    reasoning = {}
    if settings.effort:
        reasoning["effort"] = settings.effort
    if settings.thinking and not settings.silent_thinking:
        reasoning["summary"] = "auto"
    if reasoning:
        head["reasoning"] = reasoning
    if settings.system:
        head["instructions"] = "\n\n".join(settings.system)
    if settings.tools:
        head["tools"] = [_function(tool) for tool in settings.tools]
    return head


def _function(tool: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "function",
        "name": tool["name"],
        "description": tool.get("description", ""),
        "parameters": tool["input_schema"],
        "strict": False,  # strict schemas have no optional parameters
    }


def _encode_message(message: Message, sends_reasoning: bool, tag: str) -> Iterator[dict[str, Any]]:
    """Yield the items of a message: those of a reply, or results and then what the user said."""
    blocks = [part.block for part in message.parts]
    if message.role == "assistant":
        yield from _encode_reply(blocks, sends_reasoning)
        return
    for block in blocks:
        if isinstance(block, ToolResultBlock):
            yield {
                "type": "function_call_output",
                "call_id": block.tool_use_id,
                "output": _encode_output(block.content, tag),
            }
    if said := _encode_parts(blocks, tag):
        yield _user_message(said)


def _encode_reply(blocks: Iterable[Block], sends_reasoning: bool) -> Iterator[dict[str, Any]]:
    """Yield the items of a reply. Reasoning is valid only before the item that it led to.

    Calls go without the ids of their items: the service then accepts them without their reasoning, too.
    """
    reasoning: list[dict[str, Any]] = []
    for block in blocks:
        item: dict[str, Any]
        match block:
            case ThinkingBlock() if sends_reasoning and (kept := reasoning_of(block.signature)):
                summary = [{"type": "summary_text", "text": block.thinking}] if block.thinking else []
                reasoning.append(
                    {
                        "type": "reasoning",
                        "id": kept.ident,
                        "summary": summary,
                        "encrypted_content": kept.encrypted,
                    }
                )
                continue
            case TextBlock():
                item = {"role": "assistant", "content": block.text}
                if phase := block.extra.get(TextBlock.PHASE):
                    item["phase"] = phase
            case ToolUseBlock():
                arguments = json.dumps(dict(block.input), ensure_ascii=False)
                item = {
                    "type": "function_call",
                    "call_id": block.id,
                    "name": block.name,
                    "arguments": arguments,
                }
            case _:
                continue
        yield from reasoning
        reasoning.clear()
        yield item


def _encode_output(content: Iterable[Block], tag: str) -> str | list[dict[str, Any]]:
    """Return a result as one text, or as parts if it has images."""
    parts = _encode_parts(content, tag)
    if any(part["type"] == "input_image" for part in parts):
        return parts
    return "\n\n".join(part["text"] for part in parts)


def _encode_parts(blocks: Iterable[Block], tag: str) -> list[dict[str, Any]]:
    parts = []
    for block in blocks:
        if isinstance(block, TextBlock):
            parts.append(_text(Channel(tag).text_for_model(block)))
        elif isinstance(block, ImageBlock):
            url = f"data:{block.media_type};base64,{block.data}"
            parts.append({"type": "input_image", "image_url": url})
    return parts


def _text(text: str) -> dict[str, Any]:
    return {"type": "input_text", "text": text}


def _user_message(content: list[dict[str, Any]]) -> dict[str, Any]:
    return {"role": "user", "content": content}
