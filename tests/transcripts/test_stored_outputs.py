"""The files of outputs: private, whole or not there at all, and durable before anybody names them."""

import errno
import os
import stat
from pathlib import Path

import pytest

from transcripts.stored_outputs import store_output, sync_output

from .failing_disk import Plan, failing, short_writing
from .simulated_disk import Platter, Recorder

DEEP = Path(".task_outputs") / "tool-results"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_folders_and_files_are_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        path = store_output(tmp_path / DEEP, "r3.txt", "text")
    finally:
        os.umask(before)
    assert mode(path) == mode(path.with_name(".gitignore")) == 0o600
    assert mode(path.parent) == mode(path.parent.parent) == 0o700
    assert path.with_name(".gitignore").read_bytes() == b"*\n"


def test_a_stored_output_outlives_the_power(tmp_path: Path) -> None:
    recorder = Recorder(platter := Platter(tmp_path))
    path = store_output(tmp_path / DEEP, "r3.txt", "text", recorder.disk())
    assert {left.get(str(path)) for left in platter.losses(50)} == {b"text"}


def test_an_output_that_a_command_wrote_outlives_the_power_once_it_is_settled(tmp_path: Path) -> None:
    recorder = Recorder(platter := Platter(tmp_path))
    path = tmp_path / DEEP / "out.txt"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"text")
    for folder in (path.parent.parent, path.parent):
        platter.made(str(folder), folder=True)
    platter.write(platter.made(str(path)), b"text")
    assert {left.get(str(path)) for left in platter.losses(50)} >= {None, b"text"}
    sync_output(path, recorder.disk())
    assert {left.get(str(path)) for left in platter.losses(50)} == {b"text"}


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE])
def test_a_file_that_is_there_stays_whole_when_it_cannot_be_written_anew(tmp_path: Path, error: int) -> None:
    path = store_output(tmp_path, "r3.txt", "first", failing(count := Plan(10**9, 0)))
    for at in range(1, count.count):
        plan = Plan(at, error)
        try:
            store_output(tmp_path, "r3.txt", "second", failing(plan))
        except OSError as failure:
            assert failure.errno == error
        assert path.read_text() in ("first", "second")
        assert sorted(each.name for each in tmp_path.iterdir()) == [".gitignore", "r3.txt"]


def test_half_of_an_output_is_no_output(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="only a part"):
        store_output(tmp_path, "r3.txt", "text", short_writing(Plan(2, 0, ("write",)), 0.5))
    assert not (tmp_path / "r3.txt").exists()
