"""Approvals of items in a checkout, which are disabled until the user approves the hash of their content.

The decisions are kept in the user's state directory. A changed byte, another name or another directory makes
it another item.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from agent.settings_files import json_object_in
from transcripts.storage import locked, replace_file

EVERYWHERE = "*"  # the file's key for decisions that apply to all projects


class ProjectItem(Struct, frozen=True):
    """An item of a project that could act without being asked.

    kind        a word or two: "hook", "MCP server", "command"
    name        its name in lists
    shows       the command it runs or the permissions it grants, in one line without secret values
    content     the approved content: the file's bytes, or canonical JSON
    everywhere  it is the user's own and not the project's, so one decision applies to all projects
    """

    kind: str
    name: str
    shows: str
    content: bytes
    everywhere: bool = False


# Lists the items of the project in a directory (a real path), given makeroom's environment. It raises
# nothing, and is called in a thread.
ItemSource = Callable[[Path, Mapping[str, str]], Iterable[ProjectItem]]


class Approvals:
    """The decisions about the items of the project in `folder`; `path` is the file that stores them.

    It is made once per run, and reads the file, which blocks on the disk.
    """

    def __init__(self, path: Path, folder: Path) -> None:
        self.path = path
        self.folder = str(folder.resolve())
        stored = _stored(path)
        self._decisions = {**stored.get(EVERYWHERE, {}), **stored.get(self.folder, {})}

    def decided(self, item: ProjectItem) -> bool | None:
        """Return the decision about an item; None if it is undecided."""
        found = self._decisions.get(self._key(item))
        return found if isinstance(found, bool) else None

    def allows(self, item: ProjectItem) -> bool:
        """Return true if the item may act; an undecided one may not."""
        return self.decided(item) is True

    def record(self, items: Iterable[ProjectItem], allowed: bool) -> None:
        """Store decisions about items. Raises OSError if that fails; they still apply to this run."""
        decided = list(items)
        self._decisions |= {self._key(item): allowed for item in decided}
        with locked(self.path):
            kept = _stored(self.path)
            for item in decided:
                kept.setdefault(self._place(item), {})[self._key(item)] = allowed
            replace_file(self.path, json.dumps(kept, indent=1).encode())

    def undecided(self, items: Iterable[ProjectItem]) -> list[ProjectItem]:
        """Return the undecided items."""
        return [item for item in items if self.decided(item) is None]

    def _place(self, item: ProjectItem) -> str:
        return EVERYWHERE if item.everywhere else self.folder

    def _key(self, item: ProjectItem) -> str:
        parts = (
            os.fsencode(self._place(item)),
            item.kind.encode(),
            item.name.encode("utf-8", "surrogateescape"),
        )
        digest = hashlib.sha256(b"\0".join((*parts, b"")))
        digest.update(item.content)
        return digest.hexdigest()


def _stored(path: Path) -> dict[str, dict[str, object]]:
    """Return the decisions in the file, by directory; none if it cannot be read, so all are asked again."""
    found = json_object_in(path, 8 * 1024 * 1024)
    return {folder: kept for folder, kept in found.items() if isinstance(kept, dict)}
