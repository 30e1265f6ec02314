"""Events: what happens, told to those who watch. Plain data, a closed union; questions go through ports.

Order within a turn: TurnStarted, then for each request RequestStarted, deltas, ReplyFinished or StreamAborted
(with Retrying between tries), then ToolCallStarted, ToolCallProgress, ToolCallFinished for each call, and at
the very end exactly one TurnFinished. The others may come at any time. `emit` is synchronous and quick.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from transcripts.facts import Reply, Result
from transcripts.messages import Block, Usage

Reason = Literal["done", "interrupted", "failed", "max_turns", "refused", "denied", "no_answer"]
Level = Literal["info", "warning", "error"]


@dataclass(frozen=True, slots=True)
class TurnStarted:
    text: str


@dataclass(frozen=True, slots=True)
class RequestStarted:
    """A request goes out: `tokens` is the calibrated size of the prompt, `trigger` "turn" or "summary"."""

    trigger: str
    tokens: int
    attempt: int


@dataclass(frozen=True, slots=True)
class TextDelta:
    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    text: str


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """The model is writing a call; `size` is the number of characters of its input so far."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class BlockFinished:
    """A block of the reply under way is whole; the reply may still break off. `message` is its id."""

    block: Block
    message: str
    model: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class RawStreamEvent:
    """An event of the service's stream as it came; only told where the run asks for such."""

    event: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ReplyFinished:
    """A reply is complete and recorded."""

    reply: Reply


@dataclass(frozen=True, slots=True)
class StreamAborted:
    """The stream broke; `partial` is the text that had been shown, and is not part of the answer."""

    reason: str
    partial: str


@dataclass(frozen=True, slots=True)
class Retrying:
    """The next try, the `attempt`th of `tries`, comes in `seconds`; can be cancelled like everything else.

    `status` is that of the server's answer, None where there was none.
    """

    reason: str
    seconds: float
    attempt: int
    tries: int
    status: int | None = None


@dataclass(frozen=True, slots=True)
class ToolCallStarted:
    """A call is being prepared and run: `of` the reply's seq, `block` its place there."""

    of: int
    block: int
    name: str
    title: str


@dataclass(frozen=True, slots=True)
class ToolCallProgress:
    """The newest output of a running call, raw: control characters are escaped where it is shown."""

    of: int
    block: int
    text: str


@dataclass(frozen=True, slots=True)
class ToolCallFinished:
    """A call has its result. `denied` tells that permission was refused."""

    of: int
    block: int
    name: str
    title: str
    result: Result
    seconds: float
    denied: bool = False


@dataclass(frozen=True, slots=True)
class ContextCompacted:
    """A compaction is in force: `notice` is its line, with the numbers; `ids` undo it."""

    notice: str
    trigger: str
    ids: tuple[str, ...]
    report: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Notice:
    """One line for the user, never for the model."""

    text: str
    level: Level = "info"


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """The output of a command, never for the model. `form` says how it is to be drawn."""

    text: str
    form: Literal["plain", "markdown", "diff"] = "plain"


@dataclass(frozen=True, slots=True)
class ContextChart:
    """A chart of shares: rows of (label, tokens), out of `total`; drawn as a map of the context."""

    title: str
    rows: tuple[tuple[str, int], ...]
    total: int


@dataclass(frozen=True, slots=True)
class ClipboardCopy:
    """A text for the clipboard of the user's terminal; `words` are told once the terminal has it."""

    text: str
    words: str


@dataclass(frozen=True, slots=True)
class PromptReplayed:
    """A prompt of the session that is gone on with, shown again."""

    text: str


@dataclass(frozen=True, slots=True)
class EarlierMessages:
    """So many messages of that session come before what is shown of it; `events` show the newest of them.

    With a count of 0 only calls do, of the turn that is shown.
    """

    count: int
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class ScreenSetting:
    """A command changes how the screen works; faces without a screen have nothing to do."""

    name: Literal["theme", "editing"]
    value: str


@dataclass(frozen=True, slots=True)
class PromptRestored:
    """The conversation went back to before this prompt: its words belong into the input, to be edited."""

    text: str


@dataclass(frozen=True, slots=True)
class AgentStatus:
    """What an agent, a nested session, is at.

    label   what people know it by; `task` is what it is to do, `doing` what it does now
    call    the id of the call that started it, `place` the reply's seq and the block of that call
    tokens  of its conversation; `requests` and `dollars` count from its beginning
    session  the id of its own session, "" until that has begun
    error    why it ended early; `stopped`: because somebody ended it
    """

    label: str
    task: str
    call: str
    place: tuple[int, int]
    doing: str
    requests: int
    tokens: int
    dollars: float
    background: bool
    ended: bool
    session: str = ""
    error: str = ""
    stopped: bool = False


@dataclass(frozen=True, slots=True)
class AgentProgress:
    """An agent came on: `event` is what happened within its session, None where only its status changed."""

    agent: AgentStatus
    event: Event | None = None


@dataclass(frozen=True, slots=True)
class TurnFinished:
    """The turn is over. `code` is the exit code a headless run ends with; `error` one readable line."""

    reason: Reason
    turns: int
    error: str = ""
    code: int = 0


Event = (
    TurnStarted
    | RequestStarted
    | TextDelta
    | ThinkingDelta
    | ToolCallDelta
    | BlockFinished
    | RawStreamEvent
    | ReplyFinished
    | StreamAborted
    | Retrying
    | ToolCallStarted
    | ToolCallProgress
    | ToolCallFinished
    | ContextCompacted
    | Notice
    | CommandOutput
    | ContextChart
    | ClipboardCopy
    | PromptReplayed
    | EarlierMessages
    | PromptRestored
    | ScreenSetting
    | AgentProgress
    | TurnFinished
)
Emit = Callable[[Event], None]
