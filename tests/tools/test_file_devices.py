"""What is no ordinary file, or a giant one, neither hangs nor fills the memory (D1 to D7, H1 to H4).

Built for real where the machine lets us; each is skipped with its reason where it does not:

    D5  trace_pipe needs root and tracefs; without it /proc/kmsg is tried, which needs root too
    D7  the hung mount is a FUSE file system whose server never answers; it needs root and /dev/fuse
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tools.arguments import parse
from tools.base import ToolCall, ToolError
from tools.read import READ, Read
from tools.safe_open import within

from .desk import Desk, child, text

LINUX = sys.platform.startswith("linux")
needs_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="there is no /proc")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.mark.parametrize("tool", ["read", "write", "edit"])
def test_D1_a_named_pipe_is_refused_at_once(desk: Desk, tool: str):
    os.mkfifo(desk.path("p"))
    more = {"write": {"content": "x"}, "edit": {"old_string": "a", "new_string": "b"}}.get(tool, {})
    assert "named pipe" in desk.refused(tool, file_path="p", **more)


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/random", "/dev/null"])
def test_D2_devices_are_refused(desk: Desk, path: str):
    assert "character device" in desk.refused("read", file_path=path)


@pytest.mark.parametrize("path", ["/dev/stdin", "/dev/tty", "/proc/self/fd/0"])
def test_D3_the_terminal_and_standard_input_are_refused(desk: Desk, path: str):
    error = desk.refused("read", file_path=path)
    assert "not a file on disk" in error or "device" in error or "pipe" in error


@needs_proc
def test_D4_files_that_claim_to_be_empty_are_read(desk: Desk):
    assert "Name:" in desk.do("read", file_path="/proc/self/status")


@pytest.mark.skipif(not Path("/sys/kernel/mm").exists(), reason="there is no /sys")
def test_D4_files_that_claim_to_be_large_are_read_to_their_end(desk: Desk):
    path = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if not path.exists():
        path = next(each for each in Path("/sys/kernel").iterdir() if each.is_file())
    assert path.stat().st_size > len(path.read_bytes())
    assert "     1\t" in desk.do("read", file_path=str(path))


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
def test_D5_a_file_that_blocks_though_it_is_regular_is_an_error(desk: Desk):
    with mounted("tracefs", desk.path("trace")):
        error = desk.refused("read", file_path="trace/trace_pipe")
        assert "nothing to read" in error or "no ordinary file" in error


def test_D6_a_socket_is_refused_and_a_folder_is_listed(desk: Desk):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(desk.path("s")))
        assert "a socket" in desk.refused("read", file_path="s")
    desk.put("d/inner/f", b"x")
    desk.put("d/a.py", b"x")
    outcome = desk.outcome("read", file_path="d")
    assert outcome.error
    assert text(outcome).endswith("2 entries:\na.py\ninner/")
    for tool, more in (("write", {"content": "x"}), ("edit", {"old_string": "a", "new_string": "b"})):
        assert "a folder" in desk.refused(tool, file_path="d", **more)


@pytest.mark.skipif(not LINUX, reason="block devices are named otherwise")
@needs_root
def test_D6_a_block_device_is_refused(desk: Desk):
    os.mknod(desk.path("b"), 0o60600, os.makedev(7, 200))
    assert "block device" in desk.refused("read", file_path="b")


def test_D7_work_that_hangs_is_given_up_and_the_session_lives(desk: Desk):
    hung = threading.Event()
    left = threading.Event()

    def hang(gone: threading.Event) -> None:
        hung.wait(60)
        if gone.is_set():
            left.set()

    async def session() -> int:
        turns = 0
        waiting = asyncio.ensure_future(within(0.3, hang))
        while not waiting.done():
            turns += 1
            await asyncio.sleep(0)
        with pytest.raises(ToolError, match="did not answer"):
            await waiting
        return turns

    assert asyncio.run(session()) > 10
    hung.set()
    assert left.wait(30)


@needs_root
@pytest.mark.skipif(not Path("/dev/fuse").exists(), reason="there is no /dev/fuse")
def test_D7_a_file_system_that_never_answers_is_given_up(desk: Desk):
    """The server of this mount answers nothing at all, as a dead network share does."""
    server = os.open("/dev/fuse", os.O_RDWR)
    try:
        with mounted("fuse", desk.path("dead"), f"fd={server},rootmode=40000,user_id=0,group_id=0"):
            arguments = parse(READ, {"file_path": "dead/f"})
            arguments._target = str(desk.path("dead/f"))
            with pytest.raises(ToolError, match="did not answer"):
                asyncio.run(Read(patience=0.5).run(arguments, ToolCall(desk.context)))
            os.close(server)  # the kernel gives up now: the thread ends, the mount can be taken away
            server = -1
    finally:
        if server >= 0:
            os.close(server)


GROWTH = """
import resource
desk.do("read", file_path="small")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
def grown():
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
"""
UNIT = 1 if LINUX else 1024


def test_H1_a_sparse_file_of_5_GB_is_read_in_bounded_memory_and_not_edited(desk: Desk):
    desk.put("small", b"x\n")
    path = desk.put("f", b"".join(b"line %d\n" % n for n in range(1, 20_001)))
    os.truncate(path, 5 * 1024**3)
    out = child(
        GROWTH
        + """
