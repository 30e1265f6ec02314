"""The sessions that the tests of the tools work with."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.processes.runner import CommandRunner, command_runner

from .bash_session import BashSession
from .file_session import FileSession


@pytest.fixture
def files(tmp_path: Path) -> FileSession:
    return FileSession(tmp_path)


@pytest.fixture
def new_shell(tmp_path: Path) -> Iterator[BashSession]:
    """A session that was never used. Nothing that its commands start may be left when it is closed."""
    shell = BashSession(tmp_path.resolve())
    yield shell
    shell.close()
    assert not shell.survivors()
    shell.runner.close()


@pytest.fixture(scope="module")
def used_shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BashSession]:
    """The session whose event loop and supervisor each `shell` of a module takes over."""
    shell = BashSession(tmp_path_factory.mktemp("used").resolve())
    yield shell
    shell.close()
    shell.runner.close()


@pytest.fixture
def shell(tmp_path: Path, used_shell: BashSession) -> Iterator[BashSession]:
    """A session in its own directory. No process of its commands may be left when it has ended."""
    shell = BashSession(tmp_path.resolve(), runner=used_shell.runner)
    runner = shell.context.jobs = command_runner(used_shell.context)
    runner.context, runner.jobs = shell.context, {}
    runner.on_finish = lambda announcement: None
    yield shell
    shell.runner.run(_stop_all(runner))
    assert not shell.survivors()


async def _stop_all(runner: CommandRunner) -> None:
    await asyncio.gather(*(runner.stop(job) for job in runner.running))
