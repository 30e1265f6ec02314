"""Build one reply from the chunks of a chat completion: text, reasoning and calls, complete or in pieces.

Servers differ in details: calls may be interleaved, lack an index or share one; a name may be in pieces or in
each piece of its call; arguments may be an object; reasoning has one of two names; usage is in the last
chunk, in each chunk or in a choice; the last chunk may repeat the reply; some send no [DONE], others no
reason to stop.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct, field

from agent.errors import TransientError
from agent.events import Event, TextDelta, ThinkingDelta, ToolCallDelta
from agent.model.answer_reader import (
    MAX_BLOCKS,
    MAX_CALL_NAME_CHARS,
    MAX_REPLY_CHARS,
    ReplySize,
    openai_usage,
    parsed_input,
    reply_label,
    too_large,
)
from agent.model_port import IncomingReply, PendingBlock
from transcripts import Block, ThinkingBlock, ToolUseBlock, block_from_json, check_shape, replace_surrogates

REASONING_FIELDS = ("reasoning_content", "reasoning")  # DeepSeek, Kimi, llama.cpp; OpenRouter, vLLM, Groq
_STOPS = {
    "stop": "end_turn",
    "eos": "end_turn",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "length": "max_tokens",
    "model_length": "model_context_window_exceeded",
    "content_filter": "refusal",
    "sensitive": "refusal",  # GLM
}
# DeepSeek, GLM, OpenRouter, vLLM: the server has broken off.
_BROKEN_OFF = {"insufficient_system_resource", "network_error", "error", "abort"}


class _ChatBlock(PendingBlock):
    """A block with the id and name of a call, the field of its reasoning, and its text's size so far.

    extra  the signature of a call
    """

    id: str = ""
    name: str = ""
    size: int = 0
    extra: Mapping[str, Any] = field(default_factory=dict)


class ChunkReader(Struct):
    """Fills `reply`. Blocks are numbered in order of arrival; calls stay open until the reason to stop."""

    reply: IncomingReply
    done: bool = False  # [DONE] or the end of the stream ends a reply: usage may follow its last piece
    _open: dict[int, _ChatBlock] = field(default_factory=dict)
    _calls: dict[Any, _ChatBlock] = field(default_factory=dict)  # by the index or id that servers give
    _ended: str | None = None  # the id of the chunk that had the reason to stop
    _begun: int = 0
    _parsed: int = 0  # characters of unfinished calls that were parsed
    _size: ReplySize = field(default_factory=ReplySize)
    _details: list[dict[str, Any]] = field(default_factory=list)

    def feed(self, chunk: Mapping[str, Any]) -> Iterator[Event]:
        """Add one chunk, or a complete completion, and yield the events to show for it.

        Raises KeyError, TypeError, ValueError or AttributeError for an invalid chunk, RequestRejected for a
        reply that is too large, and TransientError if the server broke off.
        """
        self.reply.model = reply_label(chunk.get("model") or self.reply.model or "unknown")
        self.reply.request_id = reply_label(chunk.get("id") or self.reply.request_id)
        self._count(chunk.get("usage"))
        for choice in chunk.get("choices") or ():  # Copilot: the text in one, the calls in another
            self._count(choice.get("usage"))
            whole = choice.get("message") if not self._begun else None  # MiniMax repeats the reply in it
            delta = choice.get("delta") or whole or {}
            if self._ended not in (None, self.reply.request_id) and (
                delta.get("tool_calls") or any(_texts(delta))
            ):
                raise ValueError("another message begins")
            yield from self._take(delta)
            if reason := choice.get("finish_reason"):
                label = reply_label(reason)
                if label in _BROKEN_OFF:
                    raise TransientError(f"the server broke off the reply (finish_reason {label!r})")
                self._finish()
                self._keep_details()
                self.reply.stop = _STOPS.get(label, label)
                self._ended = self.reply.request_id

    def end(self, announced: bool) -> None:
        """End the reply, which is complete if there was a stop reason, or the server announced the end."""
        if announced and self._begun:
            self._finish()
            self._keep_details()
            self.reply.stop = self.reply.stop or "end_turn"
        self.reply.complete = self.reply.stop is not None and not self._open

    def _take(self, delta: Mapping[str, Any]) -> Iterator[Event]:
        for detail in delta.get(ThinkingBlock.DETAILS) or ():
            self._add_detail(detail)
        for name in REASONING_FIELDS:
            if isinstance(thought := delta.get(name), str) and thought:
                self._extend("thinking", thought, name)
                yield ThinkingDelta(thought)
                break
        for kind, text in _texts(delta):
            self._extend(kind, text, REASONING_FIELDS[0] if kind == "thinking" else "")
            yield ThinkingDelta(text) if kind == "thinking" else TextDelta(text)
        for call in delta.get("tool_calls") or ():
            yield self._take_call(call)

    def _extend(self, kind: Literal["text", "thinking"], text: str, name: str) -> None:
        """Add text to the newest block if it has this kind, otherwise begin a block."""
        newest = next(reversed(self._open.values()), None)
        if newest is None or newest.kind != kind:
            if not self._calls:
                self._finish()
            newest = self._begin(_ChatBlock(kind, name=name))
        self._grow(newest, text)

    def _take_call(self, piece: Mapping[str, Any]) -> Event:
        function = piece.get("function") or {}
        name = str(function.get("name") or "")
        given = function.get("arguments")
        if isinstance(given, dict):
            check_shape(given)
        text = json.dumps(given) if isinstance(given, dict) else str(given or "")
        key = piece.get("index", piece.get("id"))
        if key is None and not piece.get("id") and not name and self._calls:
            key = next(reversed(self._calls))  # a server without indices continues the newest call
        call = self._calls.get(key) if key is not None else None
        is_other = call is not None and bool(piece.get("id") and call.id) and piece["id"] != call.id
        is_whole = call is not None and bool(name and text and call.size) and self._is_whole(call)
        if call is not None and is_whole and not is_other and text == call.text:
            text = ""  # some servers send a finished call again
        elif call is None or is_whole or (is_other and name):
            if not self._calls:
                self._finish()
            call = self._begin(_ChatBlock("tool input"))
            self._calls[key if key is not None else f"call {self._begun}"] = call
        call.id = call.id or str(piece.get("id") or "")
        if name != call.name and not (call.name and call.size):  # else a server repeats it
            call.name = name if name.startswith(call.name) else call.name + name
        if max(len(call.id), len(call.name)) > MAX_CALL_NAME_CHARS:
            raise ValueError(f"the name or id of a call has more than {MAX_CALL_NAME_CHARS} characters")
        if isinstance(extra := piece.get(ToolUseBlock.EXTRA_CONTENT), dict):
            check_shape(extra)
            self._size.add(len(json.dumps(extra)))
            call.extra = {ToolUseBlock.EXTRA_CONTENT: extra}
        self._grow(call, text)
        return ToolCallDelta(call.name, call.size)

    def _is_whole(self, call: _ChatBlock) -> bool:
        """Return whether the arguments of a call are a JSON object; False if too much was parsed before."""
        self._parsed += call.size
        if self._parsed > 4 * MAX_REPLY_CHARS:
            return False
        return ToolUseBlock.INVALID_JSON not in parsed_input(call.text)

    def _add_detail(self, detail: dict[str, Any]) -> None:
        """Add a piece of OpenRouter's details: texts of one kind continue each other, others stand alone."""
        check_shape(detail)
        self._size.add(len(json.dumps(detail)))
        newest = self._details[-1] if self._details else {}
        same = all(newest.get(name) == detail.get(name) for name in ("type", "index"))
        kind = next((name for name in ("text", "summary") if isinstance(detail.get(name), str)), None)
        if same and kind is not None and isinstance(newest.get(kind), str) and not newest.get("signature"):
            newest.update({**detail, kind: newest[kind] + detail[kind]})
        elif same and detail.get("signature") and not newest.get("signature"):
            newest["signature"] = detail["signature"]
        elif len(self._details) >= MAX_BLOCKS:
            raise too_large(f"more than {MAX_BLOCKS:,} details of reasoning")
        else:
            self._details.append(dict(detail))

    def _keep_details(self) -> None:
        """Keep the details of the reasoning with its first text, which is empty if they came alone."""
        if not self._details:
            return
        blocks = self.reply.blocks
        at = next((at for at, block in enumerate(blocks) if isinstance(block, ThinkingBlock)), None)
        first = blocks.pop(at) if at is not None else None
        raw = first.to_json() if first is not None else _thinking("", REASONING_FIELDS[1])
        blocks.insert(
            at or 0, block_from_json(replace_surrogates({**raw, ThinkingBlock.DETAILS: self._details}))
        )
        self._details = []

    def _begin(self, block: _ChatBlock) -> _ChatBlock:
        if self._begun >= MAX_BLOCKS:
            raise too_large(f"more than {MAX_BLOCKS:,} blocks")
        self._open[self._begun] = self.reply.pending[self._begun] = block
        self._begun += 1
        return block

    def _grow(self, block: _ChatBlock, text: str) -> None:
        self._size.add(len(text))
        block.pieces.append(text)
        block.size += len(text)

    def _finish(self) -> None:
        for number, block in self._open.items():
            self.reply.blocks.append(_finished(block, number))
        self._open.clear()
        self._calls.clear()
        self.reply.pending.clear()

    def _count(self, given: Any) -> None:
        """Update the usage: later figures replace earlier ones, missing and invalid ones are ignored."""
        usage = openai_usage(given, "prompt_tokens", "completion_tokens")
        if usage.prompt or usage.output:
            self.reply.usage = usage


