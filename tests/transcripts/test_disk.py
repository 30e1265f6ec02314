"""File operations that a crash or a failing disk must not break."""

import errno
import os
import resource
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from transcripts.errors import Unreadable
from transcripts.journal import open_record
from transcripts.storage.disk import (
    DISK,
    Disk,
    append_line,
    append_whole,
    expand_home,
    make_private_folders,
    read_pieces,
    read_regular,
    replace_and_open,
    replace_file,
    sync_folders,
    write_ignore_files,
)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def failing_with(error: int) -> Callable[..., Any]:
    def fail(*arguments: object) -> Any:
        raise OSError(error, os.strerror(error))

    return fail


@pytest.fixture
def fd(tmp_path: Path) -> Any:
    descriptor = os.open(tmp_path / "file", os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    yield descriptor
    os.close(descriptor)


def content(fd: int) -> bytes:
    return os.pread(fd, 1000, 0)


def test_the_beginning_of_a_path_is_a_home_directory_if_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    written = ("~", "~/a", "a/~", "~no such user/a", "/b")
    assert [str(expand_home(each)) for each in written] == [
        "/home/me",
        "/home/me/a",
        "a/~",
        "~no such user/a",
        "/b",
    ]


def test_a_line_is_appended_on_a_line_of_its_own(fd: int, tmp_path: Path) -> None:
    append_line(tmp_path / "file", b"first")
    append_line(tmp_path / "file", b"second")
    os.write(fd, b"torn")
    append_line(tmp_path / "file", b"third")
    assert content(fd) == b"first\nsecond\ntorn\nthird\n"


def test_a_line_is_appended_through_a_link_only_where_that_is_wanted(fd: int, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with pytest.raises(OSError, match="symbolic links"):
        append_line(tmp_path / "link", b"x")
    append_line(tmp_path / "link", b"x", follow_links=True)
    assert content(fd) == b"x\n"


def test_a_single_torn_byte_is_a_line_of_its_own_too(fd: int, tmp_path: Path) -> None:
    os.write(fd, b"x")
    append_line(tmp_path / "file", b"first")
    assert content(fd) == b"x\nfirst\n"


def test_what_a_limit_lets_write_only_in_part_is_an_error_that_names_it(fd: int, tmp_path: Path) -> None:
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4, old[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            append_line(tmp_path / "other", b"longer than four bytes")
        with pytest.raises(OSError, match="File too large"):
            append_whole(DISK, fd, b"longer than four bytes", 0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    torn = tmp_path / "s.jsonl"
    before = len(os.listdir("/dev/fd"))  # noqa: PTH208
    replace_file(tmp_path / "file", b"new")
    sync_folders(DISK, tmp_path)
    write_ignore_files(tmp_path)
    append_line(tmp_path / "lines", b"x")
    assert mode(tmp_path / "lines") == 0o600
    with pytest.raises(OSError, match="Input/output"):
        replace_file(tmp_path / "file", b"new", replace(DISK, sync=failing_with(errno.EIO)))
    torn.write_bytes(b"line\ntorn")
    with pytest.raises(Unreadable):
        open_record(torn, DISK, 5, 8)
    os.close(open_record(torn, DISK, 5, 9))
    assert len(os.listdir("/dev/fd")) == before  # noqa: PTH208


def test_a_short_write_is_cut_off_and_reported(fd: int) -> None:
    assert append_whole(DISK, fd, b"whole", 0) == 5
    half = replace(DISK, write=lambda descriptor, data: os.write(descriptor, data[: len(data) // 2]))
    with pytest.raises(OSError, match="partial write"):
        append_whole(half, fd, b" and more", 5)
    assert content(fd) == b"whole"


def test_missing_directories_are_made_private_and_others_left_unchanged(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir(mode=0o755)
    make_private_folders(tmp_path / "there" / "a" / "b")
    modes = [mode(tmp_path / "there" / name) for name in ("", "a", "a/b")]
    assert modes == [0o755, 0o700, 0o700]


def test_a_directory_that_another_process_makes_meanwhile_is_taken_and_a_file_is_not(tmp_path: Path) -> None:
    def mkdir_late(path: str, mode: int) -> None:
        os.mkdir(path, mode)  # noqa: PTH102
        raise FileExistsError(path)

    make_private_folders(tmp_path / "folder", replace(DISK, mkdir=mkdir_late))
    assert (tmp_path / "folder").is_dir()
    (tmp_path / "file").write_text("x")
    with pytest.raises(FileExistsError):
        make_private_folders(tmp_path / "file")


@pytest.mark.parametrize("name", [".gitignore", ".ignore"])
def test_a_directory_is_hidden_from_git_and_searches_and_what_the_user_says_is_kept(
    tmp_path: Path, name: str
) -> None:
    write_ignore_files(tmp_path)
    assert (tmp_path / name).read_bytes() == b"*\n" and mode(tmp_path / name) == 0o600
    (tmp_path / name).write_text("mine")
    write_ignore_files(tmp_path)
    assert (tmp_path / name).read_text() == "mine"


def test_a_gitignore_that_is_made_meanwhile_is_kept(tmp_path: Path) -> None:
    def open_late(path: str, flags: int, mode: int) -> int:
        Path(path).write_text("mine")
        return DISK.open(path, flags, mode)

    write_ignore_files(tmp_path, replace(DISK, open=open_late))
    assert (tmp_path / ".gitignore").read_text() == "mine"


def test_an_ignore_file_that_a_full_disk_left_empty_is_written(tmp_path: Path) -> None:
    def no_room(fd: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        write_ignore_files(tmp_path, replace(DISK, write=no_room))
    write_ignore_files(tmp_path)
    assert [(tmp_path / name).read_text() for name in (".gitignore", ".ignore")] == ["*\n", "*\n"]


def test_a_file_is_replaced_whole_over_what_a_crash_left(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old and long")
    left = tmp_path / f"file.{os.getpid()}.tmp"
    left.write_bytes(b"left by a crash")
    left.chmod(0o600)
    replace_file(path, b"new")
    assert path.read_bytes() == b"new" and mode(path) == 0o600
    assert list(tmp_path.iterdir()) == [path]
    replace_file(tmp_path / "fresh", b"new")
    assert mode(tmp_path / "fresh") == 0o600
    left.write_bytes(b"left by a crash")
    fd, size = replace_and_open(path, [], DISK, tmp_path)
    os.close(fd)
    assert path.read_bytes() == b"" and size == 0


def test_a_cache_is_replaced_without_a_sync(tmp_path: Path) -> None:
    path = tmp_path / "models.json"
    path.write_bytes(b"old")
    replace_file(path, b"new", replace(DISK, sync=failing_with(errno.EIO)), durable=False)
    assert path.read_bytes() == b"new" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("call", ["write", "sync", "rename"])
def test_a_file_that_cannot_be_replaced_stays_and_leaves_nothing_behind(tmp_path: Path, call: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(OSError, match="Input/output"):
        replace_file(path, b"new", replace(DISK, **{call: failing_with(errno.EIO)}))
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_pieces_of_a_file_that_became_shorter_are_an_error(fd: int) -> None:
    os.write(fd, b"0123456789")
    assert b"".join(read_pieces(fd, 2, 10)) == b"23456789"
    assert b"".join(read_pieces(fd, 2, 5)) == b"234"
    with pytest.raises(OSError, match="shorter"):
        list(read_pieces(fd, 2, 11))


def test_large_files_are_read_in_pieces(fd: int) -> None:
    os.truncate(fd, (2 << 20) + 5)
    assert [len(piece) for piece in read_pieces(fd, 0, (2 << 20) + 5)] == [1 << 20, 1 << 20, 5]


@pytest.mark.parametrize("error", [errno.EINVAL, errno.ENOTSUP])
def test_a_file_system_that_cannot_sync_directories_is_accepted(tmp_path: Path, error: int) -> None:
    sync_folders(replace(DISK, sync=failing_with(error)), tmp_path)
    sync_folders(replace(DISK, open=failing_with(errno.EACCES)), tmp_path)
    with pytest.raises(OSError, match="Input/output"):
        sync_folders(replace(DISK, sync=failing_with(errno.EIO)), tmp_path)


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"x")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(OSError, match="symbolic links"):
        DISK.open(str(tmp_path / "link"), os.O_RDONLY, 0)


def test_a_transcript_is_opened_private_and_only_if_unchanged_since_it_was_read(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"line\ntorn")
    path.chmod(0o644)
    for size in (0, 5, 8):
        with pytest.raises(Unreadable, match="another process changed it"):
            open_record(path, DISK, 5, size)
    os.close(open_record(path, DISK, 5, 9))
    assert path.read_bytes() == b"line\n" and mode(path) == 0o600
    assert (tmp_path / "s.torn").read_bytes() == b"torn" and mode(tmp_path / "s.torn") == 0o600


def test_a_torn_tail_survives_a_power_loss_before_it_is_cut_off(tmp_path: Path) -> None:
    path, calls = tmp_path / "s.jsonl", list[str]()
    path.write_bytes(b"line\ntorn")

    def noted(name: str) -> Any:
        def call(*arguments: Any) -> Any:
            calls.append(name)
            return getattr(DISK, name)(*arguments)

        return call

    names = ("sync", "truncate", "write")
    os.close(open_record(path, Disk(**{name: noted(name) for name in names}), 5, 9))
    assert calls == ["write", "sync", "sync", "truncate"], "the file, then the name of it"


def test_a_new_record_is_made_and_one_that_was_removed_is_not(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    os.close(open_record(path, DISK, 0, 0))
    assert path.read_bytes() == b"" and mode(path) == 0o600
    path.unlink()
    with pytest.raises(FileNotFoundError):
        open_record(path, DISK, 5, 5)


def test_nothing_but_a_regular_file_is_opened_as_a_record(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(Unreadable, match="not a regular file"):
        open_record(tmp_path / "fifo", DISK, 0, 0)


def test_a_regular_file_is_read_up_to_its_limit_and_nothing_else_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert read_regular(path, 5) == b"12345" and read_regular(path, 3, start=2) == b"345"
    for limit, start in ((4, 0), (2, 2)):
        with pytest.raises(OSError, match=f"larger than {limit} bytes"):
            read_regular(path, limit, start)
    os.mkfifo(tmp_path / "pipe")
    for other in (tmp_path / "pipe", tmp_path, Path("/dev/null")):
        with pytest.raises(OSError, match="not a"):
            read_regular(other, 5)
