"""Walled commands write in the project and in temporary folders, read the rest, and reach nobody."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.command_socket import SupervisorLost
from tools.jobs import CommandRunner, command_runner, last_folder

from .bash_session import BashSession


class WalledSession(BashSession):
    """A session whose commands run within the wall."""

    @property
    def commands(self) -> CommandRunner:
        return command_runner(self.context)

    async def output(self, line: str, walled: bool = True) -> str:
        """What a command line prints, stdout and stderr."""
        pieces: list[bytes] = []
        command, _ = await self.commands.start(line, self.folder, pieces.append, walled=walled)
        await asyncio.wait({command.closed, command.exited})
        command.close()
        return b"".join(pieces).decode().strip()

    def prints(self, line: str, walled: bool = True) -> str:
        return self.runner.run(self.output(line, walled))


@pytest.fixture
def walled(tmp_path: Path) -> Iterator[WalledSession]:
    shell = WalledSession(tmp_path.resolve())
    level, why = shell.runner.run(shell.commands.wall())
    if level == "none":
        pytest.skip(f"no wall here: {why}")
    yield shell
    shell.close()
    assert not shell.survivors()
    shell.runner.close()


def test_a_walled_command_writes_in_the_project_and_in_temporary_folders_only(walled: WalledSession) -> None:
    places = "a /tmp/b /var/tmp/c"
    said = walled.prints(f"for p in {places}; do echo $p >$p; done; echo d >/etc/d; cat {places}")
    assert said.endswith("/etc/d: Read-only file system\na\n/tmp/b\n/var/tmp/c")
    assert (walled.folder / "a").read_text() == "a\n"
    assert not Path("/tmp/b").exists()


def test_a_walled_command_sees_no_process_but_its_own_and_no_network(walled: WalledSession) -> None:
    walled.runner.run(walled.commands.start("sleep 300", walled.folder, lambda data: None))
    assert "sleep" not in walled.prints("ps ax")
    assert walled.prints("cat /proc/net/dev | tail -n +3 | cut -d: -f1").split() == ["lo"]


def test_an_open_command_runs_as_before_beside_it(walled: WalledSession) -> None:
    look = "readlink /proc/self/ns/mnt /proc/self/ns/pid /proc/self/ns/net"
    within, without = walled.prints(look).split(), walled.prints(look, walled=False).split()
    assert not set(within) & set(without)


def test_a_walled_command_never_runs_open(walled: WalledSession) -> None:
    supervisor = walled.runner.run(walled.commands.supervisor())
    supervisor.walled = None
    with pytest.raises(SupervisorLost, match="no wall"):
        walled.prints("touch open")
    assert not (walled.folder / "open").exists()


def test_what_a_walled_shell_reports_is_read_without_waiting_or_following(tmp_path: Path) -> None:
    """The report lies where walled commands write: one may put a pipe or a link in its place."""
    report, real = tmp_path.resolve() / "cwd-1", tmp_path.resolve() / "real"
    real.mkdir()
    os.mkfifo(report)
    assert last_folder(report) is None
    report.symlink_to("/etc/hostname")
    assert last_folder(report) is None
    report.unlink()
    (tmp_path / "link").symlink_to(real)
    report.write_text(f"{tmp_path}/link\n")
    assert last_folder(report) == str(real)
    assert not report.exists()
