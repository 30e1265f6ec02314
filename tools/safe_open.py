"""Open and read real files: never through a link, never a device, never for ever.

Every path given here is canonical (paths.py). What is opened is exactly what was judged: a link that
appears on the way afterwards is an error. Writing is in saving.py, what the bytes mean in text.py.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import functools
import hashlib
import os
import stat
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

from .base import ToolError
from .paths import shown, suggestions

PATIENCE = 10.0  # seconds a file system may take to answer before a call gives up on it
WHOLE = 64 * 1024 * 1024  # bytes of the largest file that is read whole, hashed and edited
_CHUNK = 1024 * 1024
_RESOLVE = 0x02 | 0x04 | 0x08  # NO_MAGICLINKS, NO_SYMLINKS, BENEATH; linux/openat2.h
_OPENAT2 = 437  # the number of the system call on every Linux architecture
T = TypeVar("T")

_REASONS = {
    errno.EACCES: ("permission denied", "Ask the person to change its permissions, or use another file"),
    errno.EPERM: ("the system does not permit it", "Ask the person; the file may be marked immutable"),
    errno.ENOSPC: ("the disk is full", "Nothing was changed. Free some space, then try again"),
    errno.EDQUOT: ("the disk quota is used up", "Nothing was changed. Free some space, then try again"),
    errno.EFBIG: ("the file would be larger than allowed here", "Nothing was changed. Write less"),
    errno.EROFS: ("the file system is read-only", "Nothing was changed. Use a place that can be written"),
    errno.EMFILE: (
        "too many files are open in this program",
        "Try again; end background jobs if it stays",
    ),
    errno.ENFILE: ("too many files are open in the system", "Try again in a moment"),
    errno.EIO: ("the disk reported an input/output error", "Tell the person: the disk may be failing"),
    errno.ENAMETOOLONG: ("the name is too long", "Use a name of at most 255 bytes"),
    errno.ELOOP: ("a link appeared in the path", "Somebody changes it right now; look again, then retry"),
    errno.EXDEV: ("the path leads out of where it was judged", "Look again, then retry"),
    errno.ENOTDIR: ("a part of the path is a file, not a folder", "Check the path"),
    errno.ENXIO: ("it is not a regular file", "Use bash for devices, pipes and sockets"),
    errno.EAGAIN: (
        "it gives nothing to read at the moment",
        "It is no ordinary file; use bash, with a timeout",
    ),
    errno.ESTALE: ("the network file system lost it", "Look again, then retry"),
}


class FileChanged(Exception):
    """The file is not any more what it was when the change was worked out."""


@dataclass(frozen=True, slots=True)
class FileContent:
    """All bytes of a file at one moment."""

    path: str
    data: bytes
    sha256: str
    stat: os.stat_result


async def within(seconds: float, work: Callable[[threading.Event], T]) -> T:
    """Do blocking work in another thread; it gets an event that is set when nobody waits any more.

    Raises ToolError after `seconds`. A thread that hangs in a dead mount holds up neither the session nor
    its end.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    gone = threading.Event()

    def settle(error: BaseException | None, result: T | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]

    def act() -> None:
        error, result = None, None
        try:
            result = work(gone)
        except BaseException as raised:  # noqa: BLE001 - it is raised again where it is awaited
            error = raised
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, error, result)

    _crew(os.getpid()).take(act)
    try:
        async with asyncio.timeout(seconds):
            return await done
    except TimeoutError:
        raise ToolError(
            f"The file system did not answer within {seconds:g} s.\n"
            "It may be a dead network mount, or a file that never ends; tell the person, or go on without it."
        ) from None
    finally:
        gone.set()


class _Crew:
    """Daemon threads that wait for the next piece of work; one that hangs is simply not seen again.

    An executor of the standard library would be waited for at the end of the program.
    """

    def __init__(self) -> None:
        self._idle: list[SimpleQueue[Callable[[], None]]] = []

    def take(self, work: Callable[[], None]) -> None:
        try:
            box = self._idle.pop()
        except IndexError:
            box = SimpleQueue()
            threading.Thread(target=self._serve, args=(box,), name="makeroom-files", daemon=True).start()
        box.put(work)

    def _serve(self, box: SimpleQueue[Callable[[], None]]) -> None:
        while True:
            box.get()()
            self._idle.append(box)


@functools.cache
def _crew(process: int) -> _Crew:
    """The threads of this process; a fork begins with none."""
    return _Crew()


