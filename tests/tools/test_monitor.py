"""A command that is watched, and one that the user moves into the background."""

import asyncio
from typing import Any

from tools.base import ToolCall, ToolResult
from tools.monitor import TOOL
from tools.processes.command_progress import MAX_LINE_NEWS_CHARS, LineNews
from tools.processes.foreground import move_to_background
from tools.processes.inbox import Inbox
from tools.processes.runner import command_runner
from transcripts.messages import TextBlock

from .bash_session import GUARD_S, BashSession, text, wait_until
from .tool_run import run_tool


def watch(shell: BashSession, command: str, **given: Any) -> ToolResult:
    call = ToolCall(shell.context, "m.0")
    arguments = TOOL.parse({"command": command, **given})
    return shell.runner.run(run_tool(TOOL, arguments, call))


def output(lines: str) -> str:
    """The lines as data: the command wrote them."""
    return f"<background-output>\n{lines}\n</background-output>"


def told(shell: BashSession, count: int) -> str:
    """Return what is posted once so many texts wait; the loop of the session runs meanwhile."""

    async def wait() -> None:
        async with asyncio.timeout(GUARD_S):
            while len(shell.context.inbox.waiting) < count:
                await asyncio.sleep(0.001)

    shell.runner.run(wait())
    return "\n".join(news.text for news in shell.context.inbox.take())


def test_new_lines_of_a_watched_command_are_reported_once_and_its_end_too(shell: BashSession) -> None:
    command = "echo one; while [ ! -e go ]; do sleep 0.01; done; echo two; printf three"
    result = watch(shell, command)
    assert "Watching as b1 for at most 600 s" in text(result) and result.about == {"job": "b1"}
    assert told(shell, 1) == output("[b1 wrote 1 new line]\none")
    (shell.folder / "go").touch()
    shell.wait_for("b1")
    words = told(shell, 2)
    assert "[b1 wrote 2 new lines]\ntwo\nthree" in words and "[Background command b1 (echo one;" in words


def test_secrets_in_watched_lines_are_masked_like_in_other_output(shell: BashSession) -> None:
    secrets = "echo sk-ant-x7Kp22Lq9zAb; echo DB_PASSWORD=Zx9-kq1-77f; printf 'and sk-ant-x7Kp22Lq9'"
    watch(shell, f"{secrets}; while [ ! -e go ]; do sleep 0.01; done; echo; {secrets}")
    (shell.folder / "go").touch()
    shell.wait_for("b1")
    masked = "[Anthropic key masked]\nDB_PASSWORD=[secret masked]\nand [Anthropic key masked]"
    assert f"{masked}\n{masked}\n" in told(shell, 2)


def test_a_watched_command_ends_when_its_time_is_up(shell: BashSession) -> None:
    watch(shell, "sleep 300", timeout=50)
    assert " stopped, exit code 143" in told(shell, 1)
    assert wait_until(lambda: not shell.survivors())


def test_no_request_carries_more_than_a_thousand_characters_and_the_newest_lines_win() -> None:
    inbox = Inbox()
    news = LineNews(inbox, "b1", 0)
    news.take("".join(f"line {at} \x1b[31m\n" for at in range(500)).encode())
    news.take(b"caf\xc3")
    news.take(b"\xa9\n\n" + b"x" * 5_000 + b"\n")
    (words,) = (news.text for news in inbox.take())
    opening, *_, closing = words.split("\n")
    assert (opening, closing) == ("<background-output>", "</background-output>")
    words = words.removeprefix(f"{opening}\n").removesuffix(f"\n{closing}")
    assert len(words) <= MAX_LINE_NEWS_CHARS and "\x1b" not in words
    head, *lines = words.split("\n")
    assert head.startswith("[b1 wrote 502 new lines, the first ") and lines[-2:] == ["café", "x" * 300]
    assert f"the first {502 - len(lines)} omitted here" in head
    news.take(b"after\nunfin")
    news.end()
    assert inbox.take() == [TextBlock(output("[b1 wrote 2 new lines]\nafter\nunfin"))]


def test_a_command_that_is_moved_continues_and_its_end_is_reported(shell: BashSession) -> None:
    runner = command_runner(shell.context)
    assert move_to_background(runner) == 0

    async def work() -> ToolResult:
        command = "echo so far; touch on; while [ ! -e go ]; do sleep 0.01; done; echo rest; exit 3"
        task = asyncio.ensure_future(shell.arun(command))
        while not (shell.folder / "on").exists() or not runner.foreground:
            await asyncio.sleep(0.005)
        assert move_to_background(runner) == 1 and move_to_background(runner) == 0
        return await asyncio.wait_for(task, GUARD_S)

    result = shell.runner.run(work())
    assert not result.error and text(result).startswith("so far\n[moved to the background by the user")
    assert result.human.note == "continues in the background as b1"
    (shell.folder / "go").touch()
    shell.wait_for("b1")
    assert " finished, exit code 3, after " in told(shell, 1)
    assert shell.say(job="b1").startswith("rest\n[job b1: finished, exit code 3")
    assert shell.say("echo next") == "next"


def test_a_command_past_its_time_continues_where_a_user_is_at_the_screen(shell: BashSession) -> None:
    shell.context.attended = True
    command = "echo so far; while [ ! -e go ]; do sleep 0.01; done; echo rest; exit 3"
    result = shell.run(command, timeout=1_000)
    assert not result.error and result.about == {"exit": None, "job": "b1"}
    assert text(result) == (
        "so far\n[still running after its time limit of 1 s: it continues as background job b1. "
        'Status: bash(job="b1"). Stop: bash(job="b1", kill=true). You are notified when it ends]'
    )
    assert result.human.note == "continues in the background as b1"
    (shell.folder / "go").touch()
    shell.wait_for("b1")
    assert " finished, exit code 3, after " in told(shell, 1)
    assert shell.say(job="b1").startswith("rest\n[job b1: finished, exit code 3")
    shell.run("sleep 300 & sleep 300", timeout=200)
    assert "[job b2: stopped, exit code 143" in shell.say(job="b2", kill=True)
    assert wait_until(lambda: not shell.survivors())


def test_a_late_command_that_waits_for_a_user_or_keys_is_ended_all_the_same(shell: BashSession) -> None:
    shell.context.attended = True
    shell.limit(quiet_s=0.1, editor_s=0.2)
    assert "timed out after 1 s" in shell.say("printf 'Overwrite f? [y/N] '; sleep 300", timeout=1_000)
    (shell.folder / "vi").write_text("#!/bin/sh\nsleep 300\n")
    (shell.folder / "vi").chmod(0o755)
    shell.context.environ = {**shell.context.environ, "PATH": f"{shell.folder}:/usr/bin:/bin"}
    assert "keyboard input" in shell.say("vi f") and "timed out" in shell.say("vi f", timeout=100)
    assert not shell.jobs and wait_until(lambda: not shell.survivors())


def test_a_late_command_ends_with_the_session(new_shell: BashSession) -> None:
    new_shell.context.attended = True
    assert "continues as background job" in new_shell.say("setsid sleep 300 & sleep 300", timeout=200)
    new_shell.close()
    assert not new_shell.survivors()
