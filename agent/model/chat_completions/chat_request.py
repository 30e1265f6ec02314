"""Encode a request for chat completions, the format of OpenAI and many other servers. Pure.

The same request gives the same bytes; messages are encoded once and stored. Reasoning and signatures are sent
back in the fields in which they were received.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from agent.errors import Feature
from agent.model.error_mapping import ServerNames
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

OFFICIAL_CHAT_FORMAT = "chat completions, official"  # only in transcripts of earlier versions
CHAT_FORMAT = "chat completions"  # the key of what `Message.encoded` keeps for this adapter
CHAT_NAMES = ServerNames(
    {
        r"require OpenRouter reasoning details": "details gaps",  # Gemini through OpenRouter
        r"missing a .{0,5}thought_signature": "signature gaps",  # Gemini
        r"\breasoning_effort\b|does not support thinking": "effort",
        r"\bstream_options\b": "usage in streams",
        r"\bmax_tokens\b.{0,80}\bmax_completion_tokens\b": "max_tokens",
        r"\breasoning_content\b.{0,60}\b(?:missing|required|must be)\b": "reasoning gaps",
        r"\breasoning(?:_content|_details)?\b|\bextra_content\b": "unsigned thinking",
        r"thought signature": "unsigned thinking",  # Gemini: a damaged one
        r"Tool call id was .{1,300} must be": "tool ids",  # Mistral
    },
    key="OPENAI_API_KEY",
    url="OPENAI_BASE_URL",
)
_MESSAGE_FEATURES: tuple[Feature, ...] = (
    "unsigned thinking",
    "reasoning gaps",
    "signature gaps",
    "details gaps",
    "tool ids",
)
_UNSIGNED = "skip_thought_signature_validator"  # what Gemini documents
_NO_SIGNATURE = {"google": {"thought_signature": _UNSIGNED}}
_GEMINI_DETAILS = "google-gemini-v1"  # OpenRouter's name for the form of Gemini's signatures


def encode_chat_request(request: ModelRequest, official: bool = False) -> bytes:
    """Return the body of a streamed request. `official`: as earlier versions sent it to OpenAI.

    Cache marks, eager inputs and the setting for thinking have no fields here and are left out.
    """
    settings = request.settings
    rejected = settings.rejected & set(_MESSAGE_FEATURES)
    form = " ".join((CHAT_FORMAT, *sorted(rejected), settings.tag))
    pieces = []
    if settings.system:
        pieces.append(to_json_bytes({"role": "system", "content": "\n\n".join(settings.system)}))
    for message in request.messages:
        if form not in message.encoded:
            made = (to_json_bytes(each) for each in _encode_message(message, rejected, settings.tag))
            message.encoded[form] = b",".join(made)
        pieces.append(message.encoded[form])
    if request.instruction:
        pieces.append(to_json_bytes({"role": "user", "content": request.instruction}))
    head = to_json_bytes(_head(settings, official))
    return b'%b,"messages":[%b]}' % (head[:-1], b",".join(filter(None, pieces)))


def _head(settings: RequestSettings, official: bool) -> dict[str, Any]:
    limit = "max_completion_tokens" if official or "max_tokens" in settings.rejected else "max_tokens"
    head: dict[str, Any] = {"model": settings.model, limit: settings.max_tokens, "stream": True}
    if "usage in streams" not in settings.rejected:
        head["stream_options"] = {"include_usage": True}
    if settings.tools:
        head["tools"] = [{"type": "function", "function": _function(tool)} for tool in settings.tools]
    if settings.effort:
        head["reasoning_effort"] = settings.effort
    return head


def _function(tool: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": tool["name"],
        "description": tool.get("description", ""),
        "parameters": tool["input_schema"],
    }


SEE_BELOW = "(the image is in the next message)"


def _encode_message(message: Message, rejected: frozenset[Feature], tag: str) -> Iterator[dict[str, Any]]:
    """Yield one message or several: each result is a message, and its images follow in a user message.

    makeroom's own words stay in place between tags, since the templates of many models accept a message of
    role "system" only as the first.
    """
    blocks = [part.block for part in message.parts]
    if message.role == "assistant":
        yield from _encode_reply(blocks, rejected)
        return
    results = [block for block in blocks if isinstance(block, ToolResultBlock)]
    for result in results:
        text = "\n\n".join(
            Channel(tag).text_for_model(part) for part in result.content if isinstance(part, TextBlock)
        )
        ident = _id_for(result.tool_use_id, rejected)
        yield {"role": "tool", "tool_call_id": ident, "content": text or SEE_BELOW}
    images = [part for result in results for part in result.content if isinstance(part, ImageBlock)]
    shown = [block for block in (*images, *blocks) if isinstance(block, TextBlock | ImageBlock)]
    if any(isinstance(block, ImageBlock) for block in shown):
        yield {"role": "user", "content": [_encode_part(block, tag) for block in shown]}
    elif shown:  # one string: the templates of some models do not support parts
        texts = (Channel(tag).text_for_model(block) for block in shown if isinstance(block, TextBlock))
        yield {"role": "user", "content": "\n\n".join(texts)}


def _encode_reply(blocks: list[Block], rejected: frozenset[Feature]) -> Iterator[dict[str, Any]]:
    """Yield an assistant's message; none if this format cannot express any of its blocks."""
    text = "".join(block.text for block in blocks if isinstance(block, TextBlock))
    calls = [block for block in blocks if isinstance(block, ToolUseBlock)]
    if not text and not calls:
        return
    reply: dict[str, Any] = {"role": "assistant", "content": text or None}
    if "unsigned thinking" not in rejected:
        for block in blocks:
            if isinstance(block, ThinkingBlock) and (name := block.extra.get(ThinkingBlock.UNSIGNED)):
                if block.thinking:
                    reply[name] = reply.get(name, "") + block.thinking
                if details := block.extra.get(ThinkingBlock.DETAILS):
                    reply[ThinkingBlock.DETAILS] = details
    if calls and "reasoning gaps" in rejected:
        reply.setdefault("reasoning_content", " ")  # missing in replies of another model
    if calls:
        reply["tool_calls"] = [_encode_call(call, rejected) for call in calls]
        if "signature gaps" in rejected:  # of each reply the first call is signed
            reply["tool_calls"][0].setdefault(ToolUseBlock.EXTRA_CONTENT, _NO_SIGNATURE)
        if "details gaps" in rejected:
            details = reply.get(ThinkingBlock.DETAILS, ())
            if all(detail.get("format") != _GEMINI_DETAILS for detail in details):
                reply[ThinkingBlock.DETAILS] = [_unsigned_detail(reply["tool_calls"][0]["id"])]
    yield reply


