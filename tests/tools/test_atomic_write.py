"""A write keeps what belongs to a file, and a fault leaves the old content or the new one.

Most faults do not stop root, so the tool then runs as another user in a child process. Tests are skipped
where they need root (to mount a small file system), a C compiler (to make the system answer that a quota is
used up) or a file system with attributes.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import shutil
import stat
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tools.base import ToolError
from tools.file_errors import os_errors_explained
from tools.files.opening import FileChanged, load_file, opened_path
from tools.files.write_recovery import try_lock
from tools.files.writing import WriteRequest, atomic_write

from .file_session import NOBODY, ROOT, FileSession, child
from .tool_run import run_tool

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def open_files() -> Iterator[FileSession]:
    """A project that no one may write to as well; pytest's own directories are closed to others."""
    folder = Path(tempfile.mkdtemp()).resolve()
    folder.chmod(0o777)
    yield FileSession(folder)
    shutil.rmtree(folder)


def as_nobody() -> int | None:
    return NOBODY if os.geteuid() == 0 else None


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# An access list: the owner may read and write, user 1234 and the group may read.
RIGHTS = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", *entry)
    for entry in ((1, 6, 2**32 - 1), (2, 4, 1234), (4, 4, 2**32 - 1), (16, 4, 2**32 - 1), (32, 0, 2**32 - 1))
)

MODES = [(0o755, 0o755), (0o600, 0o600), (0o4755, 0o755), (0o640, 0o640)]
MASKS = [(0o022, 0o644, 0o755), (0o077, 0o600, 0o700), (0, 0o666, 0o777)]


@pytest.mark.parametrize(("before", "after"), MODES)
def test_the_mode_is_kept_and_setuid_is_dropped(files: FileSession, before: int, after: int):
    path = files.seen("f", b"a\n")
    path.chmod(before)
    files.edit("f", "a", "b")
    assert mode(path) == after
    path.chmod(before)
    files.do("write", file_path="f", content="c\n")
    assert mode(path) == after
    os.link(path, files.path("second"))
    path.chmod(before)
    files.edit("f", "c", "d")
    assert mode(path) == after


@pytest.mark.parametrize(("mask", "file", "folder"), MASKS)
def test_a_new_file_follows_the_umask(files: FileSession, mask: int, file: int, folder: int):
    old = os.umask(mask)
    try:
        files.do("write", file_path="d/f", content="x")
        files.edit("d/g", "", "y")
    finally:
        os.umask(old)
    assert mode(files.path("d/f")) == mode(files.path("d/g")) == file
    assert mode(files.path("d")) == folder


@needs_root
def test_owner_and_group_are_kept(files: FileSession):
    path = files.seen("f", b"a\n")
    os.chown(path, 1234, 2345)
    files.edit("f", "a", "b")
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 2345)


@needs_root
def test_an_owner_that_cannot_be_given_is_kept_by_writing_in_place(open_files: FileSession):
    path = open_files.put("f", b"a\n")
    path.chmod(0o666)
    number = path.stat().st_ino
    told = child(
        "files.do('read', file_path='f'); print(files.edit('f', 'a', 'b'))", open_files.folder, NOBODY
    )
    assert "in place to keep its owner" in told
    assert path.read_bytes() == b"b\n"
    assert (path.stat().st_ino, path.stat().st_uid) == (number, os.geteuid())
    assert open_files.litter() == []


def test_where_modes_cannot_be_set_a_file_is_replaced_if_it_has_the_mode_of_a_new_one(
    files: FileSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int, mode: int) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "fchmod", refuse)
    told = []
    for name, mode in (("like_new", 0o600), ("other", 0o640)):
        files.seen(name, b"a\n").chmod(mode)
        told.append(files.edit(name, "a", "b"))
        assert files.path(name).read_bytes() == b"b\n"
    assert "in place" not in told[0] and "[written in place to keep its mode]" in told[1]


def test_attributes_and_access_lists_are_kept(files: FileSession):
    if not hasattr(os, "setxattr"):
        pytest.skip("this system names attributes otherwise")
    path = files.seen("f", b"a\n")
    try:
        os.setxattr(path, "user.note", b"kept")
        os.setxattr(path, "system.posix_acl_access", RIGHTS)
    except OSError as error:
        pytest.skip(f"no attributes here: {error}")
    files.edit("f", "a", "b")
    assert os.getxattr(path, "user.note") == b"kept"
    assert os.getxattr(path, "system.posix_acl_access") == RIGHTS


