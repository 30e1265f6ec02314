"""Keep hard links to the objects of a repository, and put back those that something other than git removed.

Objects never change. git removes a loose object once a pack contains it, and a pack once others contain its
objects. With `git prune` it also removes objects that nothing refers to, which the user approves before, and
with `git gc` those of them that are older than two weeks. All else is damage: a script that deletes
`.git/objects/*/*`, or one that replaces the content of all files, as `sed -i` does.

A link has its content in common with the object, so a program that writes to objects in place damages both.
Copies of their contents are for that (object_copies.py).
"""

# ruff: noqa: PTH208

from __future__ import annotations

import errno
import os
import shutil
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from itertools import islice
from pathlib import Path

from msgspec import Struct, field

from tools.files import FOLDER_FLAGS, LISTED_FOLDER, closing, safe_open

from .git_files import link_objects, names_in, object_names, put_aside_if_replaced
from .guarded_state import CLOCK_STEP_NS
from .object_copies import LOOSE_FOLDER, MAX_READ_BYTES, ObjectCopies, is_object


class ObjectLinks(Struct):
    """Links to the objects of a repository in our own directory `kept`.

    If that is on another file system they are in `near`, in the directory of the project's transcripts, if
    that exists. `copies` are for objects that a program has written to. The descriptor `git` is that of the
    git directory.
    """

    kept: Path
    copies: ObjectCopies
    near: Path | None = None
    _sample: tuple[Path, int] | None = None  # a link, and the number of links to that object
    _listed: dict[str, int] = field(default_factory=dict)  # directories of objects: their time of change

    def link(self, git: int, most: int) -> bool:
        """Link new objects, packs first; return whether there are more. Call `put_back` before.

        Links to objects that are gone are removed. Raises OSError if no link can be made.
        """
        try:
            more = self._link(git, most)
        except OSError as error:
            if error.errno != errno.EXDEV or self.near in (None, self.kept):
                raise
            shutil.rmtree(self.kept)
            self.kept = self.near
            more = self._link(git, most)
        links = (self.kept / name / each for name in sorted(self._folders()) for each in self._names(name))
        some = next(links, None)
        self._sample = None if some is None else (some, some.stat().st_nlink)
        return more

    def are_deleted(self) -> bool:
        """Return whether the objects no longer exist elsewhere, as they do after a directory was moved."""
        if self._sample is None:
            return False
        some, links = self._sample
        return some.stat().st_nlink < links

    def _link(self, git: int, most: int) -> bool:
        left = most
        folders = ["pack", *sorted(filter(LOOSE_FOLDER.fullmatch, names_in(git, "objects")))]
        for name in set(self._folders()).difference(folders):
            shutil.rmtree(self.kept / name)
        for name in self._changed(git, folders):
            try:
                opened = safe_open(f"objects/{name}", LISTED_FOLDER, base=git)
            except OSError:
                continue  # it is a link or a file, or has just been removed
            with closing(opened) as folder:
                changed = os.fstat(folder).st_ctime_ns
                here = self.kept / name
                here.mkdir(mode=0o700, parents=True, exist_ok=True)
                present = set(object_names(folder))
                linked = set(os.listdir(here))
                new = present - linked
                with closing(os.open(here, LISTED_FOLDER)) as target:
                    for each in linked - present:
                        os.unlink(each, dir_fd=target)
                    link_objects(folder, islice(new, left), target)
            if len(new) > left:
                return True
            left -= len(new)
            # A later change in the same tick of the file system's clock would have the same time.
            self._listed[name] = changed if time.time_ns() - changed > CLOCK_STEP_NS else 0
        return False

    @property
    def has_links(self) -> bool:
        return bool(self._listed)

    def put_back(self, git: int, *, emptied: bool, may_prune: bool) -> tuple[int, int]:
        """Restore the objects that something other than git removed or changed; all if it was `emptied`.

        Returns the number of files that were restored, and of those that could not be. `may_prune`: the user
        approved that git prunes loose objects.
        """
        overwritten = self.copies.overwritten(git)
        mended = [self.copies.put_back(git, path) for path in overwritten]
        for path, is_sound in zip(overwritten, mended, strict=True):
            if is_sound:  # the link was written to as well
                (self.kept / path).unlink(missing_ok=True)
                self._listed.pop(path.split("/")[0], None)
        restored, failed = self._put_back_lost(git, emptied=emptied, may_prune=may_prune)
        return restored + sum(mended), failed + len(mended) - sum(mended)

    def _put_back_lost(self, git: int, *, emptied: bool, may_prune: bool) -> tuple[int, int]:
        lost: dict[str, bool] = {}  # paths; True if another file is in its place
        for name in self._changed(git, self._folders()):
            lost |= {f"{name}/{each}": replaced for each, replaced in self._lost_in(git, name)}
        if not lost:
            return 0, 0
        put_aside_if_replaced(git, "objects")
        packs = {path: replaced for path, replaced in lost.items() if path.startswith("pack/")}
        loose = {path: replaced for path, replaced in lost.items() if path not in packs}
        with ExitStack() as opened:
            before = {_stem(name) for name in self._names("pack")}
            indexes = _indexes(git, opened)
            if not emptied:
                packs = self._damaged_packs(git, packs, indexes, is_repacked=bool(indexes.keys() - before))
            done = [self._restore(git, path) for path in packs]
            if not emptied:
                indexes = _indexes(git, opened)
                loose = self._damaged_loose(loose, indexes, indexes.keys() - before, may_prune=may_prune)
            done += [self._restore(git, path) for path in loose]
        for path in lost.keys() - packs.keys() - loose.keys():
            (self.kept / path).unlink(missing_ok=True)
        for path in lost:
            self._listed.pop(path.split("/")[0], None)
        return sum(done), len(done) - sum(done)

    def _folders(self) -> list[str]:
        return os.listdir(self.kept) if self.kept.is_dir() else []

    def _names(self, folder: str) -> list[str]:
        here = self.kept / folder
        return os.listdir(here) if here.is_dir() else []

    def _changed(self, git: int, folders: Iterable[str]) -> Iterator[str]:
        """Yield the directories that have changed since their objects were linked, or are gone."""
        with suppress(OSError), closing(os.open("objects", FOLDER_FLAGS, dir_fd=git)) as objects:
            for name in folders:
                try:
                    changed = os.stat(name, dir_fd=objects, follow_symlinks=False).st_ctime_ns
                except OSError:
                    changed = -1
                if changed != self._listed.get(name):
                    yield name
            return
        yield from folders

    def _lost_in(self, git: int, name: str) -> Iterator[tuple[str, bool]]:
        """Yield the objects in one directory that are missing (False), or were replaced (True)."""
        here = self.kept / name
        try:
            opened = safe_open(f"objects/{name}", LISTED_FOLDER, base=git)
        except OSError:
            yield from ((each, False) for each in self._names(name))
            return
        with closing(opened) as folder:
            present = _inodes(folder)
            for each, inode in _inodes(here).items():
                if each not in present:
                    yield each, False
                elif present[each] != inode and not _is_intact(folder, name, each, here / each):
                    yield each, True

    def _damaged_packs(
        self, git: int, lost: Mapping[str, bool], indexes: Mapping[str, _PackIndex], *, is_repacked: bool
    ) -> dict[str, bool]:
        """Return the lost files of packs whose objects others do not contain."""
        essential = {_stem(path) for path in lost if path.endswith((".pack", ".idx"))}
        damaged = set()
        for stem in essential:
            if any(lost.get(f"pack/{stem}.{kind}") for kind in ("pack", "idx")):
                damaged.add(stem)
                continue
            others = [index for name, index in indexes.items() if name != stem]
            if not self._is_in_others(git, stem, others, is_repacked=is_repacked):
                damaged.add(stem)
        return {path: replaced for path, replaced in lost.items() if _stem(path) in damaged}

    def _is_in_others(self, git: int, stem: str, others: list[_PackIndex], *, is_repacked: bool) -> bool:
        """Return whether git has other copies of a pack's objects, except old ones that nothing refers to."""
        if is_repacked and (self.kept / "pack" / f"{stem}.mtimes").exists():
            return True  # a pack of objects that nothing refers to, which may have expired
        with ExitStack() as opened:
            try:
                fd = os.open(self.kept / "pack" / f"{stem}.idx", os.O_RDONLY | os.O_CLOEXEC)
                index = _read_index(fd, stem, opened)
            except (OSError, ValueError):
                return False
            ids = index.sample(500)
            found = sum(any(each.has(id) for each in others) or _is_loose(git, id) for id in ids)
            return found == len(ids) or (is_repacked and 2 * found >= len(ids))

    def _damaged_loose(
        self, lost: Mapping[str, bool], indexes: Mapping[str, _PackIndex], new: set[str], *, may_prune: bool
    ) -> dict[str, bool]:
        """Return the lost loose objects that git did not pack or prune."""
        ids = {path: bytes.fromhex(path.replace("/", "")) for path in lost}
        packed = {path for path, id in ids.items() if any(index.has(id) for index in indexes.values())}
        collected = any(indexes[name].has(ids[path]) for path in packed for name in new)
        oldest = time.time() - 14 * 24 * 3600 if collected else 0.0  # gc.pruneExpire
        damaged = {}
        for path, replaced in lost.items():
            is_pruned = may_prune or (self.kept / path).lstat().st_mtime < oldest
            if replaced or not (path in packed or is_pruned):
                damaged[path] = replaced
        return damaged

    def _restore(self, git: int, path: str) -> bool:
        """Link one object into the repository, replacing whatever is in its place."""
        folder, name = path.split("/")
        temporary = f"tmp_obj_{os.urandom(8).hex()}"  # git removes those that are left over
        try:
            with closing(os.open("objects", FOLDER_FLAGS, dir_fd=git)) as objects:
                put_aside_if_replaced(objects, folder)
                with suppress(FileExistsError):
                    os.mkdir(folder, dir_fd=objects)
                with closing(os.open(self.kept, LISTED_FOLDER)) as kept:
                    is_sound = self.copies.is_sound(kept, path)
                    if not is_sound:
                        self.copies.mend(kept, path, path)
                if not is_sound:  # a program wrote to it before it was removed
                    (self.kept / path).unlink()
                    return self.copies.put_back(git, path)
                with closing(os.open(folder, FOLDER_FLAGS, dir_fd=objects)) as here:
                    os.link(self.kept / path, temporary, dst_dir_fd=here, follow_symlinks=False)
                    try:
                        with suppress(FileNotFoundError):
                            if stat.S_ISDIR(os.stat(name, dir_fd=here, follow_symlinks=False).st_mode):
                                os.rename(name, f"{temporary}.replaced", src_dir_fd=here, dst_dir_fd=here)
                        os.replace(temporary, name, src_dir_fd=here, dst_dir_fd=here)
                    except OSError:
                        os.unlink(temporary, dir_fd=here)
                        raise
        except OSError:
            return False
        return True


