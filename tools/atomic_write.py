"""Put new content into a file so that at every moment it holds either all of the old or all of the new.

The usual way is a temporary file beside it that takes its place in one step. Where that would lose
something (other names of the file, its owner, its attributes) or the folder cannot be written, the content
is replaced in place, with both versions in a journal first; `recover` finishes what a crash interrupted.
Paths are canonical; folders are opened without following links and everything happens relative to them.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from .base import ToolError
from .paths import shown
from .safe_open import FileChanged, FileContent, load_file, safe_open
from .write_recovery import fresh, journal, lock, recover

_LITTER = re.compile(r"\.makeroom-[0-9a-f]{16}\.tmp")
_WAIT = 0.01  # seconds between two looks at a lock that another process holds
_TRIES = 500  # such looks: 5 s, far longer than any write of ours takes
_CHUNK = 1024 * 1024
_DROPPED = {"security.capability", "security.ima", "security.evm"}  # rights and seals of the old content
_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW

Check = Callable[[str], None]


class CannotWriteAtomically(Exception):
    """A new file could not be given everything the old one has."""


class WriteAbandoned(Exception):
    """Nobody waits for the write any more; nothing was changed."""


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """One write. `old` None: the file must not exist yet. `spare` is the folder for journals.

    `check` is called with the name of each stage that is reached: opened, writing, written, synced,
    placed; it may raise before "placed" to call the write off.
    """

    path: str
    data: bytes
    old: FileContent | None
    spare: Path
    check: Check = lambda stage: None


def stop_when(gone: threading.Event) -> Check:
    """The check that calls a write off when nobody waits for it."""

    def check(stage: str) -> None:
        if stage != "placed" and gone.is_set():
            raise WriteAbandoned

    return check


def atomic_write(job: WriteRequest) -> str:
    """Do it, durably. Returns a note where the write was not the usual one, else "".

    Raises FileChanged when the file is not `old` any more, ToolError or OSError when it cannot be done; then
    the file holds what it held and nothing else is left behind.
    """
    recover(job.spare)
    if job.old is None:
        _create(job)
        return ""
    with _held(job.path) as descriptor:
        if load_file(job.path).data != job.old.data:
            raise FileChanged(job.path)
        return _replace(job, descriptor)


def _replace(job: WriteRequest, descriptor: int) -> str:
    effective = os.access in os.supports_effective_ids
    if not os.access(job.path, os.W_OK, effective_ids=effective):
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
        raise ToolError(
            f"{shown(job.path)} is read-only (mode {mode:04o}) and was not changed.\n"
            "Ask the person whether it may be made writable."
        )
    links = os.fstat(descriptor).st_nlink
    if links > 1:
        _in_place(job, descriptor)
        return f"[written in place: the file has {links} names (hard links), all show the new content]"
    try:
        _swap(job, descriptor)
    except CannotWriteAtomically as error:
        _in_place(job, descriptor)
        return f"[written in place to keep {error}]"
    except OSError as error:
        if error.errno not in _DENIED:
            raise
        _in_place(job, descriptor)
        return "[written in place: the folder does not permit new files]"
    return ""


@contextmanager
def _held(path: str) -> Iterator[int]:
    """The file, open and locked against others of our kind. Raises ToolError when they never let go."""
    for _ in range(_TRIES):
        descriptor = safe_open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            if lock(descriptor) and _still_named(path, descriptor):
                yield descriptor
                return
        finally:
            os.close(descriptor)
        threading.Event().wait(_WAIT)
    raise ToolError(f"{shown(path)} is locked by another program.\nTry again when that is done.")


def _still_named(path: str, descriptor: int) -> bool:
    """Whether the name leads to what was opened, not to what took its place meanwhile."""
    mine, named = os.fstat(descriptor), Path(path).lstat()
    return (mine.st_dev, mine.st_ino) == (named.st_dev, named.st_ino)


def _create(job: WriteRequest) -> None:
    folder, name = os.path.split(job.path)
    made: list[str] = []
    with ExitStack() as undo:
        undo.callback(_remove_folders, made)
        descriptor = make_folders(folder, made)
        try:
            _sweep(folder)
            _temporary(job, descriptor, None, lambda temporary: _link(temporary, name, descriptor))
        finally:
            os.close(descriptor)
        undo.pop_all()
    for each in (folder, *map(os.path.dirname, reversed(made))):
        _sync_folder(each)


def _remove_folders(made: list[str]) -> None:
    for each in reversed(made):
        with suppress(OSError):
            Path(each).rmdir()


def make_folders(folder: str, made: list[str] | None = None, mode: int = 0o777) -> int:
    """A descriptor of the folder, which is made with those above it where missing; `made` collects them."""
    here = os.open("/", _FOLDER)
    so_far = ""
    with ExitStack() as undo:
        undo.callback(lambda: os.close(here))
        for part in filter(None, folder.split("/")):
            so_far += f"/{part}"
            try:
                inner = os.open(part, _FOLDER, dir_fd=here)
            except FileNotFoundError:
                with suppress(FileExistsError):
                    os.mkdir(part, mode, dir_fd=here)
                    if made is not None:
                        made.append(so_far)
                inner = os.open(part, _FOLDER, dir_fd=here)
            os.close(here)
            here = inner
        undo.pop_all()
    return here


def _swap(job: WriteRequest, old: int) -> None:
    folder, name = os.path.split(job.path)
    descriptor = safe_open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _sweep(folder)
        state = os.fstat(old)
        # What is not ours to write to (another owner's file in a sticky folder) fails here, unchanged.
        _temporary(
            job,
            descriptor,
            (old, state),
            lambda temporary: os.replace(temporary, name, src_dir_fd=descriptor, dst_dir_fd=descriptor),
        )
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _temporary(
    job: WriteRequest, folder: int, old: tuple[int, os.stat_result] | None, place: Callable[[str], None]
) -> None:
    """Write a temporary file in the folder and have it placed; on any error it is removed."""
    name = f".makeroom-{os.urandom(8).hex()}.tmp"
    descriptor = fresh(folder, name, 0o666 if old is None else 0o600)
    with ExitStack() as undo:
        undo.callback(os.close, descriptor)
        undo.callback(_unlink, name, folder)
        job.check("opened")
        write_all(descriptor, job.data, 0, job.check)
        job.check("written")
        if old is not None:
            _keep(descriptor, *old)
        os.fsync(descriptor)
        if os.fstat(descriptor).st_size != len(job.data):
            raise OSError(errno.EIO, "the disk kept fewer bytes than were written", job.path)
        job.check("synced")
        place(name)
        job.check("placed")
        undo.pop_all()
    os.close(descriptor)


def _unlink(name: str, folder: int) -> None:
    with suppress(OSError):
        os.unlink(name, dir_fd=folder)


def _sweep(folder: str) -> None:
    """Remove the temporary files of writers that were killed: nobody holds their lock."""
    with suppress(OSError):  # a folder that cannot be listed, or a file that somebody else removed
        here = safe_open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for name in filter(_LITTER.fullmatch, os.listdir(here)):  # noqa: PTH208 - a descriptor
                _remove_if_free(name, here)
        finally:
            os.close(here)


def _remove_if_free(name: str, folder: int) -> None:
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        if lock(descriptor):
            os.unlink(name, dir_fd=folder)
    finally:
        os.close(descriptor)


def _link(temporary: str, name: str, folder: int) -> None:
    """Give the new file its name, but never over one that appeared meanwhile."""
    try:
        os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        raise FileChanged(name) from None
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
            raise
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)  # a file system without links
        return
    os.unlink(temporary, dir_fd=folder)


def _keep(descriptor: int, old: int, state: os.stat_result) -> None:
    """Owner, mode without its setuid bits, attributes and access lists of the old file."""
    mine = os.fstat(descriptor)
    if (mine.st_uid, mine.st_gid) != (state.st_uid, state.st_gid):
        try:
            os.fchown(descriptor, state.st_uid, state.st_gid)
        except OSError as error:
            raise CannotWriteAtomically("its owner and group") from error
    os.fchmod(descriptor, stat.S_IMODE(state.st_mode) & 0o1777)
    if not hasattr(os, "listxattr"):
        return
    with suppress(OSError):
        for name in set(os.listxattr(descriptor)) - set(os.listxattr(old)):
            os.removexattr(descriptor, name)  # the folder's default access list does not apply to it
    for name in _attributes(old):
        try:
            os.setxattr(descriptor, name, os.getxattr(old, name))
        except OSError as error:
            raise CannotWriteAtomically(f"its attribute {name}") from error


def _attributes(old: int) -> list[str]:
    try:
        names = os.listxattr(old)
    except OSError:
        return []  # a file system without attributes
    return [name for name in names if name not in _DROPPED]


def _in_place(job: WriteRequest, held: int) -> None:
    """Overwrite the file itself, with old and new safe in a journal until the new is on disk."""
    assert job.old is not None
    descriptor = safe_open(job.path, os.O_WRONLY | os.O_NONBLOCK)
    try:
        if os.fstat(descriptor).st_ino != os.fstat(held).st_ino:
            raise FileChanged(job.path)
        job.check("opened")
        spare = make_folders(str(job.spare), mode=0o700)
        try:
            with journal(spare, job.path, job.old.data, job.data):
                for folder in (job.spare, *job.spare.parents[:3]):  # up to the project's, all may be new
                    _sync_folder(str(folder))
                job.check("synced")
                _overwrite(descriptor, job.old.data, job.data, job.check)
        finally:
            os.close(spare)
        mode = stat.S_IMODE(job.old.stat.st_mode)
        if mode & 0o6000:
            os.fchmod(descriptor, mode & 0o1777)
    finally:
        os.close(descriptor)


def _overwrite(descriptor: int, old: bytes, new: bytes, check: Check) -> None:
    """What makes the file longer goes first: if the disk is full, the old content is still untouched."""
    try:
        write_all(descriptor, new[len(old) :], len(old), lambda stage: check("placed"))
        write_all(descriptor, new[: len(old)], 0, lambda stage: check("placed"))
        os.ftruncate(descriptor, len(new))
        os.fsync(descriptor)
    except OSError:
        with suppress(OSError):
            write_all(descriptor, old, 0)
        os.ftruncate(descriptor, len(old))
        raise


def write_all(descriptor: int, data: bytes, at: int, check: Check = lambda stage: None) -> None:
    """Every byte at its place; a full disk first writes less than asked and only then fails."""
    view = memoryview(data)
    done = 0
    while done < len(view):
        done += os.pwrite(descriptor, view[done : done + _CHUNK], at + done)
        check("writing")


def _sync_folder(folder: str) -> None:
    with suppress(OSError):
        descriptor = safe_open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
