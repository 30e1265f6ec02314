"""The requests of a client during a session, one function for each; the answers are plain data."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any, NamedTuple

from msgspec import structs

from agent.app import NO_EFFORT, Controller, overheads
from agent.checkpoints import plan_rewind, restore_rewind
from agent.errors import AgentError
from agent.extensions.mcp import McpServer
from agent.loop import prompt_tokens
from agent.permissions import client_mode, mode_named
from agent.session import Session, memory_of
from tools.processes import command_runner
from tools.search import run_git_script
from transcripts import PartKind, StoreError, User

from .client_frames import CancelRequest, ControlRequest, refusal, success
from .client_tools import server_status, tool_sizes
from .stream_input import StreamInput

_PART_LABELS = {
    PartKind.USER: "Messages",
    PartKind.ASSISTANT: "Messages",
    PartKind.THINKING: "Thinking",
    PartKind.INPUT: "Tool calls",
    PartKind.RESULT: "Tool results",
    PartKind.PLACEHOLDER: "Placeholders",
}
UUID_TOPIC = "prompt id"  # of metadata: {"uuid", "seq"}


class ControlRefused(Exception):
    """The request cannot be fulfilled; the text gives the reason."""


Answer = Mapping[str, Any]
Body = Mapping[str, Any]


class _ExpectedPrompt(NamedTuple):
    """A prompt of the client to come: its id, and the newest fact of the session before it."""

    session: Session
    uuid: str
    before: int


class ControlRequests:
    """The running requests of a client, and the turn that they may be about."""

    def __init__(self, controller: Controller, client: StreamInput) -> None:
        self.controller = controller
        self.client = client
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._turn: asyncio.Task[int] | None = None
        self._model: str | None = None  # used from the next turn on
        self._prompt: _ExpectedPrompt | None = None  # whose id is not yet recorded

    def begin(self) -> None:
        """Handle the requests of the client from now on, and the earlier ones."""
        self.client.fulfil = self._start
        self.client.withdraw = self._withdraw
        for request in self.client.requests:
            self._answer(request)

    @property
    def servers(self) -> tuple[McpServer, ...]:
        """All MCP servers: those inside the client, then the others."""
        others = self.controller.services.mcp
        return (*self.client.servers, *(others.servers if others is not None else ()))

    async def finish(self) -> None:
        """Wait until every request is answered."""
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def cancel(self) -> None:
        for task in self._tasks.values():
            task.cancel()

    async def ready(self) -> Controller:
        """Return the controller once it is ready. Raises the error that prevents that."""
        await self.controller.ready()
        return self.controller

    async def run_turn(self, work: Coroutine[Any, Any, int], uuid: str) -> int:
        """Run the turn of a prompt, which the client may interrupt even before it begins."""
        self._turn = asyncio.ensure_future(work)
        try:
            if uuid in self.client.stopped:
                self.client.stopped.discard(uuid)
                await asyncio.sleep(0)  # lets it begin, otherwise it would have no result
                self._turn.cancel()
            return await self._turn
        finally:
            self._turn = None
            if self._model is not None:
                await self.use_model(self._model)

    def expect_prompt(self, uuid: str) -> None:
        """Remember the client's id for the next prompt."""
        session = self.controller.in_use.session
        self._prompt = _ExpectedPrompt(session, uuid=uuid, before=session.folded.last_seq)

    def keep_uuid(self) -> None:
        """Record the client's id of a prompt: the first one since `expect_prompt`, if there is one."""
        if self._prompt is None:
            return
        session = self._prompt.session
        prompts = (fact for fact in session.folded.facts if isinstance(fact, User) and fact.source == "user")
        seq = next((fact.seq for fact in prompts if fact.seq > self._prompt.before), None)
        if seq is not None:
            session.add_metadata(UUID_TOPIC, {"uuid": self._prompt.uuid, "seq": seq})
            self._prompt = None

    async def use_model(self, name: str) -> None:
        """Use another model from now on, or from the end of the running turn on."""
        self._model = name if self._turn is not None else None
        if self._turn is not None:
            return
        try:
            await self.controller.factory.change_model(*self.controller.in_use, name)
        except AgentError as error:
            self.client.warn(f"cannot change the model: {error}")

    def _start(self, request: ControlRequest) -> None:
        if request.subtype == "interrupt" and (self._turn is None or self._turn.done()):  # it has its result
            self.client.stop_next()
        self._answer(request)

    def _answer(self, request: ControlRequest) -> None:
        task = self._tasks[request.ident] = asyncio.ensure_future(self._fulfil(request, self._turn))
        task.add_done_callback(lambda done: self._tasks.pop(request.ident, None))

    def _withdraw(self, request: CancelRequest) -> None:
        if request.ident in self._tasks:
            self._tasks[request.ident].cancel()
        else:
            self.client.channel.withdraw(request)

    async def _fulfil(self, request: ControlRequest, turn: asyncio.Task[int] | None) -> None:
        """Answer a request of the client that arrived during this turn."""
        try:
            if request.subtype not in FUNCTIONS:
                raise ControlRefused(f"unsupported request {request.subtype!r}")
            answer = success(request.ident, await FUNCTIONS[request.subtype](self, request.body))
        except (ControlRefused, AgentError, StoreError) as error:
            answer = refusal(request.ident, str(error))
        self.client.channel.write(answer)
        if request.subtype == "interrupt" and turn is not None:
            turn.cancel()


