"""The events of a turn as lines of stream-json, in the form that SDKs parse.

A line has at most MAX_FRAME_CHARS, since the SDK for Python does not accept longer ones. Long texts are
shortened there; the transcript contains them in full.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from agent import events
from agent.client_names import client_name, client_output
from agent.extensions.mcp import meant_call
from agent.permissions import client_mode
from agent.ports import Status
from agent.ui import OutputFormat, RunOutput, json_line, usage_fields
from transcripts import (
    Block,
    Reply,
    Result,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    Usage,
    map_strings,
)

TESTED_CLIENT_VERSION = "2.1.330"  # the version of Claude Code whose clients these lines were tested with
MAX_FRAME_CHARS = 1_000_000  # of the 1,048,576 that the SDK accepts; masking may lengthen a line


def init_frame(status: Status, tools: Iterable[str], details: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first line of a turn."""
    return {
        "type": "system",
        "subtype": "init",
        "cwd": status.folder,
        "model": status.model,
        "tools": [client_name(name) for name in tools],
        "mcp_servers": [],
        "permissionMode": client_mode(status.mode),
        "slash_commands": [],
        "apiKeySource": "none",
        "claude_code_version": TESTED_CLIENT_VERSION,
        "output_style": "default",
        "agents": [],
        "skills": [],
        "plugins": [],
        **details,
    }


def assistant_frame(block: Block, message_id: str, model: str, usage: Usage) -> dict[str, Any]:
    """Return the line for a finished block of a reply; the blocks of a reply are lines with the same id."""
    message = {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [client_block(block)],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage_fields(usage),
    }
    return {"type": "assistant", "message": message, "parent_tool_use_id": None}


def client_block(block: Block) -> dict[str, Any]:
    """Return a block with the clients' names of tools."""
    if isinstance(block, ThinkingBlock):
        return {"type": "thinking", "thinking": block.thinking, "signature": block.signature}
    return _with_client_name(block.to_json())


def _with_client_name(raw: Mapping[str, Any]) -> dict[str, Any]:
    is_call = raw.get("type") == "tool_use"
    if not is_call:
        return dict(raw)
    name, given = meant_call(str(raw.get("name")), raw.get("input"))
    return {**raw, "name": client_name(name), "input": given}


