"""A second model adapter, for the tests alone: OpenAI-compatible chat completions, streamed over httpx2.

It implements model_port.Model and imports nothing of agent/model/anthropic, so that whatever the loop, the
fold and the record take for granted about a provider shows in the contract test.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx2

from agent import errors
from agent.events import Emit, TextDelta, ThinkingDelta, ToolCallDelta
from agent.model.retry import retry_after
from agent.model_port import (
    Feature,
    IncomingReply,
    ModelCatalog,
    ModelFacts,
    ModelRequest,
    PendingBlock,
    RequestSettings,
)
from transcripts.messages import (
    INVALID_JSON,
    Block,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    Usage,
    is_thinking,
)
from transcripts.view import Message, to_json_bytes

STALL_TIMEOUT_S = 30.0
STOPS = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}
FEATURE_FIELDS: dict[str, Feature] = {"reasoning_effort": "effort"}
_TOO_LONG = re.compile(r"maximum context length is (\d+) tokens.* (?:resulted in|requested) (\d+) tokens")


@dataclass(slots=True)
class ChatCompletionsModel:
    """One client and its connections; see model_port.Model."""

    base_url: str
    key: str = "none"
    catalog: ModelCatalog = field(default_factory=lambda: ModelCatalog("chat-test"))
    _client: httpx2.AsyncClient | None = None

    @property
    def server(self) -> str:
        return self.base_url

    def connect(self) -> None:
        if self._client is None:
            self._client = httpx2.AsyncClient(
                base_url=self.base_url,
                headers={"authorization": f"Bearer {self.key}"},
                timeout=STALL_TIMEOUT_S,
            )

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    def known_facts(self, model: str) -> ModelFacts:
        return ModelFacts(model, 128_000, 16_000, binds=False, effort=True)

    async def describe(self, model: str) -> ModelFacts:
        self.connect()
        assert self._client is not None
        response = await self._client.get(f"/v1/models/{model}")
        if response.status_code != 200:
            raise map_error(response.status_code, response.text, response.headers)
        return self.known_facts(model)

    async def stream(self, request: ModelRequest, reply: IncomingReply, emit: Emit) -> None:
        self.connect()
        assert self._client is not None
        content, headers = encode(request), {"content-type": "application/json"}
        path = "/v1/chat/completions"
        try:
            async with self._client.stream("POST", path, content=content, headers=headers) as response:
                if response.status_code != 200:
                    body = (await response.aread()).decode(errors="replace")
                    raise map_error(response.status_code, body, response.headers)
                reader = ChunkReader(reply, emit)
                async for line in response.aiter_lines():
                    reader.feed(line)
        except (httpx2.HTTPError, httpx2.StreamError, OSError) as error:
            raise errors.TransientError(f"the connection broke: {error!r}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise errors.TransientError(f"the stream made no sense: {error!r}") from error


@dataclass(slots=True)
class ChunkReader:
    """Fills a reply from the lines of a stream: one block after the other, numbered in order of arrival."""

    reply: IncomingReply
    emit: Emit
    call: dict[str, Any] = field(default_factory=dict)

    def feed(self, line: str) -> None:
        if line == "data: [DONE]":
            self._finish()
            self.reply.complete = self.reply.stop is not None
        elif line.startswith("data: "):
            self._take(json.loads(line.removeprefix("data: ")))

    def _take(self, chunk: Mapping[str, Any]) -> None:
        self.reply.model = chunk["model"]
        self.reply.request_id = chunk["id"]
        if usage := chunk.get("usage"):
            cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
            self.reply.usage = Usage(usage["prompt_tokens"] - cached, usage["completion_tokens"], cached)
        for choice in chunk["choices"]:
            delta = choice["delta"]
            if thought := delta.get("reasoning_content"):
                self._pending("thinking").pieces.append(thought)
                self.emit(ThinkingDelta(thought))
            if text := delta.get("content"):
                self._pending("text").pieces.append(text)
                self.emit(TextDelta(text))
            for call in delta.get("tool_calls") or ():
                self._take_call(call)
            if reason := choice.get("finish_reason"):
                self._finish()
                self.reply.stop = STOPS.get(reason, reason)

    def _take_call(self, call: Mapping[str, Any]) -> None:
        if "id" in call:  # the first piece of a call names it
            self._finish()
            self.call = {"id": call["id"], "name": call["function"]["name"]}
        pending = self._pending("tool input")
        pending.pieces.append(call["function"].get("arguments", ""))
        self.emit(ToolCallDelta(self.call["name"], len(pending.text)))

    def _pending(self, kind: Any) -> PendingBlock:
        open_block = next(iter(self.reply.pending.values()), None)
        if open_block is not None and open_block.kind == kind:
            return open_block
        self._finish()
        return self.reply.pending.setdefault(len(self.reply.blocks), PendingBlock(kind))

    def _finish(self) -> None:
        for pending in self.reply.pending.values():
            self.reply.blocks.append(self._finished(pending))
        self.reply.pending.clear()

    def _finished(self, pending: PendingBlock) -> Block:
        if pending.kind == "tool input":
            return ToolUseBlock(self.call["id"], self.call["name"], _arguments(pending.text))
        return TextBlock(pending.text) if pending.kind == "text" else ThinkingBlock(pending.text, "")


def _arguments(text: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text or "{}")
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {INVALID_JSON: text}


def encode(request: ModelRequest) -> bytes:
    """The body of a streamed request. Cache marks and eager inputs are unknown here, and left out."""
    settings = request.settings
    messages = [{"role": "system", "content": text} for text in settings.system]
    messages += [encoded for message in request.messages for encoded in _encode_message(message)]
    if request.instruction:
        messages.append({"role": "user", "content": request.instruction})
    return to_json_bytes({**_head(settings), "messages": messages})


def _head(settings: RequestSettings) -> dict[str, Any]:
    head: dict[str, Any] = {"model": settings.model, "max_completion_tokens": settings.max_tokens}
    head |= {"stream": True, "stream_options": {"include_usage": True}}
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


def _encode_message(message: Message) -> Iterator[dict[str, Any]]:
    """One message, or several: each result is a message of its own, and its images follow as the user's."""
    blocks = [part.block for part in message.parts]
    if message.role == "assistant":
        yield _encode_reply(blocks)
        return
    results = [block for block in blocks if isinstance(block, ToolResultBlock)]
    for result in results:
        text = "\n\n".join(part.text for part in result.content if isinstance(part, TextBlock))
        yield {"role": "tool", "tool_call_id": result.tool_use_id, "content": text}
    images = [part for result in results for part in result.content if isinstance(part, ImageBlock)]
    content = [
        _encode_part(block) for block in (*images, *blocks) if isinstance(block, TextBlock | ImageBlock)
    ]
    if content:
        yield {"role": "user", "content": content}


