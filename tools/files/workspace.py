"""The place in which files are used: the project, and what is known of its files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from .errors import FileError


class SeenFile(Struct, frozen=True):
    """A file as the model last saw it."""

    sha256: str  # of all its bytes
    lines: tuple[int, int] | None = None  # first and last line that were shown; None: all
    result: int | None = None  # seq of the result that shows it, once that is recorded
    encoding: str = ""  # the TextForm.told of what was shown

    @classmethod
    def shown_by(cls, about: Mapping[str, Any]) -> SeenFile | None:
        """Return the state that a result of read, write or edit shows by its `about`; None for no content."""
        sha256 = about.get("sha256")
        first = about.get("first")
        last = about.get("last")
        if not isinstance(about.get("path"), str) or not isinstance(sha256, str):
            return None
        whole = first is None or (first == 1 and last == about.get("total"))
        encoding = str(about.get("encoding", ""))
        return cls(sha256, None if whole else (int(first or 0), int(last or 0)), encoding=encoding)


class Workspace(Struct):
    """The place in which a session uses files.

    folder    the project's root, a real path
    cwd       where the next command runs; follows `cd`
    outputs   directory for outputs that are too large for the transcript (made on demand, mode 0700)
    journals  directory for journals of writes in place, outside the project: its content is acted on
    added     further directories to work in, real paths
    environ   the environment of commands, with the credentials
    seen      files by real path, as the model last saw them: a file is read before it is changed
    """

    folder: Path
    cwd: Path
    outputs: Path
    journals: Path
    added: tuple[Path, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    seen: dict[str, SeenFile] = field(default_factory=dict)

    def check_folder(self) -> None:
        """Check that the project's directory was not moved or removed. Raises FileError."""
        if not self.folder.is_dir():
            raise FileError(f"The project's folder {self.folder} is gone.\nThe person has to bring it back.")

    def restore_seen(self, about: Mapping[str, Any], seq: int) -> None:
        """Learn from a recorded result of read, write or edit (its `about`, its seq) what the model has seen.

        For a session that is opened again: to be called with the results of its conversation in their order.
        """
        seen = SeenFile.shown_by(about)
        if seen is not None and "unchanged" not in about:
            self.seen[about["path"]] = replace(seen, result=None if about.get("first") is None else seq)
