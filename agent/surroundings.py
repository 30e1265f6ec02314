"""Where and when a session takes place, as the first block of its first user message.

Read from files only: asking git would run what a repository's configuration names, before anybody said
that it may.
"""

from __future__ import annotations

import platform
from datetime import datetime
from pathlib import Path

OPENING = "<surroundings>"
CLOSING = "</surroundings>"


def surroundings(folder: Path, now: float) -> str:
    """A few lines marked as ours: date, folder, system, branch."""
    lines = [
        OPENING,
        "(added by makeroom, not by the user)",
        f"Date: {datetime.fromtimestamp(now).astimezone():%A %Y-%m-%d %H:%M %Z}",
        f"Project folder: {folder}",
        f"System: {platform.system()} {platform.machine()}",
        f"Git: {branch(folder)}",
        CLOSING,
    ]
    return "\n".join(lines)


def branch(folder: Path) -> str:
    """The branch that is checked out, or what there is instead of one."""
    for place in [folder, *folder.parents]:
        git = place / ".git"
        if git.is_file():
            return f"a worktree or submodule at {place}"
        if git.is_dir():
            return _head(git, place)
    return "no repository"


def _head(git: Path, place: Path) -> str:
    try:
        head = (git / "HEAD").read_text("utf-8", errors="replace").strip()
    except OSError:
        return f"a repository at {place}"
    name = head.removeprefix("ref: refs/heads/") if head.startswith("ref:") else f"detached at {head[:12]}"
    return f"{name} (repository at {place})"
