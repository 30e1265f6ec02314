"""Events, which report to the faces what happens: plain data in a closed union. Questions go through ports.

Order within a turn: TurnStarted; for each request RequestStarted, deltas, and ReplyFinished or StreamAborted
(with Retrying between attempts); for each call ToolCallStarted, ToolCallProgress, ToolCallFinished; at the
end exactly one TurnFinished. Other events may come at any time. `emit` is synchronous and quick.
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
    """A request is sent: `tokens` is the calibrated size of the prompt, `trigger` "turn" or "summary"."""

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
    """A block of the running reply is complete; the reply may still be cut off. `message` is its id."""

    block: Block
    message: str
    model: str
    usage: Usage


class RawStreamEvent(Struct, frozen=True):
    """An unchanged event of the service's stream; only emitted if the run asks for raw events."""

    event: Mapping[str, Any]


class ReplyFinished(Struct, frozen=True):
    """A reply is complete and recorded."""

    reply: Reply


class StreamAborted(Struct, frozen=True):
    """The stream was cut off; `partial` is the text shown so far, which is not part of the answer."""

    reason: str
    partial: str


class Retrying(Struct, frozen=True):
    """The request is sent again in `seconds`, as attempt `attempt` of `tries`; the wait can be cancelled.

    status  the status of the server's answer, None if there was no answer
    left_s  seconds after which there are no more attempts, if time counts instead of their number
    """

    reason: str
    seconds: float
    attempt: int
    tries: int
    status: int | None = None
    left_s: float | None = None


class ToolCallStarted(Struct, frozen=True):
    """A call begins to run: `of` is the seq of the reply, `block` the index of the call in it."""

    of: int
    block: int
    name: str
    title: str


class ToolCallProgress(Struct, frozen=True):
    """The newest output of a running call, raw: faces escape control characters when they show it."""

    of: int
    block: int
    text: str


class ToolCallFinished(Struct, frozen=True):
    """A call has its result. `denied`: permission was denied."""

    of: int
    block: int
    name: str
    title: str
    result: Result
    seconds: float
    denied: bool = False


class ContextCompacted(Struct, frozen=True):
    """A compaction was applied: `notice` is a line with its figures, `ids` are the ids that undo it."""

    notice: str
    trigger: str
    ids: tuple[str, ...]
    report: Mapping[str, Any]


class Notice(Struct, frozen=True):
    """One line for the user, never for the model.

    `code` is the exit code of a script that ran the command which says this; an error without one is 1.
    """

    text: str
    level: Level = "info"
    code: int = 0


class CommandOutput(Struct, frozen=True):
    """The output of a command, never for the model. `form` selects the way to draw it.

    The rows of a list ("rows") are cut at the width of the screen, except the last lines, which are
    `sentences`.
    """

    text: str
    form: Literal["plain", "markdown", "diff", "rows"] = "plain"
    sentences: int = 0


class ContextChart(Struct, frozen=True):
    """A chart of the context: rows of (label, tokens) out of `total` tokens."""

    title: str
    rows: tuple[tuple[str, int], ...]
    total: int


class ClipboardCopy(Struct, frozen=True):
    """A text for the clipboard of the user's terminal; `words` is the notice once it was sent."""

    text: str
    words: str


class PromptReplayed(Struct, frozen=True):
    """A prompt of a resumed session, shown again."""

    text: str


class EarlierMessages(Struct, frozen=True):
    """A session has `count` messages before those that are shown; `events` show the newest of them.

    With a count of 0, only calls of the turn that is shown were left out.
    """

    count: int
    events: tuple[Event, ...]


class ScreenSetting(Struct, frozen=True):
    """A command changed a setting of the screen; faces without a screen ignore it."""

    name: Literal["theme", "editing"]
    value: str


class PromptRestored(Struct, frozen=True):
    """The conversation was rewound to before this prompt: its text goes back into the input for editing."""

    text: str


class AgentStatus(Struct, frozen=True):
    """The current state of an agent, a nested session.

    label    its name for users; `task` is its task, `doing` its current activity
    call     id of the call that started it; `place` is the reply's seq and the block of that call
    tokens   size of its conversation; `requests` and `dollars` are totals since its start
    session  id of its own session, "" until that was created
    error    the reason if it ended early; `stopped`: it was stopped on purpose
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
    """An agent made progress: `event` happened in its session, None if only its status changed."""

    agent: AgentStatus
    event: Event | None = None


class TurnFinished(Struct, frozen=True):
    """The turn is over.

    error  one readable line for the user, with advice about the next step
    code   the exit code of a headless run
    cause  the error without the advice, which only a user can follow; "" if it has no advice
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
