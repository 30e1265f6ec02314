"""Stored outputs: private, whole or not there at all, and durable."""

import errno
import hashlib
import os
import stat
import sys
from pathlib import Path

import pytest

from tests.tables import each_row
from transcripts.facts import StoredOutput
from transcripts.stored_outputs import OutputsFolder

from .failing_disk import FailurePlan, failing_disk, short_writing_disk
from .simulated_disk import DiskRecorder, SimulatedDisk

DEEP = Path(".task_outputs") / "tool-results"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_directories_and_files_are_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        path = OutputsFolder(tmp_path / DEEP).write("r3.txt", b"text")
    finally:
        os.umask(before)
    assert mode(path) == mode(path.with_name(".gitignore")) == 0o600
    assert mode(path.parent) == mode(path.parent.parent) == 0o700
    assert path.with_name(".gitignore").read_bytes() == b"*\n"


def test_a_stored_output_survives_a_power_loss(tmp_path: Path) -> None:
    recorder = DiskRecorder(simulated := SimulatedDisk(tmp_path))
    path = OutputsFolder(tmp_path / DEEP, recorder.disk()).write("r3.txt", b"text")
    assert {left.get(str(path)) for left in simulated.after_power_loss(50)} == {b"text"}


def test_an_output_that_a_command_wrote_survives_a_power_loss_once_it_is_synced(tmp_path: Path) -> None:
    recorder = DiskRecorder(simulated := SimulatedDisk(tmp_path))
    path = tmp_path / DEEP / "out.txt"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"text")
    for folder in (path.parent.parent, path.parent):
        simulated.create(str(folder), folder=True)
    simulated.write(simulated.create(str(path)), b"text")
    assert {left.get(str(path)) for left in simulated.after_power_loss(50)} >= {None, b"text"}
    OutputsFolder(path.parent, recorder.disk()).sync(path.name)
    assert {left.get(str(path)) for left in simulated.after_power_loss(50)} == {b"text"}


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no path of an open directory")
def test_an_output_is_not_written_through_a_link_that_a_command_makes_meanwhile(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    outputs = tmp_path / "project" / DEEP
    outputs.mkdir(parents=True)

    def exchange(name: str) -> None:
        if name == "open" and not outputs.is_symlink():
            outputs.rename(tmp_path / "moved")
            outputs.symlink_to(outside)

    recorder = DiskRecorder(SimulatedDisk(tmp_path), before=exchange)
    OutputsFolder(outputs, recorder.disk()).write("r3.txt", b"text")
    assert list(outside.iterdir()) == [] and (tmp_path / "moved" / "r3.txt").read_bytes() == b"text"


@each_row("error", [errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE])
def test_a_file_stays_whole_when_it_cannot_be_replaced(tmp_path: Path, error: int) -> None:
    path = OutputsFolder(tmp_path, failing_disk(count := FailurePlan(10**9, 0))).write("r3.txt", b"first")
    for at in range(1, count.count):
        plan = FailurePlan(at, error)
        try:
            OutputsFolder(tmp_path, failing_disk(plan)).write("r3.txt", b"second")
        except OSError as failure:
            assert failure.errno == error
        assert path.read_text() in ("first", "second")
        assert sorted(each.name for each in tmp_path.iterdir()) == [".gitignore", ".ignore", "r3.txt"]


def test_a_half_written_output_is_removed(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="partial write"):
        OutputsFolder(tmp_path, short_writing_disk(FailurePlan(3, 0, ("write",)), 0.5)).write(
            "r3.txt", b"text"
        )
    assert not (tmp_path / "r3.txt").exists()


def test_what_something_else_writes_behind_an_output_is_left_out(tmp_path: Path) -> None:
    path = OutputsFolder(tmp_path).write("r3.txt", b"whole")
    stored = StoredOutput("r3.txt", hashlib.sha256(b"whole").hexdigest(), 5)
    with path.open("a") as file:
        file.write("# and more")
    assert OutputsFolder(tmp_path).read(stored) == "whole"
    path.write_text("wholf")
    assert OutputsFolder(tmp_path).read(stored) is None
