"""The controller: the agent as a face sees it, prompts and commands in, events out.

It has the session in use and its context; /clear, /resume and /fork change the session. The controller
decides what to do with a line of input. The work is done elsewhere: turns run in loop/, slash commands come
from the table passed in, and composition.py chooses implementations.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Literal, Protocol

from agent.events import Emit, Event, Notice, TurnFinished, TurnStarted
from agent.loop import (
    NO_ADDITIONS,
    ActiveSession,
    TurnContext,
    begin_summary_if_due,
    note_files,
    prompt_tokens,
    run_turn,
    show_prompt_cost,
    show_resumed,
    text_named,
    tokens_when_cold,
    track_blocks,
)
from agent.ports import Approver, Chooser, CommandSummary, HookEvent, Status, WaitingPrompts
from agent.session import (
    Environment,
    Session,
    environment_news,
    git_state,
    is_told_environment,
    note_news,
    record_opening,
)
from compact import WindowState
from tools.files import FileError, shown_cwd
from tools.processes import command_runner, new_listeners
from transcripts import Block, ChannelBlock, Entry, Prompt, Reply, Result, TextBlock, User

from .composition import make_services
from .follow_ups import hook_refuses, run_with_follow_ups
from .session_factory import SessionFactory, describe_sandbox, end_session, warn_without_sandbox
from .session_status import SessionStatus, window_state
from .setup import RunSetup, next_mode
from .start_screen import Opening, announce

BLOCKED = (
    "the context is full and automatic compaction is off. Run /compact to free context, or /clear to start"
    " a new session."
)


class CommandTable(Protocol):
    """The slash commands. The module agent.commands is one, passed in because commands use the controller."""

    def command_summaries(self) -> Sequence[CommandSummary]:
        """List the commands in order."""

    def needs_session(self, line: str) -> bool:
        """Return whether a line is a prompt, or a command that works on a session."""

    def may_run_during_turn(self, line: str) -> bool:
        """Return whether a command line may run while a turn runs."""

    def use_without_screen(self, line: str) -> Literal["words", "run", "refuse"]:
        """Return the use of a script's prompt: "words" to send, a command to "run", or one to "refuse"."""

    async def unknown_command(self, controller: Controller, line: str) -> str:
        """Return the error for a prompt that looks like a command but is not one; "" for any other."""

    async def run_command(self, controller: Controller, line: str) -> None:
        """Run a command line on a controller. Errors are emitted, never raised."""


