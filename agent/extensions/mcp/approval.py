"""Approval of the servers that a project configures, by the content of their entries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from agent.extensions.approvals import ProjectItem

from .entries import RawEntry, canonical_bytes, read_entry, variables_in
from .files import FileScope, ServerFiles


def server_item(name: str, raw: RawEntry) -> ProjectItem:
    """Return the item to approve for a server of the project, with an entry of any form."""
    try:
        shows = _shown(name, raw)
    except (TypeError, ValueError):
        shows = "(not readable)"
    return ProjectItem("MCP server", name=name, shows=shows, content=canonical_bytes(raw))


def _shown(name: str, raw: RawEntry) -> str:
    """Return the command or URL of a server, and the names of the variables that it sets and uses."""
    named = ", ".join([*dict(raw.get("env") or {}), *dict(raw.get("headers") or {})])
    taken = ", ".join(variables_in(raw))
    parts = [
        read_entry(name, raw, "project", {}).shows,
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
            yield server_item(name, raw)
