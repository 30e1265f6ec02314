"""The folder of outputs that are too large for a line of the record: private, and none of git's business.

A record may name only what is on the disk, so `store` and `settle` come before it.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from .disk import DISK, Disk, make_private, put, sync_folders
from .session_lock import ignore

_DEPTH = 3  # folders whose names must last: the folder itself, .task_outputs, and the project's


def make(folder: Path, disk: Disk = DISK) -> None:
    """Make the folder where it is missing. Raises OSError.

    It lies in the project, so whoever made that may have put a link in its place: none is followed.
    """
    if folder.resolve() != folder:
        raise NotADirectoryError(errno.ENOTDIR, "a link is in its place", str(folder))
    make_private(folder, disk)
    ignore(folder, disk)


def store(folder: Path, name: str, text: str, disk: Disk = DISK) -> Path:
    """Keep a text in a file of that name, in whole or not at all, durably. Raises OSError."""
    make(folder, disk)
    path = folder / Path(name).name
    put(path, text.encode(), disk)
    sync_folders(disk, *_folders(path))
    return path


def settle(path: Path, disk: Disk = DISK) -> None:
    """Have an output that somebody wrote on the disk, name and all. Raises OSError."""
    fd = disk.open(str(path), os.O_RDONLY, 0)
    try:
        disk.sync(fd)
    finally:
        os.close(fd)
    sync_folders(disk, *_folders(path))


def _folders(path: Path) -> list[Path]:
    return [folder.resolve() for folder in path.parents[:_DEPTH]]
