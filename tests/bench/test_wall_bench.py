"""What the wall costs: once a session, and for each command beside an open one; `-m bench -s` prints it."""

import statistics
import time
from pathlib import Path

import pytest

from tests.tools.wall_session import WalledSession, git, walled_session

pytestmark = pytest.mark.bench
ROUNDS = 200


async def command(shell: WalledSession, walled: bool) -> float:
    """How long a command takes, in milliseconds."""
    start = time.perf_counter()
    done, _ = await shell.commands.start("true", shell.folder, lambda data: None, walled=walled)
    await done.exited
    took = (time.perf_counter() - start) * 1000
    await done.over
    done.close()
    return took


async def raised(shell: WalledSession) -> float:
    """How long it takes to raise another wall, in milliseconds."""
    profile = shell.commands.profile
    assert profile is not None
    start = time.perf_counter()
    await shell.commands.use_profile(profile)
    return (time.perf_counter() - start) * 1000


def quick(times: list[float]) -> float:
    """The quicker quarter: the machine has other work too."""
    return sorted(times)[len(times) // 4]


def test_a_walled_command_costs_at_most_ten_milliseconds_more(tmp_path: Path) -> None:
    shell = walled_session(tmp_path)
    git(shell.folder, "init", "-q")
    git(shell.folder, "commit", "-qm", "one", "--allow-empty")
    shell.require_wall()
    times: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(ROUNDS):
        for walled in times:
            times[walled].append(shell.runner.run(command(shell, walled)))
    walls = [shell.runner.run(raised(shell)) for _ in range(20)]
    shell.end()
    print(f"\n  a command, {ROUNDS} rounds in turns: quicker quarter (median) ms")
    for walled, name in ((False, "open"), (True, "walled")):
        print(f"  {name:8} {quick(times[walled]):6.2f} ({statistics.median(times[walled]):6.2f})")
    print(f"  a wall   {quick(walls):6.2f} ({statistics.median(walls):6.2f})")
    assert quick(times[True]) - quick(times[False]) <= 10
