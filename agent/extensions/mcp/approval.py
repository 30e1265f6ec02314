"""Approval of the servers that a project configures, by their entries and the files that they run.

Servers run outside the sandbox, and commands may change the files of the project. So a server starts only
while the project's files that its command line names are those which were approved.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from agent.extensions.approvals import ProjectItem
from agent.extensions.hooks import named_files

from .entries import (
    PROJECT_VARIABLE,
    RawEntry,
    ServerEntry,
    canonical_bytes,
    read_entry,
    variables_in,
    with_project,
)
from .files import FileScope, ServerFiles
from .requirements import server_environ, server_folder


def server_item(name: str, raw: RawEntry, folder: Path, environ: Mapping[str, str]) -> ProjectItem:
    """Return the item to approve for a server of the project, with an entry of any form."""
    content = canonical_bytes(raw)
    try:
        shows = _shown(name, raw)
        entry = read_entry(name, raw, "project", with_project(environ, folder))
        content += own_files(entry, folder, environ).encode()
    except (TypeError, ValueError):
        shows = "(not readable)"
    return ProjectItem("MCP server", name=name, shows=shows, content=content)


def own_files(entry: ServerEntry, folder: Path, environ: Mapping[str, str]) -> str:
    """Return a digest of the project's files that the command line of a server names; "" for none."""
    if entry.kind != "stdio" or entry.problem:
        return ""
    line = shlex.join([entry.command, *entry.args])
    return named_files(line, folder, server_environ(entry, environ), server_folder(entry, folder))


def user_server_items(files: ServerFiles, environ: Mapping[str, str]) -> Iterator[ProjectItem]:
    """Yield the user's own servers that run files of the project."""
    try:
        found = files.raw_entries("user")
    except (OSError, ValueError):
        return  # reported when the servers are read
    for name, raw in sorted(found.items()):
        entry = files.entry(name, raw, "user", environ)
        if own_files(entry, files.folder, environ):
            yield server_item(name, raw, files.folder, environ)


def _shown(name: str, raw: RawEntry) -> str:
    """Return the command or URL of a server, and the names of the variables that it sets and uses."""
    named = ", ".join([*dict(raw.get("env") or {}), *dict(raw.get("headers") or {})])
    taken = ", ".join(each for each in variables_in(raw) if each != PROJECT_VARIABLE)
    parts = [
        read_entry(name, raw, "project", {}).shows,
        f"(in {raw['cwd']})" if raw.get("cwd") else "",
        f"(sets {named})" if named else "",
        f"(uses your {taken})" if taken else "",
    ]
    return " ".join(filter(None, parts))


def mcp_items(folder: Path, environ: Mapping[str, str]) -> Iterator[ProjectItem]:
    """Yield the servers that files in the project's directory configure; see approvals.ItemSource."""
    files = ServerFiles(folder, folder)
    scopes: tuple[FileScope, ...] = ("local", "project")
    for scope in scopes:
        try:
            found = files.raw_entries(scope)
        except (OSError, ValueError):
            continue  # reported when the servers are read
        for name, raw in sorted(found.items()):
            yield server_item(name, raw, folder, environ)
