"""Undo what commands did to the guarded files of one directory, or report it."""

# ruff: noqa: PTH119, PTH120

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from tools.files import FOLDER_FLAGS, LISTED_FOLDER, closing, one_line_path, safe_open
from tools.guarded import named_by_git
from transcripts.wording import cause_of

from .git_backup import BY_WHOM
from .guarded_state import (
    EntryState,
    GuardedChange,
    GuardedState,
    changes_since,
    guarded_state,
)
from .planted_files import controls_git, put_aside

_MAX_REPORTS = 20  # reported one by one


class GuardedPlace(Struct, frozen=True):
    """The project, or another directory that sandboxed commands may write, with a name before its paths."""

    path: Path
    before_paths: str = ""
    also: tuple[Path, ...] = ()  # other files to guard

    def state(self, before: GuardedState | None) -> GuardedState:
        return guarded_state(str(self.path), before, elsewhere=bool(self.before_paths), also=self.also)

    def shown(self, path: str) -> str:
        return one_line_path(self.before_paths + path)

    def settle(self, before: GuardedState, reported: set[str], kept: Path | None) -> list[str]:
        """Undo the changes of guarded files, keep the replaced ones in `kept`, and return a line for each.

        Without `kept` the changes are only reported. New paths are added to `reported`. Blocks.
        """
        return self._report(before, reported) if kept is None else self._put_back(before, reported, kept)

    def _report(self, before: GuardedState, reported: set[str]) -> list[str]:
        """Return a line for each new path not in `reported`, and for replaced links and directories."""
        now = self.state(before)
        replaced = set(self._replaced_ways(before))
        below = tuple(f"{way}/" for way in replaced)
        found = {way for way in replaced if (self.path / way).is_symlink()}
        changes = changes_since(before, now)
        changed = {change.path for change in changes}
        added = [change.path for change in changes if change.what == "new"]
        aside = self._put_aside(added, before, reported, changed)
        for change in changes:
            path = change.path
            old = before.entries.get(path)
            lost = path.startswith(below) or (old is not None and old.kind == "link")
            if (change.what == "new" and path not in aside) or (change.what == "changed" and lost):
                found.add(path)
        new = (self.before_paths + path for path in sorted(found))
        return _shortened([*aside.values(), *_lines_of_new(new, reported)])

    def _put_back(self, before: GuardedState, reported: set[str], kept: Path) -> list[str]:
        """Undo the changes of guarded files; return a line for each."""
        with closing(os.open(self.path, FOLDER_FLAGS)) as root:
            lines: list[str] = []
            now = self.state(before)
            undo = _Undo(root, place=self, before=before, now=now, kept=kept)
            whole: set[str] = set()  # new or removed directories, whose contents are not listed
            new: list[str] = []
            for change in changes_since(before, now):
                path = change.path
                if change.what == "new" and not change.within:
                    new.append(path)
                    continue
                line = undo(change)
                if os.path.dirname(path) not in whole:
                    lines.append(line)
                if change.what != "changed" or before.entries[path].kind != now.entries[path].kind:
                    whole.add(path)
        aside = self._put_aside(new, before, reported)  # by configurations that have been restored
        lines += aside.values()
        lines += _lines_of_new([self.before_paths + path for path in new if path not in aside], reported)
        return _shortened(lines)

    def _put_aside(
        self, new: Sequence[str], before: GuardedState, reported: set[str], changed: Container[str] = ()
    ) -> dict[str, str]:
        """Rename new files that control a repository known before; return a line about each, by path.

        Configurations that were `changed` meanwhile do not count, since they may name files of the user.
        """
        lines: dict[str, str] = {}
        named: set[str] = set()
        if new:
            top = f"{before.root}/"

            def is_trusted(path: str) -> bool:
                inner = path.removeprefix(top)
                return inner == path or (inner in before.entries and inner not in changed)

            named = named_by_git(before.root, is_trusted)
        for path in new:
            if not controls_git(path, before.entries) and f"{before.root}/{path}" not in named:
                continue
            with suppress(OSError), closing(safe_open(str(self.path), FOLDER_FLAGS)) as root:
                aside = put_aside(root, path)
                reported.add(self.before_paths + path)
                what = "hg" if path.endswith("/hgrc") else "git"
                lines[path] = (
                    f"[{BY_WHOM} created {self.shown(path)}, which controls {what}: renamed to {aside}]"
                )
        return lines

    def _replaced_ways(self, before: GuardedState) -> Iterator[str]:
        """Yield the directories on the way to guarded files that have been replaced."""
        for way, identity in before.ways.items():
            with suppress(OSError):
                state = (self.path / way).lstat()
                if (state.st_dev, state.st_ino) != identity or not stat.S_ISDIR(state.st_mode):
                    yield way


