"""Tools come from sources that are opened before the first session and closed after the last one."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from agent.app import Options
from agent.app.composition import make_services
from agent.app.config import Config
from agent.app.context_building import overheads
from agent.app.services import Services
from agent.app.session_factory import SessionFactory, end_session
from agent.app.setup import RunSetup
from agent.errors import ConfigError
from agent.events import Event, Notice
from agent.model_port import RequestSettings
from agent.session.session import record_opening
from compact.tokens import TokenCounter
from tests.agent.loop.world import Answers
from tools import BUILTIN, recall
from tools.base import Tool
from transcripts.facts import Fact, Instructed, Opened, User
from transcripts.messages import TextBlock
from transcripts.session_key import SessionKey
from transcripts.store import Store

SID = "20261121-093012-aaaa"


def load_definitions() -> list[dict[str, Any]]:
    """The built-in tools in the form that was recorded before definitions had kinds."""
    path = Path(__file__).parents[2] / "tools" / "definitions.json"
    definitions: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))
    return definitions


class Source:
    """A source of one tool; keeps what it was asked."""

    name = "maps"

    def __init__(self, tool: Tool) -> None:
        self.tool = tool
        self.asked: list[object] = []

    async def open(self, folder: Path, environ: Mapping[str, str]) -> None:
        self.asked += ["open", folder, environ]

    def tools(self) -> Sequence[Tool]:
        return [self.tool]

    async def close(self) -> None:
        self.asked.append("close")


def services_in(folder: Path, events: list[Event], *sources: Source) -> Services:
    home = folder / "home"
    config = Config(user_dir=home / "config", cache_dir=home / "cache", state_dir=home / "state")
    setup = RunSetup(Options(offline=True), config, folder, {"PATH": "/bin"})
    services = make_services(setup, events.append, Answers())
    services.sources = (*services.sources, *sources)
    return services


def test_the_tools_of_another_source_join_the_built_in_ones(tmp_path: Path) -> None:
    source = Source(replace(recall.TOOL, name="mcp__maps__route"))

    async def run() -> None:
        services = services_in(tmp_path, [], source)
        await services.settle()
        await services.warm()
        session, context = await SessionFactory(services).first()
        assert (*context.tools,) == (*BUILTIN, "mcp__maps__route")
        assert [tool["name"] for tool in context.settings.tools] == [*context.tools]
        assert source.asked == ["open", tmp_path, {"PATH": "/bin"}]
        await end_session(session, context)
        await services.close()

    asyncio.run(run())
    assert source.asked[-1] == "close"


def test_a_name_that_two_sources_use_is_an_error_that_names_both(tmp_path: Path) -> None:
    async def run() -> None:
        services = services_in(tmp_path, [], Source(recall.TOOL))
        with pytest.raises(ConfigError, match="the tool recall is defined twice: by makeroom and maps"):
            await services.settle()
            await services.warm()
        await services.close()

    asyncio.run(run())


def test_what_the_tools_take_of_the_context_is_counted_without_what_only_the_record_keeps() -> None:
    counter = TokenCounter.load()
    definitions = tuple(load_definitions())
    kept = tuple({**tool, "kind": "reads"} for tool in definitions)
    counted = [overheads(RequestSettings("m", 1, tools=tools), counter) for tools in (definitions, kept)]
    assert counted[0] == counted[1] and counted[0]["tools"] > 1_000


@pytest.mark.parametrize("changed", [False, True])
def test_a_session_recorded_without_kinds_continues_without_a_notice(tmp_path: Path, changed: bool) -> None:
    key = SessionKey.load(tmp_path / "home" / "state", tmp_path)
    store = Store.create(tmp_path, SID, pytest.fail, key=key)
    recorded = load_definitions()[changed:]
    store.append(Opened(1, 1.0, ("s",), tuple(recorded), "makeroom-offline", 200_000, str(tmp_path)))
    store.append(User(2, 1.0, (TextBlock("hi"),), (5,)), durable=True)
    store.close()
    events: list[Event] = []

    async def run() -> list[Fact]:
        services = services_in(tmp_path, events)
        await services.settle()
        await services.warm()
        session, context = await SessionFactory(services).resume(SID)
        record_opening(session, context.settings, 200_000, str(tmp_path), services.emit)
        opened: list[Fact] = [fact for fact in session.folded.facts if isinstance(fact, Opened | Instructed)]
        assert session.folded.opened is not None
        assert ("kind" in session.folded.opened.tools[0]) is changed
        await end_session(session, context)
        await services.close()
        return opened

    opened = asyncio.run(run())
    assert [event for event in events if isinstance(event, Notice)] == []
    assert list(map(type, opened)) == [Opened, *([Opened, Instructed] if changed else [])]
