"""The untracked files that `.worktreeinclude` names, and their copies in a worktree."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from pathlib import Path

from agent.checkpoints import GitRunner
from tools.files import closing, safe_open
from transcripts import RECORD_FOLDERS
from transcripts.wording import cause_of

from .worktree_scripts import INCLUDED, UNTRACKED, listed_names

WORKTREES = Path(".makeroom", "worktrees")


async def copy_included(git: GitRunner, project: Path, worktree: Path) -> list[str]:
    """Copy the untracked files that `.worktreeinclude` names; return a warning for each that cannot be."""
    warnings = []
    for name in await _included(git, project):
        source = project / name
        target = worktree / name
        if source.is_symlink() or target.exists():
            continue
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.parent.resolve().is_relative_to(worktree):
                warnings.append(f"{name} was not copied to the worktree: a link leads out of it")
                continue
            _copy_file(source, target)
        except OSError as error:
            warnings.append(f"{name} was not copied to the worktree: {cause_of(error)}")
    return warnings


async def unchanged_copies(git: GitRunner, project: Path, worktree: Path) -> list[str]:
    """Return the copies that `.worktreeinclude` asked for, if git does not ignore them there.

    They do not count as work of the session while the project has the same file, untracked there too.
    """
    named = await _included(git, project)
    if not named:
        return []
    untracked = set(await listed_names(git, project, UNTRACKED, str(worktree)))
    both = [name for name in named if name in untracked][:1_000]  # each is compared
    return await asyncio.to_thread(
        lambda: [name for name in both if _is_same(project / name, worktree / name)]
    )


async def _included(git: GitRunner, project: Path) -> list[str]:
    """Return the untracked files of the project that `.worktreeinclude` names."""
    include = project / ".worktreeinclude"
    if not include.is_file():
        return []
    names = await listed_names(git, project, INCLUDED, str(include))
    ours = (f"{WORKTREES}/", *(f"{folder}/" for folder in RECORD_FOLDERS))
    return [name for name in names if not name.startswith(ours)]


def _is_same(one: Path, other: Path) -> bool:
    """Return whether both are regular files with the same content, without following links."""
    try:
        with (
            closing(safe_open(str(one), os.O_RDONLY | os.O_NONBLOCK)) as first,
            closing(safe_open(str(other), os.O_RDONLY | os.O_NONBLOCK)) as second,
        ):
            states = [os.fstat(first), os.fstat(second)]
            if not all(stat.S_ISREG(each.st_mode) for each in states):
                return False
            left = states[0].st_size
            is_same = left == states[1].st_size
            while is_same and left > 0:
                pieces = [os.read(each, 1 << 20) for each in (first, second)]
                is_same = pieces[0] == pieces[1] != b""
                left -= len(pieces[0])
            return is_same
    except OSError:
        return False


def _copy_file(source: Path, target: Path) -> None:
    """Copy a regular file with its mode to a new one, without following links. Raises OSError.

    A command of another session may exchange either path, and let the file grow, in the meantime.
    """
    with closing(safe_open(str(source), os.O_RDONLY | os.O_NONBLOCK)) as found:
        state = os.fstat(found)
        if not stat.S_ISREG(state.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        left = state.st_size
        with (
            closing(safe_open(str(target), os.O_WRONLY | os.O_CREAT | os.O_EXCL)) as made,
            open(made, "wb", closefd=False) as copy,
        ):
            os.fchmod(made, stat.S_IMODE(state.st_mode))
            while left > 0 and (piece := os.read(found, min(left, 1 << 20))):
                copy.write(piece)
                left -= len(piece)
