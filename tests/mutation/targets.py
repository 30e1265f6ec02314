"""The rooms that are mutated, and the test files that may notice a fault in them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_PARTS = ("agent", "compact", "tools", "transcripts")


@dataclass(frozen=True, slots=True)
class Room:
    """A package with its modules, and the tests that run them."""

    package: str
    users: tuple[str, ...] = ()  # packages whose tests run this room, without importing it
    beside: tuple[str, ...] = ()  # packages whose tests are tests of this room as well

    def paths(self) -> list[str]:
        """Return the path of each module that is mutated."""
        paths = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / self.package).rglob("*.py"))
        return [path for path in paths if not path.endswith("__init__.py")]

    def tests(self) -> list[str]:
        """Return the test files of the room."""
        return _test_files([self.package, *self.beside])

    def tests_of_users(self) -> list[str]:
        """Return the test files of the room's users, and all that import the room or its helpers."""
        room = self.package.replace("/", ".")
        importing = {
            path
            for path, names in _imports().items()
            if any(f"{name.removeprefix('tests.')}.".startswith(f"{room}.") for name in names)
        }
        return sorted((importing | {*_test_files(self.users)}) - {*self.tests()})


def _test_files(packages: Iterable[str]) -> list[str]:
    """Return the test files below the folders of some packages, and those of a folder that ends in `*`."""
    found: set[Path] = set()
    for package in packages:
        folder = ROOT / "tests" / package.removesuffix("/*")
        found.update(folder.glob("test_*.py") if package.endswith("/*") else folder.rglob("test_*.py"))
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


@cache
def _imports() -> dict[str, set[str]]:
    """Return the modules that each test file imports."""
    imports = re.compile(r"^ *(?:from|import) ([\w.]+)", re.MULTILINE)
    return {path: {*imports.findall((ROOT / path).read_text("utf-8"))} for path in _test_files(_PARTS)}


_FACES = ("agent/*", "agent/app", "agent/cli", "agent/commands", "agent/stream_protocol", "agent/ui")
ROOMS = (
    Room("agent/loop", users=(*_FACES, "agent/extensions")),
    Room("agent/model", users=("agent/app", "agent/loop")),
    Room("agent/permissions", users=("agent/shell", "agent/loop", *_FACES)),
    # Most rules about command lines are read and judged in one test.
    Room("agent/shell", users=("agent/loop", *_FACES), beside=("agent/permissions",)),
    Room("agent/checkpoints", users=("agent/loop", *_FACES)),
    Room("agent/session", users=("agent/loop", *_FACES)),
    Room("agent/extensions", users=("agent/loop", *_FACES)),
    *(Room(face, users=_FACES) for face in _FACES if "*" not in face),
    Room("agent/acp"),
    Room("agent/demo"),
    Room("agent/replay"),
    Room("compact", users=("agent/loop",)),
    Room("transcripts"),
    Room("tools", users=("agent/loop",)),
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
