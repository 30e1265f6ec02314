"""The requests of a replay as they would be sent, one JSON object per line, for pricing with other tools.

A recording contains no system prompt and no tool definitions. They are replaced by a tool for every name that
the recording calls, and by a text, so that both together have the size that replay assumes for them.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Literal

from msgspec.structs import replace

from agent.model import encode_request
from agent.model_port import ModelRequest, RequestSettings
from compact import TokenCounter
from transcripts import Message, Reply, ToolUseBlock

from .cache_simulation import FIVE_MINUTES_S
from .policies import DEFAULT_TERMS, ReplayTerms
from .simulation import Recording, Sink

DUMPED_MODEL = "claude-sonnet-5-5"
SYSTEM_SUBSTITUTE = (
    "This text replaces the system prompt of the recorded agent, which the recording does not contain. "
)


def frame_of(
    recording: Recording, counter: TokenCounter, ttl: float, terms: ReplayTerms = DEFAULT_TERMS
) -> RequestSettings:
    """Return the settings of every request of a recording: model, system prompt and tools."""
    blocks = (block for fact in recording.facts if isinstance(fact, Reply) for block in fact.blocks)
    names = dict.fromkeys(block.name for block in blocks if isinstance(block, ToolUseBlock))
    schema = {"type": "object", "additionalProperties": True}
    about = {"description": "As in the recording.", "input_schema": schema}
    tools = tuple({"name": name, **about} for name in names)
    system = _system(terms.overhead - counter.value(list(tools)), counter)
    cache: Literal["5m", "1h"] = "1h" if ttl > FIVE_MINUTES_S else "5m"
    return RequestSettings(
        DUMPED_MODEL, max_tokens=terms.max_output, system=(system,), tools=tools, thinking=True, cache=cache
    )


def dump_to(file: BinaryIO, frame: RequestSettings) -> Sink:
    """Return a sink that writes each request to `file`."""
    summary_frame = replace(frame, max_tokens=20_000)

    def write(view: Sequence[Message], breakpoints: Sequence[int], ask: str) -> None:
        request = ModelRequest(
            summary_frame if ask else frame, messages=view, cache_marks=tuple(breakpoints), instruction=ask
        )
        file.write(encode_request(request) + b"\n")

    return write


def dump_path(folder: Path, name: str, policy: str, taken: set[Path]) -> Path:
    """Return the file for the requests of a recording under a policy; adds a number to a name in `taken`."""
    stem = Path(name).stem
    number = 1
    path = folder / f"{stem}.{policy}.jsonl"
    while path in taken:
        number += 1
        path = folder / f"{stem}-{number}.{policy}.jsonl"
    taken.add(path)
    return path


def create_dump(path: Path) -> BinaryIO:
    """Open a new file for requests that only the user may read, since they contain the conversation."""
    path.unlink(missing_ok=True)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")


def _system(tokens: int, counter: TokenCounter) -> str:
    """Return a text with that number of tokens."""
    text = (SYSTEM_SUBSTITUTE * max(1, tokens // (counter.text(SYSTEM_SUBSTITUTE) + 1))).rstrip()
    while (missing := tokens - counter.text(text)) > 0:
        text += " a" * missing  # in cl100k, even when it is repeated
    return text
