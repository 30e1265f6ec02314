"""The agent that an editor talks to: sessions, each with a controller of its own, and their prompts."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

from acp import PROTOCOL_VERSION, Agent, Client, RequestError, run_agent
from acp.schema import (
    AgentCapabilities,
    AudioContentBlock,
    AuthenticateResponse,
    AvailableCommand,
    AvailableCommandInput,
    ClientCapabilities,
    CloseSessionResponse,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    Implementation,
    InitializeResponse,
    ListSessionsResponse,
    LoadSessionResponse,
    McpCapabilities,
    NewSessionResponse,
    PromptCapabilities,
    PromptResponse,
    ResourceContentBlock,
    SessionCapabilities,
    SessionCloseCapabilities,
    SessionInfo,
    SessionListCapabilities,
    SessionMode,
    SessionModeState,
    SetSessionModeResponse,
    StopReason,
    TextContentBlock,
    UnstructuredCommandInput,
)

from agent.app import Controller, RunSetup, offered_modes, usable_content
from agent.commands import find_command
from agent.errors import AgentError, AuthenticationError, UsageError, exit_code_of
from agent.events import Emit, TurnFinished
from agent.exit_signals import ExitSignal
from agent.ports import Approver
from agent.version import __version__
from transcripts import ProjectRecords, StoreError

from .approver import EditorApprover
from .contents import PromptContent, ServerOfClient, prompt_content, server_config
from .updates import SessionUpdates

MAX_MESSAGE_BYTES = 256 * 1024 * 1024  # images are part of a message
MODES = {
    mode.id: mode
    for mode in (
        SessionMode(id="manual", name="Manual", description="Ask before edits and unsandboxed commands"),
        SessionMode(id="acceptEdits", name="Accept edits", description="Edit files without asking"),
        SessionMode(id="plan", name="Plan", description="Explore and plan, change nothing"),
        SessionMode(id="dontAsk", name="Don't ask", description="Deny what is not allowed by a rule"),
        SessionMode(
            id="bypassPermissions", name="Bypass permissions", description="Run everything without asking"
        ),
    )
}
STOP_REASONS: dict[str, StopReason] = {
    "interrupted": "cancelled",
    "max_turns": "max_turn_requests",
    "refused": "refusal",
}


class SessionWish(NamedTuple):
    """An editor's request for a session: directory, more directories, MCP servers, the id to resume."""

    folder: str
    added: tuple[str, ...] = ()
    servers: str = ""
    resume: str | None = None


T = TypeVar("T")
MakeSetup = Callable[[SessionWish], RunSetup]
MakeController = Callable[[RunSetup, Emit, Approver], Controller]


class EditorSession:
    """One session of the editor, which knows it as `ident` once it has begun."""

    def __init__(self, client: Client, setup: RunSetup, make_controller: MakeController) -> None:
        mask = setup.masks.text
        self.setup = setup
        self.updates = SessionUpdates(client, mask)
        self.approver = EditorApprover(client, self.updates, mask)
        self.controller = make_controller(setup, self.updates.show, self.approver)
        self.ident = ""
        self.updates.in_use = lambda: self.controller.in_use
        self.updates.status = self.controller.status
        self._prompts: set[asyncio.Task[TurnFinished]] = set()
        self._one_at_a_time = asyncio.Lock()

    async def begin(self, ident: str = "") -> None:
        """Start the session under the given id, else under its own."""
        await self.controller.ready()
        self.ident = ident or self.controller.status().session
        self.approver.session = self.ident

    def introduce(self) -> None:
        """Send the commands and other state of the session, once the editor knows its id."""
        self.updates.send_commands(self.commands())
        self.updates.send_state()
        self.updates.outbox.begin(self.ident)

    def modes(self) -> SessionModeState:
        """Return the permission modes, and the current one."""
        current = self.controller.status().mode
        ids = dict.fromkeys((*offered_modes(self.setup), current))
        return SessionModeState(current_mode_id=current, available_modes=[MODES[id] for id in ids])

    def commands(self) -> list[AvailableCommand]:
        """Return the slash commands that work without a screen."""
        controller = self.controller
        hints = {one.name: one.hint for one in controller.services.skills.for_users()}
        found = []
        for one in controller.commands():
            use = controller.command_table.use_without_screen(f"/{one.name}")
            if one.alias_of or one.name.startswith("@") or use == "refuse":
                continue
            own = find_command(one.name)
            hint = own.usage if own is not None else hints.get(one.name, "")
            taken = AvailableCommandInput(UnstructuredCommandInput(hint=hint)) if hint else None
            found.append(AvailableCommand(name=one.name, description=one.summary or one.name, input=taken))
        return found

    async def prompt(self, content: PromptContent) -> TurnFinished:
        """Run a turn on a prompt; one that comes during a turn waits for its end."""
        task = asyncio.ensure_future(self._run(content))
        self._prompts.add(task)
        try:
            ended = await task
        except asyncio.CancelledError:
            ended = TurnFinished("interrupted", turns=0)
        finally:
            self._prompts.discard(task)
            self.updates.send_state()
            await self.updates.outbox.flush()
        request = asyncio.current_task()
        if request is not None and request.cancelling():  # the editor is gone
            raise asyncio.CancelledError  # the library would wait forever until an answer is sent
        return ended

    async def _run(self, content: PromptContent) -> TurnFinished:
        async with self._one_at_a_time:
            controller = self.controller
            text = content.words
            use = controller.command_table.use_without_screen(text)
            if use == "refuse":
                raise UsageError(f"{text.split()[0]} needs an interactive session in a terminal")
            if use == "run":
                await controller.command(text.lstrip())
                return TurnFinished("done", turns=0)
            if unknown := await controller.command_table.unknown_command(controller, text):
                raise UsageError(unknown)
            blocks = await asyncio.to_thread(usable_content, content.blocks)
            return await controller.prompt(text, blocks)

    def cancel(self) -> None:
        """Interrupt the turn, and drop the prompts that wait for its end."""
        for task in self._prompts:
            task.cancel()

    async def close(self) -> None:
        """End the session; nothing that it started outlives it."""
        self.cancel()
        await asyncio.gather(*self._prompts, return_exceptions=True)
        await self.controller.close()


