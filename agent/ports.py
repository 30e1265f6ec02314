"""Ports: what the turn asks of the world, each with its contract. Fakes are ordinary classes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from msgspec import Struct, field

if TYPE_CHECKING:
    from compact import Spending
    from tools.base import Access, Tool

    from .events import Emit, TurnFinished
    from .menus import Menu, MenuRow


class PermissionQuestion(Struct, frozen=True):
    """The question whether a call may run. `why` says which rule asks; `prefix` is what "always" would allow.

    `preview` is plain data as in a tool's `human` ({"diff": ...} or {"text": ...}), shown with control
    characters escaped.

    Where the wall refused something to a call that ran, `refused` says what, and the question is whether the
    call may run again: outside of the wall, or within it with `through` let through. `remedy` is what would
    have allowed it where nobody is there to ask. `call` is the id of the model's call, `input` its input.
    `asker` is the agent that asks, "" for the session itself.
    """

    tool: str
    title: str
    access: tuple[Access, ...]
    why: str
    prefix: str | None
    preview: Mapping[str, Any]
    refused: str = ""
    through: str = ""
    remedy: str = ""
    call: str = ""
    input: Mapping[str, Any] = field(default_factory=dict)
    asker: str = ""


class Allow(Struct, frozen=True):
    """Approval: once, for this session, or always for the prefix in this project.

    "through" allows the blocked access permanently in this project.

    updated_input  the input to use instead; it is judged again
    updates        changes of the permissions for the rest of the session
    remark         the user's words for the model, "" for none
    """

    scope: Literal["once", "session", "always", "through"] = "once"
    updated_input: Mapping[str, Any] | None = None
    updates: tuple[PermissionUpdate, ...] = ()
    remark: str = ""


class PermissionUpdate(Struct, frozen=True):
    """A change of the permissions for the rest of the session: rules as they are written, another mode."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    mode: str | None = None


class Deny(Struct, frozen=True):
    """The answer no; the reason is for the model. `stop` ends the turn as well (the user pressed Esc).

    `unattended` tells that there was no user to ask.
    """

    reason: str = ""
    stop: bool = False
    unattended: bool = False


class Approver(Protocol):
    """Answers permission questions for the user. One question at a time; cancelling the wait withdraws it."""

    async def ask(self, question: PermissionQuestion) -> Allow | Deny: ...


class Chooser(Protocol):
    """Lets the user choose. One menu at a time; cancelling the wait withdraws it."""

    async def choose(self, menu: Menu) -> MenuRow | None:
        """The row that was chosen; None when the user wants none."""


class HookEvent(StrEnum):
    """The moments at which a hook of the user runs, by their names in the settings of Claude Code.

    What each is told, and what of its answer counts; words go to the model.
    """

    SESSION_START = "SessionStart"  # {"source"}; words
    PROMPT = "UserPromptSubmit"  # before a prompt goes to the model: {"prompt"}; veto, words
    PRE_TOOL = "PreToolUse"  # before a call: {"tool", "input", "id"}; veto, decision, updated_input, words
    POST_TOOL = "PostToolUse"  # after it: also {"output", "seconds"}; veto, updated_output, words
    POST_TOOL_FAILURE = "PostToolUseFailure"  # as POST_TOOL, after a call that failed
    NOTIFICATION = "Notification"  # the person is waited for: {"message", "type"}; nothing
    STOP = "Stop"  # when the model is done: {"answer", "again"}; a veto has it go on, with the reason
    SUBAGENT_STOP = "SubagentStop"  # when a child is done: also {"agent_id", "agent_type"}; as STOP
    PRE_COMPACT = "PreCompact"  # before history is replaced: {"trigger", "focus"}; veto, words: the focus
    POST_COMPACT = "PostCompact"  # after a compaction: {"trigger", "summary"}; nothing
    SESSION_END = "SessionEnd"  # {"reason"}; nothing


TWO_REWRITES = "two hooks changed the input of this call, each in another way; only one of them may"


class HookAnswer(Struct, frozen=True):
    """The answer of a hook: a veto with its reason, and words for the model.

    decision        before a call: "allow" saves the question to the user, "ask" has one asked in any case;
                    deny rules count nevertheless
    updated_input   before a call: the input to use instead
    stop            why the turn is to end; None: it goes on
    updated_output  after a call: what the model is shown instead of its output; None: its output
    message         for the person
    """

    veto: str | None = None
    words: str = ""
    decision: Literal["allow", "ask"] | None = None
    updated_input: Mapping[str, Any] | None = None
    stop: str | None = None
    updated_output: str | None = None
    message: str = ""

    def then(self, other: HookAnswer) -> HookAnswer:
        """Merge the answers of hooks that were asked at once: the first veto and stop count.

        "ask" beats "allow". Two inputs that differ are a veto.
        """
        decision = self.decision or other.decision
        if "ask" in (self.decision, other.decision):
            decision = "ask"
        veto = self.veto if self.veto is not None else other.veto
        if self.updated_input is not None and other.updated_input not in (None, self.updated_input):
            veto = veto or TWO_REWRITES
        return HookAnswer(
            veto=veto,
            words="\n".join(filter(None, (self.words, other.words))),
            decision=decision,
            updated_input=self.updated_input if self.updated_input is not None else other.updated_input,
            stop=self.stop if self.stop is not None else other.stop,
            updated_output=self.updated_output if other.updated_output is None else other.updated_output,
            message="\n".join(filter(None, (self.message, other.message))),
        )


