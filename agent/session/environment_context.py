"""Where and when a session takes place, as the first block of its first user message.

Read from files only: asking git would run what a repository's configuration names, before anybody said
that it may.
"""

from __future__ import annotations

import platform
from datetime import datetime
from pathlib import Path

from tools.truncate import escaped
from transcripts.injected_context import CLOSING, OPENING

LONGEST = 200  # characters of a folder or branch: names come with the project, and say nothing but a name


def environment_context(folder: Path, now: float) -> str:
    """A few lines marked as ours: date, folder, system, branch."""
    lines = [
        OPENING,
        "(added by makeroom, not by the user)",
        f"Date: {datetime.fromtimestamp(now).astimezone():%A %Y-%m-%d %H:%M %Z}",
        f"Project folder: {_name(folder)}",
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
    """A name on one line that cannot end the block it stands in, nor steer a terminal."""
    plain = escaped(str(text), keep="").replace("<", "‹").replace(">", "›")
    return plain if len(plain) <= LONGEST else f"{plain[:LONGEST]}…"
