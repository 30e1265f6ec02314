"""Describe the access of a tool call to paths and command lines, as the permission rules judge it."""

# A Path would drop the dots and slashes that have to be judged.
# ruff: noqa: PTH119

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Literal

from tools.files import Workspace, canonical_path, is_inside
from tools.guarded import (
    HOME_SECRETS,
    LOCAL_MEMORY_NAME,
    MEMORY_NAMES,
    guarded_in_project,
    is_protected,
    is_secret_link,
    secret_links,
)
from tools.text import word_set

from .base import Access, ToolError

# Files that a hard link is compared with, in the project and in the home directory.
_LINKABLE_FILES = word_set(
    ".bashrc .bash_profile .profile .zshrc .zshenv .zprofile .gitconfig .ssh/authorized_keys .env .git/config"
    " .gitmodules"
)
_LINKABLE_FOLDERS = (".git/hooks", ".git/info", ".makeroom", ".transcripts", ".vscode", ".github", ".husky")


def file_access(path: str, use: Literal["read", "write"], context: Workspace) -> Access:
    """Return the access to a canonical path. Raises ToolError if the project no longer exists."""
    folders = (context.folder, *context.added)
    is_guarded = _is_guarded(path, context) if use == "write" else is_secret_link(path, *folders)
    protected = is_protected(path, use) or is_guarded
    if use == "write" and is_inside(path, str(context.folder)):
        context.check_folder()  # otherwise it would be recreated at the path that it was moved from
    inside = any(is_inside(path, str(each)) for each in folders)
    missing = use == "read" and not inside and not protected and _is_missing(path, context)
    return Access(use, target=path, outside=not inside, protected=protected, missing=missing)


def _is_missing(path: str, context: Workspace) -> bool:
    """Return whether a path does not exist; False among secrets, so as not to reveal which exist."""
    home = context.environ.get("HOME") or str(Path.home())
    if any(is_inside(path, canonical_path(f"{home}/{name}")) for name in HOME_SECRETS):
        return False
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        pass
    return False


def _is_guarded(path: str, context: Workspace) -> bool:
    """Return whether a path is guarded whatever its name.

    That is so for makeroom's own settings, state and outputs, for files that are guarded because of a link
    or of git's settings, and for other names (hard links) of guarded files.
    """
    places = filter(None, map(context.environ.get, ("XDG_CONFIG_HOME", "XDG_STATE_HOME")))
    ours = [str(context.outputs), *(canonical_path(f"{place}/makeroom") for place in places)]
    if any(is_inside(path, folder) for folder in ours):
        return True
    fixed = chain.from_iterable(guarded_in_project(str(each))[0] for each in (context.folder, *context.added))
    memory = (*MEMORY_NAMES, LOCAL_MEMORY_NAME)
    if any(is_inside(path, each) for each in fixed if os.path.basename(each) not in memory):
        return True
    try:
        found = os.lstat(path)
    except OSError:
        return False
    roots = (context.folder, Path(context.environ.get("HOME") or Path.home()))
    guarded = (each for root in roots for each in _guarded_files(root))
    return found.st_nlink > 1 and (
        any(os.path.samestat(found, each) for each in guarded)
        or secret_links(context.folder, *context.added)(found)
    )


def _guarded_files(root: Path) -> Iterator[os.stat_result]:
    """Yield the guarded files below a root that a hard link may also name, up to a limit."""
    walks = (os.walk(root / name) for name in _LINKABLE_FOLDERS)
    files = (Path(folder, file) for walk in walks for folder, _, names in walk for file in names)
    named = (root / name for name in _LINKABLE_FILES)
    # More files in the directories below are not looked at.
    for file in chain(named, islice(files, 2_000)):
        with suppress(OSError):
            yield file.stat()


def command_access(command: str, cwd: Path | str) -> Access:
    """Return the access of a command. Raises ToolError for text that shells do not accept."""
    return Access("run", normal_line(command), cwd=str(cwd))


def normal_line(command: str) -> str:
    """Return the command line as it is both judged and run, with LF line endings. Raises ToolError.

    A script with CR LF would run commands named `foo\\r`, which no rule matches.
    """
    if "\0" in command:
        raise ToolError(
            "The command contains a NUL byte, which shells do not accept.\nWrite it as \\0 for printf."
        )
    try:
        command.encode()
    except UnicodeEncodeError:
        raise ToolError(
            "The command contains a lone surrogate, which is not valid text.\nSend the whole character."
        ) from None
    return command.replace("\r\n", "\n")
