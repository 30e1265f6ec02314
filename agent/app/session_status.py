"""The status line of a session, and the user's own command for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from agent.extensions.hooks import RunCommand, about_session
from agent.extensions.skills import style_in_use
from agent.loop import TurnContext, prompt_tokens
from agent.ports import Status
from agent.session import BranchWatch, Session, newest_todos
from agent.version import __version__
from compact import WindowState
from tools.processes import command_runner
from transcripts import first_words

from .own_commands import commands_within
from .services import Services
from .start_screen import start_command, starting_status

STATUS_INTERVAL_S = 0.3  # at least, from one start of the command to the next
STATUS_TIMEOUT_S = 1.0


class SessionStatus:
    """The status of a driver, computed on request.

    on_change  called when the status changes without an event; None: no screen shows the status
    """

    def __init__(self, services: Services) -> None:
        self.on_change: Callable[[], None] | None = None
        self._services = services
        self._branch = BranchWatch(services.setup.folder)
        self._command: StatusCommand | None = None
        self._of: Session | None = None
        self._looking: asyncio.Task[None] | None = None

    def now(self, session: Session | None, context: TurnContext | None) -> Status:
        """See ports.Driver.status. Without a session the status is that of the start."""
        if session is None or context is None:
            return starting_status(self._services)
        status = status_of(session, context, self._branch_name())
        status = replace(status, start_command=start_command(self._services.setup.options))
        if self.on_change is None:
            return status
        if session is not self._of:
            self._command = self._make_command(session, context)
            self._of = session
        return status if self._command is None else self._command.fill(status)

    def _branch_name(self) -> str:
        """Return the name of the branch; the screen, which does not wait for the disk, gets a newer one."""
        if self.on_change is None or self._branch.is_unread:
            return self._branch.name(self._services.setup.clock.monotonic())
        if self._looking is None:
            self._looking = asyncio.ensure_future(self._look_again())
        return self._branch.last

    async def _look_again(self) -> None:
        monotonic = self._services.setup.clock.monotonic
        await asyncio.sleep(self._branch.next_look - monotonic())
        before = self._branch.last
        changed = await asyncio.to_thread(self._branch.name, monotonic()) != before
        self._looking = None
        if changed and self.on_change is not None:
            self.on_change()

    async def end(self) -> None:
        """Stop running the status command for this session."""
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None
        if self._command is not None:
            await self._command.close()

    def _make_command(self, session: Session, context: TurnContext) -> StatusCommand | None:
        line = self._services.setup.config.status_line or self._services.approved.status_line
        if not line or context.sandbox is None or self.on_change is None:
            return None

        run = commands_within(context.sandbox, self._services.approved.files)

        def make_input(status: Status) -> dict[str, Any]:
            return status_input(status, session, context)

        return StatusCommand(line, run=run, make_input=make_input, on_change=self.on_change)


class StatusCommand:
    """Runs a command line whenever the status has changed; the first line of its output is shown.

    If it fails or takes longer than a second, the built-in status is shown with a note about that.

    make_input  returns the command's input, an object, for a status
    on_change   called when the output differs from the previous one
    """

    def __init__(
        self,
        line: str,
        run: RunCommand,
        make_input: Callable[[Status], dict[str, Any]],
        on_change: Callable[[], None],
    ) -> None:
        self._line = line
        self._run = run
        self._make_input = make_input
        self._on_change = on_change
        self._wanted: Status | None = None
        self._shown = self._trouble = ""
        self._working: asyncio.Task[None] | None = None
        self._closed = False

    def fill(self, status: Status) -> Status:
        """Return the status with the command's last output; for a new status, run the command soon."""
        if status != self._wanted and not self._closed:
            self._wanted = status
            if self._working is None or self._working.done():
                self._working = asyncio.ensure_future(self._work())
        return replace(status, own_line=self._shown, note=status.note or self._trouble)

    async def close(self) -> None:
        """Stop running the command."""
        self._closed = True
        if self._working is not None:
            self._working.cancel()
            await asyncio.gather(self._working, return_exceptions=True)

    async def _work(self) -> None:
        done = None
        while done is not self._wanted and self._wanted is not None:
            done = self._wanted
            pause = asyncio.ensure_future(asyncio.sleep(STATUS_INTERVAL_S))
            before = self._shown, self._trouble
            self._shown, self._trouble = await self._written(done)
            if (self._shown, self._trouble) != before:
                self._on_change()
            await pause

    async def _written(self, status: Status) -> tuple[str, str]:
        """Return (first line of the command's output, ""), or ("", reason) if it fails."""
        given = json.dumps(self._make_input(status), default=str)
        try:
            end = await asyncio.wait_for(self._run(self._line, given), STATUS_TIMEOUT_S)
        except TimeoutError:
            return "", f"status_line: took longer than {STATUS_TIMEOUT_S:g} s"
        except OSError as error:
            return "", f"status_line: {error.strerror or 'cannot start the command'}"
        if end.code:
            return "", f"status_line: exit code {end.code}"
        return end.out.strip("\n").partition("\n")[0].rstrip("\r"), ""