def partial_frame(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return the line for a raw event of the API, with the clients' names of tools."""
    if isinstance(begun := event.get("content_block"), Mapping):
        event = {**event, "content_block": _with_client_name(begun)}
    return {"type": "stream_event", "event": event, "parent_tool_use_id": None}


def partial_events(reply: Reply, model: str) -> Iterator[dict[str, Any]]:
    """Yield stream events for a reply of an API without these events; each block is one piece."""
    usage = usage_fields(reply.usage)
    message = {"id": f"msg_r{reply.seq}", "type": "message", "role": "assistant", "model": model}
    yield {"type": "message_start", "message": {**message, "content": [], "usage": usage}}
    for index, block in enumerate(reply.blocks):
        raw = client_block(block)
        empty, delta = _begun_and_rest(raw)
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        if delta:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ended = {"stop_reason": reply.stop, "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": usage}
    yield {"type": "message_stop"}


def _begun_and_rest(raw: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a block at its beginning, and the delta that completes it; {} if it is already complete."""
    match raw["type"]:
        case "text":
            return {**raw, "text": ""}, {"type": "text_delta", "text": raw["text"]}
        case "thinking":
            return {**raw, "thinking": ""}, {"type": "thinking_delta", "thinking": raw["thinking"]}
        case "tool_use":
            return {**raw, "input": {}}, {
                "type": "input_json_delta",
                "partial_json": json.dumps(raw["input"]),
            }
    return raw, {}


def result_frame(use: ToolUseBlock | None, result: Result) -> dict[str, Any]:
    """Return the line for the result of a call, a message of the user as the model gets it."""
    raw = ToolResultBlock(use.id if use else "", content=result.content, is_error=result.error).to_json()
    message = {"role": "user", "content": [{**raw, "is_error": result.error}]}
    text = "\n".join(block.text for block in result.content if isinstance(block, TextBlock))
    about: object = None
    if result.error:
        about = f"Error: {text}"
    elif use is not None:
        about = client_output(use.name, text)
    extra = {} if about is None else {"tool_use_result": about}
    return {"type": "user", "message": message, "parent_tool_use_id": None, **extra}


def compaction_frame(event: events.ContextCompacted) -> dict[str, Any]:
    """Return the line for a compaction."""
    trigger = "manual" if event.trigger == "manual" else "auto"
    report = event.report
    sizes = {"pre_tokens": report.get("before"), "post_tokens": report.get("after")}
    metadata = {**report, **sizes, "trigger": trigger, "reason": event.trigger, "ids": list(event.ids)}
    return {"type": "system", "subtype": "compact_boundary", "compact_metadata": metadata}


def retry_frame(event: events.Retrying) -> dict[str, Any]:
    """Return the line for a request that will be sent again."""
    return {
        "type": "system",
        "subtype": "api_retry",
        "attempt": event.attempt - 1,
        "max_retries": event.tries - 1,
        "retry_delay_ms": round(event.seconds * 1000),
        "error_status": event.status,
        "error": event.reason,
    }


def denial_frame(use: ToolUseBlock, result: Result) -> dict[str, Any]:
    """Return the line for a denied call."""
    text = next((block.text for block in result.content if isinstance(block, TextBlock)), "")
    details = {"tool_name": client_name(use.name), "tool_use_id": use.id, "message": text}
    return {"type": "system", "subtype": "permission_denied", **details}


class NestedFrames:
    """The lines about agents, with the ids of the calls that started them. `run` decides how many."""

    def __init__(self, run: RunOutput) -> None:
        self._run = run
        self._replies: dict[str, Reply] = {}  # the newest of each agent
        self._begun: set[str] = set()

    def frames(self, progress: events.AgentProgress) -> Iterator[dict[str, Any]]:
        """Yield the lines about one event."""
        agent = progress.agent
        if agent.session and agent.label not in self._begun:
            self._begun.add(agent.label)
            yield {**_task_frame("task_started", agent), "task_type": "local_agent"}
        for frame in self._frames_of(agent, progress.event):
            yield {**frame, "parent_tool_use_id": agent.call or None}
        if agent.ended and agent.label in self._begun:
            self._begun.discard(agent.label)
            self._replies.pop(agent.label, None)
            unfinished = "stopped" if agent.stopped else "failed"
            status = unfinished if agent.error else "completed"
            ended = {"status": status, "summary": agent.error or agent.task, "output_file": ""}
            yield {**_task_frame("task_notification", agent), **ended}

    def _frames_of(self, agent: events.AgentStatus, event: events.Event | None) -> Iterator[dict[str, Any]]:
        match event:
            case events.ReplyFinished(reply):
                self._replies[agent.label] = reply
                model = reply.model or self._run.started.model
                for block in filter(self._is_reported, reply.blocks):
                    yield assistant_frame(block, f"msg_r{reply.seq}", model, reply.usage)
            case events.ToolCallFinished(of, block, _, _, result):
                newest = self._replies.get(agent.label)
                use = newest.blocks[block] if newest is not None and newest.seq == of else None
                yield result_frame(use if isinstance(use, ToolUseBlock) else None, result)

    def _is_reported(self, block: Block) -> bool:
        return self._run.tells_agents_whole or isinstance(block, ToolUseBlock)


def _task_frame(subtype: str, agent: events.AgentStatus) -> dict[str, Any]:
    about = {"task_id": agent.session, "tool_use_id": agent.call or None, "description": agent.task}
    return {"type": "system", "subtype": subtype, **about}


class StreamJsonFormat(OutputFormat):
    """One object a line, as events happen; the first line of a turn describes it, the last is its result."""

    def __init__(self, run: RunOutput) -> None:
        super().__init__(run)
        self._written_blocks = 0  # of the current reply
        self._agents = NestedFrames(run)
        self._reported_mode = ""

    def begin_turn(self) -> None:
        self._reported_mode = self.run.started.mode
        self.write(init_frame(self.run.started, self.run.tools, self.run.details))

    def show(self, event: events.Event) -> None:  # noqa: C901  one case for each kind
        run = self.run
        match event:
            case events.TurnFinished():
                run.out.line(fitting_line(run.result(event)))
            case events.RequestStarted(trigger):
                self._written_blocks = 0
                if trigger == "summary":
                    self.write({"type": "system", "subtype": "status", "status": "compacting"})
            case events.BlockFinished(block, message, model, usage):
                self._written_blocks += 1
                self.write(assistant_frame(block, message, model, usage))
            case events.RawStreamEvent(raw):
                self.write(partial_frame(raw))
            case events.ReplyFinished(reply):
                self._tell_reply(reply)
            case events.ToolCallFinished(of, block, _, _, result, _, denied):
                use = run.tool_use(of, block)
                if denied and use is not None:
                    self.write(denial_frame(use, result))
                self.write(result_frame(use, result))
                self._tell_mode()
            case events.ContextCompacted():
                self.write(compaction_frame(event))
            case events.Retrying():
                self.write(retry_frame(event))
            case events.AgentProgress():
                for frame in self._agents.frames(event):
                    self.write(frame)

    def _tell_mode(self) -> None:
        """Write the permission mode if it has changed, for example by an approved plan."""
        mode = self.run.status().mode
        if mode != self._reported_mode:
            self._reported_mode = mode
            state = {"status": None, "permissionMode": client_mode(mode)}
            self.write({"type": "system", "subtype": "status", **state})

    def _tell_reply(self, reply: Reply) -> None:
        """Write the blocks of a reply that were not written as they arrived."""
        model = reply.model or self.run.started.model
        if self.run.partial and not self._written_blocks:
            for event in partial_events(reply, model):
                self.write(partial_frame(event))
        for block in reply.blocks[self._written_blocks :]:
            self.write(assistant_frame(block, f"msg_r{reply.seq}", model, reply.usage))
        self._written_blocks = 0

    def write(self, frame: Mapping[str, Any]) -> None:
        """Write a line about the session."""
        source = {"session_id": self.run.started.session, "uuid": str(uuid.uuid4())}
        self.run.out.line(fitting_line({**frame, **source}))


def fitting_line(frame: Mapping[str, Any]) -> str:
    """Return a frame as one line of at most MAX_FRAME_CHARS, with long texts shortened as needed."""
    line = json_line(frame)
    for size in (200_000, 20_000, 2_000, 200):
        if len(line) <= MAX_FRAME_CHARS:
            break
        line = json_line(map_strings(_without_images(frame), _shortener(size), keys=False))
    return line


def _shortener(size: int) -> Callable[[str], str]:
    def shortened(text: str) -> str:
        if len(text) <= size:
            return text
        return f"{text[:size]}\n[... {len(text) - size:,} more characters omitted from this line]"

    return shortened


def _without_images(value: Any) -> Any:
    """Return a value with a text instead of each image, which cannot be shortened."""
    if isinstance(value, Mapping):
        if value.get("type") == "image":
            return {"type": "text", "text": "[image omitted from this line]"}
        return {key: _without_images(item) for key, item in value.items()}
    return [_without_images(item) for item in value] if isinstance(value, list | tuple) else value
