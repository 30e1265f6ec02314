"""Whether a run has MCP servers at all, told without loading what serves them: most runs have none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path

from .approvals import ProjectItem

PROJECT_SERVER_FILES = (".makeroom/mcp.local.json", ".mcp.json")
USER_SERVER_FILE = "mcp.json"  # in the folder of the person's settings
SOURCE_MODULE = "agent.extensions.mcp_source"


def may_have_servers(folder: Path, user_dir: Path) -> bool:
    """Whether there is any file that configures servers."""
    return (
        any((folder / name).exists() for name in PROJECT_SERVER_FILES)
        or (user_dir / USER_SERVER_FILE).exists()
    )


def mcp_items(folder: Path, environ: Mapping[str, str]) -> Iterable[ProjectItem]:
    """The servers that the project brings; see approvals.ItemSource."""
    if not any((folder / name).exists() for name in PROJECT_SERVER_FILES):
        return ()
    found: Iterable[ProjectItem] = import_module(SOURCE_MODULE).project_servers(folder, environ)
    return found