def test_a_read_only_file_is_not_overwritten(open_files: FileSession):
    path = open_files.put("f", b"a\n")
    if as_nobody() is not None:
        os.chown(path, NOBODY, NOBODY)
    path.chmod(0o444)
    out = child(
        "files.do('read', file_path='f')\n"
        "print(files.refused('edit', file_path='f', old_string='a', new_string='b'))\n"
        "print(files.refused('write', file_path='f', content='b'))",
        open_files.folder,
        as_nobody(),
    )
    assert out.count("read-only (mode 0444)") == 2
    assert path.read_bytes() == b"a\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files of others")
def test_a_file_of_others_is_reported_by_its_owner(open_files: FileSession):
    open_files.put("f", b"a\n").chmod(0o644)
    out = child(
        "files.do('read', file_path='f')\nprint(files.refused('write', file_path='f', content='b'))",
        open_files.folder,
        NOBODY,
    )
    assert "is read-only (mode 0644, of user 0) and was not changed." in out


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("chattr") is None, reason="only root makes files immutable, by chattr"
)
def test_an_immutable_file_is_not_called_read_only(files: FileSession):
    path = files.seen("f", b"a\n")
    if subprocess.run(["chattr", "+i", str(path)], check=False, capture_output=True).returncode:
        pytest.skip("this file system has no such attribute")
    try:
        assert "the file may be marked immutable" in files.refused("write", file_path="f", content="b")
    finally:
        subprocess.run(["chattr", "-i", str(path)], check=True)


def test_hard_links_stay_linked(files: FileSession):
    path = files.seen("f", b"a\nlonger\n")
    os.link(path, files.path("g"))
    assert "2 names" in files.edit("f", "a", "b")
    assert files.path("g").read_bytes() == b"b\nlonger\n"
    files.do("write", file_path="f", content="short\n")
    assert files.path("g").read_bytes() == b"short\n"
    files.do("write", file_path="f", content="now longer than before\n")
    assert files.path("g").read_bytes() == b"now longer than before\n"
    assert files.path("f").samefile(files.path("g"))
    assert files.litter() == []


def test_a_link_stays_a_link(files: FileSession):
    files.put("d/target", b"a\n")
    files.path("l").symlink_to("d/target")
    files.do("read", file_path="l")
    files.edit("l", "a", "b")
    files.do("write", file_path="l", content="c\n")
    assert files.path("l").is_symlink()
    assert files.path("d/target").read_bytes() == b"c\n"


def test_a_file_in_a_directory_that_cannot_be_written_is_written_in_place(open_files: FileSession):
    path = open_files.put("d/f", b"a\n")
    path.chmod(0o666)
    if as_nobody() is not None:
        os.chown(path, NOBODY, NOBODY)
    path.parent.chmod(0o555)
    out = child(
        "files.do('read', file_path='d/f'); print(files.edit('d/f', 'a', 'b'))\n"
        "print(files.refused('write', file_path='d/new', content='x'))",
        open_files.folder,
        as_nobody(),
    )
    assert "new files are not permitted" in out and "permission denied" in out
    assert path.read_bytes() == b"b\n"
    assert [each.name for each in path.parent.iterdir()] == ["f"]
    assert open_files.litter() == []
    path.parent.chmod(0o777)


KILLED = """
import os, signal
from tools.files.opening import load_file
from tools.files.writing import WriteRequest, atomic_write

def victim(path, data, stage):
    "A process that dies at the stage; says whether it came that far."
    pid = os.fork()
    if pid == 0:
        passed = []
        def check(reached):
            passed.append(reached)
            if reached == stage.split()[0] and passed.count(reached) == int(stage.split()[1]):
                os.kill(os.getpid(), signal.SIGKILL)
        old = load_file(path) if os.path.exists(path) else None
        atomic_write(WriteRequest(path, data, old, files.context.journals, check))
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
"""
STAGES = ("opened 1", "writing 1", "writing 2", "written 1", "synced 1", "placed 1", "placed 2", "placed 3")


