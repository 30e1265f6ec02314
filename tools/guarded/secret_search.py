"""Find the files of a project that contain secrets, and those that match given globs, for the sandbox.

Every sandboxed command waits for the search, so it is one walk that remembers what it saw. A directory is
listed again only if its stamp has changed, and a file is read again only if its own has. The walk goes from
the root to deeper directories, and enters those of build output last, as they may be large. If a first walk
takes longer than its budget, it ends, and the next command continues it. Until it is complete, git's index
lists the tracked files that it has not reached:

    apps/web/server/.env     found by the walk (it is ignored by git)
    infra/live/prod.tfvars   tracked: found in the index if the walk has not got there

Directories of installed packages and of caches are not searched. Names are judged by secret_names.py. Globs
are those of permission rules that withhold files from commands.
"""

# Making a Path for each of thousands of names would take most of the time.
# ruff: noqa: PTH116, PTH120

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from tools.text import word_set
from transcripts import RECORD_FOLDERS

from .index_paths import paths_in_index
from .names import SECRET_FOLDERS
from .path_globs import PathGlobs
from .secret_names import (
    MAYBE_TOKEN_FILES,
    SECRET_FILES,
    beginning,
    holds_token,
    is_secret_by_name,
    is_secret_file,
    may_be_secret,
    plain_name,
)

BUDGET_S = 1.0  # of CPU time, for directories that are listed for the first time
MAX_FOLDERS = 20_000  # of a project that are remembered
MAX_MATCHING = 10_000  # paths that match globs; each is a mount in the sandbox of every command
_BESIDE_BUDGET_S = 0.1  # for the directories beside a project
_MAX_BESIDE = 200  # of these directories, and of the secrets there
_MOUNTS = "/proc/self/mountinfo"
_MAX_INDEX_BYTES = 64 << 20
_SETTLED_NS = 2_000_000_000  # of file systems' clocks: two changes within it may have the same time
_NEVER_SEARCHED = {
    *word_set(
        ".git .makeroom node_modules .venv venv site-packages __pycache__ .tox .nox .mypy_cache .ruff_cache"
        " .pytest_cache .gradle .cache .eggs pods deriveddata bower_components"
    ),
    *RECORD_FOLDERS,
}
_SEARCHED_LAST = word_set("build target dist out vendor coverage bundle .next .nuxt env tmp log logs")
# Programs need to read fake secrets in these directories. File tools still ask for approval.
_WITH_MADE_UP_SECRETS = word_set(
    "test tests testing testdata test-data test_data __tests__ spec fixtures example examples sample samples"
    " templates locales i18n"
)
_SECRET_FOLDERS = SECRET_FOLDERS - _NEVER_SEARCHED


class Stamp(NamedTuple):
    """The state of a file or directory that differs after each change; times are in nanoseconds."""

    device: int
    inode: int
    size: int
    modified: int
    changed: int


class _Listing(Struct, frozen=True):
    """The paths of possible secrets in a directory and of its directories, those of `last` searched last.

    `matching` are the paths that match `globs`. `stamp` is None if the directory had just changed, so that it
    may change again with the same times.
    """

    stamp: Stamp | None
    named: tuple[str, ...]
    folders: tuple[str, ...]
    last: tuple[str, ...]
    matching: tuple[str, ...]
    globs: PathGlobs


class _Links(NamedTuple):
    """The names of `wanted` files, by device and inode, in a directory with this listing."""

    listing: _Listing
    wanted: frozenset[tuple[int, int]]
    paths: tuple[str, ...]