def _encode_reply(blocks: list[Block]) -> dict[str, Any]:
    """An assistant's message. Thinking is not sent back."""
    shown = [block for block in blocks if not is_thinking(block)]
    text = "".join(block.text for block in shown if isinstance(block, TextBlock))
    reply: dict[str, Any] = {"role": "assistant", "content": text or None}
    if calls := [block for block in shown if isinstance(block, ToolUseBlock)]:
        reply["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": _text_of(call)}}
            for call in calls
        ]
    return reply


def _text_of(call: ToolUseBlock) -> str:
    return call.input.get(INVALID_JSON) or json.dumps(dict(call.input), ensure_ascii=False)


def _encode_part(block: TextBlock | ImageBlock) -> dict[str, Any]:
    if isinstance(block, TextBlock):
        return {"type": "text", "text": block.text}
    return {"type": "image_url", "image_url": {"url": f"data:{block.media_type};base64,{block.data}"}}


def map_error(status: int, body: str, headers: Mapping[str, str]) -> errors.ModelError:
    """The error for an answer that is no reply."""
    try:
        message = str(json.loads(body)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        message = body[:300]
    text = f"{status}: {message}"
    if found := _TOO_LONG.search(message):
        return errors.PromptTooLong(text, int(found[2]), int(found[1]))
    if status in (401, 403):
        return errors.AuthenticationError(text)
    if status == 404:
        return errors.ModelNotFound(text)
    if status == 429 or status >= 500:
        return errors.TransientError(text, retry_after(headers, time.time()))
    for name, feature in FEATURE_FIELDS.items():
        if name in message:
            return errors.FieldRejected(text, feature)
    return errors.RequestRejected(text)
