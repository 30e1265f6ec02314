"""The agent as the faces see it: prompts and commands in, events out.

Holds the session in use and the parts that it works with; which session that is may change (/clear,
/resume, /fork). What to do with words is decided here, how it is done elsewhere: turns in turn.py, slash
commands in commands/, which is handed in, the joining of parts in build.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from agent.events import Emit, Event, Notice, TurnFinished, TurnStarted
from agent.loop.context import TurnContext
from agent.loop.model_call import prompt_tokens
from agent.loop.turn import run_turn
from agent.permissions.rules import Mode
from agent.ports import Approver, Chooser, Status
from agent.session.environment_context import environment_context
from agent.session.scrollback import show_briefly
from agent.session.session import Session
from agent.version import __version__
from compact.window import WindowState, state_of
from transcripts.messages import Block, TextBlock

from .composition import SessionFactory, finished_jobs, running_jobs, warm_commands
from .setup import RunSetup

BLOCKED = "the context is full and automatic compaction is off: /compact makes room, /clear starts anew"
CYCLE: tuple[Mode, ...] = ("manual", "acceptEdits", "dontAsk")


class CommandTable(Protocol):
    """The slash commands. The module agent.commands is one; handed in, because commands work on the agent."""

    def described(self) -> Sequence[tuple[str, str]]:
        """(name, what it does in a few words) of each, in order."""

    def may_run_beside(self, line: str) -> bool:
        """Whether a command line may run while a turn runs."""

    async def run_command(self, agent: Controller, line: str) -> None:
        """Run a command line. What goes wrong is told, never raised."""


class Controller:
    """One conversation partner; implements ports.Driver. Where nobody can choose there is no `chooser`."""

    def __init__(
        self,
        setup: RunSetup,
        emit: Emit,
        approver: Approver,
        orders: CommandTable,
        chooser: Chooser | None = None,
    ) -> None:
        self.setup = setup
        self.chooser = chooser
        self.factory = SessionFactory(setup, emit, approver)
        self.session: Session | None = None
        self.context: TurnContext | None = None
        self.ended = False
        self.ran = 0  # commands that the person ran
        self.aside: list[str] = []  # what the person ran since the last prompt, for the next one
        self._emit = emit
        self._orders = orders
        self._ready: asyncio.Task[None] | None = None
        self._warming: asyncio.Future[None] | None = None

    @property
    def in_use(self) -> tuple[Session, TurnContext]:
        """The session and its parts; `ready` must have returned."""
        if self.session is None or self.context is None:
            raise RuntimeError("the agent is not ready yet")
        return self.session, self.context

    def emit(self, event: Event) -> None:
        self._emit(event)

    async def ready(self) -> None:
        if self._ready is None:
            self._ready = asyncio.ensure_future(self._get_ready())
        await asyncio.shield(self._ready)

    async def _get_ready(self) -> None:
        await self.factory.warm()
        for warning in self.setup.config.warnings:
            self.emit(Notice(warning, "warning"))
        self.session, self.context = await self.factory.first_session()
        self._warming = asyncio.ensure_future(warm_commands(self.context))
        if self.setup.options.headless:
            return
        if self.session.folded.entries:
            show_briefly(self.session, self.emit)
        else:
            self.emit(Notice(self._welcome()))

    def _welcome(self) -> str:
        demo = (
            "the built-in rule-based demo" if self.setup.options.offline else self.factory.provider.facts.id
        )
        return f"makeroom {__version__} with {demo} in {self.setup.folder}. /help lists commands and keys."

    async def take(self, session: Session, context: TurnContext) -> None:
        """Use another session from now on; the one before is closed and can be resumed."""
        await self.factory.leave(self.session, self.context)
        self.session, self.context = session, context
        await warm_commands(context)

    async def prompt(self, text: str) -> TurnFinished:
        """See ports.Driver."""
        await self.ready()
        session, context = self.in_use
        if self.blocked():
            ended = TurnFinished("failed", 0, BLOCKED, 1)
            self.emit(ended)
            return ended
        self.emit(TurnStarted(text))
        before = session.folded.opened
        arrived = before is None or before.folder != str(self.setup.folder) or not session.folded.entries
        self.factory.begin(session, context)
        said = session.user(self._blocks(text, arrived))
        try:
            return await run_turn(session, context, self.emit)
        except asyncio.CancelledError:
            last = session.folded.entries[-1]
            if last.seq == said.seq and not self.setup.options.headless:
                # No word of an answer: the face gives the prompt back for editing, so it is taken back here.
                session.rewound(said.seq, {"why": "interrupted before any answer"})
            task = asyncio.current_task()
            if task is not None:
                task.uncancel()
            return TurnFinished("interrupted", 0, "interrupted", 130)

    def blocked(self) -> bool:
        """Whether nothing but /compact goes on: the context is full and automatic compaction is off."""
        session, context = self.in_use
        settings = context.compaction.settings
        if settings.automatic or not session.folded.entries:
            return False
        state = state_of(prompt_tokens(session, context), context.compaction.window, settings)
        return state in (WindowState.BLOCKING, WindowState.EXHAUSTED)

    def _blocks(self, text: str, arrived: bool) -> tuple[Block, ...]:
        """A prompt and what stands before it: where we are, if we have just arrived, and what happened."""
        _, context = self.in_use
        blocks: list[Block] = []
        if arrived:
            blocks.append(TextBlock(environment_context(self.setup.folder, context.clock.now())))
        blocks.extend(TextBlock(line) for line in [*finished_jobs(context), *self.aside])
        self.aside.clear()
        blocks.append(TextBlock(text))
        return tuple(blocks)

    async def command(self, line: str) -> bool:
        """See ports.Driver."""
        await self.ready()
        await self._orders.run_command(self, line)
        return not self.ended

    def beside(self, line: str) -> bool:
        """See ports.Driver."""
        return self._orders.may_run_beside(line)

    def commands(self) -> Sequence[tuple[str, str]]:
        return self._orders.described()

    def cost(self) -> float:
        """US dollars that the session has cost so far."""
        if self.session is None:
            return 0.0
        return self.session.cost

    def cycle_mode(self) -> str:
        if self.context is None:
            return self.setup.mode
        grants = self.context.permissions
        at = CYCLE.index(grants.rules.mode) if grants.rules.mode in CYCLE else -1
        grants.set_mode(CYCLE[(at + 1) % len(CYCLE)])
        return grants.rules.mode

    def status(self) -> Status:
        """See ports.Driver."""
        folder = str(self.setup.folder)
        if self.session is None or self.context is None:
            return Status(
                self.setup.model, None, 0, "NORMAL", 0.0, self.setup.mode, "", folder, note="starting"
            )
        room = self.context.compaction
        tokens = prompt_tokens(self.session, self.context) if self.session.folded.entries else None
        state = state_of(tokens or 0, room.window, room.settings)
        return Status(
            self.context.frame.model,
            tokens,
            room.window.size,
            state.name,
            self.cost(),
            self.context.permissions.rules.mode,
            self.session.sid,
            folder,
            jobs=running_jobs(self.context),
        )

    async def close(self) -> None:
        if self._ready is not None and not self._ready.done():
            self._ready.cancel()
        if self._warming is not None:
            await asyncio.gather(self._warming, return_exceptions=True)
        await self.factory.leave(self.session, self.context)
        await self.factory.close()
