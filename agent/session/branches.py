"""Name the branch that is checked out, read from files: git would run programs that the repository names."""

from __future__ import annotations

import re
from pathlib import Path

from tools.files import FileError, canonical_path, load_file
from tools.search import Checkout
from transcripts.wording import shorten

BRANCH_INTERVAL_S = 2.0  # between two looks for the status line
MAX_HEAD_BYTES = 4_096  # of the file that names the branch
MAX_NAME_CHARS = 200  # of a folder or branch: the name comes with the project and may be anything


def branch(folder: Path) -> str:
    """Return the branch that is checked out with its repository, or a description if there is neither."""
    checkout = Checkout.around(folder)
    if checkout is None:
        return "no repository"
    kind = "worktree or submodule" if (checkout.top / ".git").is_file() else "repository"
    where = f"{kind} at {shown_name(checkout.top)}"
    text = _head(checkout)
    if not text:
        return f"a {where}"
    named = text.startswith("ref:")
    name = (
        shown_name(text.removeprefix("ref: refs/heads/")) if named else f"detached at {shown_name(text[:12])}"
    )
    return f"{name} ({where})"


def _head(checkout: Checkout) -> str:
    """Return the text of HEAD, "" if it cannot be read or does not look like one.

    Commands can make it, or a directory on the way to it, a link to a file that they cannot read themselves.
    """
    try:
        path = f"{canonical_path(str(checkout.git_folder))}/HEAD"
        text = load_file(path, MAX_HEAD_BYTES).data.decode("utf-8", "replace").strip()
    except (OSError, FileError, ValueError):  # a NUL in what the file names
        return ""
    return text if re.fullmatch(r"ref: refs/\S+|[0-9a-f]{40}(?:[0-9a-f]{24})?", text) else ""


class BranchWatch:
    """The name of the branch of a folder's repository, looked for at most every two seconds."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._looked_at = float("-inf")
        self._name = ""

    def name(self, now: float) -> str:
        """The name at the moment `now`, in seconds of a monotonic clock; "" where there is none."""
        if now - self._looked_at >= BRANCH_INTERVAL_S:
            self._looked_at = now
            head = branch(self._folder)
            self._name = head.partition(" (")[0] if " (" in head else ""
        return self._name


def shown_name(text: str | Path) -> str:
    """The name on one line, unable to close the surrounding tags or to control a terminal."""
    plain = repr(str(text))[1:-1].replace("<", "‹").replace(">", "›")
    return shorten(plain, MAX_NAME_CHARS)
