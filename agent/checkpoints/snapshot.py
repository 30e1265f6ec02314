"""The states of a project's paths at one time, as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Literal

from msgspec import Struct, field

from tools.files import one_line_path

from .package_folders import MANIFESTS

IN_GIT = "git:"  # before the id of a blob


class SnapshotLimits(Struct, frozen=True):
    """The limits of one scan for reading and storing, per file and in total.

    `max_reading_seconds` limits the reading of contents that are not stored yet, `max_seconds` everything
    else: a command waits that long for a scan, since /rewind could not undo changes to files that were not
    scanned. Files that git watches do not count towards `max_files`. Files above `max_file_bytes` are large:
    they are stored uncompressed, and with limits of their own.
    """

    max_files: int = 120_000
    max_seconds: float = 60.0
    max_reading_seconds: float = 60.0
    max_file_bytes: int = 1 << 20
    max_store_bytes: int = 256 << 20
    max_large_file_bytes: int = 512 << 20
    max_large_store_bytes: int = 2 << 30


class PathState(Struct, frozen=True, array_like=True, gc=False):
    """The state of a path. `value` is the hash of a file's contents, or the target of a link.

    In a snapshot `value` may also be `git:` with the id of a blob that contains the file's contents.

    The kind "none" is a missing path, "other" a pipe, socket or device, "unseen" a path that no scan reached.
    A file whose contents are not stored has no `value` but a `stamp` of size, time and inode, to detect
    changes. `attrs` are the extended attributes of a directory, or of a file whose contents are stored, as
    JSON; "" if it has none, or if they are not known.
    """

    kind: Literal["none", "file", "link", "dir", "other", "unseen"]
    mode: int = 0
    value: str = ""
    stamp: str = ""
    attrs: str = ""

    @property
    def restorable(self) -> bool:
        return self.kind in ("none", "link", "dir") or (self.kind == "file" and bool(self.value))

    @property
    def unstored_bytes(self) -> int:
        """The size of a file whose contents are not stored, 0 if it is unknown."""
        size = self.stamp.partition(" ")[0]
        return int(size) if size.isdigit() else 0

    @property
    def blob(self) -> str:
        """The id of the blob in git that contains the contents, "" if they are stored here."""
        is_in_git = self.kind == "file" and self.value.startswith(IN_GIT)
        return self.value.removeprefix(IN_GIT) if is_in_git else ""


Stamps = dict[str, tuple[tuple[int, ...], PathState]]  # path -> (fields of os.stat, state)
NOTHING = PathState("none")
UNSEEN = PathState("unseen")
THEIRS = PathState("unseen", value="theirs")  # left by another session during a command of this one


class ProjectSnapshot(Struct):
    """The states of a project's paths; `complete` unless a scan had to stop early.

    `read` is the number of files that had to be read (`read_bytes` in total), `unread` the number of files
    with only a stamp, since there was no time to store their contents. `skipped` lists directories whose
    contents are not recorded. `in_git` contains the files that git watches, `states` all other paths; it is
    shared by snapshots and never changed. `linked` identifies the files with other names (hard links).
    """

    states: dict[str, PathState] = field(default_factory=dict)
    in_git: Mapping[str, PathState] = field(default_factory=dict)
    complete: bool = True
    skipped: list[str] = field(default_factory=list)
    read: int = 0
    read_bytes: int = 0
    unread: int = 0
    linked: dict[str, tuple[int, int]] = field(default_factory=dict)  # (device, inode)

    def other_names(self) -> dict[str, str]:
        """Return for each file with several names in the project another one of them."""
        first: dict[tuple[int, int], str] = {}
        found: dict[str, str] = {}
        for name, file in self.linked.items():
            if (other := first.setdefault(file, name)) != name:
                found[name] = other
                found.setdefault(other, name)
        return found

    @property
    def unkept(self) -> list[str]:
        """Return the paths of files whose contents are not stored."""
        return [name for name, state in self.states.items() if state.kind == "file" and not state.value]

    @property
    def repositories(self) -> list[str]:
        """Return the working trees of git repositories below the project's own directory."""
        found = [*self.skipped, *self.states]
        return [name.removesuffix("/.git") for name in found if name.endswith("/.git")]

    @property
    def rebuildable(self) -> list[str]:
        """Return the directories of dependencies that a manifest beside them can rebuild."""
        found = []
        for name in self.skipped:
            above, slash, base = name.rpartition("/")
            if any(f"{above}{slash}{manifest}" in self for manifest in MANIFESTS.get(base, ())):
                found.append(name)
        return found

    def __contains__(self, path: str) -> bool:
        return path in self.states or path in self.in_git

    def changed_since(self, before: ProjectSnapshot) -> set[str]:
        """Return the paths whose states differ, without comparing those that are the same object."""
        found: set[str] = set()
        for now, then in ((self.states, before.states), (self.in_git, before.in_git)):
            if now is then:
                continue
            found |= {
                name
                for name, state in now.items()
                if (old := before.known(name)) is not state and old != state
            }
            found |= {name for name in then.keys() - now.keys() if name not in self}
        return found

    def known(self, path: str) -> PathState | None:
        """Return the state of a path that the scan found."""
        return self.states.get(path) or self.in_git.get(path)

    def at(self, path: str) -> PathState:
        """Return the state of a path; unseen if the scan did not reach it."""
        return self.known(path) or (NOTHING if self.complete else UNSEEN)


def parents(name: str) -> list[str]:
    """Return the directories that contain a relative path, outermost first."""
    return [str(folder) for folder in reversed(PurePosixPath(name).parents[:-1])]


def shown_paths(paths: Sequence[str], most: int) -> str:
    """Return some of the paths, with the number of those that are left out."""
    more = f" and {len(paths) - most:,} more" if len(paths) > most else ""
    return ", ".join(map(one_line_path, paths[:most])) + more