def _texts(delta: Mapping[str, Any]) -> Iterator[tuple[Literal["text", "thinking"], str]]:
    """Yield the texts of a delta: its content, which may be a list of parts, or its refusal."""
    content = delta.get("content") or delta.get("refusal")
    if isinstance(content, str):
        yield "text", content
    for part in content if isinstance(content, list) else ():
        if part.get("type") == "thinking":
            yield "thinking", "".join(str(inner.get("text", "")) for inner in part.get("thinking") or ())
        elif isinstance(text := part.get("text"), str) and text:
            yield "text", text


def _thinking(text: str, name: str) -> dict[str, Any]:
    """Return a block of reasoning that was received in the field `name`."""
    return {"type": "thinking", "thinking": text, "signature": "", ThinkingBlock.UNSIGNED: name}


def _finished(block: _ChatBlock, number: int) -> Block:
    raw: dict[str, Any]
    match block.kind:
        case "tool input":
            if not block.name:
                raise ValueError("tool call without a name")
            raw = {"type": "tool_use", "id": block.id or f"call_{number}", "name": block.name}
            raw["input"] = parsed_input(block.text)
            raw.update(block.extra)
        case "thinking":
            raw = _thinking(block.text, block.name)
        case _:
            raw = {"type": "text", "text": block.text}
    return block_from_json(replace_surrogates(raw))