def test_a_kill_at_any_step_leaves_the_old_file_or_the_new_one(files: FileSession):
    out = child(
        KILLED
        + f"""
from tools.files import FileError
from tools.files import write_recovery
from tools.files.write_recovery import recover
write_recovery._WRITE_BYTES = 1024  # a third piece of each content is begun
new = b"new" * 700
counts = {{}}
for kind in ("swap", "create", "linked"):
    for stage in {STAGES!r}:
        for old in (b"old" * 900, b"old"):
            path = files.path(f"{{kind}}-{{stage}}-{{len(old)}}/f".replace(" ", ""))
            path.parent.mkdir()
            if kind != "create":
                path.write_bytes(old)
            if kind == "linked":
                os.link(path, path.parent / "g")
            counts[kind] = counts.get(kind, 0) + victim(str(path), new, stage)
            recover(files.context.journals)
            found = path.read_bytes() if path.exists() else None
            assert found in (None if kind == "create" else old, new), (kind, stage, found and len(found))
            atomic_write(WriteRequest(str(path.parent / "next"), b"x", None, files.context.journals))
            assert not files.litter(), (kind, stage, files.litter())
            print(kind, stage, "new" if found == new else "old")
print(counts)
""",
        files.folder,
    )
    assert "swap placed 1 new" in out and "swap synced 1 old" in out and "linked placed 2 old" in out
    assert out.splitlines()[-1] == str({"swap": 12, "create": 12, "linked": 10})


def kill_during_writes(files: FileSession, rounds: int) -> None:
    child(
        KILLED
        + f"""
import random, select
old, new = b"old" * 100_000, b"new" * 120_000
for round in range({rounds}):
    path = str(files.path(f"f{{round % 3}}"))
    if not os.path.exists(path):
        Path(path).write_bytes(old)
        if round % 3 == 2:
            os.link(path, path + ".other")
    pid = os.fork()
    if pid == 0:
        while True:
            now = load_file(path)
            atomic_write(WriteRequest(path, new if now.data == old else old, now, files.context.journals))
    select.select([], [], [], random.random() * 0.03)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    from tools.files.write_recovery import recover
    recover(files.context.journals)
    assert Path(path).read_bytes() in (old, new), round
atomic_write(WriteRequest(str(files.path("next")), b"x", None, files.context.journals))
assert not files.litter(), files.litter()
""",
        files.folder,
    )


def test_kill_9_during_writes_leaves_whole_files(files: FileSession):
    kill_during_writes(files, 8)


@pytest.mark.sweep
def test_kill_9_during_a_thousand_writes_leaves_whole_files(files: FileSession):
    kill_during_writes(files, 1000)


@contextmanager
def small_disk(where: Path, size: str = "64k") -> Iterator[None]:
    libc = ctypes.CDLL(None, use_errno=True)
    where.mkdir()
    if os.geteuid() != 0 or libc.mount(b"none", bytes(where), b"tmpfs", 0, f"size={size}".encode()):
        pytest.skip("a small disk cannot be mounted here")
    try:
        yield
    finally:
        libc.umount2(bytes(where), 2)


def test_a_full_disk_leaves_the_old_content(files: FileSession):
    with small_disk(files.path("d")):
        path = files.seen("d/f", b"old\n")
        for more in ({"content": "x" * 100_000},):
            assert "the disk is full" in files.refused("write", file_path="d/f", **more)
        edit = {"old_string": "old", "new_string": "y" * 100_000}
        assert "the disk is full" in files.refused("edit", file_path="d/f", **edit)
        assert "the disk is full" in files.refused("write", file_path="d/new/g", content="x" * 100_000)
        os.link(path, files.path("d/h"))  # the way of writing in place
        assert "the disk is full" in files.refused("edit", file_path="d/f", **edit)
        assert path.read_bytes() == b"old\n"
        assert sorted(each.name for each in files.path("d").iterdir()) == ["f", "h"]
    assert files.litter() == []


def test_a_limit_of_file_sizes_leaves_the_old_content(files: FileSession):
    files.put("f", b"old\n")
    out = child(
        "import resource, signal\n"
        "files.do('read', file_path='f')\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))\n"
        "print(files.refused('write', file_path='f', content='x' * 100_000))",
        files.folder,
    )
    assert "larger than allowed" in out
    assert files.path("f").read_bytes() == b"old\n"
    assert files.litter() == []


