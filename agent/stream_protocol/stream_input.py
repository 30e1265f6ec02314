"""The input of a client: options of the session, prompts, requests, answers. Loads nothing slow.

The first request of a client, initialize, is answered here, before there is a session.
"""

from __future__ import annotations

import asyncio
import json
import os
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from agent.app import Options, RunSetup
from agent.errors import UsageError
from agent.events import Emit, Notice
from agent.extensions.agents import BUILTIN_AGENTS, given_agents
from agent.extensions.hooks import AskedHooks, HookEntry, HookTable, about_session
from agent.extensions.mcp import McpServer, ServerFiles
from agent.extensions.skills import SkillLibrary
from agent.model import CATALOG
from agent.ports import Approver
from agent.ui import RunOutput

from .client_callbacks import client_hooks
from .client_channel import ClientChannel
from .client_frames import (
    BadFrame,
    CancelRequest,
    ControlRequest,
    ControlResponse,
    UserMessage,
    parse_frame,
    refusal,
    success,
)
from .client_servers import servers_within

if TYPE_CHECKING:
    from agent.app import Controller
    from agent.loop import ActiveSession

# Set by clients that wait for the state of the session: SDKs and the adapter for editors.
STATE_VARIABLES = ("CLAUDE_CODE_SDK_READS_SESSION_STATE", "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS")
# Slash commands that run here. A test compares them with the table of commands, which is slow to load.
LOCAL_COMMANDS: Mapping[str, str] = {
    "clear": "Start a new conversation",
    "compact": "Compact the context now",
    "context": "Show what the context window contains",
    "cost": "Show the tokens and the cost of this session",
}
MakeController = Callable[[RunSetup, Emit, Approver], "Controller"]


