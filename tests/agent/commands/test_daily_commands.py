"""What one reaches for every day: /init, /memory, /effort, /tasks, against the strict server."""

import asyncio
import time
from dataclasses import replace
from pathlib import Path

import pytest

from agent.app.config import load_config
from agent.commands import may_run_during_turn
from agent.errors import UsageError
from agent.events import ClipboardCopy
from agent.model.anthropic.client import AnthropicModel
from agent.model.selection import ModelSelection
from agent.offline.brain import Brain
from agent.offline.server import Server
from tools.arguments import parse
from tools.base import ToolCall

from .test_commands import READ_ALL, Desk, at_desk, files


@pytest.mark.parametrize(
    ("line", "allowed"),
    [
        ("/context", True),
        ("/context now", True),
        ("/tasks kill b1", True),
        ("/model", True),
        ("/model opus", False),
        ("/permissions mode manual", False),
        ("/thinking", True),
        ("/compact", False),
        ("/clear", False),
        ("/nothing", False),
        ("!ls", False),
    ],
)
def test_commands_that_only_look_may_run_during_a_turn(line: str, allowed: bool) -> None:
    assert may_run_during_turn(line) is allowed


def test_init_asks_the_model_in_a_turn_of_its_own(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        await desk.do("/init mention the tabs")
        sent = desk.bodies()[0].decode()
        assert "write AGENTS.md" in sent and "mention the tabs" in sent and "There is AGENTS.md" not in sent
        (tmp_path / "AGENTS.md").write_text("use tabs", "utf-8")
        await desk.do("/init")
        assert any(b"There is AGENTS.md already" in body for body in desk.bodies())

    at_desk(tmp_path, work)


def test_memory_names_the_files_with_their_tokens_and_what_changed_since(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("Always use tabs in this project.", "utf-8")

    async def work(desk: Desk) -> None:
        text = await desk.do("/memory")
        assert f"tokens  {tmp_path / 'AGENTS.md'}\n" in text and "since)" not in text
        (tmp_path / "AGENTS.md").write_text("Use spaces.", "utf-8")
        assert "(changed since)" in await desk.do("/memory")
        text = await desk.do("/clear", "/memory")
        assert "since)" not in text
        (tmp_path / "AGENTS.md").unlink()
        assert "(gone since)" in await desk.do("/memory")

    at_desk(tmp_path, work)


def test_without_a_memory_file_memory_tells_where_to_put_one(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        assert "put AGENTS.md or CLAUDE.md in" in await desk.do("/memory")
        (tmp_path / "CLAUDE.md").write_text("x", "utf-8")
        assert f"not read  {tmp_path / 'CLAUDE.md'}  (made since)" in await desk.do("/memory")

    at_desk(tmp_path, work)


def test_effort_goes_out_with_the_next_request_and_thinking_stays_valid(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        assert "the default of the model" in await desk.do("/effort")
        await desk.do("hello", "/effort low", "hello again")
        assert "the effort is low" in await desk.do("/thinking")
        assert "low, medium, high" in await desk.do("/effort much")
        await desk.do("/clear", "hello")

    server = at_desk(tmp_path, work)
    efforts = [body.get("output_config", {}).get("effort") for body in server.requests]
    assert efforts == [None, "low", "low"]


def test_a_model_without_effort_is_told_so(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        assert "takes no effort here" in await desk.do("/model claude-haiku-4-5", "/effort low")
        await desk.do("hello")

    at_desk(tmp_path, work)


def test_tasks_shows_background_commands_and_ends_them(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        assert "no command has run in the background" in await desk.do("/tasks")
        _, context = desk.agent.in_use
        bash = context.tools["bash"]
        given = {"command": "echo up; sleep 777", "run_in_background": True}
        await bash.run(parse(bash, given), ToolCall(context.tool_context, "t.1"))
        text = await desk.do("/ps")
        assert "b1  echo up; sleep 777" in text and "running" in text
        assert "b1 runs" in await desk.do("/tasks kill b9")
        assert "Background command b1 (echo up; sleep 777) stopped" in await desk.do("/tasks kill b1")
        text = await desk.do("/tasks")
        assert "stopped" in text and "nothing runs" in await desk.do("/tasks kill b1")
        await desk.do("hello")
        assert any(b"Background command b1" in body for body in desk.bodies())

    at_desk(tmp_path, work)


def test_diff_shows_what_the_session_changed_and_no_more(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n", "utf-8")
    (tmp_path / "b.txt").write_text("here\n", "utf-8")

    async def work(desk: Desk) -> None:
        assert "changed nothing in the project" in await desk.do("/diff")
        await desk.do("read a.txt, then replace `two` with `three` in a.txt")
        text = await desk.do("/diff")
        assert "changed  a.txt  +1 -1" in text and "-two\n+three" in text and "1 file, +1 -1" in text
        await desk.do("!rm b.txt; seq 500 > new.txt")
        assert "b.txt" not in await desk.do("/diff")  # the person's own commands are not the session's doing
        await desk.do("run `rm -f b.txt; mkdir d; seq 500 > d/long.txt`")
        text = await desk.do("/diff")
        assert "new      d/long.txt  +500 -0" in text and "/diff d/long.txt shows all" in text
        assert "+500" in await desk.do("/diff ./d") and "+499\n" in desk.words()
        assert "a.txt" not in desk.words()
        (tmp_path / "a.txt").write_text("one\ntwo\n", "utf-8")
        assert "a.txt" not in await desk.do("/diff")

    at_desk(tmp_path, work)


def test_diff_of_a_session_without_a_record_says_that_nothing_was_kept(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        assert "no checkpoints" in await desk.do("/diff")

    at_desk(tmp_path, work, no_session=True)


def test_copy_gives_the_newest_answers_to_the_terminal_or_the_clipboard_program(tmp_path: Path) -> None:
    (tmp_path / "wl-copy").write_text(f"#!/bin/sh\ncat > {tmp_path}/clip\n", "utf-8")
    (tmp_path / "wl-copy").chmod(0o755)

    async def work(desk: Desk) -> None:
        assert "no answer to copy" in await desk.do("/copy")
        await desk.do("hello", "/copy")
        (first,) = desk.told(ClipboardCopy)
        await desk.do("what can you do?", "/copy 2")
        assert desk.told(ClipboardCopy)[0].text == first.text != ""
        assert "from 1 (the newest answer) to 2" in await desk.do("/copy 3")
        assert "from 1 (the newest answer) to 2" in await desk.do("/copy x")
        environ = {"WAYLAND_DISPLAY": "w", "PATH": f"{tmp_path}:/usr/bin:/bin"}
        desk.agent.setup = replace(desk.agent.setup, environ=environ)
        assert "with wl-copy" in await desk.do("/copy 2") and not desk.told(ClipboardCopy)
        assert (tmp_path / "clip").read_text("utf-8") == first.text
        desk.agent.setup = replace(desk.agent.setup, environ={**environ, "SSH_TTY": "/dev/pts/1"})
        await desk.do("/copy")
        assert desk.told(ClipboardCopy)

    at_desk(tmp_path, work)


def test_a_model_that_the_server_does_not_know_is_used_and_told(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        assert "/model opus     claude-opus-5-5" in await desk.do("/model")
        assert "did you mean sonnet?" in await desk.do("/model sonet")
        assert desk.agent.status().model == "sonet"
        text = await desk.do("/model sonnet", "hello", "/model opus")
        assert text.count("thinking") == 1 and "the model is now claude-opus-5-5" in text

    at_desk(tmp_path, work)


def test_each_model_is_paid_at_its_own_prices_also_when_the_session_is_gone_on_with(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        await desk.do("hello")
        before = desk.agent.status().cost
        await desk.do("/model haiku")
        assert desk.agent.status().cost == before > 0
        text = await desk.do("hello", "/cost")
        assert "list prices of claude-sonnet-5-5, claude-haiku-5-5" in text
        assert before < desk.agent.status().cost < 2 * before
        spent, sid = desk.agent.status().cost, desk.agent.in_use[0].sid
        await desk.do("/clear", f"/resume {sid}")
        assert desk.agent.status().cost == pytest.approx(spent)

    at_desk(tmp_path, work)


def test_a_model_that_the_service_does_not_have_is_refused_with_the_nearest(tmp_path: Path) -> None:
    async def ask(server: Server) -> None:
        model = AnthropicModel(server.base_url, "test-key-12345", assume_official=True)
        selection = ModelSelection(model, "", time.time, None)
        try:
            with pytest.raises(
                UsageError, match=r"no model 'claude-opus-5\.5'; did you mean claude-opus-5-5"
            ):
                await selection.choose("claude-opus-5.5")
            assert selection.facts.id == "claude-sonnet-5-5"
            await selection.choose("opus")
            assert selection.facts.id == "claude-opus-5-5"
        finally:
            await model.close()

    with Server(Brain()) as server:
        asyncio.run(ask(server))


def test_the_demo_offers_no_other_model(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        assert "--offline has only the demo" in await desk.do("/model opus")
        assert desk.agent.status().model == "makeroom-offline"

    at_desk(tmp_path, work, offline=True)


def test_compact_says_in_plain_words_why_it_does_nothing_or_what_it_would_do(tmp_path: Path) -> None:
    files(tmp_path)

    async def work(desk: Desk) -> None:
        assert "a summary pays from" in await desk.do("hello", "/compact")
        text = await desk.do(READ_ALL, "/compact --dry-run")
        assert "become a record of about" in text and "What stays, the largest first" in text
        assert "unthink" not in text

    at_desk(tmp_path, work)


def test_config_tells_where_each_setting_was_set(tmp_path: Path) -> None:
    user, project = tmp_path / "xdg" / "makeroom" / "settings.toml", tmp_path / ".makeroom" / "settings.toml"
    for path, text in (
        (user, 'model = "haiku"\nmax_tokens = 9000\ndeny = ["bash(rm *)"]\n[compact]\ntrigger = 90000\n'),
        (project, 'max_tokens = 8000\ndeny = ["bash(git push)"]\nmodel = "opus"\n'),
    ):
        path.parent.mkdir(parents=True)
        path.write_text(text, "utf-8")
    environ = {
        "XDG_CONFIG_HOME": str(tmp_path / "xdg"),
        "MAKEROOM_POLICY": "classic",
        "ANTHROPIC_API_KEY": "sk-secret-value",
    }

    async def work(desk: Desk) -> None:
        desk.agent.setup = replace(desk.agent.setup, config=load_config(environ, tmp_path, tmp_path))
        desk.agent.in_use[1].compaction.settings = desk.agent.setup.compact_settings()
        text = await desk.do("/permissions mode dontAsk", "/effort max", "/config")
        rows = dict(line.split(maxsplit=1) for line in text.splitlines() if "  " in line)
        assert rows["max_tokens"] == f"8000  ({project})"
        assert rows["deny"] == f"bash(rm *), bash(git push)  ({user}, {project})"
        assert rows["compact.policy"] == "classic  (MAKEROOM_POLICY)"
        assert rows["compact.trigger"] == f"90000  ({user})"
        assert rows["key"] == "set  (ANTHROPIC_API_KEY)" and "secret-value" not in text
        assert rows["context_window"] == "200000  (--context-window)"
        assert rows["permission_mode"] == "dontAsk  (Shift+Tab or /permissions)"
        assert rows["effort"] == "max  (/effort)" and rows["cache"] == "5m  (default)"
        assert "pre_tool      -" in await desk.do("/hooks")

    at_desk(tmp_path, work)
