"""The faces of a run without a screen: `-p` with its output formats, in the shapes that wrappers know.

Only the answer goes to `out`; everything else goes to `err`. The field list of the result line is that of
claude-agent-sdk's ResultMessage. Whoever runs the turn calls `show` for each event and `finish` at the
end, on every path: the result line is written exactly once.
"""

from __future__ import annotations

import json
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TextIO

from agent import events
from transcripts.facts import Reply, Result
from transcripts.messages import ToolResultBlock, block_to_json

from .escape import gentle, one_line, strict
from .pipe_writer import PipeWriter
from .run_stats import RunDescription, RunStats, usage_fields

__all__ = ["OUTPUT_FORMATS", "OutputFormat", "RunDescription", "StandardStreams"]

# Line separators of Unicode: legal within JSON, but many readers would break the line there.
_BREAKS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}
# A format: the lines for `out` that an event (None: the beginning) brings; the bool asks for deltas.
Lines = Callable[[events.Event | None, RunStats, bool], Iterator[str]]


@dataclass(frozen=True, slots=True)
class StandardStreams:
    """Where the answer goes and where the rest goes; `partial` asks for the deltas as well."""

    out: TextIO = field(default_factory=lambda: sys.stdout)
    err: TextIO = field(default_factory=lambda: sys.stderr)
    partial: bool = False
    on_gone: Callable[[], None] = lambda: None


class OutputFormat:
    """One run in one format. `gone` tells that nobody reads any more (the exit code is then 141)."""

    def __init__(
        self,
        lines: Lines,
        setting: RunDescription,
        streams: StandardStreams,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lines = lines
        self._partial = streams.partial
        self._out = PipeWriter(streams.out, streams.on_gone)
        self._err = PipeWriter(streams.err)
        self._sums = RunStats(setting, monotonic)
        self._code: int | None = None
        self._write(None)

    @property
    def gone(self) -> bool:
        return self._out.gone

    def show(self, event: events.Event) -> None:
        """Tell one event; quick, never raises. A second TurnFinished is not told."""
        if isinstance(event, events.TurnFinished):
            if self._code is not None:
                return
            self._code = event.code
        self._sums.note(event)
        line = aside(event, calls=self._lines is text_lines)
        if line:
            self._err.line(line)
        self._write(event)

    def finish(self, code: int = 1, error: str = "the run was cut short") -> int:
        """Write the result if no TurnFinished did it, with this error; return the exit code."""
        if self._code is None:
            self.show(events.TurnFinished("failed", 0, error, code))
        return 141 if self.gone else (self._code or 0)

    def _write(self, event: events.Event | None) -> None:
        for line in self._lines(event, self._sums, self._partial):
            self._out.line(line)


def text_lines(event: events.Event | None, sums: RunStats, deltas: bool) -> Iterator[str]:
    """The final answer, and nothing else."""
    if isinstance(event, events.TurnFinished) and sums.answer:
        yield sums.answer


def json_lines(event: events.Event | None, sums: RunStats, deltas: bool) -> Iterator[str]:
    """One object at the end."""
    if isinstance(event, events.TurnFinished):
        yield encode(sums.total(event))


def stream_lines(event: events.Event | None, sums: RunStats, deltas: bool) -> Iterator[str]:
    """One object a line, as things happen; the first is the setting, the last the result."""
    if isinstance(event, events.TurnFinished):
        yield encode(sums.total(event))
        return
    found = _init(sums.setting) if event is None else _object(event, sums, deltas)
    if found is not None:
        place = {"parent_tool_use_id": None} if found["type"] in ("assistant", "user", "stream_event") else {}
        session = {"session_id": sums.setting.session, "uuid": str(uuid.uuid4())}
        yield encode({**found, **place, **session})


OUTPUT_FORMATS: Mapping[str, Callable[[RunDescription, StandardStreams], OutputFormat]] = {
    "text": partial(OutputFormat, text_lines),
    "json": partial(OutputFormat, json_lines),
    "stream-json": partial(OutputFormat, stream_lines),
}


def _object(event: events.Event, sums: RunStats, deltas: bool) -> dict[str, Any] | None:
    match event:
        case events.ReplyFinished(reply):
            return {"type": "assistant", "message": _assistant(reply, sums.setting.model)}
        case events.ToolCallFinished(of, block, _, _, result):
            use = sums.use(of, block)
            return {"type": "user", "message": _tool_result(use.id if use else "", result)}
        case events.ContextCompacted(_, trigger, ids, report):
            about = {"trigger": trigger, "ids": list(ids), **report}
            return {"type": "system", "subtype": "compact_boundary", "compact_metadata": about}
        case events.TextDelta(text) if deltas:
            return _delta("text_delta", "text", text)
        case events.ThinkingDelta(text) if deltas:
            return _delta("thinking_delta", "thinking", text)
        case _:
            return None


def _delta(kind: str, name: str, text: str) -> dict[str, Any]:
    change = {"type": "content_block_delta", "delta": {"type": kind, name: text}}
    return {"type": "stream_event", "event": change}


def encode(value: Any) -> str:
    """JSON on one line for every reader: no raw line separators of any kind."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str).translate(_BREAKS)


def aside(event: events.Event, *, calls: bool) -> str:
    """The line for people about an event, "" for none; `calls` tells each tool call too."""
    match event:
        case events.Notice(text, level):
            return gentle(text) if level == "info" else f"{level}: {gentle(text)}"
        case events.ContextCompacted(notice):
            return gentle(notice)
        case events.Retrying(reason, seconds, attempt, tries):
            return f"{one_line(reason)}; trying again in {seconds:.0f} s ({attempt} of {tries})"
        case events.ToolCallFinished(_, _, name, title, result) if calls:
            return f"● {name}  {one_line(title)}" + ("  (failed)" if result.error else "")
        case events.TurnFinished(error=error) if error:
            return f"error: {strict(error)}"
        case events.CommandOutput(text):
            return gentle(text)
        case _:
            return ""


def _init(setting: RunDescription) -> dict[str, Any]:
    return {
        "type": "system",
        "subtype": "init",
        "cwd": setting.folder,
        "model": setting.model,
        "tools": list(setting.tools),
        "permissionMode": setting.mode,
    }


def _assistant(reply: Reply, model: str) -> dict[str, Any]:
    return {
        "type": "message",
        "role": "assistant",
        "model": reply.model or model,
        "content": [block_to_json(block) for block in reply.blocks],
        "stop_reason": reply.stop,
        "usage": usage_fields(reply.usage),
    }


def _tool_result(ident: str, result: Result) -> dict[str, Any]:
    return {"role": "user", "content": [block_to_json(ToolResultBlock(ident, result.content, result.error))]}
