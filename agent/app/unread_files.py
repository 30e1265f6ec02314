"""The files of Claude Code in a project and at home that are not read, with the reasons."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from agent.extensions import IgnoredPart
from agent.session import MemoryPlaces, repository_folders


def unread_files(memory: MemoryPlaces, home: Path) -> Iterator[IgnoredPart]:
    """Yield the files that are not read. Blocks on the disk.

    Settings and servers of directories above are read only if makeroom starts there.
    """
    for path, other in memory.replaced().items():
        yield IgnoredPart(path, "instructions", f"{other} is used instead")
    kinds = {
        ".claude/settings.json": "settings",
        ".claude/settings.local.json": "settings",
        ".mcp.json": "MCP servers",
    }
    for place in repository_folders(memory.folder)[1:]:
        for name, kind in kinds.items() if place != home else ():
            if (place / name).is_file():
                yield IgnoredPart(place / name, kind, f"start makeroom in {place} to use them")
    if (workflows := memory.folder / ".claude" / "workflows").is_dir():
        yield IgnoredPart(workflows, "scripts", "makeroom does not run workflows")
