"""Files that are not regular, or are giant, neither hang nor fill the memory.

Tests that need root (to mount a file system), /dev/fuse or /proc are skipped where there is none.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tools import read
from tools.base import ToolCall
from tools.files.errors import FileError
from tools.files.opening import in_thread

from .file_session import FileSession, child, text

LINUX = sys.platform.startswith("linux")
needs_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="there is no /proc")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")


@pytest.mark.parametrize("tool", ["read", "write", "edit"])
def test_a_named_pipe_is_refused_at_once(files: FileSession, tool: str):
    os.mkfifo(files.path("p"))
    more = {"write": {"content": "x"}, "edit": {"old_string": "a", "new_string": "b"}}.get(tool, {})
    assert "named pipe" in files.refused(tool, file_path="p", **more)


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/random", "/dev/null"])
def test_devices_are_refused(files: FileSession, path: str):
    assert "character device" in files.refused("read", file_path=path)


@pytest.mark.parametrize("path", ["/dev/stdin", "/dev/tty", "/proc/self/fd/0"])
def test_the_terminal_and_standard_input_are_refused(files: FileSession, path: str):
    error = files.refused("read", file_path=path)
    assert "not a file on disk" in error or "device" in error or "pipe" in error


@needs_proc
def test_files_that_claim_to_be_empty_are_read(files: FileSession):
    assert "Name:" in files.do("read", file_path="/proc/self/status")


@pytest.mark.skipif(not Path("/sys/kernel/mm").exists(), reason="there is no /sys")
def test_files_that_claim_to_be_large_are_read_to_their_end(files: FileSession):
    path = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if not path.exists():
        path = next(each for each in Path("/sys/kernel").iterdir() if each.is_file())
    assert path.stat().st_size > len(path.read_bytes())
    assert "1\t" in files.do("read", file_path=str(path))


@contextmanager
def mounted(kind: str, where: Path, options: str = "") -> Iterator[None]:
    libc = ctypes.CDLL(None, use_errno=True)
    where.mkdir()
    if libc.mount(b"none", bytes(where), kind.encode(), 0, options.encode()):
        pytest.skip(f"{kind} cannot be mounted here: {os.strerror(ctypes.get_errno())}")
    try:
        yield
    finally:
        libc.umount2(bytes(where), 2)


@needs_root
def test_a_file_that_blocks_though_it_is_regular_is_an_error(files: FileSession):
    with mounted("tracefs", files.path("trace")):
        error = files.refused("read", file_path="trace/trace_pipe")
        assert "no data to read" in error or "no ordinary file" in error


def test_a_socket_is_refused_and_a_directory_is_listed(files: FileSession):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(files.path("s")))
        assert "a socket" in files.refused("read", file_path="s")
    files.put("d/inner/f", b"x")
    files.put("d/a.py", b"x")
    result = files.result("read", file_path="d")
    assert not result.error
    assert text(result).endswith("2 entries:\na.py\ninner/")
    for tool, more in (("write", {"content": "x"}), ("edit", {"old_string": "a", "new_string": "b"})):
        assert "a directory" in files.refused(tool, file_path="d", **more)


@pytest.mark.skipif(not LINUX, reason="block devices are named otherwise")
@needs_root
def test_a_block_device_is_refused(files: FileSession):
    os.mknod(files.path("b"), 0o60600, os.makedev(7, 200))
    assert "block device" in files.refused("read", file_path="b")


def test_work_that_hangs_is_given_up_and_the_session_lives(files: FileSession):
    hung = threading.Event()
    left = threading.Event()

    def hang(abandoned: threading.Event) -> None:
        hung.wait(60)
        if abandoned.is_set():
            left.set()

    async def session() -> int:
        turns = 0
        waiting = asyncio.ensure_future(in_thread(hang, 0.3))
        while not waiting.done():
            turns += 1
            await asyncio.sleep(0)
        with pytest.raises(FileError, match="did not respond"):
            await waiting
        return turns

    assert asyncio.run(session()) > 10
    hung.set()
    assert left.wait(30)


@pytest.mark.skipif(not LINUX, reason="no CPU clocks of other threads")
def test_work_that_computes_is_not_taken_for_a_file_system_that_is_silent():
    def compute(abandoned: threading.Event, seconds: float = 0.7) -> str:
        until = time.monotonic() + seconds  # not of CPU time, which a busy machine gives it later
        while time.monotonic() < until and not abandoned.is_set():
            pass
        return "done"

    assert asyncio.run(in_thread(compute, 0.5)) == "done"
    with pytest.raises(FileError, match="the file system responds"):
        asyncio.run(in_thread(lambda abandoned: compute(abandoned, 60.0), 0.05))


@needs_root
@pytest.mark.skipif(not Path("/dev/fuse").exists(), reason="there is no /dev/fuse")
def test_a_file_system_that_never_answers_is_given_up(files: FileSession):
    """The server of this mount answers nothing at all, as a dead network share does."""
    server = os.open("/dev/fuse", os.O_RDWR)
    try:
        with mounted("fuse", files.path("dead"), f"fd={server},rootmode=40000,user_id=0,group_id=0"):
            arguments = read.TOOL.parse({"file_path": "dead/f"})
            arguments._path = str(files.path("dead/f"))
            with pytest.raises(FileError, match="did not respond"):
                asyncio.run(read.read_file(arguments, ToolCall(files.context), timeout_s=0.5))
            os.close(server)  # the kernel gives up now: the thread ends, the mount can be taken away
            server = -1
    finally:
        if server >= 0:
            os.close(server)


GROWTH = """
import resource
files.do("read", file_path="small")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
def grown():
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
"""
UNIT = 1 if LINUX else 1024


def test_a_sparse_file_of_5_GB_is_read_in_bounded_memory_and_not_edited(files: FileSession):
    files.put("small", b"x\n")
    path = files.put("f", b"".join(b"line %d\n" % n for n in range(1, 20_001)))
    os.truncate(path, 5 * 1024**3)
    out = child(
        GROWTH
        + """