class Controller:
    """One conversation partner; implements ports.Driver.

    chooser       None where no user can choose
    opening       an opening that was begun before there was a controller; None: there was none
    after_prompt  texts without a question since the last prompt; they are sent before the next one
    own_commands  the number of commands that the user ran with `!`
    first_mode    the permission mode in which the first session begins
    """

    def __init__(
        self,
        setup: RunSetup,
        emit: Emit,
        approver: Approver,
        command_table: CommandTable,
        chooser: Chooser | None = None,
        opening: Opening | None = None,
    ) -> None:
        self.setup = setup
        self.chooser = chooser
        self.command_table = command_table
        self.opening = opening or Opening(make_services(setup, emit, approver, chooser))
        self.services = self.opening.services
        self.services.builtin_commands = command_table.command_summaries
        self.factory = SessionFactory(self.services)
        self.session: Session | None = None
        self.context: TurnContext | None = None
        self.ended = False
        self.own_commands = 0
        self.first_mode = setup.mode
        self.after_prompt: list[TextBlock] = []
        self.emit = self.services.emit
        self._ready: asyncio.Task[None] | None = None
        self._start_hooks: asyncio.Task[None] | None = None  # finished before the first prompt is sent
        self._tracking: asyncio.Task[None] | None = None  # prepares a local summary
        self._preparing: asyncio.Task[None] | None = None  # for commands, while the user types
        self._sandboxing: asyncio.Task[None] | None = None  # while the user types
        self._status = SessionStatus(self.services)

    @property
    def in_use(self) -> ActiveSession:
        """The session and its context; `ready` must have returned."""
        if self.session is None or self.context is None:
            raise RuntimeError("the agent is not ready yet")
        return ActiveSession(self.session, self.context)

    async def open(self) -> bool:
        """See ports.Driver."""
        return await self.opening.over()

    async def ready(self) -> None:
        """See ports.Driver."""
        self._ready = self._ready or asyncio.ensure_future(self._start())
        await asyncio.shield(self._ready)

    async def _start(self) -> None:
        announced = await self.open()
        options = self.setup.options
        if options.headless and options.resume is None:
            self.services.begin_supervisor()
        await self.services.warm()
        resumed = "fork" if options.fork_session else "resume"
        source = resumed if options.resume is not None else "startup"
        session, context = await self._first_session()
        await self._begin(session, context, source)
        if not options.headless:
            self._sandboxing = asyncio.ensure_future(warn_without_sandbox(context, self.emit))
            if not announced:
                await greet(self.setup, session, context, self.emit)
        if not gc.isenabled():  # see agent.__main__.command; an embedding program keeps its own state
            gc.freeze()
            gc.enable()

    async def _first_session(self) -> ActiveSession:
        """Return the session that the options ask for: as it was left, in the mode chosen since the start."""
        session, context = await self.factory.first()
        if self.setup.options.resume is not None:
            await self.factory.restore_choices(session, context)
        self.services.warn_of_window()
        self.services.warn_of_retirement()
        if self.first_mode != self.setup.mode:
            context.permissions.set_mode(self.first_mode)
        return ActiveSession(session, context)

    async def use(self, session: Session, context: TurnContext, source: str = "resume") -> None:
        """Switch to another session, in the permission mode of the previous one, which can be resumed.

        `source` is what hooks are given.
        """
        _, before = self.in_use
        context.permissions.set_mode(before.permissions.rules.mode)  # plan mode must not end unnoticed
        await self._end_session("clear" if source == "clear" else "resume")
        if context.settings.model != (model := self.services.selection.facts.id):  # changed in the meantime
            await self.factory.change_model(session, context, model)
        await self._begin(session, context, source)

    async def _begin(self, session: Session, context: TurnContext, source: str) -> None:
        """Begin using a session: describe the sandbox for its commands, prepare for them, and run its hooks.

        Raises ConfigError if the settings require a sandbox and there is none.
        """
        self.session = session
        self.context = context
        await describe_sandbox(session, context)
        self._start_hooks = asyncio.ensure_future(ask_start_hooks(context, source))
        self._preparing = asyncio.ensure_future(prepare_for_commands(context))
        if session.folded.compactions and not self.setup.options.headless:
            self._prepare_summary(session)

    async def prompt(
        self, text: str, content: Sequence[Block] | None = None, *, typed: str | None = None
    ) -> TurnFinished:
        """See ports.Driver. `content` is all blocks of the prompt, if it is more than its text."""
        await self.ready()
        session, context = self.in_use
        if session.folded.entries and is_blocked(session, context):
            self.emit(blocked := TurnFinished("failed", turns=0, error=BLOCKED, code=1))
            return blocked
        self.emit(TurnStarted(text))
        if self._start_hooks is not None:
            await asyncio.shield(self._start_hooks)
        if session.folded.opened is None and self.services.mcp is not None:
            self.services.mcp.renew()  # servers may have connected since the session began
        user = await self._take_in(text, content, typed, self.emit)
        if isinstance(user, TurnFinished):
            return user
        if (waiting := self.services.waiting) is not None:
            context.between_requests = partial(self._take_waiting, waiting)
        try:
            form = self.services.structured
            if context.hooks is not None or form is not None:
                finished = await run_with_follow_ups(session, context, self.emit, form)
            else:
                finished = await run_turn(session, context, self.emit)
            if not self.setup.options.headless:
                await begin_summary_if_due(session, context, self.emit)
            await report_after_turn(context, self.emit, ports=not self.setup.options.headless)
            return finished
        except asyncio.CancelledError:
            return end_interrupted(session, context, user.seq, self.setup.options.headless)
        finally:
            self.services.after_turn()
            self.services.repository.cache_start(session)
            if not self.setup.options.headless:
                self._prepare_summary(session)

    def _prepare_summary(self, session: Session) -> None:
        """Read what a local summary needs while the user types, so that it is ready when it is due."""
        if self._tracking is None or self._tracking.done():
            self._tracking = asyncio.ensure_future(track_blocks(session, self.services.counter))

    async def _take_in(
        self,
        text: str,
        content: Sequence[Block] | None,
        typed: str | None,
        emit: Emit,
        *,
        joins: bool = False,
    ) -> User | TurnFinished:
        """Add a prompt, with what it mentions, to the conversation; with `joins`, during a turn.

        If the prompt is refused, the end of its turn is emitted and returned.
        """
        session, context = self.in_use
        earlier = [*self.after_prompt]
        if context.hooks is not None and (refused := await hook_refuses(context.hooks, text, earlier)):
            del self.after_prompt[: len(earlier)]
            emit(refused)
            return refused
        found = NO_ADDITIONS
        given = (TextBlock(text),) if content is None else content
        headless = self.setup.options.headless
        if "@" in (words := text if typed is None else typed) or words.startswith("/"):
            from .mentioned_files import additions_to  # 20 ms

            found = await additions_to(self.in_use, text, words=words, headless=headless, emit=emit)
            if found.ended is not None:
                return found.ended
        is_large = bool(found.blocks) or len(text) >= 8_000
        tell = emit if is_large else None  # the cost of a small prompt is not shown
        given = (ChannelBlock(SENT_MEANWHILE, introduces=True), *given) if joins else given
        blocks = await prompt_blocks(session, context, earlier, (*found.blocks, *given, *found.after), tell)
        del self.after_prompt[: len(earlier)]
        window = context.compaction.window.size
        folder = str(self.setup.folder)
        record_opening(session, context.settings, window, folder, emit)
        scripted = headless or self.setup.options.input_format != "text"
        user = session.user(blocks, joined=joins, scripted=scripted)
        if context.tool_context.inbox.changed:
            note_news(session, context.tool_context.inbox)
        if found.files:
            note_files(session, context.tool_context, user.seq, found.files)
        return user

    async def _take_waiting(self, waiting: WaitingPrompts) -> None:
        """Add the prompts that the user wrote during this turn after its results."""

        def emit(event: Event) -> None:
            """Emit an event, the end of a turn as a warning: a refused prompt does not end this turn."""
            if isinstance(event, TurnFinished):
                event = Notice(f"not sent: {event.error}", "warning")
            self.emit(event)

        while (prompt := waiting.take()) is not None:
            try:
                await self._take_in(prompt.text, None, prompt.typed, emit, joins=True)
            except asyncio.CancelledError:
                waiting.give_back()
                raise

    def take_prompts_from(self, waiting: WaitingPrompts) -> None:
        """See ports.Driver."""
        self.services.waiting = waiting

    async def command(self, line: str) -> bool:
        """See ports.Driver."""
        await (self.ready() if self.needs_session(line) else self.open())
        await self.command_table.run_command(self, line)
        return not self.ended

    def needs_session(self, line: str) -> bool:
        """See ports.Driver."""
        return self.command_table.needs_session(line)

    def may_run_during_turn(self, line: str) -> bool:
        """See ports.Driver."""
        return self.command_table.may_run_during_turn(line)

    def commands(self) -> Sequence[CommandSummary]:
        """See ports.Driver."""
        return self.services.summaries_behind(self.command_table.command_summaries())

    def cycle_mode(self) -> str:
        """See ports.Driver. Without a session, the first one begins in the next mode."""
        context = self.context
        if context is None:
            self.first_mode = next_mode(self.first_mode, self.setup)
            return self.first_mode
        mode = next_mode(context.permissions.rules.mode, self.setup)
        context.permissions.set_mode(mode)
        return mode

    def status(self) -> Status:
        """See ports.Driver."""
        return self._status.now(self.session, self.context)

    def watch_status(self, on_change: Callable[[], None]) -> None:
        """See ports.Driver."""
        self._status.on_change = on_change

    async def close(self) -> None:
        """See ports.Driver."""
        if self._ready is not None:
            self._ready.cancel()
            # A start in progress would reopen what is closed here.
            await asyncio.gather(self._ready, return_exceptions=True)
        self.opening.cancel()
        await self._end_session("other" if self.setup.options.headless else "prompt_input_exit")
        await self.services.close()

    async def _end_session(self, reason: str) -> None:
        await self._status.end()
        if self.context is not None and self.context.checkpoints is not None:
            self.context.checkpoints.abandon()
        for task in filter(None, (self._start_hooks, self._tracking, self._preparing, self._sandboxing)):
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if self.session is not None and self.context is not None:
            await end_session(self.session, self.context, reason)


