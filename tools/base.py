"""The contract of a tool: what it is told, what it may touch, what it answers.

A tool is an object with the attributes of `Tool`; it is registered by its name in `tools.BUILTIN`. A tool
may raise: the corridor that calls it turns every exception but cancellation into an error result.
`ToolError` is the polite way: its text is for the model, one line what went wrong and one what to do next.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict

from transcripts.facts import StoredOutput
from transcripts.masking import SecretMasks
from transcripts.messages import Block, TextBlock, empty_mapping

from .access import Access

__all__ = [
    "Access",
    "Arguments",
    "RecordLookup",
    "SeenFile",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolError",
    "ToolResult",
    "text_result",
]


class ToolError(Exception):
    """The call cannot be done as asked; the text goes to the model as an error result."""


class Arguments(BaseModel):
    """Base of a tool's parameters; the docstrings and Field descriptions are what the model reads."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a call came to.

    `content` goes to the model. `human` is plain data for the person's screen, drawn without knowing the
    tool: {"text": str} and/or {"diff": unified diff}, {"note": one short line}. `about` is for the record
    and the pipeline: {"path", "sha256", "first", "last", "total"} of a file that was read or written,
    {"exit": code} of a command.
    """

    content: tuple[Block, ...]
    error: bool = False
    human: Mapping[str, Any] = field(default_factory=empty_mapping)
    about: Mapping[str, Any] = field(default_factory=empty_mapping)
    stored: StoredOutput | None = None


def text_result(text: str, *, error: bool = False, **more: Any) -> ToolResult:
    """An outcome of one text."""
    return ToolResult((TextBlock(text),), error=error, **more)


@dataclass(frozen=True, slots=True)
class SeenFile:
    """A file as the model last saw it: the hash of all its bytes, and the lines shown (None: all)."""

    sha256: str
    lines: tuple[int, int] | None = None
    result: int | None = None  # seq of the result that shows it, once it is recorded


class RecordLookup(Protocol):
    """The record as the recall tool sees it."""

    def original(self, id: str) -> str:
        """The original text of a recall id. Raises KeyError with the ids that are near."""

    def find(self, words: str) -> list[tuple[str, str]]:
        """(id, excerpt) of the facts that hold the words, best first."""


@dataclass(slots=True)
class ToolContext:
    """Where a session's tools work. One for each session; only tools change what is in it.

    folder    the project's root, a real path
    cwd       where the next command runs; follows `cd`
    outputs   folder for outputs that are too large for the record (made on demand, 0700)
    journals  folder for the journals of writes in place, outside the project: whatever lies there is acted on
    seen      real path -> the file as the model last saw it (read before edit)
    in_view   tells whether the result with that seq still stands in the view unchanged
    library   the record, for recall; None outside a session
    compact   asks for a compaction before the next request, with a focus
    environ   the environment that commands inherit, before credentials are taken out
    """

    folder: Path
    cwd: Path
    outputs: Path
    journals: Path
    seen: dict[str, SeenFile] = field(default_factory=dict)
    in_view: Callable[[int], bool] = lambda seq: False
    library: RecordLookup | None = None
    compact: Callable[[str], None] = lambda focus: None
    environ: Mapping[str, str] = field(default_factory=dict)
    name: str = "session"
    passed: frozenset[str] = frozenset()  # variables that commands get though they look like credentials
    locks: dict[str, Any] = field(default_factory=dict)  # real path -> asyncio.Lock: changes queue up
    masks: SecretMasks = field(default_factory=SecretMasks)  # values that no kept output may hold
    jobs: Any = None  # tools.jobs.Jobs: the background commands, made by the bash tool on first use


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call on its way: its place, its number in the record, and where it shows its progress.

    `progress` takes the newest output of long work, as raw text; it is quick and never raises.
    `ident` is "<reply seq>.<block>", free for naming files. `checkpoint` must be awaited with the real
    path before a file is changed (None where nobody keeps checkpoints).
    """

    context: ToolContext
    ident: str = "0.0"
    progress: Callable[[str], None] = lambda text: None
    checkpoint: Callable[[Path], Awaitable[None]] | None = None


class Tool(Protocol):
    """A tool. `description` and `parameters` must be byte-stable within a session."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def arguments(self) -> type[Arguments]: ...

    @property
    def parallel(self) -> bool:
        """Whether it may run beside its neighbours (it changes nothing)."""

    def title(self, arguments: Any) -> str:
        """One readable line for the screen, without the tool's name: the path, the command."""

    def touches(self, arguments: Any, context: ToolContext) -> tuple[Access, ...]:
        """What the call would do, judged before it runs, with canonical paths. May raise ToolError."""

    async def run(self, arguments: Any, call: ToolCall) -> ToolResult:
        """Do it. Cancellation must end everything it started within 0.3 s and be raised on."""