class SecretSearch:
    """The search of one project, which remembers what it has seen. Sessions with other rules share it.

    beside  only the directory and those in it are searched, without hidden ones
    """

    def __init__(self, folder: str, *, beside: bool = False) -> None:
        self.folder = folder
        self._beside = beside
        self.complete = False  # the last walk reached every directory
        self._globs = PathGlobs(folder)
        self._listings: dict[str, _Listing] = {}
        self._judged: dict[str, tuple[Stamp | None, bool]] = {}
        self._index: tuple[Stamp | None, PathGlobs, tuple[str, ...]] = (None, self._globs, ())
        self._linked: dict[str, _Links] = {}  # by directory
        self._matching: dict[frozenset[str], list[str]] = {}  # in the last search, one path more than allowed

    def look_for(self, globs: frozenset[str]) -> None:
        """Let the next searches look for paths that match these globs as well."""
        if not globs <= self._globs.texts:
            self._globs = PathGlobs(self.folder, self._globs.texts | globs)

    def find(self, budget_s: float = BUDGET_S) -> list[str]:
        """Return the paths of all secrets found so far that still exist."""
        found = [path for path in self._walk(budget_s) if self._is_secret(path)]
        if not self.complete:
            tracked = (
                path for path in self._tracked() if _may_be_secret(plain_name(path.rpartition("/")[2]))
            )
            found += [path for path in tracked if self._is_secret(path)]
        found += self._other_names(found)
        return list(dict.fromkeys(found))

    def _other_names(self, found: Iterable[str]) -> list[str]:
        """Return the paths of hard links to secrets, which may have any name."""
        linked = set[tuple[int, int]]()  # by device and inode
        for path in found:
            with suppress(OSError):
                state = os.lstat(path)
                if stat.S_ISREG(state.st_mode) and state.st_nlink > 1:
                    linked.add((state.st_dev, state.st_ino))
        wanted = frozenset(linked)
        self._linked = {
            folder: _links(folder, listing, wanted, self._linked.get(folder))
            for folder, listing in self._listings.items()
            if wanted
        }
        return [path for links in self._linked.values() for path in links.paths]

    def matching(self, globs: frozenset[str]) -> list[str]:
        """Return the paths of the last search that match these globs, directories before what is in them.

        They must be among those that `look_for` was given. There are at most MAX_MATCHING.
        """
        return self._matching_in_search(globs)[:MAX_MATCHING]

    def covers(self, globs: frozenset[str]) -> bool:
        """Return whether `matching` returns all paths that match these globs, as far as is known."""
        few = len(self._matching_in_search(globs)) <= MAX_MATCHING
        return not globs or (few and len(self._listings) < MAX_FOLDERS)

    def _matching_in_search(self, globs: frozenset[str]) -> list[str]:
        if globs and globs not in self._matching:
            wanted = PathGlobs(self.folder, globs)
            listed = chain.from_iterable(listing.matching for listing in self._listings.values())
            tracked = () if self.complete else self._tracked_matching(wanted)
            found = dict.fromkeys(chain(filter(wanted.match, listed), tracked))
            self._matching[globs] = list(islice(found, MAX_MATCHING + 1))
        return self._matching.get(globs, [])

    def stamp(self, place: str) -> Stamp:
        """Return the stamp of a directory, which `find` may just have looked at. Raises OSError."""
        listing = self._listings.get(place)
        return (
            listing.stamp if listing is not None and listing.stamp is not None else stamp_of(os.stat(place))
        )

    def _walk(self, budget_s: float) -> Iterator[str]:
        """Yield the paths of possible secrets. New directories are listed until the budget is spent.

        That is CPU time, since otherwise a command could see more secrets on a busy machine. On a slow disk,
        five times as much time may pass.
        """
        until = time.thread_time() + budget_s
        latest = time.monotonic() + 5 * budget_s
        reached: dict[str, _Listing] = {}
        globs = self._globs
        self.complete = True
        layer = [self.folder]
        last: list[str] = []
        while layer or last:
            if not layer:
                layer = last
                last = []
            below = list[str]()
            for place in layer:
                listing = self._listings.get(place)
                if listing is not None and listing.globs is not globs:
                    listing = None
                if listing is None and (
                    len(reached) >= MAX_FOLDERS or time.thread_time() > until or time.monotonic() > latest
                ):
                    self.complete = False
                    continue
                try:
                    stamp = stamp_of(os.stat(place))
                    if listing is None or listing.stamp != stamp:
                        listing = _listing(place, stamp, globs)
                except OSError:
                    continue
                reached[place] = listing
                yield from listing.named
                below += listing.folders
                last += listing.last
            if self._beside:
                below = _shown(below)[:_MAX_BESIDE] if layer == [self.folder] else []
            layer = below
        self._listings = reached
        self._matching = {}

    def _tracked(self) -> Iterator[str]:
        """Yield the paths of possible secrets and of globs in the index of the project's repository."""
        index = f"{self.folder}/.git/index"
        globs = self._globs
        with suppress(OSError):
            stamp = stamp_of(os.stat(index))
            if self._index[:2] != (stamp, globs):
                data = beginning(index, _MAX_INDEX_BYTES)
                names = (os.fsdecode(name) for size in (20, 32) for name, _ in paths_in_index(data, size))
                has_globs = bool(globs.texts)
                fitting = {
                    name
                    for name in names
                    if _may_be_secret(plain_name(name.rpartition("/")[2]))
                    or (has_globs and _matching_part(name, globs))
                }
                self._index = (stamp, globs, tuple(sorted(fitting)))
        for name in self._index[2]:
            path = os.path.normpath(f"{self.folder}/{name}")
            if path == f"{self.folder}/{name}" and os.path.lexists(path):
                yield path

    def _tracked_matching(self, wanted: PathGlobs) -> Iterator[str]:
        """Yield the tracked paths that match the globs, and directories of tracked files that do."""
        for path in self._tracked():
            if part := _matching_part(path[len(self.folder) + 1 :], wanted):
                yield f"{self.folder}/{part}"

    def _is_secret(self, path: str) -> bool:
        """Return whether a possible secret is one. Its content is read again only if it may have changed."""
        above, _, last = path.rpartition("/")
        name = plain_name(last)
        if name in MAYBE_TOKEN_FILES:
            return holds_token(path)
        if name in SECRET_FILES or name.startswith(".env"):
            return is_secret_by_name(name)
        if self._is_made_up(path):
            return False
        if is_secret_by_name(name) or _is_secret_folder(above):
            return True
        try:
            state = os.stat(path)
        except OSError:
            return False
        stamp = stamp_of(state)
        judgement = self._judged.get(path)
        if judgement is None or judgement[0] != stamp:
            settled = time.time_ns() - state.st_ctime_ns > _SETTLED_NS
            judgement = self._judged[path] = (stamp if settled else None, is_secret_file(path, name))
        return judgement[1]

    def _is_made_up(self, path: str) -> bool:
        """Return whether a file is in a directory of tests or templates, where secrets are usually fake."""
        above = os.path.dirname(path)[len(self.folder) :].lower().split("/")
        return not _WITH_MADE_UP_SECRETS.isdisjoint(above)


