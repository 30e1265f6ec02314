"""Ports, through which a turn asks for something from outside, each with its contract.

Fakes in tests are ordinary classes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from msgspec import Struct, field

from tools.user_questions import Preview

if TYPE_CHECKING:
    from compact import Spending
    from tools.base import Access, Tool

    from .events import Emit, TurnFinished
    from .menus import Menu, MenuRow


# The cause of a question, for those who show it in another way than by the reason: an edit, a path outside
# the project, an irreversible command, a line that is not proved read-only.
Cause = Literal["", "edit", "outside", "irreversible", "unproved"]


class PermissionQuestion(Struct, frozen=True):
    """The question whether a call may run.

    `why` is the reason, `cause` its kind, for those who show an edit by its diff or a place outside the
    project next to the path. `prefix` is the rule that "always" would add.
    If the sandbox blocked an access of a call, `refused` names it, and the question is whether to run the
    call again: without the sandbox, or in it with the access `through` allowed. `remedy` is the flag that
    would have allowed it, for runs without a user. `call` is the id of the model's call, `input` its input.
    `asker` is the agent that asks, "" for the session itself. With `once` a rule requires approval each time,
    so none can be given for longer. With `waits` the call runs, and its connection waits for the answer.
    `port` is the port of this machine (`localhost:5432`) that commands could reach then. With `outside` the
    call would run outside the sandbox that other commands run in.
    """

    tool: str
    title: str
    access: tuple[Access, ...]
    why: str
    prefix: str | None
    preview: Preview
    cause: Cause = ""
    refused: str = ""
    through: str = ""
    remedy: str = ""
    call: str = ""
    input: Mapping[str, Any] = field(default_factory=dict)
    asker: str = ""
    once: bool = False
    waits: bool = False
    port: str = ""
    outside: bool = False


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
    """A change of the permissions for the rest of the session: rules in their written form, or a mode."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    mode: str | None = None


class Deny(Struct, frozen=True):
    """Denial; the reason is for the model. `stop` ends the turn as well (the user pressed Esc).

    `unattended`: there was no user to ask.
    """

    reason: str = ""
    stop: bool = False
    unattended: bool = False


class Approver(Protocol):
    """Answers permission questions, one at a time. Cancelling the wait withdraws the question."""

    async def ask(self, question: PermissionQuestion) -> Allow | Deny: ...


class Chooser(Protocol):
    """Lets the user choose from a menu, one at a time. Cancelling the wait withdraws the menu."""

    async def choose(self, menu: Menu) -> MenuRow | None:
        """Return the chosen row; None if the user cancels."""


class HookEvent(StrEnum):
    """The events that run the user's hooks, by their names in the settings of Claude Code.

    Each comment names the fields of the hook's input and the parts of its answer that count; words go to the
    model.
    """

    SESSION_START = "SessionStart"  # {"source"}; words
    PROMPT = "UserPromptSubmit"  # before a prompt goes to the model: {"prompt"}; veto, words
    PRE_TOOL = "PreToolUse"  # before a call: {"tool", "input", "id"}; veto, decision, updated_input, words
    POST_TOOL = "PostToolUse"  # after it: also {"output", "seconds"}; veto, updated_output, words
    POST_TOOL_FAILURE = "PostToolUseFailure"  # as POST_TOOL, after a call that failed
    NOTIFICATION = "Notification"  # makeroom waits for the user: {"message", "type"}; nothing
    STOP = "Stop"  # when the model is done: {"answer", "again"}; a veto makes it continue, with the reason
    SUBAGENT_STOP = "SubagentStop"  # when an agent is done: also {"agent_id", "agent_type"}; as STOP
    PRE_COMPACT = "PreCompact"  # before history is replaced: {"trigger", "focus"}; veto, words: the focus
    POST_COMPACT = "PostCompact"  # after a compaction: {"trigger", "summary"}; nothing
    SESSION_END = "SessionEnd"  # {"reason"}; nothing


TWO_REWRITES = "two hooks changed the input of this call in different ways; only one of them may change it"


class HookAnswer(Struct, frozen=True):
    """The answer of a hook: a veto with its reason, and words for the model.

    decision        before a call: "allow" skips the question to the user, "ask" always asks it; deny rules
                    apply in any case
    updated_input   before a call: the input to use instead
    stop            the reason to end the turn; None: it continues
    updated_output  after a call: the output that the model gets instead; None: the real output
    message         for the user
    """

    veto: str | None = None
    words: str = ""
    decision: Literal["allow", "ask"] | None = None
    updated_input: Mapping[str, Any] | None = None
    stop: str | None = None
    updated_output: str | None = None
    message: str = ""

    @property
    def introduced_words(self) -> str:
        """The words as the model gets them; "" if there are none."""
        return f"A hook of the user says:\n{self.words}" if self.words else ""

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
    """Commands of the user that run at certain events. A hook that fails is reported, never fatal.

    A hook that guards a tool and could not run counts as a veto.
    """

    async def run(self, event: HookEvent, about: Mapping[str, Any]) -> HookAnswer: ...


