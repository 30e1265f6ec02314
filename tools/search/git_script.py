"""Run scripts of git calls in a repository, in the sandbox if there is one.

In the sandbox a repository that commands have prepared can do no more than these commands could. Hooks and
the other programs that a repository's settings name are disabled as well, in case there is no sandbox.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.processes import CommandContext, command_runner, filter_environment, hardened_git
from tools.sandbox import SupervisorLost

from .program import find_program, run_program, safe_path

_SETTINGS_FILES = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")
_NO_PROGRAMS = {
    "core.hooksPath": "/dev/null",
    "log.showSignature": "false",
    "merge.verifySignatures": "false",
    "submodule.recurse": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
}


class GitFailed(Exception):
    """git is not installed, or failed. The text is the reason; `code` the exit code, 0 without one."""

    def __init__(self, reason: str = "", *, code: int = 0) -> None:
        super().__init__(reason or f"git failed with exit code {code}")
        self.code = code


async def run_git_script(
    context: CommandContext,
    folder: Path,
    script: str,
    arguments: Sequence[str],
    limit_s: float = 20.0,
    *,
    outside: bool = False,
) -> str:
    """Run a script for sh in a working tree, with git as `$0`, and return its output. Raises GitFailed.

    With `outside` it runs outside the sandbox, for what the user explicitly requested.
    """
    try:
        level, _ = ("none", "") if outside else await command_runner(context).sandbox()
    except (SupervisorLost, OSError) as error:
        raise GitFailed(str(error)) from error
    return await run_script(
        context,
        folder=str(folder),
        script=[script, *arguments],
        environ=_environment(context, folder),
        limit_s=limit_s,
        sandboxed=level != "none",
    )


async def run_script(
    context: CommandContext,
    *,
    folder: str,
    script: Sequence[str],
    environ: Mapping[str, str],
    limit_s: float,
    sandboxed: bool = False,
) -> str:
    """Run a script with git as `$0` and return its output; `script` contains its text, then its arguments.

    Raises GitFailed.
    """
    git = find_program(context, "git")
    if git is None:
        raise GitFailed("git is not installed")
    pieces = list[bytes]()
    room = 64 * 1024 * 1024

    def take(data: bytes) -> bool:
        nonlocal room
        pieces.append(data)
        room -= len(data)
        return room > 0

    argv = ["sh", "-c", script[0], git, *script[1:]]
    try:
        end = await run_program(
            context, argv, environ=environ, folder=folder, take=take, limit_s=limit_s, sandboxed=sandboxed
        )
    except (SupervisorLost, OSError) as error:
        raise GitFailed(str(error)) from error
    if end.stopped or end.status is None:
        raise GitFailed(end.stopped or "its exit status is unknown")
    if end.status:
        raise GitFailed(code=os.waitstatus_to_exitcode(end.status))
    return os.fsdecode(b"".join(pieces))


def environment_for_git(context: CommandContext) -> dict[str, str]:
    """Return the environment of commands without git's variables, except those that name settings files."""
    environ = filter_environment(context.environ)
    kept = {name: value for name, value in environ.items() if not name.startswith("GIT_")}
    return kept | {name: environ[name] for name in _SETTINGS_FILES if name in environ}


def _environment(context: CommandContext, folder: Path) -> dict[str, str]:
    """Return the environment of commands, without variables that lead git to another repository."""
    given = {f"GIT_CONFIG_KEY_{at}": name for at, name in enumerate(_NO_PROGRAMS)}
    given |= {f"GIT_CONFIG_VALUE_{at}": value for at, value in enumerate(_NO_PROGRAMS.values())}
    hardened = hardened_git({**given, "GIT_CONFIG_COUNT": str(len(_NO_PROGRAMS))})
    own = {
        "GIT_CEILING_DIRECTORIES": str(folder.parent),
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_ALLOW_PROTOCOL": "none",  # git before 2.39.4 fetches missing objects, by a program of the remote
        "LC_ALL": "C",
    }
    return {**environment_for_git(context), **given, **hardened, **own, "PATH": safe_path(context)}