class EditorAgent:
    """The agent side of the protocol, an acp.Agent. A failure of a session is an error for the editor."""

    def __init__(self, make_setup: MakeSetup, make_controller: MakeController, keeps: bool) -> None:
        self._make_setup = make_setup
        self._make_controller = make_controller
        self._keeps = keeps  # transcripts, so that sessions can be loaded again
        self._client: Client
        self._sessions: dict[str, EditorSession] = {}

    def on_connect(self, conn: Client) -> None:
        self._client = conn

    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: ClientCapabilities | None = None,
        client_info: Implementation | None = None,
        **kwargs: Any,
    ) -> InitializeResponse:
        found = SessionListCapabilities() if self._keeps else None
        return InitializeResponse(
            protocol_version=min(protocol_version, PROTOCOL_VERSION),
            agent_capabilities=AgentCapabilities(
                load_session=self._keeps,
                prompt_capabilities=PromptCapabilities(image=True, audio=False, embedded_context=True),
                mcp_capabilities=McpCapabilities(http=True, sse=True),
                session_capabilities=SessionCapabilities(list=found, close=SessionCloseCapabilities()),
            ),
            agent_info=Implementation(name="makeroom", title="makeroom", version=__version__),
            auth_methods=[],
        )

    async def authenticate(self, method_id: str, **kwargs: Any) -> AuthenticateResponse | None:
        raise RequestError.method_not_found("authenticate")

    async def new_session(
        self,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: Sequence[ServerOfClient] | None = None,
        **kwargs: Any,
    ) -> NewSessionResponse:
        added = tuple(additional_directories or ())
        wish = SessionWish(cwd, added=added, servers=server_config(mcp_servers or ()))
        session = await self._begin(wish)
        asyncio.get_running_loop().call_soon(session.introduce)  # after the response
        return NewSessionResponse(session_id=session.ident, modes=session.modes())

    async def load_session(
        self,
        cwd: str,
        session_id: str,
        mcp_servers: Sequence[ServerOfClient] | None = None,
        additional_directories: list[str] | None = None,
        **kwargs: Any,
    ) -> LoadSessionResponse | None:
        if session_id in self._sessions:
            await self._sessions.pop(session_id).close()
        added = tuple(additional_directories or ())
        servers = server_config(mcp_servers or ())
        wish = SessionWish(cwd, added=added, servers=servers, resume=session_id)
        session = await self._begin(wish, session_id)
        session.updates.replay(*session.controller.in_use)
        session.introduce()
        await session.updates.outbox.flush()
        return LoadSessionResponse(modes=session.modes())

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **kwargs: Any
    ) -> ListSessionsResponse:
        if cwd is None:
            return ListSessionsResponse(sessions=[])
        home = await asyncio.to_thread(Path(cwd).resolve)
        found = await asyncio.to_thread(ProjectRecords(home).continuable)
        sessions = [
            SessionInfo(
                session_id=one.sid,
                cwd=cwd,
                title=one.name or one.first_prompt,
                updated_at=datetime.fromtimestamp(one.last_active, UTC).isoformat(),
            )
            for one in found
        ]
        return ListSessionsResponse(sessions=sessions)

    async def set_session_mode(
        self, session_id: str, mode_id: str, **kwargs: Any
    ) -> SetSessionModeResponse | None:
        session = self._session(session_id)
        mode = next((mode for mode in offered_modes(session.setup) if mode == mode_id), None)
        if mode is None:
            raise RequestError.invalid_params({"details": f"unknown permission mode {mode_id!r}"})
        session.controller.in_use.context.permissions.set_mode(mode)
        session.updates.send_state()
        return SetSessionModeResponse()

    async def prompt(
        self,
        session_id: str,
        prompt: list[
            TextContentBlock
            | ImageContentBlock
            | AudioContentBlock
            | ResourceContentBlock
            | EmbeddedResourceContentBlock
        ],
        **kwargs: Any,
    ) -> PromptResponse:
        session = self._session(session_id)
        ended = await _answered(session.prompt(prompt_content(prompt)))
        if ended.reason == "failed":
            raise _refusal(ended.error, ended.code)
        return PromptResponse(stop_reason=STOP_REASONS.get(ended.reason, "end_turn"))

    async def cancel(self, session_id: str, **kwargs: Any) -> None:
        self._session(session_id).cancel()

    async def close_session(self, session_id: str, **kwargs: Any) -> CloseSessionResponse | None:
        await self._session(session_id).close()
        del self._sessions[session_id]
        return CloseSessionResponse()

    async def close(self) -> None:
        """Close all sessions."""
        for session in self._sessions.values():
            with suppress(StoreError):
                await session.close()

    def _session(self, ident: str) -> EditorSession:
        if ident not in self._sessions:
            raise RequestError.resource_not_found(ident)
        return self._sessions[ident]

    async def _begin(self, wish: SessionWish, ident: str = "") -> EditorSession:
        """Start a session under the given id, else under its own."""

        async def begin() -> EditorSession:
            session = EditorSession(self._client, self._make_setup(wish), self._make_controller)
            try:
                await session.begin(ident)
            except BaseException:
                await session.close()
                raise
            self._sessions[session.ident] = session
            return session

        return await _answered(begin())


