"""Remove layers over caches of projects that nobody has worked on for long, and folders of killed runs."""

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

MAX_UNUSED_S = 30 * 24 * 3600.0
_STARTING_S = 60.0  # a younger folder may be of a run that is just beginning


def use_layers(folder: Path) -> threading.Thread:
    """Mark the layers of a project as used, and remove those of others that were not for 30 days.

    Folders of runs that were killed go as well. That is done by a thread which does not keep the program
    from ending; what it leaves is removed next time.
    """
    thread = threading.Thread(target=_use, args=(folder,), daemon=True)
    thread.start()
    return thread


def _use(folder: Path) -> None:
    _remove_dead_folders(Path(gettempdir()))
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.utime(folder)
        oldest = time.time() - MAX_UNUSED_S
        with os.scandir(folder.parent) as layers:  # of every project of a month
            unused = [each.path for each in layers if each.stat(follow_symlinks=False).st_mtime < oldest]
        for path in unused:
            shutil.rmtree(path, onerror=_open_and_retry)


def _remove_dead_folders(place: Path) -> None:
    """Remove our user's folders for sockets and records of runs that cannot be alive any more."""
    for folder in place.glob("makeroom-*/"):
        with suppress(OSError):
            about = folder.lstat()
            is_ours = stat.S_ISDIR(about.st_mode) and about.st_uid == os.geteuid()
            if is_ours and time.time() - about.st_mtime > _STARTING_S and _is_dead(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _is_dead(folder: Path) -> bool:
    """Return whether nobody listens at the socket in a folder, or nobody holds the locks in it.

    Raises OSError.
    """
    if folder.name.startswith("makeroom-net-"):
        with socket.socket(socket.AF_UNIX) as end:
            end.setblocking(False)
            try:
                end.connect(str(folder / "proxy"))
            except (ConnectionRefusedError, FileNotFoundError):
                return True
            return False
    locks = list(folder.glob(".transcripts/*.lock"))
    return bool(locks) and not any(map(_is_held, locks))


def _is_held(lock: Path) -> bool:
    """Return whether a process holds the lock of a session. Raises OSError."""
    fd = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def _open_and_retry(act: Callable[..., Any], path: str, _: object) -> None:
    """The kernel's own folder in a layer is closed to its owner too; what cannot be removed stays."""
    with suppress(OSError):
        os.chmod(path, 0o700)  # noqa: PTH101
        if act in (os.rmdir, os.open, os.scandir):
            shutil.rmtree(path, ignore_errors=True)