async def set_model(run: ControlRequests, body: Body) -> Answer:
    controller = await run.ready()
    selection = controller.services.selection
    name = body.get("model") or controller.setup.model_name
    model = selection.model.catalog.resolve("" if name == "default" else str(name))
    await selection.for_model(model).choose(model)  # reports an unknown model now, not after the turn
    await run.use_model(model)
    return {"model": model}


async def set_permission_mode(run: ControlRequests, body: Body) -> Answer:
    controller = await run.ready()
    wanted = str(body.get("mode"))
    if (mode := mode_named(wanted)) is None:
        raise ControlRefused(f"unknown permission mode {wanted!r}")
    options = controller.setup.options
    permitted = options.may_bypass or controller.setup.mode == "bypassPermissions"
    if mode == "bypassPermissions" and not permitted:
        raise ControlRefused(
            "cannot switch to bypassPermissions: start makeroom with --allow-dangerously-skip-permissions"
        )
    controller.in_use.context.permissions.set_mode(mode)
    return {"mode": client_mode(mode)}


async def set_max_thinking_tokens(run: ControlRequests, body: Body) -> Answer:
    controller = await run.ready()
    context = controller.in_use.context
    facts = controller.services.selection.facts
    thinking = facts.thinking and body.get("max_thinking_tokens") != 0
    setup = controller.services.setup
    effort = None if thinking and setup.options.effort == NO_EFFORT else setup.options.effort
    options = structs.replace(setup.options, thinking=thinking, effort=effort)
    controller.services.setup = structs.replace(setup, options=options)
    if "thinking" not in context.settings.rejected:
        context.settings = structs.replace(context.settings, thinking=thinking)
    return {}


async def mcp_status(run: ControlRequests, body: Body) -> Answer:
    await run.ready()
    return {"mcpServers": [server_status(server) for server in run.servers]}


async def mcp_reconnect(run: ControlRequests, body: Body) -> Answer:
    server = _server(run, body)
    await server.reconnect()
    if server.failure:
        raise ControlRefused(f"{server.entry.name}: {server.failure}")
    return {}


async def mcp_toggle(run: ControlRequests, body: Body) -> Answer:
    await _server(run, body).toggle(body.get("enabled") is True)
    return {}


def _server(run: ControlRequests, body: Body) -> McpServer:
    wanted = str(body.get("serverName"))
    found = next((server for server in run.servers if server.entry.name == wanted), None)
    if found is None:
        raise ControlRefused(f"unknown MCP server {wanted!r}")
    return found


