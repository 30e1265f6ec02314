"""The requests of a replay as they would be sent, one JSON a line, for whoever wants to price them anew.

A recording holds no system prompt and no tool definitions. Here stand a text and tools in their place, made
so that both together are the 12,000 tokens that replay counts: a tool for every name that the recording
calls, and a text that says what it stands for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, Literal

from agent.model.anthropic.request import encode_request
from agent.model_port import ModelRequest, RequestSettings
from compact.tokens import TokenCounter
from transcripts.facts import Reply
from transcripts.messages import ToolUseBlock
from transcripts.view import Message

from .policies import MAX_OUTPUT
from .simulation import OVERHEAD, Recording, Sink

MODEL = "claude-sonnet-5-5"
SUMMARY_TOKENS = 20_000
STANDS_FOR = "This stands for the system prompt of the recorded agent, which the recording does not hold. "
WORD = " a"  # one token of cl100k, also behind itself


def frame_of(recording: Recording, counter: TokenCounter, ttl: float) -> RequestSettings:
    """The frame of every request of a recording."""
    tools = tuple(_tool(name) for name in _names(recording))
    room = OVERHEAD - counter.value(list(tools))
    cache: Literal["5m", "1h"] = "1h" if ttl > 300 else "5m"
    return RequestSettings(MODEL, MAX_OUTPUT, (_filler(room, counter),), tools, thinking=True, cache=cache)


def sink(file: BinaryIO, frame: RequestSettings) -> Sink:
    """A sink that writes each request to `file`."""
    asking = replace(frame, max_tokens=SUMMARY_TOKENS)

    def write(view: Sequence[Message], marks: Sequence[int], ask: str) -> None:
        request = ModelRequest(asking if ask else frame, view, tuple(marks), ask)
        file.write(encode_request(request) + b"\n")

    return write


def path_in(folder: Path, name: str, policy: str, taken: set[Path]) -> Path:
    """Where the requests of one file under one policy go; files of the same name get a number."""
    stem, number = Path(name).stem, 1
    path = folder / f"{stem}.{policy}.jsonl"
    while path in taken:
        number += 1
        path = folder / f"{stem}-{number}.{policy}.jsonl"
    taken.add(path)
    return path


def _names(recording: Recording) -> Iterable[str]:
    """The tools that are called, each once, in the order of their first call."""
    found: dict[str, None] = {}
    for fact in recording.facts:
        if isinstance(fact, Reply):
            found.update(
                dict.fromkeys(block.name for block in fact.blocks if isinstance(block, ToolUseBlock))
            )
    return found


def _tool(name: str) -> Mapping[str, Any]:
    schema = {"type": "object", "additionalProperties": True}
    return {"name": name, "description": "As in the recording.", "input_schema": schema}


def _filler(tokens: int, counter: TokenCounter) -> str:
    whole = STANDS_FOR * max(1, tokens // (counter.text(STANDS_FOR) + 1))
    text = whole.rstrip()
    while (missing := tokens - counter.text(text)) > 0:
        text += WORD * missing
    return text
