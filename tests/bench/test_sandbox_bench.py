"""Cost of the sandbox per session, and per command compared with none; `-m bench -s` prints it."""

import statistics
import time
from pathlib import Path

import pytest

from tests.tools.sandbox_session import SandboxedSession, git, sandboxed_session
from tools.base import ToolCall
from tools.bash import BashArguments, run_bash

pytestmark = pytest.mark.bench
ROUNDS = 200


async def command(shell: SandboxedSession, sandboxed: bool) -> float:
    """Return the duration of a command in milliseconds."""
    start = time.perf_counter()
    done, _ = await shell.commands.start("true", shell.folder, lambda data: None, sandboxed=sandboxed)
    await done.exited
    took = (time.perf_counter() - start) * 1000
    await done.over
    done.close()
    return took


async def call(shell: SandboxedSession, sandboxed: bool) -> float:
    """Return the duration of a call of the bash tool, including the check of guarded files."""
    start = time.perf_counter()
    await run_bash(BashArguments(command="true"), ToolCall(shell.context, sandboxed=sandboxed))
    return (time.perf_counter() - start) * 1000


async def raised(shell: SandboxedSession) -> float:
    """Return the time to start another sandbox, in milliseconds."""
    profile = shell.commands.profile
    assert profile is not None
    start = time.perf_counter()
    await shell.commands.use_profile(profile)
    return (time.perf_counter() - start) * 1000


def quick(times: list[float]) -> float:
    """The quicker quarter: the machine has other work too."""
    return sorted(times)[len(times) // 4]


def test_a_sandboxed_command_costs_at_most_ten_milliseconds_more(tmp_path: Path) -> None:
    shell = sandboxed_session(tmp_path)
    git(shell.folder, "init", "-q")
    git(shell.folder, "commit", "-qm", "one", "--allow-empty")
    shell.require_sandbox()
    ways = [(way, sandboxed) for way in (command, call) for sandboxed in (False, True)]
    times: dict[tuple[object, bool], list[float]] = {way: [] for way in ways}
    for _ in range(ROUNDS):
        for way, sandboxed in ways:
            times[way, sandboxed].append(shell.runner.run(way(shell, sandboxed)))
    sandboxes = [shell.runner.run(raised(shell)) for _ in range(20)]
    shell.end()
    print(f"\n  {ROUNDS} rounds in turns: quicker quarter (median) ms")
    for way, sandboxed in ways:
        name, found = f"{way.__name__}, {'walled' if sandboxed else 'open'}", times[way, sandboxed]
        print(f"  {name:16} {quick(found):6.2f} ({statistics.median(found):6.2f})")
    print(f"  {'a wall':16} {quick(sandboxes):6.2f} ({statistics.median(sandboxes):6.2f})")
    for way in (command, call):
        assert quick(times[way, True]) - quick(times[way, False]) <= 10
