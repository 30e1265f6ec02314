"""A journal gives a file its old content back where its writer died in the middle, and only there."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from pathlib import Path

import pytest

from tools.files import write_recovery
from tools.files.opening import FileContent
from tools.files.write_recovery import create_locked, journal, recover, try_lock

OLD, NEW = b"the old content\n", b"THE NEW CONTENT, longer\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path.resolve() / "file"


@pytest.fixture
def journals(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "journals"
    folder.mkdir()
    return folder


def leave_journal(journals: Path, file: Path, old: bytes, new: bytes, cut: int = 0) -> Path:
    """The journal of a writer that died; the last `cut` bytes of it were not written."""
    head = json.dumps({"path": str(file), "old": len(old), "new": len(new)}).encode() + b"\n"
    path = journals / "0123.undo"
    data = head + old + new
    path.write_bytes(data[: len(data) - cut])
    return path


@pytest.mark.parametrize("written", range(len(OLD) + 1))
def test_a_file_that_was_partly_overwritten_is_restored(file: Path, journals: Path, written: int):
    added = NEW[len(OLD) :]  # what makes it longer is written first
    file.write_bytes(NEW[:written] + OLD[written:] + added)
    leave_journal(journals, file, OLD, NEW)
    whole = written == len(OLD)
    assert recover(journals) == ([] if whole else [str(file)])
    assert file.read_bytes() == (NEW if whole else OLD)
    assert list(journals.iterdir()) == []


@pytest.mark.parametrize(
    "content",
    [
        OLD,
        NEW,
        b"",
        OLD[:-1],
        OLD + b"?",
        NEW + b"?",
        b"THE NEW something else\n",
        NEW[:5] + OLD[5:] + b"somebody appended",
        NEW[:5] + OLD[5:] + NEW[len(OLD) :] + b"?",
    ],
)
def test_a_whole_file_and_a_changed_one_are_left_alone(file: Path, journals: Path, content: bytes):
    file.write_bytes(content)
    leave_journal(journals, file, OLD, NEW)
    assert recover(journals) == []
    assert file.read_bytes() == content
    assert list(journals.iterdir()) == []


def test_an_unfinished_journal_says_that_its_file_was_not_touched_yet(file: Path, journals: Path):
    looks_torn = NEW[:5] + OLD[5:]
    file.write_bytes(looks_torn)
    leave_journal(journals, file, OLD, NEW, cut=3)
    assert recover(journals) == []
    assert file.read_bytes() == looks_torn
    assert list(journals.iterdir()) == []


@pytest.mark.parametrize(
    "head", [b"", b"no json\n", b"[]\n", b'{"path": "/x"}\n', b'{"path": 1, "old": "x", "new": 0}\n']
)
def test_a_journal_that_cannot_be_read_is_removed(journals: Path, head: bytes):
    (journals / "0123.undo").write_bytes(head)
    (journals / "other").write_bytes(head)
    assert recover(journals) == []
    assert [path.name for path in journals.iterdir()] == ["other"]


def test_the_journal_of_a_file_that_cannot_be_read_now_is_kept(
    file: Path, journals: Path, monkeypatch: pytest.MonkeyPatch
):
    def fail(path: str, max_bytes: int) -> FileContent:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), path)

    file.write_bytes(NEW[:5] + OLD[5:] + NEW[len(OLD) :])
    leave_journal(journals, file, OLD, NEW)
    with monkeypatch.context() as network_mount:
        network_mount.setattr(write_recovery, "load_file", fail)
        assert recover(journals) == []
    assert recover(journals) == [str(file)]
    assert file.read_bytes() == OLD


def test_the_journal_of_a_file_that_was_removed_is_removed(file: Path, journals: Path):
    leave_journal(journals, file, OLD, NEW)
    assert recover(journals) == []
    assert list(journals.iterdir()) == []


def test_the_journal_of_a_living_writer_is_left_alone(file: Path, journals: Path):
    torn = NEW[:5] + OLD[5:]
    file.write_bytes(torn)
    path = leave_journal(journals, file, OLD, NEW)
    with path.open("rb") as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        assert recover(journals) == []
        assert file.read_bytes() == torn and path.exists()
    assert recover(journals) == [str(file)]


def test_a_journal_holds_both_contents_while_its_block_runs(journals: Path):
    folder = os.open(journals, os.O_RDONLY)
    with journal(folder, "/some/file", OLD, NEW):
        (path,) = journals.iterdir()
        assert path.suffix == ".undo" and path.stat().st_mode & 0o777 == 0o600
        head, _, rest = path.read_bytes().partition(b"\n")
        assert json.loads(head) == {"path": "/some/file", "old": len(OLD), "new": len(NEW)}
        assert rest == OLD + NEW
        assert recover(journals) == []
    assert list(journals.iterdir()) == []
    os.close(folder)


def test_a_file_removed_before_it_was_locked_is_made_again(journals: Path, monkeypatch: pytest.MonkeyPatch):
    """Another process may take it for litter in between."""
    seen: list[int] = []

    def lock(descriptor: int) -> bool:
        if not seen:
            (journals / "made").unlink()
        seen.append(descriptor)
        return try_lock(descriptor)

    monkeypatch.setattr(write_recovery, "try_lock", lock)
    folder = os.open(journals, os.O_RDONLY)
    descriptor = create_locked(folder, "made", 0o600)
    assert len(seen) == 2
    assert os.path.samestat(os.fstat(descriptor), (journals / "made").stat())
    with pytest.raises(FileExistsError):
        create_locked(folder, "made", 0o600)
    for each in (descriptor, folder):
        os.close(each)


def test_no_directory_of_journals_means_nothing_to_settle(tmp_path: Path):
    assert recover(tmp_path / "none") == []