def _lines_of_new(paths: Iterable[str], reported: set[str]) -> list[str]:
    """Return lines for new paths, except those in a directory that is new too."""
    lines = []
    for path in paths:
        if path not in reported and os.path.dirname(path) not in reported:
            lines.append(_new_line(path))
        reported.add(path)
    return lines


def _new_line(path: str) -> str:
    return f"[check {one_line_path(path)}: {BY_WHOM} created it, and other programs act on it]"


def _shortened(lines: list[str]) -> list[str]:
    more = len(lines) - _MAX_REPORTS
    return lines if more <= 0 else [*lines[:_MAX_REPORTS], f"[and {more} more guarded files]"]


class _Undo(Struct, frozen=True):
    """Undoes a change and returns a line about it."""

    root: int
    place: GuardedPlace
    before: GuardedState
    now: GuardedState
    kept: Path

    def __call__(self, change: GuardedChange) -> str:
        name = self.place.shown(change.path)
        old = self.before.entries.get(change.path)
        new = self.now.entries.get(change.path)
        try:
            kept = self._keep(change.path, new) if new is not None else ""
            undone = self._at(change.path, lambda above, last: _write(above, last, old))
        except OSError as error:
            return f"[{BY_WHOM} {change.what} {name}, which could not be restored: {cause_of(error)}]"
        done = "restored" if undone else "too large to restore"
        verb = "created" if change.what == "new" else change.what
        return f"[{BY_WHOM} {verb} {name}: {'removed' if old is None else done}{kept}]"

    def _at(self, path: str, act: Callable[[int, str], bool]) -> bool:
        above, name = os.path.split(path)
        with closing(safe_open(above or ".", FOLDER_FLAGS, base=self.root)) as here:
            return act(here, name)

    def _keep(self, path: str, new: EntryState) -> str:
        """Keep the replaced content of a file, if it was read; return where it is, for the report."""
        if new.kind != "file" or not new.data:
            return ""
        self.kept.mkdir(parents=True, mode=0o700, exist_ok=True)
        place = self.kept / f"{os.urandom(4).hex()}-{os.path.basename(path)[:100]}"
        place.write_bytes(new.data)
        place.chmod(0o600)
        return f", its content was saved to {one_line_path(place)}"


def _write(above: int, name: str, old: EntryState | None) -> bool:
    """Restore an entry of an open directory (None removes it); return False if its content was not kept."""
    if old is not None and old.data is None and old.kind != "folder":
        return False
    with suppress(FileNotFoundError):
        is_folder = stat.S_ISDIR(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode)
        if is_folder and (old is None or old.kind != "folder"):
            shutil.rmtree(name, dir_fd=above)
        elif not is_folder and (old is None or old.kind == "folder"):
            os.unlink(name, dir_fd=above)
    if old is None:
        return True
    if old.kind == "folder":
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=above)
        with closing(os.open(name, LISTED_FOLDER, dir_fd=above)) as made:
            _give_metadata(made, old)
        return True
    temporary = f".makeroom-{os.urandom(8).hex()}.tmp"
    if old.kind == "link":
        os.symlink(old.data or b"", os.fsencode(temporary), dir_fd=above)
    else:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with closing(os.open(temporary, flags, 0o600, dir_fd=above)) as made:
            with open(made, "wb", closefd=False) as file:
                file.write(old.data or b"")
            _give_metadata(made, old)
    os.replace(temporary, name, src_dir_fd=above, dst_dir_fd=above)
    return True


def _give_metadata(descriptor: int, old: EntryState) -> None:
    with suppress(PermissionError):  # only root can give files to others
        os.fchown(descriptor, *old.owner)
    os.fchmod(descriptor, old.mode)
