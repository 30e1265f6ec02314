"""The models of a compatible server are offered: at startup in place of an unknown one, and by /model."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent import commands
from agent.app import Options
from agent.app.config import Config
from agent.app.controller import Controller
from agent.app.setup import RunSetup
from agent.commands.setting_menus import model_menu
from agent.errors import UnknownModel
from agent.events import CommandOutput, Event, Notice
from agent.model.anthropic.catalog import CATALOG
from agent.model_port import ModelFacts
from tests.agent.commands.controller_run import AllowAll, ScriptedChooser
from tests.agent.model.chat_server import MODEL, ChatReply, ChatServer
from tests.agent.ui.headless_run import run_here


@asynccontextmanager
async def controlled(
    folder: Path, server: ChatServer, chooser: ScriptedChooser | None, model: str, flag: str = ""
) -> AsyncIterator[tuple[Controller, list[Event]]]:
    """A controller at a local server, which is not ready yet."""
    home = folder / "home"
    config = Config(
        provider="openai",
        openai_base_url=server.base_url,
        openai_key="k",
        openai_model=model,
        user_dir=home / "config",
        cache_dir=home / "cache",
        state_dir=home / "state",
    )
    setup = RunSetup(Options(model=flag or None), config, folder, {"PATH": "/usr/bin:/bin"})
    events: list[Event] = []
    controller = Controller(setup, events.append, AllowAll(), commands, chooser)
    try:
        yield controller, events
    finally:
        await controller.close()


@pytest.mark.parametrize("flag", ["", "no-such"])
@pytest.mark.parametrize("model", ["", "wrong"])
def test_the_user_chooses_among_the_models_of_the_server(tmp_path: Path, model: str, flag: str) -> None:
    async def work() -> None:
        chooser = ScriptedChooser("qwen3")
        async with controlled(tmp_path, server, chooser, model, flag) as (controller, _):
            await controller.ready()
            (menu,) = chooser.menus
            assert [row.value for row in menu.rows] == [MODEL, "qwen3"]
            asked = flag or model
            unknown = f"Unknown model {asked!r}; the server has {MODEL}, qwen3"
            assert menu.title == f"{unknown if asked else 'The server has several models'}. Choose one:"
            assert controller.status().model == "qwen3" and controller.services.setup.model_name == "qwen3"
            await controller.prompt("hello")
            assert b'"model":"qwen3"' in server.bodies[-1]

    with ChatServer() as server:
        server.other_models.append("qwen3")
        server.replies.append(ChatReply("hi"))
        asyncio.run(work())


def test_the_only_model_of_a_server_is_used_and_announced_if_none_is_set(tmp_path: Path) -> None:
    async def work() -> None:
        home = tmp_path / "home"
        config = Config(base_url=server.base_url, user_dir=home / "config", cache_dir=home, state_dir=home)
        setup = RunSetup(Options(), config, tmp_path, {"PATH": "/usr/bin:/bin"})
        events: list[Event] = []
        controller = Controller(setup, events.append, AllowAll(), commands, None)
        try:
            assert not await controller.open() and controller.status().model == ""
            await controller.ready()
            assert controller.status().model == MODEL and controller.status().cost == 0
        finally:
            await controller.close()
        told = [event.text for event in events if isinstance(event, Notice)]
        assert f"with {MODEL} in " in "".join(told) and "claude" not in "".join(told)

    with ChatServer() as server:
        asyncio.run(work())


@pytest.mark.parametrize("chooser", [None, ScriptedChooser("")])
def test_without_a_choice_the_start_ends_with_the_names(tmp_path: Path, chooser: ScriptedChooser | None):
    async def work() -> None:
        async with controlled(tmp_path, server, chooser, "wrong") as (controller, _):
            with pytest.raises(UnknownModel, match="unknown model 'wrong'; the server has "):
                await controller.ready()

    with ChatServer() as server:
        asyncio.run(work())


def test_a_run_without_a_screen_names_the_models(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with ChatServer() as server:
        server.other_models.append("qwen3")
        environ: dict[str, Any] = {
            "MAKEROOM_PROVIDER": "openai",
            "OPENAI_BASE_URL": server.base_url,
            "OPENAI_API_KEY": "k",
        }
        for model, told in (
            ("qwen", f"unknown model 'qwen'; did you mean qwen3? The server has {MODEL}, qwen3"),
            ("wrong", f"unknown model 'wrong'; the server has {MODEL}, qwen3"),
        ):
            run = run_here(tmp_path, capfd, None, "hello", "--model", model, **environ)
            assert run.returncode == 2 and told in run.stderr and not server.bodies


def test_the_menu_of_models_has_those_of_the_server(tmp_path: Path) -> None:
    async def work() -> None:
        chooser = ScriptedChooser("qwen3")
        async with controlled(tmp_path, server, None, MODEL) as (controller, events):
            await controller.ready()
            await controller.command("/model")
            (shown,) = [event.text for event in events if isinstance(event, CommandOutput)]
            assert shown.splitlines()[1:] == [
                f"/model {MODEL}",
                "/model qwen3",
                "/model ID       any other model",
            ]
            controller.chooser = chooser
            await controller.command("/model")
            assert {row.value for row in chooser.menus[0].rows} == {MODEL, "qwen3"}
            assert "the model is now qwen3" in str([event for event in events if isinstance(event, Notice)])

    with ChatServer() as server:
        server.other_models.append("qwen3")
        asyncio.run(work())


def test_aliases_are_offered_for_models_that_the_server_has() -> None:
    now = ModelFacts("qwen3")
    menu = model_menu(CATALOG, now, ["qwen3", "claude-opus-5-5"])
    assert [(row.value, row.title) for row in menu.rows] == [("claude-opus-5-5", "opus"), ("qwen3", "qwen3")]
    assert menu.rows[menu.at].value == "qwen3"
    assert {row.title for row in model_menu(CATALOG, ModelFacts("claude-opus-5-5")).rows} >= {
        "opus",
        "sonnet",
    }


def test_the_menu_of_models_names_the_end_of_each() -> None:
    now = ModelFacts("old", retires_on="2027-01-14")
    assert "retires on 2027-01-14" in model_menu(CATALOG, now).rows[-1].facts
