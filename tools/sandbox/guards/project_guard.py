"""Report new guarded files that sandboxed commands made in a project, and restore those that they changed.

A sandbox of namespaces prevents commands from changing existing guarded files, but not from making new ones.
A weaker sandbox prevents neither. A command in the background could plant a hook that a command outside the
sandbox would run. So guarded files are checked when a sandboxed command is over, and before any command
starts outside the sandbox. It is not known which process changed a file, and the report does not claim to
know. Replaced files are kept, and the report contains their paths.
"""

# ruff: noqa: PTH112, PTH120

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path

from msgspec import Struct, field

from tools.files import FileError, in_thread, one_line_path
from tools.sandbox.blocked_access import short_path
from transcripts import RECORDS_FOLDER
from transcripts.storage import project_key

from .git_backup import GitBackup
from .guarded_place import GuardedPlace
from .guarded_state import GuardedState
from .hard_links import report_changed_links
from .held_ways import HeldWays
from .planted_files import report_planted

_MAX_LINKED = 60_000  # loose objects at once: 1 s. git packs more than 6,700 after the next commit


class ProjectGuard(Struct):
    """Protects the guarded files of `folder`, and of other directories that sandboxed commands may write.

    state       our own directory, for replaced files and backups of repositories
    restores    changed files are restored; False if the sandbox itself protects them, so that others made the
                change. A repository that was emptied or damaged is restored in any case
    also        other files that are guarded
    may_prune   the user approved that a running command prunes objects of repositories
    max_linked  the loose objects that the first command waits for; others are linked while it runs
    reports     lines for the model and the user until they are taken
    """

    folder: Path
    state: Path
    restores: bool = True
    also: tuple[Path, ...] = ()
    may_prune: bool = False
    max_linked: int = _MAX_LINKED
    reports: list[str] = field(default_factory=list)
    _ways: HeldWays = field(default_factory=HeldWays)
    _backups: dict[Path, GitBackup] = field(default_factory=dict)  # by git directory
    _before: dict[GuardedPlace, GuardedState] = field(default_factory=dict)
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
                GuardedPlace(self.folder, also=self.also),
                *(GuardedPlace(path, f"{short_path(str(path))}/") for path in others),
            ]

            def look() -> dict[GuardedPlace, GuardedState]:
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
        self, held: Sequence[Path], states: Mapping[GuardedPlace, GuardedState]
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
                kept=self.state / "git_copies" / name,
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
                    kept = self.state / "put_aside" if self.restores else None
                    found = (place.settle(state, self._reported, kept) for place, state in existing)
                    may_prune = self.may_prune
                    restored = (backup.restore(may_prune=may_prune) for backup in self._backups.values())
                    return [*self._ways.move_back(), *chain.from_iterable(chain(restored, found))]

                self.reports += await in_thread(lambda _: look())

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


def _repositories_in(state: GuardedState) -> Iterator[Path]:
    """Yield the git directories of submodules and of checkouts in a project."""
    for path in state.entries:
        git = Path(state.root, os.path.dirname(path))
        if path.endswith("/config") and (git / "HEAD").exists() and (git / "objects").is_dir():
            yield git
