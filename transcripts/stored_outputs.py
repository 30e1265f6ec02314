"""Files for tool outputs that are too large for a line of the transcript.

A fact may only refer to files that are on the disk, so call `OutputsFolder.write` or `sync` before adding it.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from .facts import StoredOutput
from .storage.disk import (
    DISK,
    Disk,
    held_folder,
    make_private_folders,
    opened_fd,
    replace_file,
    sync_folders,
    write_ignore_files,
)

OUTPUTS_TOP = ".task_outputs"  # in the project
OUTPUTS_FOLDER = Path(OUTPUTS_TOP) / "tool-results"


class OutputsFolder(Struct, frozen=True):
    """The directory of stored outputs in a project."""

    path: Path
    disk: Disk = DISK

    @contextmanager
    def opened(self) -> Iterator[Path]:
        """Yield the path of the directory while it is open; it is created if it is missing. Raises OSError.

        It is in the project, whose author may have replaced it by a symbolic link, and a command may do that
        at any time: links are not followed. A project that was moved away is not created again.
        """
        if self.path.resolve() != self.path:
            raise NotADirectoryError(errno.ENOTDIR, "its path contains a symbolic link", str(self.path))
        project = self.path.parents[1]
        project.stat()
        make_private_folders(self.path, self.disk)
        with held_folder(self.path, project) as folder:
            write_ignore_files(folder, self.disk)
            yield folder

    def write(self, name: str, content: bytes) -> Path:
        """Write an output to a file of that name, atomically and durably. Raises OSError."""
        path = self.path / Path(name).name
        with self.opened() as folder:
            replace_file(folder / path.name, content, self.disk)
        sync_folders(self.disk, *_folders(path))
        return path

    def sync(self, name: str) -> None:
        """Make an output that is already written durable, including its name. Raises OSError."""
        path = self.path / name
        with opened_fd(path, os.O_RDONLY, self.disk) as fd:
            self.disk.sync(fd)
        sync_folders(self.disk, *_folders(path))

    def read(self, stored: StoredOutput) -> str | None:
        """Return a full output; None if its file is missing, not a regular file, or changed.

        Data that another process appended to the file is ignored.
        """
        path = self.path / Path(stored.path).name
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(fd, "rb") as file:
                found = os.fstat(fd)
                if not stat.S_ISREG(found.st_mode) or found.st_size > 64 << 20:  # outputs have up to 50 MB
                    return None
                content = file.read(stored.size)
        except OSError:
            return None
        if hashlib.sha256(content).hexdigest() != stored.sha256:
            return None
        return content.decode("utf-8", "replace")


def _folders(path: Path) -> list[Path]:
    return [folder.resolve() for folder in path.parents[:3]]  # tool-results, .task_outputs and the project
