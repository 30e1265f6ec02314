"""Find changed files of a project that have other names: package managers share their stores with hard links.

pnpm and uv link the files of a package from one store into every project. Changing one in place changes it
for all projects, which no sandbox can prevent. So it is reported.
"""

from __future__ import annotations

import os
from collections import defaultdict, deque
from collections.abc import Iterator
from pathlib import Path

from transcripts import RECORD_FOLDERS

_MAX_SEEN_FILES = 20_000  # files and directories, nearest to the top first: 0.1 s
_MAX_NAMED = 5
_CLOCK_S = 0.02  # by which the time of a file may be behind the clock
_UNSEEN = frozenset((".git", *RECORD_FOLDERS))  # a local clone shares git objects, which never change


def tell_changed_links(folder: Path, since: float, told: set[str]) -> list[str]:
    """Return a line about files below a directory that changed since a time and have names elsewhere.

    No line if all of them are in `told`, to which new ones are added. Blocks.
    """
    names = [name for name in changed_links(folder, since) if name not in told]
    told.update(names)
    if not names:
        return []
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    shown = ", ".join(name if name.isprintable() else repr(name) for name in names[:_MAX_NAMED])
    return [f"changed while commands ran, but shared with other projects through hard links: {shown}{more}"]


def changed_links(folder: Path, since: float) -> list[str]:
    """Return the paths of those files, relative to the directory."""
    found: dict[int, list[str]] = defaultdict(list)
    names: dict[int, int] = {}
    for entry in _files(str(folder)):
        try:
            state = entry.stat(follow_symlinks=False)
        except OSError:
            continue  # it has just been removed
        if state.st_nlink > 1 and state.st_ctime > since - _CLOCK_S:
            found[state.st_ino].append(os.path.relpath(entry.path, folder))
            names[state.st_ino] = state.st_nlink
    return sorted(paths[0] for inode, paths in found.items() if len(paths) < names[inode])


def _files(folder: str) -> Iterator[os.DirEntry[str]]:
    """Yield the files below a directory, nearest first, without following links."""
    waiting = deque([folder])
    seen = 0
    while waiting:
        try:
            entries = list(os.scandir(waiting.popleft()))
        except OSError:
            continue
        for entry in entries:
            seen += 1
            if seen > _MAX_SEEN_FILES:
                return
            if entry.is_dir(follow_symlinks=False):
                waiting += [entry.path] if entry.name not in _UNSEEN else []
            elif entry.is_file(follow_symlinks=False):
                yield entry
