"""The rooms that are mutated, and the test files that may notice a fault in them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_TESTS_OF_OTHER_ROOMS = ("tests/agent", "tests/compact", "tests/tools", "tests/transcripts")


@dataclass(frozen=True, slots=True)
class Room:
    """A package, or the modules of one that must not be wrong."""

    package: str
    modules: tuple[str, ...] = ()  # paths within the package; none stands for all of them
    users: tuple[str, ...] = ()  # packages whose tests run whole sessions, and so this room

    def paths(self) -> list[str]:
        """Return the path of each module that is mutated."""
        if self.modules:
            return [f"{self.package}/{name}" for name in self.modules]
        paths = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / self.package).rglob("*.py"))
        return [path for path in paths if not path.endswith("__init__.py")]

    def tests(self) -> list[str]:
        """Return the test files of the room and of its users, and those that import it or its helpers."""
        folders = (self.package, *self.users)
        found = {path for folder in folders for path in (ROOT / "tests" / folder).rglob("test_*.py")}
        if self.modules:  # which the tests of the package are about; everything imports it
            return sorted(path.relative_to(ROOT).as_posix() for path in found)
        imports = re.compile(rf"\b(?:from|import) (?:tests\.)?{self.package.replace('/', '.')}\b")
        others = (path for folder in _TESTS_OF_OTHER_ROOMS for path in (ROOT / folder).rglob("test_*.py"))
        found.update(path for path in others if imports.search(path.read_text("utf-8")))
        return sorted(path.relative_to(ROOT).as_posix() for path in found)


ROOMS = (
    Room("agent/loop", users=("agent/app", "agent/extensions/mcp")),
    Room("agent/model"),
    Room("agent/permissions", users=("agent/shell", "agent/loop")),
    Room("agent/shell", users=("agent/permissions",)),
    Room("agent/checkpoints"),
    Room("agent/session", users=("agent/app", "agent/commands")),
    Room("compact", users=("agent/loop",)),
    Room(
        "transcripts",
        ("folding.py", "edits.py", "entries.py", "codec.py", "storage/disk.py", "journal.py", "store.py"),
    ),
    Room("tools", ("text/display.py", "text/shortening.py", "patch.py")),
)


def chosen(names: Iterable[str]) -> dict[Room, list[str]]:
    """Return each room with its modules whose path contains one of the names; all of them without names.

    Raises ValueError for a name that no module's path contains.
    """
    wanted = list(names)
    modules = {room: room.paths() for room in ROOMS}
    for name in wanted:
        if not any(name in path for paths in modules.values() for path in paths):
            raise ValueError(
                f"{name!r} is no part of a module's path in {', '.join(r.package for r in ROOMS)}"
            )
    left = {
        room: [path for path in paths if not wanted or any(name in path for name in wanted)]
        for room, paths in modules.items()
    }
    return {room: paths for room, paths in left.items() if paths}
