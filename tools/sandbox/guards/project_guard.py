"""Report new guarded files that sandboxed commands made in a project, and restore those that they changed.

A sandbox of namespaces prevents commands from changing existing guarded files, but not from making new ones.
A weaker sandbox prevents neither. A command in the background could plant a hook that a command outside the
sandbox would run. So guarded files are checked when a sandboxed command is over, and before any command
starts outside the sandbox. It is not known which process changed a file, and the report does not claim to
know. Replaced files are kept, and the report contains their paths.
"""

# ruff: noqa: PTH112, PTH119, PTH120

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path

from msgspec import Struct, field

from tools.files import FOLDER_FLAGS, FileError, closing, in_thread, one_line_path, safe_open
from tools.guarded import named_by_git
from tools.sandbox.blocked_access import short_path
from transcripts import RECORDS_FOLDER
from transcripts.storage import project_key
from transcripts.wording import cause_of

from .git_backup import BY_WHOM, GitBackup
from .guarded_state import (
    LISTED_FOLDER,
    EntryState,
    GuardedChange,
    GuardedState,
    changes_since,
    guarded_state,
)
from .hard_links import report_changed_links
from .held_ways import HeldWays
from .planted_files import controls_git, put_aside, report_planted

_MAX_REPORTS = 20  # reported one by one
_MAX_LINKED = 60_000  # loose objects at once: 1 s. git packs more than 6,700 after the next commit


class _Place(Struct, frozen=True):
    """The project, or another directory that sandboxed commands may write, with a name before its paths."""

    path: Path
    before_paths: str = ""
    also: tuple[Path, ...] = ()  # other files to guard

    def state(self, before: GuardedState | None) -> GuardedState:
        return guarded_state(str(self.path), before, elsewhere=bool(self.before_paths), also=self.also)

    def shown(self, path: str) -> str:
        return one_line_path(self.before_paths + path)


