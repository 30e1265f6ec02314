"""The reflogs of a git repository: read them, and add the lines that a command has dropped.

No link is followed below the git directory.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tools.files import LISTED_FOLDER, closing, safe_open
from tools.search import Checkout
from transcripts.patterns import lazy_bytes_pattern

from .git_operation import opened_git
from .git_state import STASH

STASH_LOG = f"logs/{STASH}"
_LINE = lazy_bytes_pattern(rb"[0-9a-f]{40,64} [0-9a-f]{40,64} [^\n]*\n")
_MAX_BYTES = 1 << 20  # of one reflog


def reflogs(top: Path, places: Sequence[str]) -> dict[str, str]:
    """Return the reflogs of HEAD, branches, notes and the stash, unless they are very long. Blocks.

    `places` are those of git directories (git_operation.py).
    """
    checkout = Checkout(top)
    found: dict[str, str] = {}
    shared = checkout.shared_folder
    kept = (
        (checkout.git_folder, "logs", "HEAD"),
        (shared, "logs/refs", "stash"),
        (shared, "logs/refs/heads", ""),
        (shared, "logs/refs/notes", ""),
        (shared, "logs/refs/remotes", ""),
    )
    for folder, start, only in kept:
        with suppress(OSError), closing(opened_git(folder, places)) as git:
            waiting = [start]
            # At most so many reflogs are kept.
            while waiting and len(found) < 100:
                name = waiting.pop()
                with suppress(OSError), closing(safe_open(name, LISTED_FOLDER, base=git)) as here:
                    for entry in sorted(os.listdir(here)):  # noqa: PTH208 - a descriptor
                        path = f"{name}/{entry}"
                        if only in ("", entry):
                            text = _lines_of_log(git, path)
                            waiting += [path] if text is None else []
                            found |= {path: text} if text else {}
    return found


def _lines_of_log(git: int, path: str) -> str | None:
    """Return the lines of a reflog, "" if it is none, unreadable or too long, None for a directory."""
    try:
        with closing(safe_open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY, base=git)) as file:
            state = os.fstat(file)
            if stat.S_ISDIR(state.st_mode):
                return None
            if not stat.S_ISREG(state.st_mode) or state.st_size > _MAX_BYTES:
                return ""
            lines = _LINE.findall(os.read(file, _MAX_BYTES))
    except OSError:  # such as a link
        return ""
    return b"".join(lines).decode("utf-8", "surrogateescape")


def lost_lines(before: str, after: str) -> str:
    """Return the lines of a reflog that a later state lacks; of equal lines, the newest."""
    left = Counter(after.split("\n"))
    missing = []
    for line in before.split("\n"):
        left[line] -= 1
        missing += [f"{line}\n"] if left[line] < 0 and line else []
    return "".join(missing)


def restored_log(name: str, before: str, after: str) -> str:
    """Return the lines of a reflog before and those added since; "" if it has lost none.

    Where a stash entry is dropped, git writes the line of the next one again, with another old commit.
    """
    if not lost_lines(before, after):
        return ""
    added = lost_lines(after, before)
    if name == STASH_LOG:
        ids = {line.split(" ")[1] for line in before.splitlines()}
        added = "".join(line for line in added.splitlines(keepends=True) if line.split(" ")[1] not in ids)
    return before + added