def status_input(status: Status, session: Session, context: TurnContext) -> dict[str, Any]:
    """Return the input of a status line command, an object with the field names of Claude Code."""
    tools = context.tool_context
    usage = session.folded.usage
    tokens = status.tokens or 0
    window = status.window
    used = round(100 * tokens / window) if window else 0
    sizes = {"total_input_tokens": usage.prompt, "total_output_tokens": usage.output}
    opened = session.folded.opened
    duration = max(0.0, context.clock.now() - opened.ts) if opened is not None else 0.0
    return {
        **about_session(session, tools, context.permissions),
        "hook_event_name": "Status",
        "version": __version__,
        "model": {"id": status.model, "display_name": display_name(status.model)},
        "workspace": {
            "current_dir": str(tools.cwd),
            "project_dir": str(tools.folder),
            "added_dirs": list(map(str, tools.added)),
        },
        "output_style": {"name": style_in_use(context.settings.system)},
        "cost": {"total_cost_usd": status.cost, "total_duration_ms": round(1000 * duration)},
        "context_window": {
            **sizes,
            "context_window_size": window,
            "used_percentage": used,
            "remaining_percentage": 100 - used,
        },
        "exceeds_200k_tokens": tokens > 200_000,
    }


def display_name(model: str) -> str:
    """Return a model's common name: "Sonnet 5.5" for the id `claude-sonnet-5-5`."""
    family, *version = [word for word in model.removeprefix("claude-").split("-") if len(word) < 8]
    return f"{family.capitalize()} {'.'.join(version)}".strip() if model.startswith("claude-") else model


def window_state(context: TurnContext, tokens: int) -> WindowState:
    return context.compaction.window.state(tokens, context.compaction.settings)


def status_of(session: Session, context: TurnContext, branch: str) -> Status:
    """Return the status of a session."""
    tokens = prompt_tokens(session, context) if session.folded.entries else None
    _, todos = newest_todos(session.folded) or (0, ())
    rules = context.permissions.rules
    sandbox = context.sandbox
    return Status(
        model=context.settings.model,
        tokens=tokens,
        window=context.compaction.window.size,
        state=window_state(context, tokens or 0).name,
        cost=session.cost,
        mode=rules.mode,
        accepts_edits=rules.accepts_edits,
        asks_commands=rules.asks_sandboxed or sandbox is None or sandbox.is_absent,
        session=session.sid,
        folder=str(context.tool_context.folder),
        branch=branch,
        jobs=len(command_runner(context.tool_context).running),
        agents=len(agents := context.agents.in_background if context.agents is not None else []),
        asks=next((agent.label for agent in agents if agent.asks), ""),
        priced=not session.unpriced,
        window_source=context.compaction.window_source,
        effort=context.settings.effort or "",
        unsaved=session.why_unsaved(),
        title=session.folded.name or first_words(session.folded.facts),
        spending=session.spending,
        todos=tuple((item.status, item.shown) for item in todos),
    )