def test_no_descriptors_left_is_a_clear_error_and_passes(files: FileSession):
    files.put("f", b"old\n")
    out = child(
        """
import asyncio, os, resource
async def session():
    await files.act("read", file_path="f")
    await files.act("edit", file_path="f", old_string="old", new_string="mid")
    resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))
    taken = []
    try:
        while True:
            taken.append(os.open("/", os.O_RDONLY))
    except OSError:
        pass
    for name, more in (("read", {}), ("edit", {"old_string": "mid", "new_string": "new"})):
        try:
            print((await files.act(name, file_path="f", **more)).content)
        except (FileError, ToolError) as error:
            print(name, error)
    for each in taken:
        os.close(each)
    await files.act("edit", file_path="f", old_string="mid", new_string="new")
asyncio.run(session())
""",
        files.folder,
    )
    assert out.count("too many files are open in this program") == 2
    assert files.path("f").read_bytes() == b"new\n"


def test_a_read_only_file_system_and_a_long_name_are_clear(files: FileSession):
    assert "too long" in files.refused("write", file_path="n" * 300, content="x")
    with small_disk(files.path("d")):
        files.seen("d/f", b"old\n")
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.mount(b"none", bytes(files.path("d")), None, 1 | 32, None) == 0  # MS_RDONLY, MS_REMOUNT
        assert "the file system is read-only" in files.refused("write", file_path="d/f", content="x")
        assert "read-only" in files.refused("write", file_path="d/g", content="x")
        assert files.path("d/f").read_bytes() == b"old\n"


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="there is no /proc")
def test_an_input_error_is_clear(files: FileSession):
    assert "input/output error" in files.refused("read", file_path="/proc/self/mem")


QUOTA = """
#include <errno.h>
#include <stddef.h>
#include <sys/types.h>
ssize_t pwrite64(int fd, const void *data, size_t size, off_t at) { errno = EDQUOT; return -1; }
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { errno = EDQUOT; return -1; }
"""


@pytest.mark.skipif(shutil.which("cc") is None or sys.platform == "darwin", reason="no C compiler")
def test_a_quota_is_clear_and_leaves_the_old_content(files: FileSession, tmp_path: Path):
    source, library = tmp_path / "quota.c", tmp_path / "quota.so"
    source.write_text(QUOTA)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    files.put("f", b"old\n")
    out = child(
        "files.do('read', file_path='f')\n"
        "print(files.refused('edit', file_path='f', old_string='old', new_string='n'))",
        files.folder,
        environ={**os.environ, "LD_PRELOAD": str(library)},
    )
    assert "quota is used up" in out
    assert files.path("f").read_bytes() == b"old\n"
    assert files.litter() == []


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="no second file system at hand")
def test_a_file_on_another_device_is_written(files: FileSession):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path = Path(folder, "f")
        assert path.parent.stat().st_dev != files.folder.stat().st_dev
        files.do("write", file_path=str(path), content="a\n")
        files.edit(str(path), "a", "b")
        os.link(path, Path(folder, "g"))
        files.edit(str(path), "b", "c")
        assert path.read_bytes() == b"c\n"


RIVAL = """
import sys
from pathlib import Path
from tests.tools.file_session import *
files = FileSession(Path(sys.argv[1]))
mine = sys.argv[2]
import asyncio
async def session():
    await files.act("read", file_path="f")
    for n in range(int(sys.argv[3])):
        await files.act("edit", file_path="f", old_string=f"{mine}{n} old.", new_string=f"{mine}{n} done.")
asyncio.run(session())
"""


def race(files: FileSession, edits: int) -> None:
    lines = [f"{name}{n} old.\n" for n in range(edits) for name in "ab"]
    path = files.put("f", "".join(lines).encode())
    rivals = [
        subprocess.Popen([sys.executable, "-c", RIVAL, str(files.folder), name, str(edits)], cwd=ROOT)
        for name in "ab"
    ]
    assert [rival.wait(200) for rival in rivals] == [0, 0]
    assert path.read_text() == "".join(lines).replace("old", "done")
    assert files.litter() == []


def test_two_agents_on_one_file_lose_no_edit(files: FileSession):
    race(files, 50)


@pytest.mark.sweep
def test_two_agents_lose_none_of_four_hundred_edits(files: FileSession):
    race(files, 200)


def test_an_edit_that_comes_too_late_asks_to_read_again(files: FileSession, tmp_path: Path):
    files.seen("f", b"one\ntwo\n")
    other = FileSession(tmp_path)
    other.do("read", file_path="f")
    other.edit("f", "two", "zwei")
    lost = files.refused("edit", file_path="f", old_string="two", new_string="deux")
    assert "read it again" in lost
    assert "Read it again" in files.refused("write", file_path="f", content="x")
    assert files.path("f").read_bytes() == b"one\nzwei\n"


