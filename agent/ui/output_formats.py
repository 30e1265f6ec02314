"""The output formats of a headless run (`-p`): text, json and stream-json, in the shapes that wrappers know.

Only the answer goes to standard output; everything else goes to standard error. The fields of the result are
those of claude-agent-sdk's ResultMessage.
"""

from __future__ import annotations

import io
import json
import os
import select
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TextIO

from agent import events
from agent.errors import BudgetExceeded
from transcripts.facts import Reply, Result
from transcripts.messages import (
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    Usage,
    block_to_json,
    replace_surrogates,
)

from .render import retrying_message
from .terminal_text import escape_prose, escape_strict, one_line

BROKEN_PIPE_CODE = 141  # 128 + SIGPIPE
_SUBTYPES: Mapping[str, str] = {"done": "success", "max_turns": "error_max_turns"}
_SUBTYPES_BY_CODE: Mapping[int, str] = {BudgetExceeded.code: "error_max_budget_usd"}
# Line separators of Unicode: legal within JSON, but many readers would break the line there.
_ESCAPED_BREAKS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}


class PipeWriter:
    """Writes whole lines to a pipe or a file: UTF-8 in any locale, at once, quiet when the reader is gone.

    Lines end in LF alone, and each goes out in one piece before `line` returns, however slow the reader.
    `gone` is true once the reader has closed its end; `on_gone` is then called, once.
    """

    def __init__(self, stream: TextIO, on_gone: Callable[[], None] = lambda: None) -> None:
        self._stream = stream
        self._on_gone = on_gone
        self._fd = _descriptor(stream)
        self.gone = False

    def line(self, text: str) -> None:
        """Write the text and a newline."""
        if self.gone:
            return
        try:
            self._push(replace_surrogates(text) + "\n")
        except (BrokenPipeError, ConnectionResetError):
            self.gone = True
            self._silence()
            self._on_gone()

    def _push(self, text: str) -> None:
        if self._fd is None:
            self._stream.write(text)
            self._stream.flush()
            return
        rest = memoryview(text.encode("utf-8"))
        while rest:
            try:
                rest = rest[os.write(self._fd, rest) :]
            except BlockingIOError:  # another process made the shared descriptor non-blocking
                select.select([], [self._fd], [])

    def _silence(self) -> None:
        """Let what others still write there vanish, so that the interpreter's last flush reports nothing."""
        if self._fd is not None:
            void = os.open(os.devnull, os.O_WRONLY)
            os.dup2(void, self._fd)
            os.close(void)


def _descriptor(stream: TextIO) -> int | None:
    """The stream's descriptor; None for one in memory."""
    try:
        stream.flush()
        return stream.fileno()
    except (OSError, ValueError, io.UnsupportedOperation):
        return None


@dataclass(frozen=True, slots=True)
class RunDescription:
    """What a run is made of. `cost` gives the US dollars spent so far."""

    session: str
    folder: str
    model: str
    tools: tuple[str, ...]
    mode: str
    cost: Callable[[], float] = lambda: 0.0


@dataclass(frozen=True, slots=True)
class StandardStreams:
    """Where the answer goes and where the rest goes; `partial` asks for the deltas as well."""

    out: TextIO = field(default_factory=lambda: sys.stdout)
    err: TextIO = field(default_factory=lambda: sys.stderr)
    partial: bool = False
    on_gone: Callable[[], None] = lambda: None


