"""Write new content to a file such that it always contains either all of the old or all of the new content.

Usually a temporary file next to it replaces it in one step. If that would lose something (other names of the
file, its owner, its attributes), or if the directory cannot be written, the content is replaced in place,
after both versions were written to a journal (see write_recovery.py). Paths are canonical. Directories are
opened without following links, and all operations are relative to them.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from msgspec import Struct

from transcripts.patterns import lazy_pattern

from .errors import FileError
from .opening import FOLDER_FLAGS, FileChanged, FileContent, closing, load_file, opened_path
from .paths import one_line_path
from .write_recovery import create_locked, journal, recover, try_lock, write_all

_TEMPORARY_NAME = lazy_pattern(r"\.makeroom-[0-9a-f]{16}\.tmp")
_ANY_TEMPORARY_NAME = lazy_pattern(r"\.makeroom-(?:[0-9a-f]{16}\.tmp|restore-\d+)")
# These fields confirm the old content.
_DROPPED_ATTRIBUTES = ("security.capability", "security.ima", "security.evm")
_DENIED_ERRNOS = (errno.EACCES, errno.EPERM, errno.EROFS)
_NO_LINKS_ERRNOS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)


def is_temporary(name: str) -> bool:
    """Return whether a file with this name is being written, to be renamed when it is complete."""
    return name.startswith(".makeroom-") and _ANY_TEMPORARY_NAME.fullmatch(name) is not None


class CannotWriteAtomically(Exception):
    """A property of the old file cannot be given to the new one. The text names it."""


class WriteRequest(Struct, frozen=True):
    """One write. With `old` None, the file must not exist. `journals` is the directory for journals.

    `check` is called with the name of each stage: opened, writing, written, synced, placed. Before "placed"
    it may raise to cancel the write.
    """

    path: str
    data: bytes
    old: FileContent | None
    journals: Path
    check: Callable[[str], None] = lambda stage: None


def atomic_write(request: WriteRequest) -> str:
    """Write durably. Returns a note if it was not done in the usual way, otherwise "".

    Raises FileChanged if the file is no longer `old`, FileError or OSError if it cannot be written. In these
    cases the file is unchanged, and no other file is left behind.
    """
    recover(request.journals)
    if request.old is None:
        _create(request)
        return ""
    with _locked(request.path) as descriptor:
        if load_file(request.path).data != request.old.data:
            raise FileChanged(request.path)
        return _replace(request, descriptor)


def _replace(request: WriteRequest, descriptor: int) -> str:
    """Replace the file, which is open and locked as `descriptor`; return the note."""
    state = os.fstat(descriptor)
    if not os.access(request.path, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        if os.fstatvfs(descriptor).f_flag & os.ST_RDONLY:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        if state.st_mode & stat.S_IWUSR and os.geteuid() in (0, state.st_uid):
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))  # such as an immutable file
        own = state.st_uid == os.geteuid()
        mode = f"mode {stat.S_IMODE(state.st_mode):04o}" + ("" if own else f", of user {state.st_uid}")
        raise FileError(
            f"{one_line_path(request.path)} is read-only ({mode}) and was not changed.\n"
            "Ask the user whether it may be made writable."
        )
    why = ""
    if state.st_nlink > 1:
        why = f": the file has {state.st_nlink} names (hard links), which all show the new content"
    else:
        try:
            _swap(request, descriptor, state)
        except CannotWriteAtomically as error:
            why = f" to keep {error}"
        except OSError as error:
            if error.errno not in _DENIED_ERRNOS:
                raise
            why = ": new files are not permitted in its directory"
    if why:
        _write_in_place(request, state)
    return why and f"[written in place{why}]"


@contextmanager
def _locked(path: str) -> Iterator[int]:
    """Yield the file, open and locked. Raises FileError if another process has the lock for too long."""
    for _ in range(500):  # for 5 s, far longer than a write takes
        with opened_path(path, os.O_RDONLY | os.O_NONBLOCK) as descriptor:
            # It may have been replaced since it was opened.
            if try_lock(descriptor) and os.path.samestat(os.fstat(descriptor), Path(path).lstat()):
                yield descriptor
                return
        threading.Event().wait(0.01)
    raise FileError(f"{one_line_path(path)} is locked by another program.\nTry again when that is done.")


def _create(request: WriteRequest) -> None:
    folder, name = os.path.split(request.path)
    made: list[str] = []
    try:
        with closing(_make_folders(folder, made)) as descriptor:
            _remove_litter(folder)
            _write_temporary(request, descriptor, None, partial(_place_new, name, descriptor))
    except BaseException:
        for each in reversed(made):
            with suppress(OSError):
                Path(each).rmdir()
        raise
    for each in (folder, *map(os.path.dirname, reversed(made))):
        _sync_folder(each)


def _make_folders(folder: str, made: list[str], mode: int = 0o777) -> int:
    """Return a descriptor of the directory, made with missing parents. `made` collects the new ones."""
    here = os.open("/", FOLDER_FLAGS)
    so_far = ""
    for part in filter(None, folder.split("/")):
        so_far += f"/{part}"
        with closing(here):
            try:
                here = os.open(part, FOLDER_FLAGS, dir_fd=here)
            except FileNotFoundError:
                with suppress(FileExistsError):
                    os.mkdir(part, mode, dir_fd=here)
                    made.append(so_far)
                here = os.open(part, FOLDER_FLAGS, dir_fd=here)
    return here


def _swap(request: WriteRequest, old: int, state: os.stat_result) -> None:
    """Replace the old file, whose descriptor is `old`, with a new one."""
    folder, name = os.path.split(request.path)
    with opened_path(folder, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
        _remove_litter(folder)
        # Fails for a file that may not be replaced (another owner's in a sticky directory), which is
        # unchanged.
        place = partial(os.replace, dst=name, src_dir_fd=descriptor, dst_dir_fd=descriptor)
        _write_temporary(request, descriptor, (old, state), place)
        os.fsync(descriptor)


def _write_temporary(
    request: WriteRequest,
    folder: int,
    old: tuple[int, os.stat_result] | None,
    place: Callable[[str], None],
) -> None:
    """Write a temporary file in the directory and place it; remove it on any error."""
    name = f".makeroom-{os.urandom(8).hex()}.tmp"
    with closing(create_locked(folder, name, 0o666 if old is None else 0o600)) as descriptor:
        try:
            request.check("opened")
            write_all(descriptor, request.data, 0, lambda: request.check("writing"))
            request.check("written")
            if old is not None:
                _copy_metadata(descriptor, *old)
            os.fsync(descriptor)
            if os.fstat(descriptor).st_size != len(request.data):
                raise OSError(0, "the disk stored fewer bytes than were written", request.path)
            request.check("synced")
            place(name)
            request.check("placed")
        except BaseException:
            with suppress(OSError):
                os.unlink(name, dir_fd=folder)
            raise


def _remove_litter(folder: str) -> None:
    """Remove the temporary files of killed writers, which are no longer locked."""
    # An OSError: a directory that cannot be listed, or a file that another process removed.
    with suppress(OSError), opened_path(folder, os.O_RDONLY | os.O_DIRECTORY) as here:
        for name in filter(_TEMPORARY_NAME.fullmatch, os.listdir(here)):  # noqa: PTH208 - a descriptor
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with closing(os.open(name, flags, dir_fd=here)) as descriptor:
                if try_lock(descriptor):
                    os.unlink(name, dir_fd=here)


def _place_new(name: str, folder: int, temporary: str) -> None:
    """Give the new file its name, unless a file of that name has appeared."""
    try:
        os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        raise FileChanged(name) from None
    except OSError as error:
        if error.errno not in _NO_LINKS_ERRNOS:
            raise
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        return
    os.unlink(temporary, dir_fd=folder)


def _copy_metadata(descriptor: int, old: int, state: os.stat_result) -> None:
    """Copy owner, mode without setuid bits, and attributes. Raises CannotWriteAtomically if one fails."""
    mine = os.fstat(descriptor)
    if (mine.st_uid, mine.st_gid) != (state.st_uid, state.st_gid):
        try:
            os.fchown(descriptor, state.st_uid, state.st_gid)
        except OSError as error:
            raise CannotWriteAtomically("its owner and group") from error
    mode = stat.S_IMODE(state.st_mode) & 0o1777
    if stat.S_IMODE(mine.st_mode) != mode:  # where all modes are alike, as on FAT, none can be set
        try:
            os.fchmod(descriptor, mode)
        except OSError as error:
            raise CannotWriteAtomically("its mode") from error
    if sys.platform == "linux":
        _copy_attributes(descriptor, old)


if sys.platform == "linux":

    def _copy_attributes(descriptor: int, old: int) -> None:
        """Copy the extended attributes. Raises CannotWriteAtomically."""
        with suppress(OSError):
            for name in set(os.listxattr(descriptor)) - set(os.listxattr(old)):
                # It comes from the directory's default access list, which does not apply.
                os.removexattr(descriptor, name)
        attributes = []
        with suppress(OSError):  # a file system without attributes
            attributes = [name for name in os.listxattr(old) if name not in _DROPPED_ATTRIBUTES]
        for name in attributes:
            try:
                os.setxattr(descriptor, name, os.getxattr(old, name))
            except OSError as error:
                raise CannotWriteAtomically(f"its attribute {name}") from error


def _write_in_place(request: WriteRequest, state: os.stat_result) -> None:
    """Overwrite the locked file itself; a journal contains old and new until the new content is on disk."""
    assert request.old is not None
    with opened_path(request.path, os.O_WRONLY | os.O_NONBLOCK) as descriptor:
        if os.fstat(descriptor).st_ino != state.st_ino:
            raise FileChanged(request.path)
        request.check("opened")
        with (
            closing(_make_folders(str(request.journals), [], 0o700)) as journals,
            journal(journals, request.path, request.old.data, request.data),
        ):
            for folder in (request.journals, *request.journals.parents[:3]):  # all of them may be new
                _sync_folder(str(folder))
            request.check("synced")
            _overwrite(descriptor, request.old.data, request.data, lambda: request.check("placed"))
        mode = stat.S_IMODE(state.st_mode)
        if mode & 0o6000:
            os.fchmod(descriptor, mode & 0o1777)


def _overwrite(descriptor: int, old: bytes, new: bytes, written: Callable[[], None]) -> None:
    """Overwrite the file, an added end first, so that a full disk leaves the old content intact."""
    try:
        write_all(descriptor, new[len(old) :], len(old), written)
        write_all(descriptor, new[: len(old)], 0, written)
        os.ftruncate(descriptor, len(new))
        os.fsync(descriptor)
    except OSError:
        with suppress(OSError):
            write_all(descriptor, old, 0)
        os.ftruncate(descriptor, len(old))
        raise


def _sync_folder(folder: str) -> None:
    with suppress(OSError), opened_path(folder, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
        os.fsync(descriptor)