async def stop_task(run: ControlRequests, body: Body) -> Answer:
    controller = await run.ready()
    jobs = command_runner(controller.in_use.context.tool_context)
    wanted = str(body.get("task_id"))
    pool = controller.in_use.context.agents
    agent = next((each for each in (pool.running if pool else ()) if each.sid == wanted), None)
    if pool is not None and agent is not None:
        pool.interrupt(agent)
        return {}
    job = next((job for job in jobs.running if job.id == wanted), None)
    if job is None:
        raise ControlRefused(f"unknown task {wanted!r}")
    await jobs.stop(job)
    return {}


async def get_context_usage(run: ControlRequests, body: Body) -> Answer:
    controller = await run.ready()
    session, context = controller.in_use
    compaction = context.compaction
    view = session.folded.view
    total = prompt_tokens(session, context)
    window = compaction.window
    frame = overheads(context.settings, compaction.counter)
    raw = sum(view.tally) + sum(frame.values())
    scale = total / raw if raw else 1.0
    sizes = {f"{label[0].upper()}{label[1:]}": count for label, count in frame.items()}
    for kind in PartKind:
        label = _PART_LABELS[kind]
        sizes[label] = sizes.get(label, 0) + view.tally[kind]
    rows = {label: round(count * scale) for label, count in sizes.items()}
    rows["Free space"] = max(0, window.size - sum(rows.values()))
    categories = [{"name": name, "tokens": tokens, "color": "inactive"} for name, tokens in rows.items()]
    memory = memory_of(context.settings.system)
    count = compaction.counter.text
    return {
        "categories": categories,
        "totalTokens": total,
        "maxTokens": window.size,
        "rawMaxTokens": window.size,
        "percentage": window.percent(total),
        "model": context.settings.model,
        "isAutoCompactEnabled": compaction.settings.automatic,
        "memoryFiles": [
            {"path": path, "type": "Project", "tokens": count(text)} for path, text in memory.items()
        ],
        "mcpTools": [tool for server in run.servers for tool in tool_sizes(server, count)],
        "agents": [
            {"agentType": each.name, "source": each.origin, "tokens": count(each.description)}
            for each in controller.services.agents.values()
        ],
        "gridRows": [],
    }


async def rewind_files(run: ControlRequests, body: Body) -> Answer:
    """Restore the files to their state before a prompt, except those that another process changed since."""
    session, context = (await run.ready()).in_use
    run.keep_uuid()  # the client may have read the result before the turn has ended here
    wanted = str(body.get("user_message_id"))
    checkpoints = context.checkpoints
    found = [note.about for note in session.folded.metadata if note.topic == UUID_TOPIC]
    seq = next((about["seq"] for about in reversed(found) if about.get("uuid") == wanted), None)
    if seq is None or checkpoints is None:
        why = "no prompt has that id" if checkpoints else "there are no file checkpoints with --no-session"
        return {"canRewind": False, "error": why, "filesChanged": []}
    git = partial(run_git_script, context.tool_context)
    dry_run = body.get("dry_run") is True  # only counts files
    plan = await plan_rewind(checkpoints, seq, None if dry_run else git)
    failed = {} if dry_run else await restore_rewind(checkpoints, plan, False, git)
    done = plan.without(failed).files
    errors = [f"{step.title}: {why}" for step, why in failed.items()]
    return {
        "canRewind": True,
        "filesChanged": [step.path for step in done],
        "insertions": sum(step.added for step in done),
        "deletions": sum(step.removed for step in done),
        **({"error": "; ".join(errors)} if errors else {}),
    }


async def interrupt(run: ControlRequests, body: Body) -> Answer:
    """Return the ids of the queued prompts; the turn is cancelled once this is answered."""
    waiting = (message.uuid for message in run.client.prompts)
    return {"still_queued": [uuid for uuid in waiting if uuid not in run.client.stopped]}


FUNCTIONS: Mapping[str, Callable[[ControlRequests, Body], Awaitable[Answer]]] = {
    "get_context_usage": get_context_usage,
    "interrupt": interrupt,
    "mcp_reconnect": mcp_reconnect,
    "mcp_status": mcp_status,
    "mcp_toggle": mcp_toggle,
    "rewind_files": rewind_files,
    "set_max_thinking_tokens": set_max_thinking_tokens,
    "set_model": set_model,
    "set_permission_mode": set_permission_mode,
    "stop_task": stop_task,
}
