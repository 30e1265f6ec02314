"""A session that may start agents, against the strict server; its model plays a part for each prompt."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event as Signal
from typing import Any

from agent.app import Options
from agent.app.composition import make_services
from agent.app.config import Config
from agent.app.services import Services
from agent.app.session_factory import SessionFactory, end_session
from agent.app.setup import RunSetup
from agent.events import Event, TurnFinished
from agent.loop.context import TurnContext
from agent.loop.turn import run_turn
from agent.session.session import Session, record_opening
from tests.agent.loop.world import Answers
from tests.strict_api.reply import Block, Body, Reply, calls, says
from tests.strict_api.server import Server
from tools.base import Tool
from transcripts.facts import Fact, Result
from transcripts.load import read_transcript
from transcripts.messages import TextBlock

Part = Sequence[Reply | str]


def parts(**by_word: Part) -> Callable[[Body], Reply]:
    """A model that plays, for a conversation in whose newest prompt a word stands, the part of that word."""

    def respond(body: Body) -> Reply:
        messages = body["messages"]
        prompts = [at for at, message in enumerate(messages) if message["role"] == "user" and _says(message)]
        words = _says(messages[prompts[-1]])
        word = next(each for each in by_word if re.search(rf"\b{each}\b", words))
        done = sum(message["role"] == "assistant" for message in messages[prompts[-1] :])
        step = by_word[word][done]
        return Reply([says(step)]) if isinstance(step, str) else step

    return respond


def held(respond: Callable[[Body], Reply], word: str, go: Signal) -> Callable[[Body], Reply]:
    """The same model, which answers a conversation that begins with a word once it may continue."""

    def waits(body: Body) -> Reply:
        if re.search(rf"\b{word}\b", _says(body["messages"][0])):
            assert go.wait(30.0)
        return respond(body)

    return waits


def _says(message: Mapping[str, Any]) -> str:
    """The newest text of a prompt; "" of a message of results."""
    content = message["content"]
    if isinstance(content, str):
        return content
    return str(content[-1]["text"]) if content[-1]["type"] == "text" else ""


def task(prompt: str, agent: str = "general", **more: Any) -> Block:
    """A call that starts an agent."""
    return calls("task", description=f"do {prompt}", prompt=prompt, agent=agent, **more)


@dataclass
class AgentRun:
    """A session with its world; `events` are all that were emitted, `approver` answers its questions."""

    server: Server
    services: Services
    session: Session
    context: TurnContext
    approver: Answers
    events: list[Event] = field(default_factory=list)

    async def turn(self, words: str = "go") -> TurnFinished:
        self.session.user((TextBlock(words),))
        return await run_turn(self.session, self.context, self.services.emit)

    def results(self) -> list[Result]:
        return [fact for fact in self.session.folded.facts if isinstance(fact, Result)]

    def texts(self) -> list[str]:
        """The text of each result of the session, in the order in which they came."""
        return [getattr(result.content[0], "text", "") for result in self.results()]

    def nested(self) -> list[list[Fact]]:
        """The facts of each nested session, in the order of their labels."""
        assert self.context.agents is not None
        home = self.services.repository.home / ".transcripts"
        return [
            read_transcript(home / f"{each.sid}.jsonl").facts
            for each in self.context.agents.agents
            if each.sid
        ]


@asynccontextmanager
async def agent_run(
    folder: Path,
    server: Server,
    *answers: Any,
    tool: Tool | None = None,
    forks: bool = False,
    **options: Any,
) -> AsyncIterator[AgentRun]:
    """A session at home in `folder`, with `answers` ready for its questions; `tool` for the task tool.

    Without `forks` nothing is cached, so that no agent works in a copy of the conversation.
    """
    config = Config(
        user_dir=folder / "home",
        cache_dir=folder / "cache",
        state_dir=folder / "state",
        base_url=server.base_url,
        key="test-key-123456",
        caches=forks,
    )
    options = {"sandbox": "off", **options}
    setup = RunSetup(Options(**options), config, folder, {"PATH": "/usr/bin:/bin", "HOME": str(folder)})
    events: list[Event] = []
    approver = Answers(*answers)
    services = make_services(setup, events.append, approver)
    await services.settle()
    await services.warm()
    services.tools |= {} if tool is None else {"task": tool}
    session, context = await SessionFactory(services).first()
    record_opening(session, context.settings, 200_000, str(folder), services.emit)
    try:
        yield AgentRun(server, services, session, context, approver, events)
    finally:
        await end_session(session, context)
        await services.close()


def run_agents(
    folder: Path,
    model: Callable[[Body], Reply],
    *answers: Any,
    then: Callable[[AgentRun], Awaitable[None]] | None = None,
    **options: Any,
) -> AgentRun:
    """A session after its turn on "go" and after `then`; nothing that it sent was refused."""

    async def whole(server: Server) -> AgentRun:
        async with agent_run(folder, server, *answers, **options) as run:
            await run.turn()
            if then is not None:
                await then(run)
            return run

    with Server(model) as server:
        run = asyncio.run(whole(server))
    assert server.refused == []
    return run