class Hooks(Protocol):
    """Commands of the user that run at named moments. A hook that fails is reported, never fatal.

    One that guards a tool and could not be asked counts as a veto.
    """

    async def run(self, event: HookEvent, about: Mapping[str, Any]) -> HookAnswer: ...


class WaitingPrompts(Protocol):
    """Prompts that the user has written while a turn runs: they go with its next request."""

    def take(self) -> tuple[str, str | None] | None:
        """The next one as `Driver.prompt` takes it, which waits no longer; None: there is none."""

    def give_back(self) -> None:
        """The one that was taken last did not get into the conversation."""


class ToolSource(Protocol):
    """A source of tools: the built-in ones, a server, a directory. One value for each source of a run.

    `open` is awaited once, before `tools` and before the first session; it gets the project's folder and the
    environment of the program. A source that cannot be opened reports that itself and offers no tools; what
    it raises ends the program. `tools` is cheap, and gives the same tools in the same order until `close`.
    Names must be unique over all sources. `close` is awaited once, after the last session has ended, also
    where `open` was cancelled; it ends everything that the source started and does not raise.
    """

    @property
    def name(self) -> str:
        """The name of the source in messages."""

    async def open(self, folder: Path, environ: Mapping[str, str]) -> None: ...

    def tools(self) -> Sequence[Tool]: ...

    async def close(self) -> None: ...


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the epoch, for people and the cache clock."""

    def monotonic(self) -> float:
        """Seconds that only grow, for waits and durations."""

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's clocks."""

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)
    sleep = staticmethod(asyncio.sleep)


class Status(Struct, frozen=True):
    """The content of a status line. `tokens` is None until something was counted; `cost` in US dollars.

    `priced`: what was spent has known prices, so that `cost` is all of it. `window_source` says in words who
    told the size of the window, "" where nobody did. `todos` are (status, what to do). `own_line` is
    what the person's own command wrote, with any control characters; "" where there is none. `agents`
    are those in the background, `asks` is the name of one that waits for an answer.
    `title` is the session's name, else the beginning of its first prompt.
    `unsaved` says why the record does not take the session, "" while it does. `spending` is what `cost` is
    made of, by model, of the session and its agents; it grows.
    """

    model: str
    tokens: int | None
    window: int
    state: str
    cost: float
    mode: str
    session: str
    folder: str
    jobs: int = 0
    note: str = ""
    priced: bool = True
    window_source: str = ""
    effort: str = ""
    branch: str = ""
    todos: tuple[tuple[str, str], ...] = ()
    own_line: str = ""
    agents: int = 0
    asks: str = ""
    unsaved: str = ""
    title: str = ""
    spending: Mapping[str, Spending] = field(default_factory=dict)


class CommandSummary(Struct, frozen=True):
    """A slash command in a list: its name, one line about it, and the command that it is another name of."""

    name: str
    summary: str = ""
    alias_of: str = ""


class Driver(Protocol):
    """The agent as a face sees it: words and commands in, events out (through the `emit` it was given)."""

    def status(self) -> Status:
        """Cheap; called at every redraw."""

    def watch_status(self, on_change: Callable[[], None]) -> None:
        """Call `on_change` whenever `status` has something new that no event reports."""

    def take_prompts_from(self, waiting: WaitingPrompts) -> None:
        """Send the prompts that wait there with the requests of a running turn."""

    async def open(self) -> bool:
        """Returns when lines can be taken: what the project brings is decided.

        True: a new session was announced, without anything slow. Else `ready` has to tell what begins.
        """

    async def ready(self) -> None:
        """Opens, loads what a session needs, and returns when it has begun. What it raises ends the program.

        Whatever needs the session waits for this by itself.
        """

    def needs_session(self, line: str) -> bool:
        """Return whether a prompt or a command line waits for `ready`."""

    async def prompt(self, text: str, *, typed: str | None = None) -> TurnFinished:
        """Run one turn on the user's words. Cancelling interrupts it: the record stays valid.

        Files are attached that `typed` mentions: the words without what was pasted; None: all of them.
        """

    async def command(self, line: str) -> bool:
        """Run a slash command (or an unknown one, answered with a suggestion). False: the user leaves."""

    def may_run_during_turn(self, line: str) -> bool:
        """Return whether a command line only looks, and so may run while a turn runs."""

    def commands(self) -> Sequence[CommandSummary]:
        """List the slash commands, for completion.

        Other names of a command are listed too, and what a prompt can mention besides files, beginning
        with @.
        """

    def cycle_mode(self) -> str:
        """Go to the next permission mode and return it."""

    async def close(self) -> None:
        """End what runs, close the record."""


Factory = Callable[["Emit", Approver, Chooser | None], Awaitable[Driver]]
