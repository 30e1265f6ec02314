"""The workspace of a session: the project, and the files that the model has seen."""

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
    lines: tuple[int, int] | None = None  # first and last line shown; None for all
    result: int | None = None  # seq of the result or prompt that shows it, once that is recorded
    attached: bool = False  # that is a prompt, which shows no id
    encoding: str = ""  # the TextForm.hint of the shown text

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
    """The directories and files that a session works with.

    folder    the project's root, a real path
    cwd       the directory of the next command; follows `cd`
    outputs   directory for outputs that are too large for the transcript (made on demand, mode 0700)
    journals  directory for journals of writes in place, outside the project since its content is trusted
    added     additional directories to work in, real paths
    environ   the environment of commands, with the credentials
    seen      files by real path as the model last saw them, since a file has to be read before it is changed
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
            raise FileError(
                f"The project's directory {self.folder} does not exist.\nThe user has to restore it."
            )

    def restore_seen(self, about: Mapping[str, Any], seq: int, attached: bool = False) -> None:
        """Restore a file that the model has seen from a recorded result of read, write or edit.

        `attached`: it was attached to the prompt `seq`.
        For a resumed session: call it with the `about` and seq of each result in the conversation, in order.
        """
        seen = SeenFile.shown_by(about)
        if seen is not None and "unchanged" not in about:
            result = None if about.get("first") is None else seq
            self.seen[about["path"]] = replace(seen, result=result, attached=attached)
