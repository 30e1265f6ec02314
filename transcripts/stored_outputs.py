"""Files for tool outputs that are too large for a line of the record.

A record may name only what is on the disk, so `OutputsFolder.write` or `sync` comes before the fact.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from pathlib import Path

from msgspec import Struct

from .facts import StoredOutput
from .storage.disk import (
    DISK,
    Disk,
    make_private_folders,
    opened_fd,
    replace_file,
    sync_folders,
    write_ignore_files,
)

MAX_OUTPUT_FILE_BYTES = 64 << 20  # outputs are kept up to 50 MB
OUTPUTS_TOP = ".task_outputs"  # in the project; what is in it is kept in a folder of its own
OUTPUTS_FOLDER = Path(OUTPUTS_TOP) / "tool-results"
_SYNCED_FOLDERS = 3  # whose names must last: that of the outputs, .task_outputs, and the project's


class OutputsFolder(Struct, frozen=True):
    """The folder of stored outputs in a project."""

    path: Path
    disk: Disk = DISK

    def make(self) -> None:
        """Make the folder where it is missing, but not the project where that was moved away. Raises OSError.

        It lies in the project, whose author may have put a link in its place: none is followed.
        """
        if self.path.resolve() != self.path:
            raise NotADirectoryError(errno.ENOTDIR, "a link is in its place", str(self.path))
        self.path.parents[1].stat()
        make_private_folders(self.path, self.disk)
        write_ignore_files(self.path, self.disk)

    def write(self, name: str, content: bytes) -> Path:
        """Write an output to a file of that name: in whole or not at all, durably. Raises OSError."""
        self.make()
        path = self.path / Path(name).name
        replace_file(path, content, self.disk)
        sync_folders(self.disk, *_folders(path))
        return path

    def sync(self, name: str) -> None:
        """Put an output that is written already on the disk, its name too. Raises OSError."""
        path = self.path / name
        with opened_fd(path, os.O_RDONLY, self.disk) as fd:
            self.disk.sync(fd)
        sync_folders(self.disk, *_folders(path))

    def read(self, stored: StoredOutput) -> str | None:
        """Return a whole output; None where it is missing, elsewhere, or has changed.

        What something else wrote behind it is left out.
        """
        path = self.path / Path(stored.path).name
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(fd, "rb") as file:
                found = os.fstat(fd)
                if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_OUTPUT_FILE_BYTES:
                    return None
                content = file.read(stored.size)
        except OSError:
            return None
        if hashlib.sha256(content).hexdigest() != stored.sha256:
            return None
        return content.decode("utf-8", "replace")


def _folders(path: Path) -> list[Path]:
    return [folder.resolve() for folder in path.parents[:_SYNCED_FOLDERS]]