class ProjectGuard(Struct):
    """Protects the guarded files of `folder`, and of other directories that sandboxed commands may write.

    kept        the directory for replaced files
    copies      the directory for backups of repositories
    restores    changed files are restored; False if the sandbox itself protects them, so that others made the
                change. A repository that was emptied or damaged is restored in any case
    also        other files that are guarded
    may_prune   the user approved that a running command prunes objects of repositories
    max_linked  the loose objects that the first command waits for; others are linked while it runs
    reports     lines for the model and the user until they are taken
    """

    folder: Path
    kept: Path
    copies: Path
    restores: bool = True
    also: tuple[Path, ...] = ()
    may_prune: bool = False
    max_linked: int = _MAX_LINKED
    reports: list[str] = field(default_factory=list)
    _ways: HeldWays = field(default_factory=HeldWays)
    _backups: dict[Path, GitBackup] = field(default_factory=dict)  # by git directory
    _before: dict[_Place, GuardedState] = field(default_factory=dict)
    _reported: set[str] = field(default_factory=set)  # new paths since then
    _running: int = 0  # the number of sandboxed commands
    _reported_links: set[str] = field(default_factory=set)
    _since: float | None = None  # the start of the first command that `look_at_links` has not covered
    _was_repository: bool = True  # the project had a `.git` then
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock)
    _ending: set[asyncio.Task[None]] = field(default_factory=set)
    _linking: asyncio.Task[None] | None = None

    async def prepare(self) -> None:
        """Back up the project's repository beforehand, so that the first command does not wait for all of it.

        `begin` updates the backup and waits for what is missing, so nothing is protected less than without
        this.
        """
        with suppress(FileError):
            async with self._looking:
                if self._running or self._backups:
                    return
                await in_thread(lambda _: self._keep_repositories((), (), first=True, beforehand=True))
            await self._link_more()

    async def begin(self, written: Sequence[Path] = (), held: Sequence[Path] = ()) -> None:
        """Take a snapshot before a sandboxed command starts that may also write to these places.

        The directories `held` are moved back if it moves them.

        Raises FileError if the disk does not respond.
        """
        async with self._looking:
            earlier = self._before
            first = not self._running
            others = (
                path for path in written if os.path.isdir(path) and not path.is_relative_to(self.folder)
            )
            places = [
                _Place(self.folder, also=self.also),
                *(_Place(path, f"{short_path(str(path))}/") for path in others),
            ]

            def look() -> dict[_Place, GuardedState]:
                looked = [place for place in places if first or place not in earlier]
                states = {place: place.state(earlier.get(place)) for place in looked}
                states = states if first else earlier | states
                within = islice(_repositories_in(states[places[0]]), 10)  # each takes 1 ms for a command
                self._keep_repositories([place.path for place in places[1:]], [*within], first=first)
                self.reports += self._ways.hold(self._ways_to_protected(held, states), first=first)
                if self._since is None:
                    self._was_repository = os.path.lexists(self.folder / ".git")
                return states

            if first:
                self._reported.clear()
            self._before = await in_thread(lambda _: look())
            self._since = self._since or time.time()
            self._running += 1
            is_linking = self._linking is not None and not self._linking.done()
            if not is_linking and any(backup.unlinked for backup in self._backups.values()):
                self._linking = asyncio.ensure_future(self._link_more())

    def _ways_to_protected(
        self, held: Sequence[Path], states: Mapping[_Place, GuardedState]
    ) -> dict[Path, str]:
        """Return the directories to hold, with their names in reports."""
        ways = {way: one_line_path(str(way.relative_to(self.folder))) for way in held}
        if self.restores:
            for place, state in states.items():
                ways |= {place.path / way: place.shown(way) for way in state.ways}
        return ways

    def _keep_repositories(
        self, others: Iterable[Path], within: Iterable[Path], *, first: bool, beforehand: bool = False
    ) -> None:
        """Update the backups of the project's repository, those `within` it, and those of other places.

        Other backups are dropped if this is the `first` running command.
        """
        own = self.folder / ".git"
        backups = self._backups
        found = [own, *within, *(git for path in others for git in (path, path / ".git", path.parent))]
        wanted = dict.fromkeys(found if first else [*backups, *found])
        for git in backups.keys() - wanted:
            backups[git].drop()
        self._backups = {}
        records = self.folder / RECORDS_FOLDER
        near = records / "git_copies" if records.is_dir() and not records.is_symlink() else None
        for git in wanted:
            name = f"{project_key(git)}-{os.getpid()}"
            shown = one_line_path(short_path(str(git), str(self.folder)))
            self._backups[git] = backups.get(git) or GitBackup(
                git,
                kept=self.copies / name,
                near=near / name if near is not None else None,
                shown=shown,
                max_links=self.max_linked,
            )
            if not first:
                self.reports += self._backups[git].restore(may_prune=self.may_prune)
            self._backups[git].keep(beforehand=beforehand)

    async def _link_more(self) -> None:
        """Link the other objects of repositories, a few at a time, while a command runs."""

        def link() -> bool:
            waiting = [backup for backup in self._backups.values() if backup.unlinked]
            for backup in waiting[:1]:
                backup.link_more()
            return bool(waiting)

        with suppress(FileError):
            more = True
            while more:
                async with self._looking:
                    more = await in_thread(lambda _: link())

    async def end(self) -> None:
        """Check the state when a sandboxed command is over, or could not be started."""
        try:
            await self.check()
        finally:
            self._running -= 1

    def end_after(self, over: asyncio.Future[None]) -> None:
        """Await `end` once a sandboxed command is over."""

        def begin_end(_: asyncio.Future[None]) -> None:
            task = asyncio.ensure_future(self.end())
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

        over.add_done_callback(begin_end)

    async def settle(self) -> list[str]:
        """Check every command that is over, and return all reports so far, which are then cleared."""
        await asyncio.sleep(0)  # so that the end of a command is noticed
        await asyncio.gather(*self._ending, return_exceptions=True)
        return self.take_reports()

    async def check(self) -> None:
        """Restore what sandboxed commands changed. Await it before starting a command outside the sandbox."""
        async with self._looking:
            if self._running:
                before = self._before.items()

                def look() -> list[str]:
                    existing = [(place, state) for place, state in before if os.path.isdir(place.path)]
                    found = (self._look_at(place, state) for place, state in existing)
                    may_prune = self.may_prune
                    restored = (backup.restore(may_prune=may_prune) for backup in self._backups.values())
                    return [*self._ways.move_back(), *chain.from_iterable(chain(restored, found))]

                self.reports += await in_thread(lambda _: look())

    def _look_at(self, place: _Place, before: GuardedState) -> list[str]:
        if self.restores:
            return _put_back(place, before, self._reported, self.kept)
        return _find_new(place, before, self._reported)

    async def look_at_links(self) -> list[str]:
        """Return lines about files changed by sandboxed commands since the last call; up to 0.2 s.

        They are shared with other projects, or run by other programs.
        """
        since = self._since
        self._since = time.time() if self._running else None
        if since is None:
            return []

        def look() -> list[str]:
            self._reported_links |= self._reported
            planted = report_planted(
                self.folder, since, self._reported_links, is_repository=self._was_repository
            )
            self._was_repository = os.path.lexists(self.folder / ".git")
            return [*planted, *report_changed_links(self.folder, since, self._reported_links)]

        return await in_thread(lambda _: look())

    async def close(self) -> None:
        """Drop the backups of repositories when all commands have ended."""
        await self.settle()

        def drop() -> None:
            for backup in self._backups.values():
                backup.drop()
            self._backups = {}
            self._ways.close()

        async with self._looking:
            await in_thread(lambda _: drop())

    def take_reports(self) -> list[str]:
        """Return the reports so far, and clear them."""
        taken = self.reports
        self.reports = []
        return taken


