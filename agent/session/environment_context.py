"""Tell the model where and when it works: the first block of a session's first user message.

Read from files only: asking git would run what a repository's configuration names, before the person has
allowed anything.
"""

from __future__ import annotations

import platform
from datetime import datetime
from pathlib import Path

from transcripts.messages import INJECTED_CLOSING_TAG, INJECTED_OPENING_TAG

MAX_NAME_CHARS = 200  # of a folder or branch: the name comes with the project and may be anything


def environment_context(folder: Path, now: float) -> str:
    """Date, folder, system and branch, a line each, within the tags that mark text added by the program."""
    lines = [
        INJECTED_OPENING_TAG,
        "(added by makeroom, not by the user)",
        f"Date: {datetime.fromtimestamp(now).astimezone():%A %Y-%m-%d %H:%M %Z}",
        f"Project folder: {_name(folder)}",
        f"System: {platform.system()} {platform.machine()}",
        f"Git: {branch(folder)}",
        INJECTED_CLOSING_TAG,
    ]
    return "\n".join(lines)


def branch(folder: Path) -> str:
    """The branch that is checked out, or a description of what there is instead."""
    for place in [folder, *folder.parents]:
        git = place / ".git"
        if git.is_file():
            return f"a worktree or submodule at {_name(place)}"
        if git.is_dir():
            return _head(git, place)
    return "no repository"


def _head(git: Path, place: Path) -> str:
    where = f"repository at {_name(place)}"
    head = git / "HEAD"
    try:
        text = head.read_text("utf-8", errors="replace").strip() if head.is_file() else ""
    except OSError:
        text = ""
    if not text:
        return f"a {where}"
    branch = text.startswith("ref:")
    name = _name(text.removeprefix("ref: refs/heads/")) if branch else f"detached at {_name(text[:12])}"
    return f"{name} ({where})"


def _name(text: str | Path) -> str:
    """The name on one line, unable to close the surrounding tags or to control a terminal."""
    plain = repr(str(text))[1:-1].replace("<", "‹").replace(">", "›")
    return plain if len(plain) <= MAX_NAME_CHARS else f"{plain[:MAX_NAME_CHARS]}…"
