"""The cost of losing nothing for a command that deletes nothing; `-m bench -s` prints it."""

import asyncio
import statistics
import time
from pathlib import Path

import pytest

from agent.checkpoints import Checkpoints
from agent.loop.changed_files import checkpointed
from agent.shell import Places, UncoveredFiles, lost_paths
from tests.tools.sandbox_session import git, sandboxed_session

pytestmark = pytest.mark.bench
ROUNDS = 100


def test_keeping_what_a_command_could_destroy_costs_at_most_ten_milliseconds(tmp_path: Path) -> None:
    """Beside the scan of the files, which is there in any case."""
    shell = sandboxed_session(tmp_path)
    shell.require_sandbox()
    for number in range(200):
        (shell.folder / f"f{number}.py").write_text(f"{number}\n")
    git(shell.folder, "init", "-q")
    git(shell.folder, "add", ".")
    git(shell.folder, "commit", "-qm", "one")
    (shell.folder / "data.bin").write_bytes(bytes(5 << 20))
    checkpoints = Checkpoints(shell.folder, "s1", lambda: 1)
    places = Places(folder=str(shell.folder), home=str(shell.home), cwd=str(shell.folder))

    def scan() -> None:
        checkpoints.begin()
        checkpoints.finish()

    async def files_only() -> float:
        start = time.perf_counter()
        await asyncio.to_thread(scan)
        return (time.perf_counter() - start) * 1000

    async def everything() -> float:
        start = time.perf_counter()
        uncovered = UncoveredFiles(checkpoints.recording.skipped, files=checkpoints.recording.unkept)
        assert lost_paths("python3 -m pytest -q tests", places, uncovered) == []
        async with checkpointed(checkpoints, lambda event: None, shell.context):
            pass
        return (time.perf_counter() - start) * 1000

    for _ in range(3):
        shell.runner.run(everything())
        time.sleep(0.06)  # until the clock of the file system can hide no change
    times: dict[str, list[float]] = {"files only": [], "everything": []}
    for _ in range(ROUNDS):
        times["files only"].append(shell.runner.run(files_only()))
        times["everything"].append(shell.runner.run(everything()))
    shell.end()
    quick = {name: sorted(found)[ROUNDS // 4] for name, found in times.items()}
    print()
    for name, found in times.items():
        print(f"  {name:12} {quick[name]:6.2f} ({statistics.median(found):6.2f}) ms")
    assert checkpoints.uncovered() == []
    assert quick["everything"] - quick["files only"] <= 10