page = desk.do("read", file_path="f", offset=5000, limit=3)
assert page.startswith("  5000\\tline 5000\\n"), page
assert "[lines 5000-5002 of more; continue with offset=5003]" in page, page
tail = desk.do("read", file_path="f", offset=-5)
error = desk.refused("edit", file_path="f", old_string="line 7\\n", new_string="x")
assert "too large" in error and "bash" in error, error
print(grown())
""",
        desk.folder,
    )
    assert float(out) / UNIT < 50
    os.truncate(path, 0)
    os.truncate(path, 5 * 1024**3)
    assert "binary" in desk.refused("read", file_path="f")


def test_H2_one_line_of_500_MB_is_cut_in_bounded_memory(desk: Desk):
    desk.put("small", b"x\n")
    with desk.path("f").open("wb") as file:
        for _ in range(500):
            file.write(b"x" * 1_000_000)
    try:
        out = child(
            GROWTH
            + """
page = desk.do("read", file_path="f")
assert page.startswith("     1\\t" + "x" * 2000 + "\\u2026[+"), page[-200:]
assert "[+499,998,000 chars]" in page or "took too long" in page, page[-200:]  # as busy as the machine is
assert len(page) < 2200
desk.do("read", file_path="f", offset=-1)
print(grown())
""",
            desk.folder,
        )
    finally:
        desk.path("f").unlink()
    assert float(out) / UNIT < 50


def test_H3_offsets_beyond_the_file_are_told(desk: Desk):
    desk.put("f", b"one\ntwo\nthree\n")
    assert desk.do("read", file_path="f", offset=9) == "[offset 9 is past the end: the file has 3 lines]"
    assert "[offset 4 " in desk.do("read", file_path="f", offset=10**18 and 4)
    assert "past the end" in desk.do("read", file_path="f", offset=10**18)
    assert desk.do("read", file_path="f", offset=-2).startswith("     2\ttwo\n     3\tthree")
    assert desk.do("read", file_path="f", offset=-(10**18)) == "     1\tone\n     2\ttwo\n     3\tthree"
    assert desk.do("read", file_path="f", offset=0) == "     1\tone\n     2\ttwo\n     3\tthree"
    assert "`limit`" in desk.refused("read", file_path="f", limit=0)


def test_H4_an_empty_file_is_empty_and_can_be_filled_by_edit(desk: Desk):
    desk.put("f", b"")
    assert desk.do("read", file_path="f") == "[file is empty]"
    desk.edit("f", "", "filled\n")
    assert desk.path("f").read_bytes() == b"filled\n"
    assert "file already exists" in desk.refused("edit", file_path="f", old_string="", new_string="more")
    desk.edit("new/f", "", "made\n")
    assert desk.path("new/f").read_bytes() == b"made\n"
