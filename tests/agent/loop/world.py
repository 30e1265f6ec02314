"""A small world for the turn: a session, the real SDK over loopback to the strict server, plain tools."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from msgspec.structs import replace

from agent.events import Event, TurnFinished
from agent.loop.context import CompactionState, TurnContext
from agent.loop.turn import run_turn
from agent.model.anthropic.client import AnthropicModel
from agent.model_port import RequestSettings
from agent.permissions import PermissionRules, PermissionStore
from agent.ports import Allow, Deny, PermissionQuestion
from agent.session.session import Session
from compact.prices import Prices
from compact.settings import CompactSettings, ContextWindow
from compact.tokens import TokenCounter
from tests.strict_api.scripted_model import ScriptedModel, Step
from tests.strict_api.server import Server, ServerOptions
from tools.base import Access, Tool, ToolCall, ToolContext, ToolError, ToolResult, text_result
from tools.parameters import Arguments
from transcripts.facts import Fact
from transcripts.folding import Folded, fold
from transcripts.messages import TextBlock


class Memory:
    """A record in memory; knows what was durable when."""

    failure = ""
    written_size = 0

    def __init__(self) -> None:
        self.facts: list[Fact] = []
        self.durable = 0
        self.syncing: list[Fact] = []  # the newest fact at each beginning of a sync

    def append(self, fact: Fact, durable: bool = False) -> None:
        self.facts.append(fact)
        if durable:
            self.sync()

    def digest(self, body: bytes) -> str:
        return hashlib.sha256(body).hexdigest()

    def sync(self) -> None:
        self.durable = len(self.facts)

    def begin_sync(self) -> None:
        self.syncing.append(self.facts[-1])

    def close(self) -> None:
        self.sync()


@dataclass
class TestClock:
    """Time that passes only when someone sleeps; what was slept is kept."""

    __test__ = False
    time: float = 1_000_000.0
    slept: list[float] = field(default_factory=list)

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds
        await asyncio.sleep(0)


class Words(Arguments):
    words: str = ""


def echo_tool(name: str, access: Literal["none", "run"], ran: list[str]) -> Tool:
    """A tool that answers with its words, or raises what they ask for; `ran` gets the words of each call.

    With the access "run" it changes things: permission is asked, and it runs alone.
    """

    async def run(arguments: Words, call: ToolCall) -> ToolResult:
        ran.append(arguments.words)
        if arguments.words == "refuse":
            raise ToolError("it cannot be done\ntry something else")
        if arguments.words == "crash":
            raise RuntimeError("a fault within")
        if arguments.words == "hang":
            await asyncio.Event().wait()
        return text_result(f"echo: {arguments.words}")

    return Tool(
        name=name,
        description="Says words.",
        arguments=Words,
        kind="runs" if access == "run" else "other",
        title=lambda arguments: str(arguments.words),
        access=lambda arguments, context: (Access(access, arguments.words),),
        run=run,
        parallel=access == "none",
    )


class Answers:
    """An approver with its answers ready; keeps the questions."""

    def __init__(self, *answers: Allow | Deny) -> None:
        self.answers = list(answers)
        self.questions: list[PermissionQuestion] = []

    async def ask(self, question: PermissionQuestion) -> Allow | Deny:
        self.questions.append(question)
        return self.answers.pop(0)


@dataclass
class World:
    """Everything a test looks at."""

    server: Server
    session: Session
    context: TurnContext
    record: Memory
    clock: TestClock
    approver: Answers
    tools: dict[str, Tool]
    ran: dict[str, list[str]]  # the words that each tool was run with
    events: list[Event] = field(default_factory=list)

    def replace_run(self, name: str, run: Callable[[Any, ToolCall], Awaitable[ToolResult]]) -> None:
        """Let the tool do something else from now on."""
        self.tools[name] = replace(self.tools[name], run=run)

    def say(self, text: str) -> None:
        self.session.user((TextBlock(text),))

    async def turn(self, text: str | None = None) -> TurnFinished:
        """One turn on some words. Closes nothing."""
        if text is not None:
            self.say(text)
        return await run_turn(self.session, self.context, self.events.append)

    def run(self, text: str = "go") -> TurnFinished:
        """One turn from beginning to end, on a loop of its own."""

        async def whole() -> TurnFinished:
            try:
                return await self.turn(text)
            finally:
                await self.context.model.close()

        return asyncio.run(whole())

    def told(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def texts(self) -> list[str]:
        """Every result's text, in the order of the view."""
        found: list[str] = []
        for message in self.session.folded.view:
            for part in message.parts:
                content = getattr(part.block, "content", ())
                found.extend(block.text for block in content if isinstance(block, TextBlock))
        return found

    def check(self) -> None:
        """Nothing was refused, and every prefix of the record is a conversation that the API accepts."""
        assert list(self.server.refused) == []
        assert fold(self.record.facts).view.tokens == self.session.folded.view.tokens


@contextmanager
def world(steps: Iterable[Step], folder: Path, *answers: Allow | Deny, **options: Any) -> Any:
    """A world whose model plays `steps`; `options` are ServerOptions."""
    with Server(ScriptedModel(steps), ServerOptions(**options)) as server:
        record, clock, approver = Memory(), TestClock(), Answers(*answers)
        counter = TokenCounter.load()
        session = Session("test", record, Folded(), counter, clock.now)
        ran: dict[str, list[str]] = {"echo": [], "act": []}
        tools = {
            "echo": echo_tool("echo", "none", ran["echo"]),
            "act": echo_tool("act", "run", ran["act"]),
        }
        schema = Words.sent_schema()
        settings = RequestSettings(
            "claude-sonnet-5-5",
            8_000,
            ("You are a test.",),
            tuple({"name": name, "description": "d", "input_schema": schema} for name in tools),
            thinking=True,
        )
        state = CompactionState(
            CompactSettings(),
            ContextWindow(options.get("window") or 200_000, 8_000),
            Prices(),
            counter,
            100,
            True,
        )
        context = TurnContext(
            model=AnthropicModel(server.base_url, "key"),
            settings=settings,
            tools=tools,
            tool_context=ToolContext(folder, folder, folder / "outputs", folder / "journals"),
            approver=approver,
            hooks=None,
            clock=clock,
            permissions=PermissionStore(PermissionRules()),
            compaction=state,
        )
        about = {"model": settings.model, "window": 200_000, "folder": str(folder)}
        session.open(settings.system, settings.tools, **about)
        yield World(server, session, context, record, clock, approver, tools, ran)


def turns(w: World, *prompts: str) -> list[str]:
    """Return the reason why each of several turns ended."""

    async def whole() -> list[str]:
        try:
            return [(await w.turn(prompt)).reason for prompt in prompts]
        finally:
            await w.context.model.close()

    return asyncio.run(whole())


async def ticks_during(work: Any) -> int:
    """Return how often other tasks run while `work` does."""
    ticks = 0

    async def count() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    other = asyncio.ensure_future(count())
    await work
    other.cancel()
    return ticks