class StreamInput:
    """One client. Once `begun` is set, `setup` has the options that it wants for the session.

    prompts       waiting for their turns
    servers       MCP servers inside the client
    hook_entries  the hooks that it has registered
    changed       set when a prompt has arrived or the input has ended
    stopped       the ids of prompts that were interrupted before their turns began
    requests      those that arrived before `fulfil` was set to handle them
    withdraw      handles the cancellation of a request
    """

    def __init__(self, setup: RunSetup, output: RunOutput) -> None:
        self.setup = setup
        self.output = output
        tells_state = any(setup.environ.get(name) for name in STATE_VARIABLES)
        self.channel = ClientChannel(output.out, tells_state)
        self.begun = asyncio.Event()
        self.changed = asyncio.Event()
        self.prompts: deque[UserMessage] = deque()
        self.servers: tuple[McpServer, ...] = ()
        self.hook_entries: tuple[HookEntry, ...] = ()
        self.requests: list[ControlRequest] = []
        self.stopped: set[str] = set()
        self.fulfil: Callable[[ControlRequest], None] = self._keep
        self.withdraw: Callable[[CancelRequest], None] = self.channel.withdraw
        self.session_now: Callable[[], ActiveSession] | None = None  # set once there is a session
        self.skills = SkillLibrary()  # as listed in the answer to initialize
        self._initializing: asyncio.Task[None] | None = None

    def take(self, line: bytes | None) -> None:
        """Handle a line; None: there are no more."""
        if line is None:
            self.channel.close()
            self._begin()
            return
        try:
            frame = parse_frame(line)
        except BadFrame as error:
            if error.ident:
                self.channel.write(refusal(error.ident, str(error)))
            self.output.err.line(f"error: {error}")
            return
        match frame:
            case UserMessage():
                given = frame if frame.uuid else replace(frame, uuid=str(uuid.uuid4()))
                self.prompts.append(given)
                self._begin()
            case ControlRequest(ident, "initialize") if self._initializing or self.begun.is_set():
                self.channel.write(success(ident, greeting(self.setup.options.agents, self.skills)))
            case ControlRequest(_, "initialize"):
                self._initializing = asyncio.ensure_future(self._initialize(frame))
            case ControlRequest():
                self.fulfil(frame)
                self._begin()
            case ControlResponse():
                self.channel.settle(frame)
            case CancelRequest():
                self.withdraw(frame)

    def _keep(self, request: ControlRequest) -> None:
        self.requests.append(request)
        if request.subtype == "interrupt":
            self.stop_next()

    def stop_next(self) -> None:
        """Interrupt the turn of the next prompt as soon as it begins."""
        self.stopped.update([message.uuid for message in self.prompts if message.query][:1])

    def _begin(self) -> None:
        """Begin the session, unless initialize is still being handled."""
        self.changed.set()
        if self._initializing is None and not self.begun.is_set():
            try:
                self._know_servers(())
            except UsageError as error:
                self.output.err.line(f"error: {error}")
            self.begun.set()

    async def _initialize(self, request: ControlRequest) -> None:
        """Apply the client's options for the session, and answer."""
        try:
            self.setup = replace(self.setup, options=_with_wishes(self.setup.options, request.body))
            self._know_hooks(request.body.get("hooks"))
            self.output.tells_agents_whole = request.body.get("forwardSubagentText") is True
            named = request.body.get("sdkMcpServers")
            self._know_servers(named if isinstance(named, list) else ())
        except (UsageError, ValueError) as error:
            self.channel.write(refusal(request.ident, str(error)))
            self.begun.set()
            return
        await asyncio.gather(*(server.begin() for server in self.servers))
        setup = self.setup
        self.skills = await asyncio.to_thread(
            SkillLibrary.load,
            setup.folder,
            setup.environ,
            user_dir=setup.config.user_dir,
            sources=setup.options.setting_sources,
        )
        self.channel.write(success(request.ident, greeting(setup.options.agents, self.skills)))
        self.begun.set()

    def _know_servers(self, names: Iterable[object]) -> None:
        """Set up the MCP servers inside the client; the others are started with the session."""
        folder = self.setup.folder
        given = ServerFiles(folder, user_dir=folder, given=self.setup.options.mcp_config).given_entries()
        in_client = [name for name, server in given.items() if server.get("type") == "sdk"]
        self.servers = servers_within([*in_client, *map(str, names)], self.channel)

    def _know_hooks(self, registered: Any) -> None:
        table = HookTable.read(registered, "the client")
        self.hook_entries = table.entries
        for problem in table.all_lines:
            self.warn(f"hooks: {problem}")

    def hooks(self) -> AskedHooks | None:
        """Return the client's hooks; None if it has registered none."""
        if not self.hook_entries:
            return None
        return client_hooks(self.channel, self.hook_entries, self._about_session, self.warn)

    def _about_session(self) -> dict[str, Any]:
        """Return the facts about the session for every hook callback."""
        assert self.session_now is not None, "hooks are asked within a session"
        session, context = self.session_now()
        return about_session(session, context.tool_context, context.permissions)

    def warn(self, text: str) -> None:
        self.output.show(Notice(text, "warning"))


def greeting(given: str, skills: SkillLibrary) -> dict[str, Any]:
    """Return the answer to initialize, with the built-in and the `given` agents."""
    commands = [(name, what, "") for name, what in LOCAL_COMMANDS.items()]
    commands += [(one.name, f"{one.description} ({one.origin})", one.hint) for one in skills.for_users()]
    agents = [{"name": each.name, "description": each.description} for each in BUILTIN_AGENTS.values()]
    others = given_agents(given).items() if given else ()
    agents += [{"name": name, "description": str(fields.get("description", ""))} for name, fields in others]
    return {
        "commands": [
            {"name": name, "description": what, "argumentHint": hint} for name, what, hint in commands
        ],
        "agents": agents,
        "output_style": "default",
        "available_output_styles": ["default"],
        "models": [
            {"value": alias, "displayName": alias.capitalize(), "description": model}
            for alias, model in CATALOG.aliases.items()
        ],
        "account": {},
        "hook_on_failure_supported": True,
        "pid": os.getpid(),
    }


def _with_wishes(options: Options, body: Mapping[str, Any]) -> Options:
    """Return the options with those in the client's initialize request."""
    system = body.get("systemPrompt")
    if isinstance(system, list):
        system = "\n\n".join(map(str, system))
    if isinstance(system, str):
        options = replace(options, system_prompt=system)
    if isinstance(added := body.get("appendSystemPrompt"), str):
        options = replace(options, append_system_prompt=added)
    if isinstance(agents := body.get("agents"), dict):
        options = replace(options, agents=json.dumps(agents))
    if isinstance(schema := body.get("jsonSchema"), dict):
        options = replace(options, json_schema=json.dumps(schema))
    return options
