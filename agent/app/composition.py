"""The composition root: the one place where implementations are chosen and joined.

`SessionFactory` holds what outlives a session within one run of the program, and makes sessions.
"""

from __future__ import annotations

import asyncio
import dataclasses
import random
from pathlib import Path

from agent.events import Emit, Notice
from agent.loop.context import TurnContext
from agent.model.anthropic.request import RequestFrame
from agent.model.provider import Provider
from agent.ports import Approver, NoHooks
from agent.session.repository import Begun, SessionLookup, SessionRepository
from agent.session.session import Session, name_of
from agent.session.tool_definitions import same_tools, toolbox
from compact.tokens import TokenCounter, load_counter
from tools.base import Tool
from tools.jobs import announcement, jobs_of
from tools.jobs import close as close_jobs
from tools.jobs import warm as warm_jobs
from tools.read import remember
from tools.write_recovery import recover
from transcripts.facts import Opened, Result, Unthink

from .context_building import make_frame, make_grants, make_place, make_room_for, max_cost
from .hooks import CommandHooks
from .setup import RunSetup


class SessionFactory:
    """Made at once; `warm`ed when the prompt stands."""

    def __init__(self, setup: RunSetup, emit: Emit, approver: Approver) -> None:
        self.setup = setup
        self.provider = Provider(setup)
        self.counter: TokenCounter = load_counter()
        self.tools: dict[str, Tool] = {}
        self.records = SessionRepository(setup.folder, keep=not setup.options.no_session, tell=self._warn)
        self._emit = emit
        self._approver = approver

    def _warn(self, text: str) -> None:
        self._emit(Notice(text, "warning"))

    async def warm(self) -> None:
        """Everything slow: the tools, the SDK, the tokenizer's table, the model's facts."""
        await asyncio.to_thread(self._load)
        await self.provider.choose(self.setup.model)

    def _load(self) -> None:
        self.tools = toolbox()
        self.provider.connect()
        self.counter.warm()

    async def first_session(self) -> tuple[Session, TurnContext]:
        """The session that the options ask for: a new one or a named one."""
        wanted = self.setup.options.resume
        if wanted is None:
            return self.new_session()
        return self.fork_of(wanted) if self.setup.options.fork_session else self.resume(wanted)

    def new_session(self) -> tuple[Session, TurnContext]:
        return self._joined(self.records.new(self.setup.clock.now()))

    def resume(self, wanted: str) -> tuple[Session, TurnContext]:
        """A session by id, name, or the file of another agent's recording. Raises StoreError, UsageError."""
        if self.records.is_recording(wanted):
            now = self.setup.clock.now()
            return self._joined(self.records.adopt(Path(wanted).expanduser(), now, self.counter))
        return self._joined(self.records.reopen(self.records.named(wanted)))

    def fork(self, old: Session) -> tuple[Session, TurnContext]:
        """A copy of the session in use."""
        begun = self.records.copy(old.folded, self.setup.clock.now(), old.shelf)
        self.records.inherit(old.sid, begun[0])
        return self._copied(begun)

    def fork_of(self, wanted: str) -> tuple[Session, TurnContext]:
        """A copy of a recorded session, in use or not; otherwise like `resume`."""
        if self.records.is_recording(wanted):
            return self.resume(wanted)  # which makes a copy anyway
        return self._copied(self.records.fork(self.records.named(wanted), self.setup.clock.now()))

    def _copied(self, begun: Begun) -> tuple[Session, TurnContext]:
        """A copy in use, under a name that still tells it from its original."""
        session, parts = self._joined(begun)
        if name := name_of(session.folded.notes):
            session.noted("name", {"name": self.records.copy_name(name)})
        return session, parts

    def _joined(self, begun: Begun) -> tuple[Session, TurnContext]:
        sid, store, folded, shelf = begun
        session = Session(sid, store, folded, self.counter, self.setup.clock.now)
        session.masks = self.setup.masks
        session.shelf = shelf
        return session, self._parts(session)

    def _parts(self, session: Session) -> TurnContext:
        setup, facts = self.setup, self.provider.facts
        frame = make_frame(setup, facts, self.tools, session.folded.opened)
        hooks = setup.config.hooks
        parts = TurnContext(
            model=self.provider.api,
            frame=frame,
            tools=self.tools,
            tool_context=make_place(setup, session, self.records.outputs),
            approver=self._approver,
            hooks=CommandHooks(hooks, setup.folder, self._warn) if hooks else NoHooks(),
            clock=setup.clock,
            permissions=make_grants(setup),
            compaction=make_room_for(setup, facts, frame, self.counter),
            max_turns=setup.options.max_turns,
            max_cost=max_cost(setup, session),
            jitter=random.random,
            checkpoints=self.records.checkpoints(session),
        )
        parts.compaction.learned = self.provider.learn
        parts.tool_context.compact = lambda focus: setattr(parts.compaction, "focus", focus)
        parts.tool_context.library = SessionLookup(session, self.records.outputs)
        for restored in recover(parts.tool_context.journals):
            self._warn(f"{restored} was being written when an earlier run ended: it is as it was before")
        for fact in session.folded.facts:
            if isinstance(fact, Result) and fact.about:
                remember(parts.tool_context, fact.about, fact.seq)
        jobs_of(parts.tool_context).on_finish = lambda job: self._emit(
            Notice(announcement(job, parts.tool_context))
        )
        return parts

    def begin(self, session: Session, context: TurnContext) -> None:
        """Record what the session is about to work with, where that is new or has changed.

        Whatever changed (tools, model, folder, a hole in the record) makes the thinking so far unusable.
        """
        now, before = context.frame, session.folded.opened
        if before is not None and not self._changed(session, before, now):
            return
        session.open(
            now.system,
            now.tools,
            model=now.model,
            window=context.compaction.window.size,
            folder=str(self.setup.folder),
            edits=(Unthink(0, session.folded.last_seq),) if session.folded.entries else (),
            about={"holes": list(session.folded.holes)} if session.folded.holes else {},
        )

    def _changed(self, session: Session, before: Opened, now: RequestFrame) -> bool:
        if before.model != now.model or not same_tools(before.tools, now.tools):
            self._emit(Notice("the model or the tools changed: earlier thinking is left out of the context"))
            return True
        if before.folder != str(self.setup.folder):
            there = before.folder or "an unknown folder"
            text = f"this session worked in {there} so far; from now on it works in {self.setup.folder}"
            self._emit(Notice(text, "warning"))
            return True
        return list(before.about.get("holes", ())) != session.folded.holes

    async def change_model(self, session: Session, context: TurnContext, name: str) -> None:
        """Use another model from now on; the thinking so far was bound to the old one."""
        await self.provider.choose(name)
        facts, opened = self.provider.facts, session.folded.opened
        frame = make_frame(self.setup, facts, self.tools, opened)
        context.frame = dataclasses.replace(frame, without=context.frame.without)
        context.compaction = make_room_for(self.setup, facts, context.frame, self.counter)
        context.compaction.learned = self.provider.learn
        if opened is not None:
            self.begin(session, context)

    def change_effort(self, context: TurnContext, effort: str) -> None:
        """Think so hard from the next request on, also with other models and in other sessions of this run.

        Effort is no part of the prefix that thinking is bound to.
        """
        self.setup = dataclasses.replace(self.setup, options=self.setup.options._replace(effort=effort))
        context.frame = dataclasses.replace(
            context.frame, effort=effort if self.provider.facts.effort else None
        )

    async def leave(self, session: Session | None, context: TurnContext | None) -> None:
        """End what a session runs, and close its record."""
        if context is not None:
            await close_jobs(context.tool_context)
        if session is not None:
            session.close("left")

    async def close(self) -> None:
        """End what is left; nothing that we started outlives this."""
        await self.provider.close()
        self.records.close()


async def warm_commands(context: TurnContext) -> None:
    """Start what runs commands before the first one needs it."""
    await warm_jobs(context.tool_context)


def finished_jobs(context: TurnContext) -> list[str]:
    """What happened beside the conversation since the model last heard: finished background commands."""
    return [announcement(job, context.tool_context) for job in jobs_of(context.tool_context).finished()]


def running_jobs(context: TurnContext) -> int:
    return len(jobs_of(context.tool_context).running)