class _PackIndex(Struct, frozen=True):
    """The sorted ids of objects in the index of a pack, of version 2, which is open as `fd`.

    A command may change it meanwhile, so it is not mapped into memory.
    """

    fd: int
    id_bytes: int

    def has(self, id: bytes) -> bool:
        low = self._before(id[0] - 1)
        high = self._before(id[0])
        while low < high:
            middle = (low + high) // 2
            found = self._at(middle)
            if found == id:
                return True
            if found < id:
                low = middle + 1
            else:
                high = middle
        return False

    def sample(self, most: int) -> list[bytes]:
        """Return some of the ids, evenly spread."""
        count = self._before(255)
        return [self._at(at) for at in range(0, count, max(1, count // most))]

    def _before(self, first: int) -> int:
        """Return the number of ids whose first byte is at most this one."""
        return int.from_bytes(os.pread(self.fd, 4, 8 + 4 * first), "big") if first >= 0 else 0

    def _at(self, position: int) -> bytes:
        return os.pread(self.fd, self.id_bytes, 8 + 4 * 256 + position * self.id_bytes)


def _read_index(fd: int, stem: str, opened: ExitStack) -> _PackIndex:
    """Return an open index of a pack, whose descriptor `opened` closes. Raises OSError and ValueError."""
    opened.enter_context(closing(fd))
    if os.pread(fd, 8, 0) != b"\xfftOc\0\0\0\2":
        raise ValueError("not an index of version 2")
    return _PackIndex(fd, id_bytes=len(stem.removeprefix("pack-")) // 2)


def _indexes(git: int, opened: ExitStack) -> dict[str, _PackIndex]:
    """Return the indexes of all packs of a repository by the names of the packs."""
    found = {}
    with suppress(OSError), closing(safe_open("objects/pack", LISTED_FOLDER, base=git)) as folder:
        names = set(object_names(folder))
        for name in names:
            stem = _stem(name)
            if name.endswith(".idx") and f"{stem}.pack" in names:
                with suppress(OSError, ValueError):
                    fd = safe_open(name, os.O_RDONLY | os.O_NONBLOCK, base=folder)
                    found[stem] = _read_index(fd, stem, opened)
    return found


def _stem(path: str) -> str:
    return path.rpartition("/")[2].partition(".")[0]


def _is_loose(git: int, id: bytes) -> bool:
    name = id.hex()
    with suppress(OSError):
        os.stat(f"objects/{name[:2]}/{name[2:]}", dir_fd=git, follow_symlinks=False)
        return True
    return False


def _inodes(folder: int | Path) -> dict[str, int]:
    with os.scandir(folder) as entries:
        return {entry.name: entry.inode() for entry in entries if entry.is_file(follow_symlinks=False)}


def _is_intact(folder: int, name: str, each: str, kept: Path) -> bool:
    """Return whether a file that is not the one linked has its content, or another form of the object."""
    try:
        with os.fdopen(safe_open(each, os.O_RDONLY | os.O_NONBLOCK, base=folder), "rb") as file:
            content = file.read(MAX_READ_BYTES)
        with kept.open("rb") as file:
            if content == file.read(MAX_READ_BYTES):
                return True
        if name == "pack":
            return not each.endswith((".pack", ".idx"))
    except OSError:
        return False
    return is_object(content, name + each)