page = files.do("read", file_path="f", offset=5000, limit=3)
assert page.startswith("5000\\tline 5000\\n"), page
assert "[lines 5000-5002; more follow; continue with offset=5003]" in page, page
tail = files.do("read", file_path="f", offset=-5)
error = files.refused("edit", file_path="f", old_string="line 7\\n", new_string="x")
assert "too large" in error and "bash" in error, error
print(grown())
""",
        files.folder,
        environ=dict(os.environ),  # the memory of a fork begins with ours
    )
    assert float(out) / UNIT < 50
    os.truncate(path, 0)
    os.truncate(path, 5 * 1024**3)
    assert "binary" in files.refused("read", file_path="f")


def test_one_line_of_150_MB_is_cut_in_bounded_memory(files: FileSession):
    files.put("small", b"x\n")
    with files.path("f").open("wb") as file:
        for _ in range(150):
            file.write(b"x" * 1_000_000)
    try:
        out = child(
            GROWTH
            + """
page = files.do("read", file_path="f")
assert page.startswith("1\\t" + "x" * 2000 + "\\u2026[+"), page[-200:]
assert "[+149,998,000 chars]" in page or "took too long" in page, page[-200:]  # as busy as the machine is
assert len(page) < 2200
files.do("read", file_path="f", offset=-1)
print(grown())
""",
            files.folder,
            environ=dict(os.environ),
        )
    finally:
        files.path("f").unlink()
    assert float(out) / UNIT < 50


def test_offsets_beyond_the_file_are_reported(files: FileSession):
    files.put("f", b"one\ntwo\nthree\n")
    assert files.do("read", file_path="f", offset=9) == "[offset 9 is past the end: the file has 3 lines]"
    assert "[offset 4 " in files.do("read", file_path="f", offset=10**18 and 4)
    assert "past the end" in files.do("read", file_path="f", offset=10**18)
    assert files.do("read", file_path="f", offset=-2).startswith("2\ttwo\n3\tthree")
    assert files.do("read", file_path="f", offset=-(10**18)) == "1\tone\n2\ttwo\n3\tthree"
    assert files.do("read", file_path="f", offset=0) == "1\tone\n2\ttwo\n3\tthree"
    assert "`limit`" in files.refused("read", file_path="f", limit=0)


def test_an_empty_file_is_empty_and_can_be_filled_by_edit(files: FileSession):
    files.put("f", b"")
    assert files.do("read", file_path="f") == "[file is empty]"
    files.edit("f", "", "filled\n")
    assert files.path("f").read_bytes() == b"filled\n"
    assert "file already exists" in files.refused("edit", file_path="f", old_string="", new_string="more")
    files.edit("new/f", "", "made\n")
    assert files.path("new/f").read_bytes() == b"made\n"
