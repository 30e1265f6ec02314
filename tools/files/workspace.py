"""The place in which files are used: the project, and what is known of its files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field


class SeenFile(Struct, frozen=True):
    """A file as the model last saw it."""

    sha256: str  # of all its bytes
    lines: tuple[int, int] | None = None  # first and last line that were shown; None: all
    result: int | None = None  # seq of the result that shows it, once that is recorded
    encoding: str = ""  # the TextForm.told of what was shown


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