@cache
def search_of_project(folder: str) -> SecretSearch:
    """Return the search of a project, which all its sessions in this process share."""
    return SecretSearch(folder)


def secrets_beside(project: str) -> list[str]:
    """Return the paths of secrets in the directory that contains a project, and in others there, not deeper.

    None are looked for in the root directory and in directories for everyone's temporary files.
    """
    above = os.path.dirname(project)
    with suppress(OSError):
        if above != "/" and not os.stat(above).st_mode & stat.S_ISVTX:
            return _search_beside(above).find(_BESIDE_BUDGET_S)[:_MAX_BESIDE]
    return []


@cache
def _search_beside(folder: str) -> SecretSearch:
    return SecretSearch(folder, beside=True)


def is_secret_link(path: str, *folders: Path | str) -> bool:
    """Return whether a path is a hard link to a file with secrets in these directories."""
    try:
        state = os.lstat(path)
    except OSError:
        return False
    return secret_links(*folders)(state)


def secret_links(*folders: Path | str) -> Callable[[os.stat_result], bool]:
    """Return a test whether a file is also one with secrets in these directories, by a hard link.

    The secrets are searched for once, when the first file with several names is tested.
    """

    @cache
    def secrets() -> set[tuple[int, int]]:
        found = set()
        for folder in folders:
            for path in search_of_project(str(folder)).find():
                with suppress(OSError):
                    state = os.lstat(path)
                    found.add((state.st_dev, state.st_ino))
        return found

    return lambda state: (
        state.st_nlink > 1 and stat.S_ISREG(state.st_mode) and (state.st_dev, state.st_ino) in secrets()
    )


def _matching_part(name: str, globs: PathGlobs) -> str:
    """Return the outermost directory of a tracked file that matches the globs, else the file, else ""."""
    ends = (*(at for at, char in enumerate(name) if char == "/"), len(name)) if globs.texts else ()
    matching = (end for end in ends if globs.match(f"{globs.folder}/{name[:end]}"))
    return name[: next(matching, 0)]


def _listing(folder: str, stamp: Stamp, globs: PathGlobs) -> _Listing:
    """List a directory that has this stamp. Raises OSError."""
    settled = time.time_ns() - stamp.changed > _SETTLED_NS
    every = _is_secret_folder(folder)
    named: list[str] = []
    folders: list[str] = []
    last: list[str] = []
    matching: list[str] = []
    has_globs = bool(globs.texts)
    with os.scandir(folder) as entries:
        for entry in entries:
            name = plain_name(entry.name)
            if has_globs and globs.match(entry.path):
                matching.append(entry.path)
            if entry.is_dir(follow_symlinks=False):
                if name not in _NEVER_SEARCHED:
                    (last if name in _SEARCHED_LAST else folders).append(entry.path)
            elif every or _may_be_secret(name):
                named.append(entry.path)
    return _Listing(
        stamp if settled else None,
        named=tuple(sorted(named)),
        folders=tuple(sorted(folders)),
        last=tuple(sorted(last)),
        matching=tuple(sorted(matching)),
        globs=globs,
    )


def _links(
    folder: str, listing: _Listing, wanted: frozenset[tuple[int, int]], known: _Links | None
) -> _Links:
    """Return the names of files in a directory; those `known` if it has not changed since."""
    if (
        known is not None
        and known.listing is listing
        and known.wanted == wanted
        and listing.stamp is not None
    ):
        return known
    inodes = {inode for _, inode in wanted}
    paths: list[str] = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.inode() in inodes:
                state = entry.stat(follow_symlinks=False)
                paths += [entry.path] if (state.st_dev, state.st_ino) in wanted else []
    return _Links(listing, wanted, tuple(paths))


def _shown(paths: Iterable[str]) -> list[str]:
    """Return the directories whose names do not begin with a dot and where nothing is mounted.

    A network mount whose server is down would hang.
    """
    mounted = set[str]()
    with suppress(OSError):
        lines = Path(_MOUNTS).read_text("utf-8", "surrogateescape").splitlines()
        mounted = {line.split()[4].replace("\\040", " ") for line in lines}
    return [path for path in paths if "/." not in path[path.rfind("/") :] and path not in mounted]


def _is_secret_folder(path: str) -> bool:
    return plain_name(path.rpartition("/")[2]) in _SECRET_FOLDERS


def _may_be_secret(name: str) -> bool:
    return may_be_secret(name) or name in MAYBE_TOKEN_FILES


def stamp_of(state: os.stat_result) -> Stamp:
    """Return the stamp of a file or directory."""
    return Stamp(state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
