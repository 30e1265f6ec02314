"""The shell that runs a command line: its arguments and environment, and the report of its last directory."""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from tools.files import path_outside

from .command_context import CommandContext
from .env_filter import filter_environment

# Run by bash before the command (BASH_ENV): the shell reports its last directory (`~+` if that is gone)
# through a private file, which does not affect the command, its exit status, its descriptors and its output.
# When memory runs out, the kernel should kill the command and not the agent.
_PRELUDE = """\
{ echo 800 >/proc/self/oom_score_adj; } 2>/dev/null
[ -z "$MAKEROOM_CWD" ] || trap "{ set +xe; { builtin pwd -P || echo ~+; } >|$MAKEROOM_CWD; } 2>/dev/null" EXIT
unset BASH_ENV MAKEROOM_CWD
"""


class Shell(Struct, frozen=True):
    """A shell to start: the file of its program, its arguments with its name first, its environment."""

    path: str
    argv: list[str]
    env: Mapping[str, str]


def private_folder() -> Path:
    """Make a directory for the supervisor, with the lines that each shell runs first."""
    private = Path(tempfile.mkdtemp(prefix="makeroom-"))
    (private / "prelude").write_text(_PRELUDE)
    return private


def bash_path(context: CommandContext, path: str) -> str:
    """Return the bash on a search path, but none of the project, in which commands may write."""
    for place in path.split(":"):
        found = shutil.which("bash", path=place) if place.startswith("/") else None
        if found is not None and path_outside(place, str(context.folder)):
            return found
    return "/bin/bash"


def shell_for(context: CommandContext, line: str, private: Path, report: Path) -> Shell:
    """Return the shell that runs a command line and writes its last directory to `report`."""
    environ = filter_environment(context.environ, context.pass_env)
    path = bash_path(context, environ["PATH"])
    argv = ["bash", "--noprofile", "--norc", "-c", line]
    if len(line.encode()) > 100_000:  # Linux limits one argument to 131,072 bytes
        script = private / report.with_suffix(".sh").name
        script.write_text(line, newline="")
        argv[3:] = [str(script)]
    environ["BASH_ENV"] = str(private / "prelude")
    environ["MAKEROOM_SESSION"] = context.session
    environ["MAKEROOM_CWD"] = shlex.quote(str(report))
    return Shell(path=path, argv=argv, env=environ)


def last_folder(report: Path) -> str | None:
    """Return the real directory that a shell wrote to its report, and remove the report.

    None if it wrote none: after `exec`, an EXIT trap of its own, or KILL. A sandboxed command may have
    replaced the report with anything.
    """
    try:
        fd = os.open(report, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(fd, "rb") as file:
        # Read at most PATH_MAX of Linux.
        plain = stat.S_ISREG(os.fstat(fd).st_mode)
        text = os.fsdecode(file.read(4_096) if plain else b"").removesuffix("\n")
    with suppress(OSError):
        report.unlink()
    return os.path.realpath(text) if text.startswith("/") and "\0" not in text else None
