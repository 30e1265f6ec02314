"""Find the git directories of a checkout from its files, without running git."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from tools.files import load_file
from transcripts.storage import append_line, opened_fd


class Checkout(Struct, frozen=True):
    """A directory with a `.git`: a directory, or in a worktree or submodule a file that names one."""

    top: Path

    @classmethod
    def around(cls, folder: Path) -> Checkout | None:
        """Return the innermost checkout that contains a directory; None if there is none."""
        places = (cls(place) for place in (folder, *folder.parents))
        return next((place for place in places if place.exists), None)

    @property
    def exists(self) -> bool:
        """True if the directory has a `.git` and may be searched."""
        return os.path.exists(self.top / ".git")  # noqa: PTH110 - a Path raises errors

    @property
    def git_folder(self) -> Path:
        """The git directory of this checkout."""
        leads_to = _path_in(self.top / ".git")
        return self.top / (".git" if leads_to is None else leads_to.removeprefix("gitdir:").strip())

    @property
    def shared_folder(self) -> Path:
        """The git directory that all worktrees of the repository share."""
        folder = self.git_folder
        if folder == self.top / ".git":
            return folder
        return folder / (_path_in(folder / "commondir") or "").strip()

    @property
    def exclude_file(self) -> Path:
        """The file with the ignore patterns of this clone, which need not exist."""
        return self.shared_folder / "info" / "exclude"

    def exclude(self, folder: Path) -> None:
        """Exclude a directory of this checkout from git, in this clone only. Raises OSError, FileError."""
        file = self.exclude_file
        pattern = f"/{folder.relative_to(self.top).as_posix()}/".encode()
        patterns = b""
        with suppress(FileNotFoundError):
            patterns = load_file(str(file.parent.resolve() / file.name)).data
        if pattern not in patterns.splitlines():
            file.parent.mkdir(exist_ok=True)
            append_line(file, pattern)


def _path_in(file: Path) -> str | None:
    """Return the text of a file that should contain a path; None if there is none, or it cannot be one."""
    text = small_text(file)
    return None if text is None or "\0" in text else text


def small_text(path: Path) -> str | None:
    """Return the text of a regular file, without following links; None if there is none."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    with suppress(OSError), opened_fd(path, flags) as descriptor:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return os.read(descriptor, 65_536).decode("utf-8", "surrogateescape")
    return None
