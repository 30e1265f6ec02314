"""Remove what was not used for long from the state directory, and directories of killed runs.

Cache layers of projects, and files that nobody else removes: drafts and copies of repositories that killed
runs left, images from the clipboard, logs of MCP servers, files that were replaced, and bug reports.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import stat
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from transcripts.patterns import lazy_pattern
from transcripts.storage import is_of_running_process, set_own_mode

MAX_UNUSED_S = 30 * 24 * 3600.0
_AGING = ("drafts", "git_copies", "images", "mcp", "put_aside", "reports")  # in the state directory
# As `mkdtemp` makes them.
_SOCKETS_NAME = lazy_pattern(r"makeroom-net-[a-z0-9_]{8}")
_RECORDS_NAME = lazy_pattern(r"makeroom-[a-z0-9_]{8}")
_MAX_NESTED_CLOSED = 8
_STARTING_S = 60.0  # a younger directory may belong to a run that is starting


def use_layers(folder: Path) -> threading.Thread:
    """Mark the layers of a project as used, and remove others and files that were not used for 30 days.

    Directories of killed runs are removed too. A daemon thread does it, and the next run removes what it did
    not finish.
    """
    thread = threading.Thread(target=_use, args=(folder,), name="old layers", daemon=True)
    thread.start()
    return thread


def _use(folder: Path) -> None:
    _remove_dead_folders(Path(gettempdir()))
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.utime(folder)
    for place in (folder.parent, *(folder.parents[1] / name for name in _AGING)):
        _remove_unused(place)


def _remove_unused(place: Path) -> None:
    """Remove the entries of a directory that were not used for long, except those of running processes.

    Names of drafts and of copies of repositories end with a pid.
    """
    oldest = time.time() - MAX_UNUSED_S
    with suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            with suppress(OSError):  # another process removed it
                if entry.stat(follow_symlinks=False).st_mtime >= oldest or is_of_running_process(entry.name):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    _remove_folder(entry.path)
                else:
                    Path(entry).unlink()


def _remove_dead_folders(place: Path) -> None:
    """Remove the user's directories for sockets and transcripts of runs that have ended.

    A project of the user may have such a name, so they may contain nothing but what runs put there.
    """
    for folder in place.glob("makeroom-*/"):
        with suppress(OSError):
            about = folder.lstat()
            is_ours = stat.S_ISDIR(about.st_mode) and about.st_uid == os.geteuid()
            if is_ours and time.time() - about.st_mtime > _STARTING_S and _is_dead(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _is_dead(folder: Path) -> bool:
    """Return whether no process listens on the socket in a directory, or none has the locks in it.

    Raises OSError.
    """
    names = {path.name for path in folder.iterdir()}
    if _SOCKETS_NAME.fullmatch(folder.name) and names <= {"proxy", "ports"}:
        with socket.socket(socket.AF_UNIX) as end:
            end.setblocking(False)
            try:
                end.connect(str(folder / "proxy"))
            except (ConnectionRefusedError, FileNotFoundError):
                return True
            return False
    if not _RECORDS_NAME.fullmatch(folder.name) or not names <= {".transcripts", ".task_outputs"}:
        return False
    locks = list(folder.glob(".transcripts/*.lock"))
    return bool(locks) and not any(map(_is_held, locks))


def _is_held(lock: Path) -> bool:
    """Return whether a process has the lock of a session. Raises OSError."""
    fd = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def _remove_folder(folder: str) -> None:
    """Remove a directory and the directories in it that are closed or read-only even to their owner.

    The kernel makes such ones in a layer, and package managers in a cache.
    """
    for _ in range(_MAX_NESTED_CLOSED):
        if not os.path.lexists(folder):
            return
        shutil.rmtree(folder, onerror=_open)


def _open(act: Callable[..., Any], path: str, _: object) -> None:
    """Open what kept an entry from being removed: the directory itself, or the one that contains it."""
    is_closed = act not in (os.unlink, os.rmdir)
    with suppress(OSError):
        set_own_mode(Path(path) if is_closed else Path(path).parent, 0o700)
