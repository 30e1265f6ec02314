"""A small world for the turn: a session, the real SDK over loopback to the strict server, plain tools."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.events import Event, TurnFinished
from agent.loop.context import CompactionState, TurnContext
from agent.loop.turn import run_turn
from agent.model.anthropic.client import AnthropicModel
from agent.model_port import RequestSettings
from agent.permissions.permission_store import PermissionStore
from agent.permissions.rules import PermissionRules
from agent.ports import Allow, Deny, NoHooks, PermissionQuestion
from agent.session.session import Session
from compact.prices import Prices
from compact.settings import CompactSettings
from compact.tokens import load_counter
from compact.window import ContextWindow
from tests.strict_api.reply import Reply as Answer
from tests.strict_api.scripted_model import ScriptedModel
from tests.strict_api.server import Server, ServerOptions
from tools.base import Access, Arguments, ToolCall, ToolContext, ToolError, ToolResult, text_result
from transcripts.facts import Fact
from transcripts.fold import Folded, fold
from transcripts.messages import TextBlock


class Memory:
    """A record in memory; knows what was durable when."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []
        self.durable = 0

    def append(self, fact: Fact, durable: bool = False) -> None:
        self.facts.append(fact)
        if durable:
            self.sync()

    def sync(self) -> None:
        self.durable = len(self.facts)

    def close(self) -> None:
        self.sync()


@dataclass
class TestClock:
    """Time that passes only when somebody sleeps; what was slept is kept."""

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


class Echo:
    """Answers with its words; `parallel`. Raises what its words ask for."""

    name = "echo"
    description = "Says words."
    arguments: type[Arguments] = Words
    parallel = True
    kind = "none"

    def __init__(self) -> None:
        self.ran: list[str] = []

    def title(self, arguments: Any) -> str:
        return str(arguments.words)

    def touches(self, arguments: Any, context: ToolContext) -> tuple[Access, ...]:
        return (Access(self.kind, arguments.words),)  # type: ignore[arg-type]

    async def run(self, arguments: Any, call: ToolCall) -> ToolResult:
        self.ran.append(arguments.words)
        if arguments.words == "refuse":
            raise ToolError("it cannot be done\ntry something else")
        if arguments.words == "crash":
            raise RuntimeError("a fault within")
        if arguments.words == "hang":
            await asyncio.Event().wait()
        return text_result(f"echo: {arguments.words}")


class Act(Echo):
    """The same, but it changes things: permission is asked, and it runs alone."""

    name = "act"
    parallel = False
    kind = "run"


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
    events: list[Event] = field(default_factory=list)

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
                await self.context.model.close()  # type: ignore[attr-defined]

        return asyncio.run(whole())

    def told(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def texts(self) -> list[str]:
        """Every result's text, in the order of the view."""
        found = []
        for message in self.session.folded.view:
            for part in message.parts:
                content = getattr(part.block, "content", ())
                found.extend(block.text for block in content if isinstance(block, TextBlock))
        return found

    def check(self) -> None:
        """Nothing was refused, and every prefix of the record is a conversation that the API accepts."""
        assert list(self.server.refused) == []
        assert fold(self.record.facts).view.tokens == self.session.folded.view.tokens


Steps = Iterable[Answer | str | Callable[[dict[str, Any]], Answer]]


@contextmanager
def world(steps: Steps, folder: Path, *answers: Allow | Deny, **options: Any) -> Any:
    """A world whose model plays `steps`; `options` are ServerOptions."""
    with Server(ScriptedModel(steps), ServerOptions(**options)) as server:
        record, clock, approver = Memory(), TestClock(), Answers(*answers)
        counter = load_counter()
        session = Session("test", record, Folded(), counter, clock.now)
        tools = {tool.name: tool for tool in (Echo(), Act())}
        schema = Words.model_json_schema()
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
            hooks=NoHooks(),
            clock=clock,
            permissions=PermissionStore(PermissionRules()),
            compaction=state,
        )
        about = {"model": settings.model, "window": 200_000, "folder": str(folder)}
        session.open(settings.system, settings.tools, **about)
        yield World(server, session, context, record, clock, approver)
