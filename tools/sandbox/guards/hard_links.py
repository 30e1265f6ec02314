"""Find changed files of a project that have other names: package managers share their stores with hard links.

pnpm and uv link the files of a package from one store into every project. Changing one in place changes it
for all projects, which no sandbox can prevent. So it is reported.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tools.files import LISTED_FOLDER, closing, safe_open
from transcripts import RECORD_FOLDERS, RECORDS_FOLDER

from .planted_files import MAX_DEPTH

_MAX_SEEN_FILES = 20_000  # files and directories, nearest to the top first: 0.1 s
_MAX_NAMED = 5
_CLOCK_S = 0.02  # by which the time of a file may be behind the clock
_UNSEEN = frozenset((".git", *RECORD_FOLDERS))  # a local clone shares git objects, which never change


def report_changed_links(folder: Path, since: float, reported: set[str]) -> list[str]:
    """Return a line about files below a directory that changed since a time and have names elsewhere.

    No line if all of them are in `reported`, to which new ones are added. Blocks.
    """
    names = [name for name in changed_links(folder, since) if name not in reported]
    reported.update(names)
    if not names:
        return []
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    shown = ", ".join(name if name.isprintable() else repr(name) for name in names[:_MAX_NAMED])
    return [f"other projects share files (as hard links) that changed while commands ran: {shown}{more}"]


def changed_links(folder: Path, since: float) -> list[str]:
    """Return the paths of those files, relative to the directory."""
    found: dict[tuple[int, int], list[str]] = defaultdict(list)  # by device and inode
    names: dict[tuple[int, int], int] = {}
    with suppress(OSError), closing(safe_open(str(folder), LISTED_FOLDER)) as top:
        own = _held_files(top)
        for path, entry in _files(top):
            try:
                state = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue  # it has just been removed
            if state.st_nlink > 1 and state.st_ctime > since - _CLOCK_S:
                found[state.st_dev, state.st_ino].append(path)
                names[state.st_dev, state.st_ino] = state.st_nlink
        own |= _held_files(top)  # the larger number of each
        for file in found:
            names[file] -= own[file]
    return sorted(paths[0] for file, paths in found.items() if len(paths) < names[file])


def _held_files(top: int) -> Counter[tuple[int, int]]:
    """Return the number of links that /rewind keeps to files while commands run, by device and inode."""
    found: Counter[tuple[int, int]] = Counter()
    place = f"{RECORDS_FOLDER}/checkpoints/held"
    with (
        suppress(OSError),
        closing(safe_open(place, LISTED_FOLDER, base=top)) as here,
        os.scandir(here) as links,
    ):
        for link in links:
            state = link.stat(follow_symlinks=False)
            found[state.st_dev, state.st_ino] += 1
    return found


def _files(top: int) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield (path, entry) of the files below an open directory, nearest first, without following links."""
    waiting = deque(["."])
    seen = 0
    while waiting:
        place = waiting.popleft()
        with (
            suppress(OSError),
            closing(safe_open(place, LISTED_FOLDER, base=top)) as here,
            os.scandir(here) as entries,
        ):
            for entry in entries:
                seen += 1
                if seen > _MAX_SEEN_FILES:
                    return
                path = os.path.normpath(f"{place}/{entry.name}")
                if entry.is_dir(follow_symlinks=False):
                    waiting += [path] if entry.name not in _UNSEEN and path.count("/") < MAX_DEPTH else []
                elif entry.is_file(follow_symlinks=False):
                    yield path, entry
