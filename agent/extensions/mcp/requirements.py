"""The requirements for starting a server: its program, or the library `mcp`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from transcripts.storage import expand_home

from .entries import ServerEntry

MISSING_LIBRARY = "it needs the extra mcp: pip install 'makeroom[mcp]'"


def missing_requirement(entry: ServerEntry, environ: Mapping[str, str], folder: Path) -> str:
    """Return a line that names the missing program or library, "" if nothing is missing."""
    if entry.kind != "stdio":
        return MISSING_LIBRARY if find_spec("mcp") is None else ""
    if find_program(entry, environ, folder) is None:
        return f"the program {entry.command!r} was not found; install it or correct the command"
    return ""


def find_program(entry: ServerEntry, environ: Mapping[str, str], folder: Path) -> str | None:
    """Return the file of a server's program; one with a slash is relative to its directory."""
    if "/" not in entry.command:
        return shutil.which(entry.command, path=server_environ(entry, environ).get("PATH", os.defpath))
    found = server_folder(entry, folder) / expand_home(entry.command)
    return str(found) if os.access(found, os.X_OK) and found.is_file() else None


def server_folder(entry: ServerEntry, folder: Path) -> Path:
    """Return the directory that a server starts in: the project's, or one that is relative to it."""
    return folder / expand_home(entry.cwd)


def server_environ(entry: ServerEntry, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a server: a few of our variables, no credentials, and those of its entry."""
    inherited = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
    return {name: environ[name] for name in inherited if name in environ} | dict(entry.env)