def explain(error: OSError, path: str, root: Path | None = None) -> ToolError:
    """What an error of the system means for the call, and what to do. `root` is where else to look."""
    name = shown(path)
    if error.errno == errno.ENOENT:
        near = [shown(each, root) for each in suggestions(path, root)] if root is not None else []
        hint = f"Did you mean {' or '.join(near)}?" if near else "Check the path; list the folder with bash."
        return ToolError(f"File does not exist: {name}\n{hint}")
    what, advice = _REASONS.get(error.errno or 0, (error.strerror or str(error), "Look again, then retry"))
    return ToolError(f"{name}: {what}.\n{advice}.")


def safe_open(path: str, flags: int, mode: int = 0o666) -> int:
    """A descriptor of the canonical path. Raises OSError, ELOOP where any part of it is a link."""
    flags |= os.O_CLOEXEC | os.O_NOFOLLOW
    base = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        direct = _openat2()
        if direct is not None:
            return direct(base, path, flags, mode)
        return walk_open(base, path, flags, mode)
    finally:
        os.close(base)


def walk_open(base: int, path: str, flags: int, mode: int) -> int:
    """`safe_open` part by part, where the system cannot do it in one step."""
    parts = [part for part in path.split("/") if part] or ["."]
    here = os.dup(base)
    try:
        for part in parts[:-1]:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
            os.close(here)
            here = inner
        return os.open(parts[-1], flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=here)
    finally:
        os.close(here)


@functools.cache
def _openat2() -> Callable[[int, str, int, int], int] | None:
    """The system call, where this system lets us use it."""
    if not sys.platform.startswith("linux"):
        return None
    syscall = ctypes.CDLL(None, use_errno=True).syscall

    def call(base: int, path: str, flags: int, mode: int) -> int:
        how = (ctypes.c_uint64 * 3)(flags, mode if flags & os.O_CREAT else 0, _RESOLVE)
        name = os.fsencode(path.lstrip("/") or ".")
        for _ in range(20):  # EAGAIN: something on the path was renamed meanwhile
            opened = int(syscall(_OPENAT2, base, name, how, ctypes.sizeof(how)))
            if opened >= 0:
                return opened
            if ctypes.get_errno() not in (errno.EAGAIN, errno.EINTR):
                break
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)

    probe = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.close(call(probe, ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, 0))
    except OSError:
        return None
    finally:
        os.close(probe)
    return call


def open_regular(path: str) -> tuple[int, os.stat_result]:
    """A regular file, open for reading, and its state. Refuses everything else without waiting for it.

    Raises ToolError for folders, pipes, devices and sockets, OSError for the rest.
    """
    _check_kind(path, os.stat(path, follow_symlinks=False).st_mode)  # noqa: PTH116 - a text, not a Path
    descriptor = safe_open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    with ExitStack() as undo:
        undo.callback(os.close, descriptor)
        state = os.fstat(descriptor)
        _check_kind(path, state.st_mode)
        undo.pop_all()
    return descriptor, state


def load_file(path: str, limit: int = WHOLE) -> FileContent:
    """The whole file. Raises ToolError where it is no regular file or larger than `limit`, else OSError."""
    descriptor, state = open_regular(path)
    try:
        if state.st_size > limit:
            raise too_large(path, state.st_size, limit)
        return FileContent(
            path, data := read_at_most(descriptor, limit), hashlib.sha256(data).hexdigest(), state
        )
    finally:
        os.close(descriptor)


def read_at_most(descriptor: int, limit: int) -> bytes:
    """Everything up to the end of the file; its size by stat is only a first guess (0 in /proc).

    Raises ToolError when there is more than `limit`.
    """
    data = os.read(descriptor, min(max(os.fstat(descriptor).st_size + 1, 4096), limit + 1))
    more = data
    pieces = [data]
    total = len(data)
    while more and total <= limit:
        more = os.read(descriptor, _CHUNK)
        pieces.append(more)
        total += len(more)
    if total > limit:
        raise too_large("the file", total, limit)
    return data if len(pieces) == 2 else b"".join(pieces)


def too_large(path: str, size: int, limit: int) -> ToolError:
    return ToolError(
        f"{shown(path)} is too large for this: {size:,} bytes, at most {limit:,}.\n"
        "Use bash (sed, awk, head, tail, python) to look at it or to change it."
    )


def _check_kind(path: str, mode: int) -> None:
    if stat.S_ISREG(mode):
        return
    kinds = {
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a named pipe (FIFO)",
        stat.S_IFCHR: "a character device",
        stat.S_IFBLK: "a block device",
        stat.S_IFSOCK: "a socket",
        stat.S_IFLNK: "a link that was changed a moment ago",
    }
    kind = kinds.get(stat.S_IFMT(mode), "no regular file")
    raise ToolError(f"{shown(path)} is {kind}, not a regular file.\nUse bash if you need it.")