async def prepare_for_commands(context: TurnContext) -> None:
    """Look at a large repository and back it up, so that the first command does not wait for all of that."""
    checkpoints = context.checkpoints
    if checkpoints is None or all(tool.kind != "runs" for tool in context.tools.values()):
        return
    checkpoints.use_git(context.tool_context)
    if await asyncio.to_thread(lambda: checkpoints.is_large):
        if context.sandbox is not None:
            await context.sandbox.check()
        work = [asyncio.to_thread(checkpoints.prepare)]
        if context.permissions.rules.sandboxed:
            work.append(command_runner(context.tool_context).guard.prepare())
        await asyncio.gather(*work)


async def ask_start_hooks(context: TurnContext, source: str) -> None:
    """Run the hooks of a session's start; their words are sent with the first prompt."""
    if context.hooks is not None:
        about = {"source": source, "model": context.settings.model}
        answer = await context.hooks.run(HookEvent.SESSION_START, about)
        if answer.words:
            context.tool_context.inbox.post(answer.introduced_words)


async def greet(setup: RunSetup, session: Session, context: TurnContext, emit: Emit) -> None:
    """Show the end of a resumed session, or announce a new one."""
    if session.folded.entries:
        await show_resumed(session, context, emit, tokens_when_cold)
    else:
        announce(setup, context.settings.model, emit)


