"""List the directories of a project whose files are recorded."""

from __future__ import annotations

import os
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from tools.files import is_temporary

from .file_attributes import read_attributes

SKIPPED_FOLDERS = {
    *(".git", ".hg", ".svn", ".jj", "node_modules", ".venv", "venv", "__pycache__", ".tox", ".nox"),
    *(".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", ".cache", ".gradle", ".terraform"),
    *(".transcripts", ".task_outputs", ".makeroom"),
}
_name_of = attrgetter("name")


class Listing(NamedTuple):
    """The names in a directory and its attributes, as long as it has this `stamp`.

    `files` are those that git does not watch.
    """

    stamp: tuple[int, ...]
    files: Sequence[str]
    folders: Sequence[str]
    skipped: Sequence[str]
    attrs: str = ""


def list_directory(root: str | Path, folder: str, stamp: tuple[int, ...] = ()) -> Listing:
    """List a directory of the project, "" for its root; one that cannot be listed is skipped."""
    path = f"{root}/{folder}" if folder else str(root)
    prefix = f"{folder}/" if folder else ""
    try:
        os.stat(f"{path}/.")  # raises PermissionError if only the names can be read  # noqa: PTH116
        with os.scandir(path) as entries:
            found = sorted(entries, key=_name_of)
    except OSError:
        return Listing((), files=(), folders=(), skipped=(folder,) if folder else ())
    files: list[str] = []
    folders: list[str] = []
    skipped: list[str] = []
    for entry in found:
        name = prefix + entry.name
        if is_temporary(entry.name):  # of a call that runs alongside this one
            continue
        if not entry.is_dir(follow_symlinks=False):
            files.append(name)
        elif entry.name in SKIPPED_FOLDERS:
            skipped.append(name)
        else:
            folders.append(name)
    return Listing(stamp, files=files, folders=folders, skipped=skipped, attrs=read_attributes(path))
