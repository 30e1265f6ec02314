"""Find the files of a project whose contents are in its git repository, and which of them change later.

The index names the blob of every tracked file, and the times, size and inode that the file had when git last
read it. `start_reading` copies the index and returns the blobs of the files that still look like that.
`changed` compares the files with the copy again, in a fraction of the time that it would take in Python:

    index.start_reading().result()["src/a.c"]   # Blob(ident="8d1c...", size=1431)
    index.changed()                             # {"src/b.c"} after a command has written to it

git runs with a git directory of our own (git_listing.py). The time of the copy is far in the future, so git
never reads a file to be sure that it has not changed, and runs no filter. The times of a file that changed in
the second in which the index was written prove nothing, so the caller has to leave it out (`settled_ns`).
Files with a filter are not returned. Others that git converts have blobs of another size. Submodules are
ignored, since git would run another git in them, with the filters that their own configuration names.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple

from tools.processes import CommandContext, command_runner
from tools.sandbox import SupervisorLost

from .checkout import Checkout, small_text
from .git_listing import git_environment
from .git_script import GitFailed, run_script

_MIN_INDEX_BYTES = 200_000  # about 2,000 files; for fewer it is faster to read them
_LIMIT_S = 20.0
# $1 is the index, $2 its copy, $3 a directory for the output.
_READ = """\
exec 2>/dev/null
cp "$1" "$2" && touch -t 203712312359 "$2" || exit 3
"$0" ls-files -vsz >"$3/entries" & entries=$!
"$0" ls-files -s | cut -d' ' -f2 | "$0" cat-file --buffer --batch-check='%(objectsize)' >"$3/sizes" & sizes=$!
"$0" ls-files -z | "$0" check-attr -z --stdin filter >"$3/filters" & filters=$!
"$0" diff-files -z --name-only --relative --ignore-submodules=all >"$3/changed" || exit 4
wait $entries && wait $sizes && wait $filters
"""
_CHANGED = """\
exec "$0" diff-files -z --name-only --relative --ignore-submodules=all 2>/dev/null
"""
_CONTENTS = """\
printf '%s\\n' "$@" | exec "$0" cat-file --batch
"""
_STAT_SETTINGS = ("trustCtime = true", "checkStat = default", "fileMode = true")


class Blob(NamedTuple):
    """The contents of a file as git stores them."""

    ident: str
    size: int


class GitIndex:
    """The tracked files of the repository that contains the real directory `folder`.

    Make it in the event loop; call its methods in threads. They raise GitFailed. A file is known by its times
    if it has not changed since `settled_ns`.
    """

    def __init__(self, context: CommandContext, folder: Path) -> None:
        self.context = context
        self.settled_ns = 0
        self._folder = folder
        self._loop = asyncio.get_running_loop()
        self._copy: Path | None = None

    @property
    def is_large(self) -> bool:
        """Return whether asking git is faster than reading all files."""
        checkout = Checkout.around(self._folder)
        try:
            return checkout is not None and _index_of(checkout).stat().st_size > _MIN_INDEX_BYTES
        except OSError:
            return False

    def start_reading(self) -> Future[Mapping[str, Blob]]:
        """Copy the index; return the blobs of the files that have not changed since git read them."""
        return asyncio.run_coroutine_threadsafe(self._read(), self._loop)

    def changed(self) -> set[str]:
        """Return the tracked files that differ from the copied index in times, size, mode or inode."""
        if self._copy is None:
            raise GitFailed("the index was not read")
        output = self._wait_for(self._run([_CHANGED], self._copy))
        return set(output.split("\0")[:-1])

    def contents(self, idents: Sequence[str]) -> dict[str, bytes]:
        """Return the contents of blobs by their ids, without those that are missing."""
        found: dict[str, bytes] = {}
        for start in range(0, len(idents), 50):  # of up to a megabyte each
            output = self._wait_for(self._run([_CONTENTS, *idents[start : start + 50]], None))
            found.update(_objects(os.fsencode(output)))
        return found

    def _wait_for(self, work: Coroutine[Any, Any, str]) -> str:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _read(self) -> Mapping[str, Blob]:
        checkout = Checkout.around(self._folder)
        if checkout is None:
            raise GitFailed("there is no repository")
        try:
            private = (await command_runner(self.context).supervisor()).private
            index = _index_of(checkout)
            written_ns = min(index.stat().st_mtime_ns, time.time_ns())
            self.settled_ns = written_ns // 1_000_000_000 * 1_000_000_000
            copy = private / "index"
            with tempfile.TemporaryDirectory(dir=private, prefix="git-") as output:
                await self._run([_READ, str(index), str(copy), output], copy)
                self._copy = copy
                return await asyncio.to_thread(_blobs, Path(output))
        except (SupervisorLost, OSError, ValueError) as error:
            raise GitFailed(str(error)) from error

    async def _run(self, script: Sequence[str], index: Path | None) -> str:
        try:
            private = (await command_runner(self.context).supervisor()).private
            with tempfile.TemporaryDirectory(dir=private, prefix="git-") as own:
                environ = git_environment(self.context, self._folder, Path(own), settings=_STAT_SETTINGS)
                checkout = Checkout.around(self._folder)
                if checkout is not None:
                    attributes = small_text(checkout.shared_folder / "info" / "attributes") or ""
                    Path(own, "info", "attributes").write_text(attributes, "utf-8", "surrogateescape")
                if index is not None:
                    environ["GIT_INDEX_FILE"] = str(index)
                return await run_script(
                    self.context, folder=str(self._folder), script=script, environ=environ, limit_s=_LIMIT_S
                )
        except (SupervisorLost, OSError) as error:
            raise GitFailed(str(error)) from error


def _index_of(checkout: Checkout) -> Path:
    return checkout.git_folder / "index"


def _blobs(output: Path) -> Mapping[str, Blob]:
    """Parse the output of `_READ`. Raises OSError or ValueError."""
    entries, sizes, filters, changed = (
        os.fsdecode((output / name).read_bytes()) for name in ("entries", "sizes", "filters", "changed")
    )
    found = dict(_regular_files(entries.split("\0")[:-1], sizes.split("\n")[:-1]))
    for name in changed.split("\0")[:-1]:
        found.pop(name, None)
    if filters.count("\0filter\0unspecified\0") != filters.count("\0filter\0"):
        fields = filters.split("\0")[:-1]
        for name, value in zip(fields[::3], fields[2::3], strict=True):
            if value not in ("unspecified", "unset"):
                found.pop(name, None)
    return found


def _regular_files(entries: Sequence[str], sizes: Sequence[str]) -> Iterator[tuple[str, Blob]]:
    for entry, size in zip(entries, sizes, strict=True):
        about, _, name = entry.partition("\t")
        tag, mode, ident, stage = about.split(" ")
        # "H" is a file that git compares: not unmerged, outside of a sparse checkout or assumed unchanged.
        if tag == "H" and mode.startswith("100") and stage == "0" and size.isdigit():
            yield name, Blob(ident, int(size))


def _objects(data: bytes) -> Iterator[tuple[str, bytes]]:
    at = 0
    while (end := data.find(b"\n", at)) >= 0:
        head = data[at:end].decode().split(" ")
        at = end + 1
        if len(head) == 3 and head[2].isdigit():
            yield head[0], data[at : at + int(head[2])]
            at += int(head[2]) + 1