def _unsigned_detail(call: str) -> dict[str, Any]:
    """Return what stands for the signature of a call in OpenRouter's details of reasoning."""
    return {
        "type": "reasoning.encrypted",
        "data": _UNSIGNED,
        "id": call,
        "format": _GEMINI_DETAILS,
        "index": 0,
    }


def _encode_call(call: ToolUseBlock, rejected: frozenset[Feature]) -> dict[str, Any]:
    encoded = {
        "id": _id_for(call.id, rejected),
        "type": "function",
        "function": {"name": call.name, "arguments": _text_of(call)},
    }
    if ToolUseBlock.EXTRA_CONTENT in call.extra and "unsigned thinking" not in rejected:
        encoded[ToolUseBlock.EXTRA_CONTENT] = call.extra[ToolUseBlock.EXTRA_CONTENT]
    return encoded


def _id_for(call: str, rejected: frozenset[Feature]) -> str:
    """Return the id of a call, in the only form that Mistral accepts if the server has rejected others."""
    return hashlib.sha256(call.encode()).hexdigest()[:9] if "tool ids" in rejected else call


def _text_of(call: ToolUseBlock) -> str:
    """Return the arguments as JSON, even if they were received as something else: servers parse them."""
    return json.dumps(dict(call.input), ensure_ascii=False)


def _encode_part(block: TextBlock | ImageBlock, tag: str) -> dict[str, Any]:
    if isinstance(block, TextBlock):
        return {"type": "text", "text": Channel(tag).text_for_model(block)}
    return {"type": "image_url", "image_url": {"url": f"data:{block.media_type};base64,{block.data}"}}