async def _answered(work: Coroutine[Any, Any, T]) -> T:
    """Return the value of a piece of work. Raises RequestError for our own errors."""
    try:
        return await work
    except (AgentError, StoreError) as error:
        raise _refusal(str(error), exit_code_of(error)) from error


def _refusal(error: str, code: int) -> RequestError:
    if code == AuthenticationError.code:
        return RequestError.auth_required({"details": error})
    return RequestError(-32603, error, {"details": error})


class _OneLine(logging.Formatter):
    """Formats the library's errors, such as a line that is not JSON, as one line without a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        error = record.exc_info[1] if record.exc_info else None
        return f"{record.levelname.lower()}: {record.getMessage()}{f': {error}' if error is not None else ''}"


def run_agent_server(make_setup: MakeSetup, make_controller: MakeController, keeps: bool) -> int:
    """Serve one editor until it closes standard input or a signal arrives; return the exit code."""
    errors = logging.StreamHandler()
    errors.setLevel(logging.ERROR)
    errors.setFormatter(_OneLine())
    logging.getLogger().addHandler(errors)
    return asyncio.run(_serve(EditorAgent(make_setup, make_controller, keeps)))


async def _standard_streams(
    loop: asyncio.AbstractEventLoop,
) -> tuple[asyncio.StreamWriter, asyncio.StreamReader]:
    """Return streams on copies of standard output and input, which closing them leaves open."""
    reader = asyncio.StreamReader(limit=MAX_MESSAGE_BYTES)
    source = os.fdopen(os.dup(sys.stdin.fileno()), "rb", buffering=0)
    target = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), source)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, target)
    return asyncio.StreamWriter(transport, protocol, None, loop), reader


async def _serve(agent: EditorAgent) -> int:
    loop = asyncio.get_running_loop()
    ending = ExitSignal()
    output, given = await _standard_streams(loop)
    # Closing a session is among the methods that the library calls unstable.
    work = run_agent(cast("Agent", agent), output, given, use_unstable_protocol=True)
    task = asyncio.ensure_future(work)
    ending.cancel_on_arrival(task)
    try:
        with suppress(asyncio.CancelledError, ConnectionError):  # or the editor no longer reads
            await task
    finally:
        await agent.close()
    return ending.code
