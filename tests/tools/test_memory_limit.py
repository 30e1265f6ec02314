"""Memory of sandboxed commands is limited where control groups can be created."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.sandbox.supervisor.memory_group import join_memory_group, make_memory_group, remove_memory_group

from .sandbox_session import sandboxed_session

HUNGRY = "print(len(bytearray({})))"


@pytest.fixture
def group() -> Iterator[str]:
    made = make_memory_group(100 << 20) if sys.platform == "linux" else None
    if made is None:
        pytest.skip("no control group can be made here")
    yield made
    remove_memory_group(made)
    assert not Path(made).exists()


def test_what_takes_more_than_the_bound_is_killed_and_others_are_not(group: str) -> None:
    def status(size: int) -> int:
        argv = [sys.executable, "-c", HUNGRY.format(size)]
        return subprocess.run(
            argv, preexec_fn=lambda: join_memory_group(group), stdout=subprocess.DEVNULL
        ).returncode

    assert status(10 << 20) == 0
    assert status(300 << 20) == -9


def test_sandboxed_commands_are_bounded_together_and_the_bound_goes_with_the_session(
    group: str, tmp_path: Path
) -> None:
    shell = sandboxed_session(tmp_path)
    shell.require_sandbox("namespaces")
    lines = shell.prints("cat /proc/self/cgroup").splitlines()
    (mine,) = {part for line in lines for part in line.split("/") if part.startswith("makeroom-")}
    bounded = Path(group).with_name(mine)
    assert bounded.is_dir()
    shell.end()
    assert not bounded.exists()