class WaitingPrompt(NamedTuple):
    """A prompt in the queue, and what the user typed for it; None: the same."""

    text: str
    typed: str | None


class WaitingPrompts(Protocol):
    """Prompts that the user sent while a turn runs: they are added to its next request."""

    def take(self) -> WaitingPrompt | None:
        """Take the next one from the queue; None: the queue is empty."""

    def give_back(self) -> None:
        """Put back the one taken last, which did not get into the conversation."""


class ToolSource(Protocol):
    """A source of tools: the built-in ones, a server, a directory. One value for each source of a run.

    `open` is awaited once, before `tools` and before the first session; it gets the project's directory and
    the program's environment variables. A source that cannot be opened reports that itself and offers no
    tools; an exception ends the program. `tools` is cheap, and returns the same tools in the same order until
    `close`. Names must be unique over all sources. `close` is awaited once, after the last session has ended,
    even if `open` was cancelled; it ends everything that the source started and does not raise.
    """

    @property
    def name(self) -> str:
        """Return the name of the source in messages."""

    async def open(self, folder: Path, environ: Mapping[str, str]) -> None: ...

    def tools(self) -> Sequence[Tool]: ...

    async def close(self) -> None: ...


class Clock(Protocol):
    def now(self) -> float:
        """Return seconds since the epoch, for dates and the age of the cache."""

    def monotonic(self) -> float:
        """Return seconds that never decrease, for waits and durations."""

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's clocks."""

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)
    sleep = staticmethod(asyncio.sleep)


class Status(Struct, frozen=True):
    """The content of a status line. `tokens` is None until tokens were counted; `cost` is in US dollars.

    priced         all prices are known, so `cost` is complete
    window_source  where the size of the context window comes from, in words; "" if it is a default
    todos          pairs of (status, text)
    own_line       the output of the user's status command, with any control characters; "" without one
    agents         number of agents in the background; `asks` is the name of one that waits for an answer
    title          the session's name, or the beginning of its first prompt
    unsaved        why the session transcript cannot be written, "" while it can
    start_command  the command to resume the session with, without the flag for it: "makeroom --offline "
    spending       the parts of `cost` by model, of the session and its agents; never decreases
    accepts_edits  a rule allows all edits, whatever the mode
    asks_commands  commands need approval in the modes that ask, unless they are known to be read-only
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
    start_command: str = "makeroom "
    agents: int = 0
    asks: str = ""
    unsaved: str = ""
    title: str = ""
    spending: Mapping[str, Spending] = field(default_factory=dict)
    accepts_edits: bool = False
    asks_commands: bool = False


class CommandSummary(Struct, frozen=True):
    """A slash command in a list: its name, a one-line summary, and the command that it is an alias of.

    `words` are those that its arguments may begin with.
    """

    name: str
    summary: str = ""
    alias_of: str = ""
    words: tuple[str, ...] = ()


class Driver(Protocol):
    """The agent as a face sees it: prompts and commands in, events out (through the `emit` it was given)."""

    def status(self) -> Status:
        """Return the current status. Cheap: called at every redraw."""

    def watch_status(self, on_change: Callable[[], None]) -> None:
        """Call `on_change` whenever `status` changes without an event."""

    def take_prompts_from(self, waiting: WaitingPrompts) -> None:
        """Add the prompts that wait there to the requests of a running turn."""

    async def open(self) -> bool:
        """Return when lines can be taken: the user has decided about the project's hooks and servers.

        True if a new session was announced, without any slow work. Otherwise `ready` announces the session.
        """

    async def ready(self) -> None:
        """Open, load what a session needs, and return when it has begun. An exception ends the program.

        Other methods that need the session wait for this by themselves.
        """

    def needs_session(self, line: str) -> bool:
        """Return whether a prompt or a command line waits for `ready`."""

    async def prompt(self, text: str, *, typed: str | None = None) -> TurnFinished:
        """Run one turn on a prompt. Cancelling interrupts it; the session transcript stays valid.

        Files that `typed` mentions are attached: the prompt without pasted text; None: the whole prompt.
        """

    async def command(self, line: str) -> bool:
        """Run a slash command; suggest another for an unknown one. Return False if the user leaves."""

    def may_run_during_turn(self, line: str) -> bool:
        """Return whether a command line is read-only and so may run during a turn."""

    def commands(self) -> Sequence[CommandSummary]:
        """List the slash commands, for completion.

        The list includes aliases, and names that a prompt can mention besides files, which begin with @.
        """

    def cycle_mode(self) -> str:
        """Switch to the next permission mode and return it."""

    async def close(self) -> None:
        """End all running work and close the session transcript."""


Factory = Callable[["Emit", Approver, Chooser | None], Awaitable[Driver]]
