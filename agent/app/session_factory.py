"""Make sessions with their contexts: new, resumed and forked ones; change a session's model and settings."""

from __future__ import annotations

import asyncio
from functools import partial

from msgspec import structs

from agent.errors import ConfigError, RequestRejected, UsageError
from agent.events import Emit, Notice
from agent.loop import ActiveSession, TurnContext, end_background_summary
from agent.ports import HookEvent
from agent.session import Session, post_command_text, record_opening, restore_news, with_command_text
from tools.processes import command_runner
from transcripts import FromElsewhere, RequestSent
from transcripts.storage import expand_home

from .agent_start import give_agents, give_skills
from .context_building import (
    build_context,
    compaction_state,
    how_to_think,
    overheads,
    request_settings,
    require_price,
)
from .options import EFFORTS
from .services import Services
from .setup import RunSetup


class SessionFactory:
    """Makes the sessions of one run from its services."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self._repository = services.repository

    async def first(self) -> ActiveSession:
        """Return the session that the options ask for: a new one or a recorded one."""
        options = self.services.setup.options
        if options.resume is None:
            return self.new()
        if options.from_elsewhere:
            return await self.adopt(options.resume)
        if options.fork_session:
            return await self.fork_of(options.resume, options.at)
        return await self.resume(options.resume)

    def new(self) -> ActiveSession:
        return self._start(self._repository.new())

    async def resume(self, wanted: str) -> ActiveSession:
        """Resume a session by id, name or the file of another agent. Raises StoreError and UsageError."""
        return self._start(await self._repository.in_thread(partial(self._resumed, wanted)))

    def _resumed(self, wanted: str) -> Session:
        if self._repository.is_recording(wanted):
            return self._repository.adopt(expand_home(wanted))
        return self._repository.reopen(self._repository.named(wanted))

    async def adopt(self, wanted: str) -> ActiveSession:
        """Resume like `resume`, a session from elsewhere in a copy. Raises StoreError and UsageError."""
        try:
            return await self.resume(wanted)
        except FromElsewhere:
            path = self._repository.named(wanted)
            return self._start(await self._repository.in_thread(partial(self._repository.adopt, path)))

    async def fork(self, session: Session) -> ActiveSession:
        """Return a copy of a session in use."""
        return self._start(await self._repository.in_thread(partial(self._repository.copy, session)))

    async def fork_of(self, wanted: str, at: int | None = None) -> ActiveSession:
        """Return a copy of a recorded session, in use or not, up to fact `at`; otherwise like `resume`."""
        if self._repository.is_recording(wanted):
            if at is not None:
                raise UsageError("--at works only with a session of this directory, not with a file")
            return await self.resume(wanted)  # makes a copy anyway
        path = self._repository.named(wanted)
        return self._start(await self._repository.in_thread(partial(self._repository.fork, path, at)))

    def _start(self, session: Session) -> ActiveSession:
        context = build_context(self.services, session)
        restore_news(session.folded, context.tool_context.inbox)
        give_agents(self.services, session, context)
        give_skills(self.services, session, context, partial(self.change_model, session, context))
        if name := self.services.setup.options.fallback_model:
            context.fall_back = partial(self._fall_back, session, context, name)
        return ActiveSession(session, context)

    async def _fall_back(self, session: Session, context: TurnContext, name: str) -> str:
        """Switch to the model of --fallback-model and return its id. Raises RequestRejected."""
        try:
            await self.change_model(session, context, name)
        except UsageError as error:
            raise RequestRejected(f"--fallback-model: {error}") from error
        return context.settings.model

    async def change_model(self, session: Session, context: TurnContext, name: str) -> None:
        """Use another model from the next request on; the thinking so far is bound to the old one.

        Waits for the response to a request in progress. Raises UsageError for an unknown model.
        """
        async with context.asking:
            await end_background_summary(context, "the model changed")
            await self._change_model(session, context, name)

    async def _change_model(self, session: Session, context: TurnContext, name: str) -> None:
        services = self.services
        before = services.selection.facts
        await services.selection.choose(name)
        try:
            require_price(services.setup, services.selection.facts)
        except UsageError:
            services.selection.facts = before
            raise
        services.fix_tools()
        context.tools = services.tools
        opened = session.folded.opened
        settings = request_settings(services, opened, context.permissions.rules)
        context.settings = settings.without(*context.settings.rejected)
        context.compaction = compaction_state(services, context.settings)
        if opened is not None:
            window = context.compaction.window.size
            folder = str(services.setup.folder)
            record_opening(session, context.settings, window, folder, services.emit)

    async def restore_choices(self, session: Session, context: TurnContext) -> None:
        """Continue with the model and the effort that a recorded session used, unless this run sets others.

        The model is used only if this provider is known to have it. The system prompt is kept too.
        """
        opened = session.folded.opened
        facts = reversed(session.folded.facts)
        asked = (fact for fact in facts if isinstance(fact, RequestSent) and not fact.instructions)
        setup = self.services.setup
        selection = self.services.selection
        name = opened.model if opened is not None else ""
        fallback = setup.options.fallback_model
        if name not in (context.settings.model, fallback) and not setup.names_model and selection.knows(name):
            await self.change_model(session, context, name)
            self.services.emit(Notice(f"resumed with model {name} (change it with /model)"))
        last = next(asked, None)
        used = last.settings if last is not None else {}
        if name == context.settings.model and "system messages" in used.get("rejected", ()):
            context.settings = context.settings.without("system messages")
        began = "\n".join(opened.system) if opened is not None else ""
        options = setup.options
        given = {"system": options.system_prompt, "append-system": options.append_system_prompt}
        for flag, text in given.items():
            if began and (text or "").strip() not in began:
                self.services.warn(
                    f"--{flag}-prompt has no effect: a resumed session keeps its system prompt"
                )
        effort = used.get("effort")
        if effort in EFFORTS and not setup.names_effort and effort != context.settings.effort:
            self.change_effort(context, effort)

    def change_effort(self, context: TurnContext, effort: str) -> None:
        """Use an effort from the next request on, for all models and sessions of this run.

        Effort is not part of the prefix that thinking is bound to.
        """
        services = self.services
        rejected = context.settings.rejected
        options = structs.replace(services.setup.options, effort=effort)
        services.setup = structs.replace(services.setup, options=options)
        thinking, effort_taken = how_to_think(services.setup, services.selection.facts)
        changed = structs.replace(context.settings, thinking=thinking, effort=effort_taken)
        context.settings = changed.without(*rejected)

    def use_settings(self, session: Session, context: TurnContext, setup: RunSetup) -> None:
        """Use other limits from the next request on, in all sessions of this run.

        Raises ConfigError or UsageError for contradictory limits and changes nothing.
        """
        services = self.services
        before = self.services.setup
        learned = dict(services.selection.learned)
        services.setup = setup
        is_other = setup.given_window != before.given_window
        if is_other:  # the user overrides sizes learned from errors, until the next such error
            services.selection.learned.clear()
        try:
            made = request_settings(services, session.folded.opened, context.permissions.rules)
            made = structs.replace(context.settings, max_tokens=made.max_tokens, cache=made.cache)
            context.compaction = compaction_state(services, made)
        except (ConfigError, UsageError):
            services.setup = before
            services.selection.learned.update(learned)
            raise
        context.settings = made.without(*made.rejected)
        if is_other:
            services.warn_of_window()


async def describe_sandbox(session: Session, context: TurnContext) -> None:
    """Describe the sandbox of commands to the model; set it up if no earlier run has found its kind.

    Otherwise the first command sets it up, and a wrong description is then corrected. Raises ConfigError if
    the settings require a sandbox and there is none.
    """
    sandbox = context.sandbox
    if sandbox is None:
        return
    is_known = await sandbox.recall()
    if not is_known or sandbox.permissions.sandbox.mode == "require":
        await sandbox.warm()
    sandbox.on_new_text = partial(_describe_commands, session, context)
    sandbox.on_new_text()


def _describe_commands(session: Session, context: TurnContext) -> None:
    """Use the text about commands in the system prompt, or as news in a session whose prompt was sent."""
    if not any(tool.kind == "runs" for tool in context.tools.values()):
        return
    text = context.sandbox.text if context.sandbox is not None else ""
    mode = context.permissions.rules.mode
    if session.folded.opened is None:
        system = with_command_text(context.settings.system, text, mode)
        settings = structs.replace(context.settings, system=system)
        context.settings = settings
        context.compaction.overhead = sum(overheads(settings, context.compaction.counter).values())
        return
    post_command_text(context.tool_context.inbox, session.folded, text, mode)


async def warn_without_sandbox(context: TurnContext, emit: Emit) -> None:
    """Set up the sandbox of commands. If there is none although it is not switched off, warn the user."""
    sandbox = context.sandbox
    if sandbox is None:
        return
    await sandbox.check()
    if sandbox.level == "none" and sandbox.permissions.sandbox.mode != "off":
        text = f"commands are not sandboxed here ({sandbox.why}) and need your approval; see /sandbox"
        emit(Notice(text, "warning"))


async def end_session(session: Session, context: TurnContext, reason: str = "other") -> None:
    """Run the hooks of a session's end, end its agents and commands, and close its transcript."""
    if context.hooks is not None:
        await context.hooks.run(HookEvent.SESSION_END, {"reason": reason})
    await end_background_summary(context, "the session ended")
    if context.agents is not None:
        await context.agents.close()
    await command_runner(context.tool_context).close()
    if context.checkpoints is not None:
        await asyncio.to_thread(context.checkpoints.catch_up)
    if context.sandbox is not None:
        await context.sandbox.close()
    session.close()
