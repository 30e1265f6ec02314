"""A session for a program: a turn and a result for each prompt, and meanwhile answers to its requests."""

from __future__ import annotations

import asyncio
import uuid

from msgspec.structs import replace

from agent.app import Controller, RunSetup, usable_content
from agent.errors import AgentError, exit_code_of
from agent.exit_signals import ExitSignal
from agent.ports import Approver
from agent.ui import DenyAll, Outcome, outcome_of, refused_result, run_prompt, session_details
from transcripts import StoreError, TextBlock

from .client_callbacks import ClientApprover
from .client_frames import UserMessage, replayed
from .client_tools import ClientTools
from .control_requests import ControlRequests
from .stream_input import LOCAL_COMMANDS, MakeController, StreamInput


async def conduct(client: StreamInput, make_controller: MakeController, ending: ExitSignal) -> int:
    """Run the session of a client that has begun, and return the exit code, or that of a signal."""
    sources = tuple(map(ClientTools, client.servers))
    setup = replace(client.setup, sources=sources, hooks=client.hooks())
    approver: Approver = ClientApprover(client.channel) if setup.options.asks_client else DenyAll()
    try:
        controller = make_controller(setup, client.output.show, approver)
    except AgentError as error:
        return _tell_failure(client, error, "")
    session = StreamSession(client, setup, controller)
    client.session_now = lambda: controller.in_use
    try:
        code = await session.run(ending)
    except (AgentError, StoreError) as error:
        code = _tell_failure(client, error, controller.status().session)
    except asyncio.CancelledError:
        if client.prompts:
            _tell_failure(client, AgentError("interrupted"), controller.status().session)
        raise
    finally:
        session.requests.cancel()
        await controller.close()
    return ending.code or code


def _tell_failure(client: StreamInput, error: AgentError | StoreError, session: str) -> int:
    """Write the result of a session that could not begin. Returns the exit code."""
    client.output.err.line(f"error: {error}")
    client.channel.write(refused_result(str(error), session))
    return exit_code_of(error)


class StreamSession:
    """Runs a turn for each prompt of the client."""

    def __init__(self, client: StreamInput, setup: RunSetup, controller: Controller) -> None:
        self.requests = ControlRequests(controller, client)
        self._client = client
        self._setup = setup
        self._controller = controller
        self._code = 0

    async def run(self, ending: ExitSignal) -> int:
        """Run all turns, and return the exit code of the last one. Every turn that began has a result.

        Raises the error that keeps the session from beginning.
        """
        self.requests.begin()
        await self._controller.ready()
        while (message := await self._next()) is not None:
            await self._run_turn(message)
            if ending.code:
                return self._code
        await self.requests.finish()
        return self._code

    async def _next(self) -> UserMessage | None:
        client = self._client
        while not client.prompts:
            if client.channel.closed:
                return None
            client.changed.clear()
            await client.changed.wait()
        return client.prompts.popleft()

    async def _run_turn(self, message: UserMessage) -> None:
        if not message.query:
            self._controller.after_prompt.append(TextBlock(message.text))
            return
        self._code = await self.requests.run_turn(self._answer(message), message.uuid)
        if not self._client.prompts:
            self._client.channel.send_state("idle")

    async def _answer(self, message: UserMessage) -> int:
        """Run one turn, and return its exit code."""
        self._begin()
        if self._setup.options.replay_user_messages:
            frame = replayed(message)
            session = self._client.channel.session
            self._client.channel.write({**frame, "session_id": session, "uuid": message.uuid})
        code, error = await outcome_of(self._work(message))
        return self._client.output.finish(code, error)

    async def _work(self, message: UserMessage) -> Outcome:
        controller = self._controller
        channel = self._client.channel
        content = await asyncio.to_thread(usable_content, message.content)
        self.requests.expect_prompt(message.uuid)
        try:
            if message.verbatim:
                ended = await controller.prompt(message.text, content, typed=message.text.lstrip("/"))
            else:
                output = self._client.output
                ended = await run_prompt(controller, output, message.text, content, LOCAL_COMMANDS)
        finally:
            self.requests.keep_uuid()
        after = controller.status().session
        if after != channel.session:
            channel.session = after
            frame = {"type": "conversation_reset", "new_conversation_id": after}
            channel.write({**frame, "session_id": after, "uuid": str(uuid.uuid4())})
        return Outcome(ended.code, ended.error)

    def _begin(self) -> None:
        channel = self._client.channel
        output = self._client.output
        servers = [{"name": server.entry.name, "status": server.state} for server in self.requests.servers]
        details = {**session_details(self._controller), "mcp_servers": servers}
        details["slash_commands"] = [*LOCAL_COMMANDS, *details["slash_commands"]]
        tools = self._controller.services.told_tools(self._controller.in_use.context.tools)
        is_first = not channel.session
        channel.session = self._controller.status().session
        channel.send_state("running")
        if is_first:
            output.begin(self._controller.status, tools, **details)
        else:
            output.begin_turn(tools, **details)