class RunStats:
    """What the result sums up: usage, times, denials and the answer; keeps the last reply only."""

    def __init__(self, description: RunDescription) -> None:
        self.description = description
        self.answer = ""
        self._began_at = time.monotonic()
        self._requested_at: float | None = None
        self._api_seconds = 0.0
        self._usage = Usage()
        self._last: Reply | None = None
        self._denials: list[dict[str, Any]] = []

    def take(self, event: events.Event) -> None:
        match event:
            case events.RequestStarted():
                self._requested_at = time.monotonic()
            case events.ReplyFinished(reply):
                self._end_request()
                self._last = reply
                self._usage += reply.usage
                texts = [block.text for block in reply.blocks if isinstance(block, TextBlock) and block.text]
                self.answer = "\n\n".join(texts) or self.answer
            case events.StreamAborted():
                self._end_request()
            case events.ToolCallFinished(of, block, name, denied=True):
                use = self.tool_use(of, block)
                ident, given = (use.id, dict(use.input)) if use else ("", {})
                self._denials.append({"tool_name": name, "tool_use_id": ident, "tool_input": given})
            case _:
                pass

    def tool_use(self, of: int, block: int) -> ToolUseBlock | None:
        """The call that a result of the newest reply belongs to."""
        if self._last is None or self._last.seq != of or not 0 <= block < len(self._last.blocks):
            return None
        found = self._last.blocks[block]
        return found if isinstance(found, ToolUseBlock) else None

    def result(self, end: events.TurnFinished) -> dict[str, Any]:
        """The result object."""
        subtype = _SUBTYPES.get(end.reason) or _SUBTYPES_BY_CODE.get(end.code, "error_during_execution")
        cost, usage = self.description.cost(), self._usage
        return {
            "type": "result",
            "subtype": subtype,
            "is_error": subtype != "success",
            "duration_ms": round((time.monotonic() - self._began_at) * 1000),
            "duration_api_ms": round(self._api_seconds * 1000),
            "num_turns": end.turns,
            "result": self.answer or end.error,
            "errors": [end.error] if end.error else [],
            "session_id": self.description.session,
            "total_cost_usd": cost,
            "usage": usage_fields(usage),
            "modelUsage": {
                self.description.model: {
                    "inputTokens": usage.input,
                    "outputTokens": usage.output,
                    "cacheReadInputTokens": usage.cache_read,
                    "cacheCreationInputTokens": usage.cache_written,
                    "costUSD": cost,
                }
            },
            "permission_denials": self._denials,
            "stop_reason": self._last.stop if self._last else None,
            "uuid": str(uuid.uuid4()),
        }

    def _end_request(self) -> None:
        if self._requested_at is not None:
            self._api_seconds += time.monotonic() - self._requested_at
            self._requested_at = None


# A format: the lines of output that an event (None: the beginning) brings; the bool asks for deltas.
FormatLines = Callable[[events.Event | None, RunStats, bool], Iterator[str]]


class OutputFormat:
    """One run in one format: `show` for each event, `finish` at the end, on every path.

    The result is written exactly once.
    """

    def __init__(self, lines: FormatLines, description: RunDescription, streams: StandardStreams) -> None:
        self._lines = lines
        self._deltas = streams.partial
        self._out = PipeWriter(streams.out, streams.on_gone)
        self._err = PipeWriter(streams.err)
        self._stats = RunStats(description)
        self._code: int | None = None
        self._write(None)

    def show(self, event: events.Event) -> None:
        """Write what an event brings; quick, never raises. A second TurnFinished is left out."""
        if isinstance(event, events.TurnFinished):
            if self._code is not None:
                return
            self._code = event.code
        self._stats.take(event)
        line = stderr_line(event, with_calls=self._lines is text_lines)
        if line:
            self._err.line(line)
        self._write(event)

    def finish(self, code: int = 1, error: str = "the run was cut short") -> int:
        """Write the result if no TurnFinished did, with this error; return the exit code."""
        if self._code is None:
            self.show(events.TurnFinished("failed", 0, error, code))
        return BROKEN_PIPE_CODE if self._out.gone else (self._code or 0)

    def _write(self, event: events.Event | None) -> None:
        for line in self._lines(event, self._stats, self._deltas):
            self._out.line(line)


def text_lines(event: events.Event | None, stats: RunStats, deltas: bool) -> Iterator[str]:
    """The final answer, and nothing else."""
    if isinstance(event, events.TurnFinished) and stats.answer:
        yield stats.answer