SENT_MEANWHILE = "The user sent this while you were working:"


async def prompt_blocks(
    session: Session,
    context: TurnContext,
    earlier: Sequence[TextBlock],
    content: Sequence[Block],
    tell: Emit | None = None,
) -> tuple[Block, ...]:
    """Return a prompt's blocks, and show its cost through `tell`.

    Before its content come the environment and the pins if they are new, finished commands, cleared text
    that it names, and the texts in `earlier`. The inbox is read last, so that a cancellation loses nothing.
    """
    named = await text_named(session, context.compaction, content) if session.folded.compactions else []
    if tell is not None:
        await show_prompt_cost(session, context, (*named, *content), tell)
    tools = context.tool_context
    is_new = not is_told_environment(session.folded, tools.folder)
    git = await git_state(tools, context.compaction.window.size) if is_new else []
    environment = Environment(
        tools.folder,
        model=context.settings.model,
        cwd=shown_cwd(tools),
        commands=context.sandbox.text if context.sandbox is not None else None,
        mode=context.permissions.rules.mode,
        tools=context.tools,
    )
    news = environment_news(session.folded, environment, context.clock.now())
    before: list[TextBlock] = [*map(ChannelBlock, news), *git]
    waiting = tools.inbox.take(session.folded.last_seq + 1) if tools.inbox.waiting else ()
    before += [each for each in waiting if each not in before]
    return (*before, *named, *earlier, *content)


def end_interrupted(session: Session, context: TurnContext, prompt: int, headless: bool) -> TurnFinished:
    """End a turn whose task was cancelled, and all its agents.

    The face returns an unanswered prompt to the input for editing, so it is removed from the conversation.
    """
    if context.agents is not None:
        context.agents.interrupt()
    if context.background_summary is not None:
        context.background_summary.drop("interrupted")
    at = session.folded.conversation.index_of(prompt)
    if not headless and not any(map(_shows_answer, session.folded.entries[at + 1 :])):
        rewind_to(session, context, prompt, {"why": "interrupted before any answer"})
    if (task := asyncio.current_task()) is not None:
        task.uncancel()
    return TurnFinished("interrupted", turns=0, error="interrupted", code=130)


def _shows_answer(entry: Entry) -> bool:
    """Return whether an entry shows part of an answer, not just thinking that was cut off."""
    if isinstance(entry, Prompt):
        return entry.fact.source != "harness"  # a prompt of ours only asks for an answer
    if not all(each.is_thinking for each in entry.fact.blocks):
        return True
    return entry.fact.partial.startswith("{")  # the input of a call whose name the face has shown


def rewind_to(session: Session, context: TurnContext, prompt: int, about: Mapping[str, Any]) -> None:
    """Remove a prompt and everything after it from the conversation; news in that part is sent again."""
    session.rewound(prompt, about)
    seqs = (fact.seq for fact in reversed(session.folded.facts) if isinstance(fact, User | Reply | Result))
    context.tool_context.inbox.rewound(next(seqs, 0))
    note_news(session, context.tool_context.inbox)


async def report_after_turn(context: TurnContext, emit: Emit, ports: bool) -> None:
    """Report shared files that commands changed and, with `ports`, ports that they listen on."""
    runner = command_runner(context.tool_context)
    if not runner.has_started:
        return
    with suppress(FileError):  # the disk does not respond
        for line in await runner.guard.look_at_links():
            emit(Notice(line, "warning"))
    for port, job in (await new_listeners(runner) if ports else {}).items():
        hint = f"run /publish {port} to open it from your browser"
        emit(Notice(f"{job.id} listens on port {port} in the sandbox; {hint}"))


def is_blocked(session: Session, context: TurnContext) -> bool:
    """Return whether the context is full while automatic compaction is off."""
    if context.compaction.settings.automatic:
        return False
    state = window_state(context, prompt_tokens(session, context))
    return state in (WindowState.BLOCKING, WindowState.EXHAUSTED)