def project_guard(folder: Path, state: Path) -> ProjectGuard:
    """Return the guard of a project, which keeps files in our own directory `state`."""
    return ProjectGuard(folder, kept=state / "put_aside", copies=state / "git_copies")


def _repositories_in(state: GuardedState) -> Iterator[Path]:
    """Yield the git directories of submodules and of checkouts in a project."""
    for path in state.entries:
        git = Path(state.root, os.path.dirname(path))
        if path.endswith("/config") and (git / "HEAD").exists() and (git / "objects").is_dir():
            yield git


def _find_new(place: _Place, before: GuardedState, reported: set[str]) -> list[str]:
    """Return a line for each new path not in `reported`, and for replaced links and directories. Blocks."""
    now = place.state(before)
    replaced = set(_replaced_ways(place, before))
    below = tuple(f"{way}/" for way in replaced)
    found = {way for way in replaced if (place.path / way).is_symlink()}
    changes = changes_since(before, now)
    changed = {change.path for change in changes}
    aside = _put_aside(
        place, [change.path for change in changes if change.what == "new"], before, reported, changed
    )
    for change in changes:
        path = change.path
        old = before.entries.get(change.path)
        lost = path.startswith(below) or (old is not None and old.kind == "link")
        if (change.what == "new" and path not in aside) or (change.what == "changed" and lost):
            found.add(path)
    new = (place.before_paths + path for path in sorted(found))
    return _shortened([*aside.values(), *_report_new(new, reported)])


def _put_aside(
    place: _Place, new: Sequence[str], before: GuardedState, reported: set[str], changed: Container[str] = ()
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
        with suppress(OSError), closing(safe_open(str(place.path), FOLDER_FLAGS)) as root:
            aside = put_aside(root, path)
            reported.add(place.before_paths + path)
            lines[path] = f"[{BY_WHOM} created {place.shown(path)}, which controls git: renamed to {aside}]"
    return lines


def _replaced_ways(place: _Place, before: GuardedState) -> Iterator[str]:
    """Yield the directories on the way to guarded files that have been replaced."""
    for way, identity in before.ways.items():
        with suppress(OSError):
            state = (place.path / way).lstat()
            if (state.st_dev, state.st_ino) != identity or not stat.S_ISDIR(state.st_mode):
                yield way


def _report_new(paths: Iterable[str], reported: set[str]) -> list[str]:
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


def _put_back(place: _Place, before: GuardedState, reported: set[str], kept: Path) -> list[str]:
    """Undo the changes of guarded files; return a line for each. Blocks."""
    with closing(os.open(place.path, FOLDER_FLAGS)) as root:
        lines: list[str] = []
        now = place.state(before)
        undo = _Undo(root, place=place, before=before, now=now, kept=kept)
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
    aside = _put_aside(place, new, before, reported)  # by configurations that have been restored
    lines += aside.values()
    lines += _report_new([place.before_paths + path for path in new if path not in aside], reported)
    return _shortened(lines)


class _Undo(Struct, frozen=True):
    """Undoes a change and returns a line about it."""

    root: int
    place: _Place
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
