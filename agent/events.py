"""Events: what happens, told to those who watch. Plain data, a closed union; questions go through ports.

Order within a turn: TurnStarted, then for each request RequestStarted, deltas, ReplyFinished or StreamAborted
(with Retrying between tries), then ToolCallStarted, ToolCallProgress, ToolCallFinished for each call, and at
the very end exactly one TurnFinished. The others may come at any time. `emit` is synchronous and quick.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from msgspec import Struct

from transcripts import Block, Reply, Result, Usage

Reason = Literal["done", "interrupted", "failed", "max_turns", "refused", "denied", "no_answer"]
Level = Literal["info", "warning", "error"]


class TurnStarted(Struct, frozen=True):
    text: str


class RequestStarted(Struct, frozen=True):
    """A request goes out: `tokens` is the calibrated size of the prompt, `trigger` "turn" or "summary"."""

    trigger: str
    tokens: int
    attempt: int


class TextDelta(Struct, frozen=True):
    text: str


class ThinkingDelta(Struct, frozen=True):
    text: str


class ToolCallDelta(Struct, frozen=True):
    """The model is writing a call; `size` is the number of characters of its input so far."""

    name: str
    size: int


class BlockFinished(Struct, frozen=True):
    """A block of the reply under way is whole; the reply may still break off. `message` is its id."""

    block: Block
    message: str
    model: str
    usage: Usage


class RawStreamEvent(Struct, frozen=True):
    """An event of the service's stream as it came; only told where the run asks for such."""

    event: Mapping[str, Any]


class ReplyFinished(Struct, frozen=True):
    """A reply is complete and recorded."""

    reply: Reply


class StreamAborted(Struct, frozen=True):
    """The stream broke; `partial` is the text that had been shown, and is not part of the answer."""

    reason: str
    partial: str


class Retrying(Struct, frozen=True):
    """The next try, the `attempt`th of `tries`, comes in `seconds`; can be cancelled like everything else.

    `status` is that of the server's answer, None where there was none.
    """

    reason: str
    seconds: float
    attempt: int
    tries: int
    status: int | None = None


class ToolCallStarted(Struct, frozen=True):
    """A call is being prepared and run: `of` the reply's seq, `block` its place there."""

    of: int
    block: int
    name: str
    title: str


class ToolCallProgress(Struct, frozen=True):
    """The newest output of a running call, raw: control characters are escaped where it is shown."""

    of: int
    block: int
    text: str


class ToolCallFinished(Struct, frozen=True):
    """A call has its result. `denied` tells that permission was refused."""

    of: int
    block: int
    name: str
    title: str
    result: Result
    seconds: float
    denied: bool = False


class ContextCompacted(Struct, frozen=True):
    """A compaction is in force: `notice` is its line, with the numbers; `ids` undo it."""

    notice: str
    trigger: str
    ids: tuple[str, ...]
    report: Mapping[str, Any]


class Notice(Struct, frozen=True):
    """One line for the user, never for the model."""

    text: str
    level: Level = "info"


class CommandOutput(Struct, frozen=True):
    """The output of a command, never for the model. `form` says how it is to be drawn."""

    text: str
    form: Literal["plain", "markdown", "diff"] = "plain"


class ContextChart(Struct, frozen=True):
    """A chart of shares: rows of (label, tokens), out of `total`; drawn as a map of the context."""

    title: str
    rows: tuple[tuple[str, int], ...]
    total: int


class ClipboardCopy(Struct, frozen=True):
    """A text for the clipboard of the user's terminal; `words` are told once the terminal has it."""

    text: str
    words: str


class PromptReplayed(Struct, frozen=True):
    """A prompt of the session that is gone on with, shown again."""

    text: str


class EarlierMessages(Struct, frozen=True):
    """A number of messages come before those shown of a session; `events` show the newest of them.

    With a count of 0 only calls do, of the turn that is shown.
    """

    count: int
    events: tuple[Event, ...]


class ScreenSetting(Struct, frozen=True):
    """A command changes how the screen works; faces without a screen have nothing to do."""

    name: Literal["theme", "editing"]
    value: str


class PromptRestored(Struct, frozen=True):
    """The conversation went back to before this prompt: its words belong into the input, to be edited."""

    text: str


class AgentStatus(Struct, frozen=True):
    """The current state of an agent, a nested session.

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


class AgentProgress(Struct, frozen=True):
    """An agent came on: `event` is what happened within its session, None where only its status changed."""

    agent: AgentStatus
    event: Event | None = None


class TurnFinished(Struct, frozen=True):
    """The turn is over.

    error  one readable line for the user, with advice about the next step
    code   the exit code of a headless run
    cause  the error without the advice, which only a user can follow; "" where it contains none
    """

    reason: Reason
    turns: int
    error: str = ""
    code: int = 0
    cause: str = ""


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
