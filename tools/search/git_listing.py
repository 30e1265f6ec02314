"""List the files of any directory with git, which never reads the project's settings.

git runs with a git directory of our own. It contains the project's `info/exclude` and points to its index and
objects, but has neither its configuration nor its hooks. So nothing that a project names (fsmonitor, hooks,
aliases, filters, remotes with missing objects) can run. Outside of a repository the index is empty and every
file is untracked. The settings of the user and the system are read, for `core.excludesFile`.

For a project at /p the calls are

    GIT_DIR=<private>/git GIT_WORK_TREE=/p GIT_INDEX_FILE=/p/.git/index git ls-files --others ...
    GIT_DIR=<private>/git GIT_WORK_TREE=/p GIT_INDEX_FILE=/p/.git/index git ls-files --stage
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from tools.processes import CommandContext, command_runner, hardened_git
from tools.sandbox import SupervisorLost

from .checkout import Checkout, small_text
from .git_script import GitFailed, environment_for_git, run_script
from .program import safe_path
from .project_files import IDLE_FOLDERS, is_in_idle_folder

_GITLINK_MODE = "160000"
# $1 is --exclude-standard or nothing. An empty name separates untracked files from tracked ones.
_LIST = """\
standard=$1; shift
exec 2>/dev/null
"$0" ls-files -z --others $standard "$@" && printf '\\0' && exec "$0" ls-files -z --stage
"""
_TRACKED_ALTHOUGH_IGNORED = """\
exec "$0" ls-files -z --cached --ignored --exclude-standard 2>/dev/null
"""
_IS_IGNORED = """\
exec "$0" check-ignore --quiet --no-index -- "$PWD" 2>/dev/null
"""


class GitNames(Struct, frozen=True):
    """The files of one working tree below a directory, and the other working trees in it."""

    files: Sequence[str]
    nested: Sequence[str]


async def list_with_git(context: CommandContext, folder: str, limit_s: float) -> GitNames:
    """List tracked files and files that git does not ignore; all files in a directory that is itself ignored.

    Names are listed as in the index, including deleted files. Raises GitFailed.
    """
    standard = "" if await is_ignored_by_git(context, folder, limit_s) else "--exclude-standard"
    idle = [f"--exclude={name}/" for name in sorted(IDLE_FOLDERS)]
    output = await _output(context, folder, [_LIST, standard, *idle], limit_s)
    return await asyncio.to_thread(_names_in, output)  # it may have a hundred thousand lines


def _names_in(output: str) -> GitNames:
    untracked, _, staged = f"\0{output}".partition("\0\0")
    entries = staged.split("\0")[:-1]
    start = entries[0].index("\t") + 1 if entries else 0  # the same for all
    links = [entry[start:] for entry in entries if entry.startswith(_GITLINK_MODE)]
    if links:
        entries = [entry for entry in entries if not entry.startswith(_GITLINK_MODE)]
    tracked = dict.fromkeys([entry[start:] for entry in entries])
    others = [name for name in untracked.split("\0") if name]
    nested = [name.rstrip("/") for name in others if name.endswith("/")]
    if nested:
        others = [name for name in others if not name.endswith("/")]
    return GitNames([*without_idle(tracked), *others], [*without_idle(links), *nested])


async def tracked_although_ignored(context: CommandContext, folder: str, limit_s: float) -> list[str]:
    """List the tracked files that the patterns would ignore. Raises GitFailed."""
    output = await _output(context, folder, [_TRACKED_ALTHOUGH_IGNORED], limit_s)
    return without_idle(output.split("\0")[:-1])


async def is_ignored_by_git(context: CommandContext, folder: str, limit_s: float) -> bool:
    """Return whether a directory or a parent is ignored or has no work in it. Raises GitFailed."""
    checkout = Checkout.around(Path(folder))
    if is_in_idle_folder(Path(folder)) or checkout is None or str(checkout.top) == folder:
        return is_in_idle_folder(Path(folder))
    try:
        await _output(context, folder, [_IS_IGNORED], limit_s)
    except GitFailed as error:
        if error.code == 1:
            return False
        raise
    return True


def without_idle(names: Iterable[str]) -> list[str]:
    """Return the names that are not in directories without work."""
    is_idle: dict[str, bool] = {"": False}
    found = []
    for name in names:
        folder = name.rpartition("/")[0]
        if folder not in is_idle:
            is_idle[folder] = not IDLE_FOLDERS.isdisjoint(folder.split("/"))
        if not is_idle[folder]:
            found.append(name)
    return found


async def _output(context: CommandContext, folder: str, script: Sequence[str], limit_s: float) -> str:
    """Run a script of git's calls. Raises GitFailed."""
    try:
        supervisor = await command_runner(context).supervisor()
        with tempfile.TemporaryDirectory(dir=supervisor.private, prefix="git-") as own:
            environ = git_environment(context, Path(folder), Path(own))
            return await run_script(context, folder=folder, script=script, environ=environ, limit_s=limit_s)
    except (SupervisorLost, OSError) as error:
        raise GitFailed(str(error)) from error


def git_environment(
    context: CommandContext, folder: Path, own: Path, settings: Sequence[str] = ()
) -> dict[str, str]:
    """Make the git directory `own` for a directory's working tree; return the environment to use it.

    `settings` are lines of its section [core].
    """
    (own / "HEAD").write_text("ref: refs/heads/main\n")
    for name in ("objects", "refs", "info"):
        (own / name).mkdir()
    checkout = Checkout.around(folder)
    own_settings = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n"
    own_settings += "".join(f"\t{each}\n" for each in settings)
    added = {
        "GIT_DIR": str(own),
        "GIT_WORK_TREE": str(folder if checkout is None else checkout.top),
        "GIT_ALLOW_PROTOCOL": "none",
    }
    if checkout is None:
        own_settings += "\texcludesFile = /dev/null\n"
    else:
        git = checkout.git_folder
        if (git / "CONFIG").exists():  # the way git detects a case-insensitive file system
            own_settings += "\tignoreCase = true\n\tprecomposeUnicode = true\n"
        patterns = small_text(checkout.exclude_file) or ""
        (own / "info" / "exclude").write_text(patterns, "utf-8", "surrogateescape")
        added |= {
            "GIT_INDEX_FILE": str(git / "index"),
            "GIT_OBJECT_DIRECTORY": str(checkout.shared_folder / "objects"),
        }
    (own / "config").write_text(own_settings)
    return {**environment_for_git(context), **hardened_git({}), **added, "PATH": safe_path(context)}