def test_what_a_command_named_like_a_temporary_file_neither_blocks_a_write_nor_leads_elsewhere(
    files: FileSession,
):
    os.mkfifo(files.path(".makeroom-0123456789abcdef.tmp"))
    files.do("write", file_path="a", content="a\n")
    assert files.litter() == []
    files.put("b", b"b\n")
    files.path(".makeroom-fedcba9876543210.tmp").symlink_to("b")
    files.do("write", file_path="a", content="c\n")
    assert len(files.litter()) == 1 and files.path("b").read_bytes() == b"b\n"


def test_the_directory_of_commands_may_be_gone(files: FileSession):
    files.put("here", b"x\n")
    folder = files.path("d")
    folder.mkdir()
    files.context.cwd = folder
    folder.rmdir()
    assert "1\tx" in files.do("read", file_path="here")
    files.do("write", file_path="there", content="y")
    assert files.path("there").read_text() == "y" and not folder.exists()


def test_a_cancelled_write_changes_nothing_afterwards(files: FileSession):
    path = files.seen("f", b"old\n")

    async def session() -> None:
        task = asyncio.ensure_future(files.act("write", file_path="f", content="new\n"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(session())
    assert path.read_bytes() in (b"old\n", b"new\n")
    files.do("read", file_path="f")
    files.do("write", file_path="f", content="later\n")
    assert path.read_bytes() == b"later\n"
    assert files.litter() == []


def test_a_cancelled_write_that_waits_for_a_lock_is_called_off(
    files: FileSession, monkeypatch: pytest.MonkeyPatch
):
    path = files.seen("f", b"old\n")
    waiting, released, over = threading.Event(), threading.Event(), threading.Event()

    def lock(descriptor: int) -> bool:
        waiting.set()
        released.wait(60)
        return try_lock(descriptor)

    def write(request: WriteRequest) -> str:
        try:
            return atomic_write(request)
        finally:
            over.set()

    monkeypatch.setattr("tools.files.writing.try_lock", lock)
    monkeypatch.setattr("tools.file_change.atomic_write", write)

    async def session() -> None:
        task = asyncio.ensure_future(files.act("write", file_path="f", content="new\n"))
        await asyncio.to_thread(waiting.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        released.set()

    asyncio.run(session())
    assert over.wait(60)
    assert path.read_bytes() == b"old\n"
    assert files.litter() == []


def test_the_checkpoint_is_made_before_the_file_changes(files: FileSession):
    from tools.base import ToolCall

    from .file_session import TOOLS

    path = files.seen("f", b"old\n")
    kept: list[bytes] = []

    def keep(real: Path) -> None:
        assert real == path
        kept.append(real.read_bytes())

    for name, more in (("edit", {"old_string": "old", "new_string": "mid"}), ("write", {"content": "new\n"})):
        arguments = TOOLS[name].parse({"file_path": "f", **more})
        asyncio.run(run_tool(TOOLS[name], arguments, ToolCall(files.context, checkpoint=keep)))
    assert kept == [b"old\n", b"mid\n"]
    failing = TOOLS["edit"].parse({"file_path": "f", "old_string": "none", "new_string": "x"})
    with pytest.raises(Exception, match="not found"):
        asyncio.run(run_tool(TOOLS["edit"], failing, ToolCall(files.context, checkpoint=keep)))
    assert len(kept) == 2


def request(files: FileSession, name: str, data: bytes, check: Callable[[str], None]) -> WriteRequest:
    """Return a request to write a file in its current state; `check` is called at each stage."""
    path = str(files.path(name))
    old = load_file(path) if files.path(name).exists() else None
    return WriteRequest(path, data, old, files.context.journals, check)


def test_the_journal_of_a_dead_writer_is_settled_by_the_next_write(files: FileSession):
    torn = files.put("torn", b"new\n")
    files.context.journals.mkdir(parents=True)
    head = b'{"path": "%s", "old": 4, "new": 6}\n' % bytes(torn)
    (files.context.journals / "0123.undo").write_bytes(head + b"old\n" + b"newer\n")
    files.do("write", file_path="another", content="x")
    assert torn.read_bytes() == b"old\n"
    assert files.litter() == []


def test_a_file_that_was_replaced_before_it_was_locked_is_opened_again(
    files: FileSession, monkeypatch: pytest.MonkeyPatch
):
    """Its lock would protect nothing, and its mode and owner would be those of the file that is gone."""
    path, other = files.put("f", b"old\n"), files.put("other", b"old\n")
    path.chmod(0o644)
    other.chmod(0o600)
    locked: list[int] = []

    def lock(descriptor: int) -> bool:
        if not locked:
            other.replace(path)
        locked.append(descriptor)
        return try_lock(descriptor)

    monkeypatch.setattr("tools.files.writing.try_lock", lock)
    atomic_write(request(files, "f", b"new\n", lambda stage: None))
    assert path.read_bytes() == b"new\n" and mode(path) == 0o600
    assert len(locked) > 1


def test_bytes_that_the_disk_lost_are_an_error_and_the_old_content_stays(files: FileSession):
    path = files.put("f", b"old\n")

    def check(stage: str) -> None:
        if stage == "written":
            (temporary,) = files.folder.glob(".makeroom-*.tmp")
            os.truncate(temporary, 2)

    why = "the disk stored fewer bytes than were written.\nCheck it"
    with pytest.raises(ToolError, match=why), os_errors_explained(str(path), files.folder):
        atomic_write(request(files, "f", b"new\n", check))
    assert path.read_bytes() == b"old\n"
    assert files.litter() == []


def test_a_new_file_is_not_put_over_one_that_appeared_meanwhile(files: FileSession):
    def check(stage: str) -> None:
        if stage == "synced":
            files.put("f", b"theirs\n")

    with pytest.raises(FileChanged):
        atomic_write(request(files, "f", b"mine\n", check))
    assert files.path("f").read_bytes() == b"theirs\n"
    assert files.litter() == []


@pytest.mark.parametrize("new", [b"shorter\n", b"the new content, which is longer than the old\n"])
def test_an_error_while_a_file_is_overwritten_puts_the_old_content_back(files: FileSession, new: bytes):
    path = files.put("f", b"the old content\n")
    os.link(path, files.path("linked"))
    placed: list[str] = []

    def check(stage: str) -> None:
        placed.extend([stage] * (stage == "placed"))
        if len(placed) == 1 + (len(new) > 16):  # all that makes it longer is written, and then some
            raise OSError(errno.EIO, "the disk fails")

    with pytest.raises(OSError, match="the disk fails"):
        atomic_write(request(files, "f", new, check))
    assert path.read_bytes() == b"the old content\n"
    assert files.litter() == []


def test_a_file_replaced_while_it_is_written_in_place_is_left_alone(
    files: FileSession, monkeypatch: pytest.MonkeyPatch
):
    path, other = files.put("f", b"old\n"), files.put("other", b"theirs\n")
    os.link(path, files.path("linked"))

    def open_later(path_: str, flags: int) -> AbstractContextManager[int]:
        if flags & os.O_WRONLY:
            other.replace(path)
        return opened_path(path_, flags)

    monkeypatch.setattr("tools.files.writing.opened_path", open_later)
    with pytest.raises(FileChanged):
        atomic_write(request(files, "f", b"new\n", lambda stage: None))
    assert path.read_bytes() == b"theirs\n"
    assert files.path("linked").read_bytes() == b"old\n"


def test_the_directories_default_access_list_does_not_come_upon_an_old_file(files: FileSession):
    path = files.seen("f", b"a\n")
    try:
        os.setxattr(files.folder, "system.posix_acl_default", RIGHTS)
    except (AttributeError, OSError) as error:
        pytest.skip(f"no access lists here: {error}")
    files.edit("f", "a", "b")
    assert os.listxattr(path) == []
    files.do("write", file_path="new", content="x")
    assert os.listxattr(files.path("new")) == ["system.posix_acl_access"]


@needs_root
def test_rights_of_the_old_content_are_not_given_to_the_new(files: FileSession):
    path = files.seen("f", b"a\n")
    try:
        os.setxattr(path, "security.capability", struct.pack("<5I", 0x02000001, 1 << 10, 0, 0, 0))
    except (AttributeError, OSError) as error:
        pytest.skip(f"no capabilities of files here: {error}")
    files.edit("f", "a", "b")
    assert os.listxattr(path) == []