def json_lines(event: events.Event | None, stats: RunStats, deltas: bool) -> Iterator[str]:
    """One object at the end."""
    if isinstance(event, events.TurnFinished):
        yield json_line(stats.result(event))


def stream_json_lines(event: events.Event | None, stats: RunStats, deltas: bool) -> Iterator[str]:
    """One object a line, as things happen; the first describes the run, the last is the result."""
    if isinstance(event, events.TurnFinished):
        yield json_line(stats.result(event))
        return
    found = _init_object(stats.description) if event is None else _event_object(event, stats, deltas)
    if found is not None:
        parent = (
            {"parent_tool_use_id": None} if found["type"] in ("assistant", "user", "stream_event") else {}
        )
        session = {"session_id": stats.description.session, "uuid": str(uuid.uuid4())}
        yield json_line({**found, **parent, **session})


OUTPUT_FORMATS: Mapping[str, Callable[[RunDescription, StandardStreams], OutputFormat]] = {
    "text": partial(OutputFormat, text_lines),
    "json": partial(OutputFormat, json_lines),
    "stream-json": partial(OutputFormat, stream_json_lines),
}


def stderr_line(event: events.Event, *, with_calls: bool) -> str:
    """The line for people about an event, "" for none; `with_calls` for each tool call too."""
    match event:
        case events.Notice(text, level):
            return escape_prose(text) if level == "info" else f"{level}: {escape_prose(text)}"
        case events.ContextCompacted(notice):
            return escape_prose(notice)
        case events.Retrying():
            return retrying_message(event)
        case events.ToolCallFinished(_, _, name, title, result) if with_calls:
            return f"● {name}  {one_line(title)}" + ("  (failed)" if result.error else "")
        case events.TurnFinished(error=error) if error:
            return f"error: {escape_strict(error)}"
        case events.CommandOutput(text):
            return escape_prose(text)
        case _:
            return ""


def json_line(value: Any) -> str:
    """JSON on one line for every reader: no raw line separators of any kind."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    return text.translate(_ESCAPED_BREAKS)


def usage_fields(usage: Usage) -> dict[str, int]:
    """Usage under the names of the API."""
    return {
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation_input_tokens": usage.cache_written,
    }


def _init_object(description: RunDescription) -> dict[str, Any]:
    return {
        "type": "system",
        "subtype": "init",
        "cwd": description.folder,
        "model": description.model,
        "tools": list(description.tools),
        "permissionMode": description.mode,
    }


def _event_object(event: events.Event, stats: RunStats, deltas: bool) -> dict[str, Any] | None:
    match event:
        case events.ReplyFinished(reply):
            return {"type": "assistant", "message": _assistant_message(reply, stats.description.model)}
        case events.ToolCallFinished(of, block, _, _, result):
            use = stats.tool_use(of, block)
            return {"type": "user", "message": _tool_result_message(use.id if use else "", result)}
        case events.ContextCompacted(_, trigger, ids, report):
            metadata = {"trigger": trigger, "ids": list(ids), **report}
            return {"type": "system", "subtype": "compact_boundary", "compact_metadata": metadata}
        case events.TextDelta(text) if deltas:
            return _delta_object({"type": "text_delta", "text": text})
        case events.ThinkingDelta(text) if deltas:
            return _delta_object({"type": "thinking_delta", "thinking": text})
        case _:
            return None


def _delta_object(delta: dict[str, str]) -> dict[str, Any]:
    return {"type": "stream_event", "event": {"type": "content_block_delta", "delta": delta}}


def _assistant_message(reply: Reply, model: str) -> dict[str, Any]:
    return {
        "type": "message",
        "role": "assistant",
        "model": reply.model or model,
        "content": [block_to_json(block) for block in reply.blocks],
        "stop_reason": reply.stop,
        "usage": usage_fields(reply.usage),
    }


def _tool_result_message(ident: str, result: Result) -> dict[str, Any]:
    return {"role": "user", "content": [block_to_json(ToolResultBlock(ident, result.content, result.error))]}
