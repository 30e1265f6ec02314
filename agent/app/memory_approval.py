"""Ask for approval of memory files above the repository, which its checkout does not contain."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from agent.extensions import Approvals, ProjectItem
from agent.session import memory_above
from agent.settings_files import claude_folder
from tools.sandbox import short_path
from tools.text import escaped
from transcripts.wording import pluralize

MEMORY_KIND = "memory file"  # of the items to approve


def memory_items(folder: Path, environ: Mapping[str, str]) -> list[ProjectItem]:
    """Return the memory files above the repository; see approvals.ItemSource."""
    return list(_items(folder, environ).values())


def approved_memory(approvals: Approvals, folder: Path, environ: Mapping[str, str]) -> list[Path]:
    """Return the approved memory files above the repository. Blocks on the disk."""
    return [path for path, item in _items(folder, environ).items() if approvals.allows(item)]


def _items(folder: Path, environ: Mapping[str, str]) -> dict[Path, ProjectItem]:
    return {
        path: ProjectItem(
            MEMORY_KIND,
            name=short_path(str(path)),
            shows=_shown("\n".join(texts.values())),
            content=json.dumps([[str(each), text] for each, text in texts.items()]).encode(),
            everywhere=True,
        )
        for path, texts in memory_above(folder, claude_folder(environ)).items()
    }


def _shown(text: str) -> str:
    """Describe a text in one line: its length, and its first line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return escaped(f"{pluralize(len(lines), 'line')}: {lines[0]}", keep="")
