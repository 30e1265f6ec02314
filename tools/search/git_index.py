"""Find the files of a project whose contents are in its git repository, and which of them change later.

The index names the blob of every tracked file, and the times, size and inode that the file had when git last
read it. `start_reading` copies the index and returns the blobs of the files that still look like that.
`start_comparing` compares the files with the copy again. No file is looked at in Python, which would take
several times as long:

    index.start_reading().result().idents["src/a.c"]   # "8d1c..."
    index.start_comparing().result()                   # {"src/b.c"} after a command has written to it

git runs with a git directory of our own (git_listing.py). The time of the copy is far in the future, so git
never reads a file to be sure that it has not changed, and runs no filter. The times of a file that changed in
the second in which the index was written prove nothing, so the caller has to look at it (`unusual`). In a
repository that was copied, all times and inodes differ from the index. There git first compares the contents
and notes what it finds in our copy of the index, without any filter that a program would run. Files
with a filter are not returned, nor are those that git converts unless their blobs have the same size.
Submodules are ignored, since git would run another git in them, with the filters that their own configuration
names.
"""

from __future__ import annotations

import asyncio
import os
import stat
import tempfile
import time
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from msgspec import Struct

from tools.processes import CommandContext, command_runner
from tools.sandbox import SupervisorLost

from .checkout import Checkout, small_text
from .git_listing import git_environment
from .git_script import GitFailed, run_script

_MIN_INDEX_BYTES = 200_000  # about 2,000 files; for fewer it is faster to read them
FILE_CLOCK_NS = 50_000_000  # five times the coarsest resolution of file times
# $1 is the index, $2 its copy, $3 a directory for the output, in which the file `settled` has the time before
# which times prove something; $4 is not empty if the project's settings may convert files. The others are
# expressions of `find`: the two usual modes, then the directories to leave out. `find` prints "." first if it
# knows all expressions. GNU find compares names first, whatever the order within one condition, so the names
# of directories are in an alternative that no file reaches.
_READ = """\
exec 2>/dev/null
index=$1 copy=$2 out=$3 converts=$4 plain=$5 executable=$6; shift 6
cp "$index" "$copy" && touch -t 203712312359 "$copy" || exit 3
"$0" ls-files -vsz >"$out/entries" & entries=$!
LC_ALL=C find . -path . -print0 -o -type f \\( \\( ! -perm $plain ! -perm $executable \
    -o -newer "$out/settled" -o -cnewer "$out/settled" \\) -print0 -o -type f \\) \
    -o \\( "$@" \\) -prune >"$out/unusual" & unusual=$!
filtered=':(exclude,attr:!filter)'
set -- . ':(exclude,attr:!text !eol !ident !working-tree-encoding !crlf)'
[ -z "$converts" ] && [ "$("$0" config core.autocrlf || echo false)" = false ] || set -- .
{ "$0" ls-files -z . "$filtered" >"$out/filtered" && "$0" ls-files -z -s "$@" >"$out/converted" || exit 4
[ ! -s "$out/converted" ] || "$0" ls-files -s "$@" | cut -d' ' -f2 | "$0" cat-file --buffer \
    --batch-check='%(objectsize)' >"$out/sizes"; } & sizes=$!
"$0" diff-files -z --name-only --relative --ignore-submodules=all >"$out/changed" || exit 5
wait $entries && wait $sizes || exit 6
wait $unusual || true
"""
# $1 is the index, $2 its copy. It gets the same time, since git compares the contents of files that changed
# in that second. Without settings there are no filters. git fails if files have changed.
_REFRESH = """\
exec 2>/dev/null
cp "$1" "$2" && touch -r "$1" "$2" || exit 3
GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null "$0" update-index -q \\
    --ignore-submodules --refresh >/dev/null || true
"""
_MANY_STALE = 2_000  # files: comparing their contents takes less time than storing them
_CHANGED = """\
exec "$0" diff-files -z --name-only --relative --ignore-submodules=all 2>/dev/null
"""
_UNCHANGED = """\
"$0" --literal-pathspecs ls-files -z -- "$@" && printf '\\0' &&
exec "$0" --literal-pathspecs diff-files -z --name-only --relative --ignore-submodules=all -- "$@"
"""
_SIZES = """\
printf '%s\\n' "$@" | exec "$0" cat-file --batch-check='%(objectname) %(objectsize)'
"""
_CONTENTS = """\
printf '%s\\n' "$@" | exec "$0" cat-file --batch
"""
_COPY = """\
exec "$0" cat-file blob "$1" >"$2"
"""
_MAX_IDENTS = 2_000  # in the arguments of one script
_MAX_CONTENTS_BYTES = 16 << 20  # in the output of one script, unless a single blob is larger
_STAT_SETTINGS = ("trustCtime = true", "checkStat = default", "fileMode = true")


class TrackedFiles(Struct, frozen=True):
    """The tracked files whose contents git has.

    idents          the id of the blob by name
    executable      the names of those that git calls executable
    unusual         the names of files, tracked or not, that have none of the usual modes or that changed at
                    `settled_ns` or later, so that their times prove nothing
    mode            the usual mode of a file
    executable_mode  the usual mode of an executable file
    """

    idents: Mapping[str, str]
    executable: Set[str]
    unusual: Set[str]
    settled_ns: int
    mode: int
    executable_mode: int


class GitIndex:
    """The tracked files of the repository that contains the real directory `folder`.

    Make it in the event loop; call its methods in threads. They and their futures raise GitFailed.
    `idle_folders` are the names of directories that do not belong to the project.
    """

    def __init__(self, context: CommandContext, folder: Path, idle_folders: Iterable[str] = ()) -> None:
        self.context = context
        self._folder = folder
        self._idle_folders = sorted(idle_folders)
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

    def start_reading(self) -> Future[TrackedFiles]:
        """Copy the index; find the files that have not changed since git read them."""
        return asyncio.run_coroutine_threadsafe(self._read(), self._loop)

    def start_comparing(self) -> Future[Set[str]]:
        """Find the tracked files that differ from the copied index in times, size, mode or inode."""
        return asyncio.run_coroutine_threadsafe(self._compare(), self._loop)

    def unchanged(self, names: Sequence[str]) -> set[str]:
        """Return those of the files that are tracked and that git knows to be unchanged."""
        checkout = Checkout.around(self._folder)
        if checkout is None:
            return set()
        found = self._wait_for(self._run([_UNCHANGED, *names], _index_of(checkout)))
        tracked, _, changed = found.partition("\0\0")
        return {*tracked.split("\0")} - {*changed.split("\0")}

    def sizes(self, idents: Sequence[str]) -> dict[str, int]:
        """Return the sizes of blobs by their ids, without those that are missing."""
        found: dict[str, int] = {}
        for some in _split(idents, _MAX_IDENTS):
            output = self._wait_for(self._run([_SIZES, *some], None))
            words = (line.split(" ") for line in output.splitlines())
            found.update((each[0], int(each[1])) for each in words if len(each) == 2 and each[1].isdigit())
        return found

    def contents(self, sizes: Mapping[str, int]) -> Iterator[tuple[str, bytes]]:
        """Yield the ids and contents of blobs with these sizes, without those that are missing."""
        waiting = list[str]()
        waiting_bytes = 0
        for ident, size in sizes.items():
            if waiting and (waiting_bytes + size > _MAX_CONTENTS_BYTES or len(waiting) == _MAX_IDENTS):
                yield from self._contents(waiting)
                waiting = []
                waiting_bytes = 0
            waiting.append(ident)
            waiting_bytes += size
        if waiting:
            yield from self._contents(waiting)

    def copy(self, ident: str, target: Path) -> None:
        """Write the contents of a large blob to a new file."""
        self._wait_for(self._run([_COPY, ident, str(target)], None))

    def _contents(self, idents: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        return _objects(os.fsencode(self._wait_for(self._run([_CONTENTS, *idents], None))))

    def _wait_for(self, work: Coroutine[Any, Any, str]) -> str:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _compare(self) -> Set[str]:
        if self._copy is None:
            raise GitFailed("the index was not read")
        return set((await self._run([_CHANGED], self._copy)).split("\0")[:-1])

    async def _read(self) -> TrackedFiles:
        checkout = Checkout.around(self._folder)
        if checkout is None:
            raise GitFailed("there is no repository")
        try:
            private = (await command_runner(self.context).supervisor()).private
            index = _index_of(checkout)
            # git makes the index with the mode of any new file.
            mode = stat.S_IMODE(index.stat().st_mode)
            found, stale = await self._read_from(index, checkout, private, mode)
            if stale > _MANY_STALE:
                refreshed = private / "refreshed-index"
                await self._run([_REFRESH, str(index), str(refreshed)], refreshed)
                found, _ = await self._read_from(refreshed, checkout, private, mode)
                refreshed.unlink()
            return found
        except (SupervisorLost, OSError, ValueError) as error:
            raise GitFailed(str(error)) from error

    async def _read_from(
        self, index: Path, checkout: Checkout, private: Path, mode: int
    ) -> tuple[TrackedFiles, int]:
        """Read an index; return also the number of files that do not look as in it, or may have changed.

        Raises GitFailed, OSError and ValueError.
        """
        written_ns = min(index.stat().st_mtime_ns, time.time_ns())
        settled_ns = written_ns // 1_000_000_000 * 1_000_000_000 - FILE_CLOCK_NS
        executable_mode = mode | (mode & 0o444) >> 2
        copy = private / "index"
        idle = [word for name in self._idle_folders for word in ("-o", "-name", name)][1:]
        with tempfile.TemporaryDirectory(dir=private, prefix="git-") as output:
            settled = Path(output, "settled")
            settled.touch()
            os.utime(settled, ns=(settled_ns - 1, settled_ns - 1))
            places = [str(index), str(copy), output]
            modes = [f"{mode:o}", f"{executable_mode:o}"]
            converts = "converts" if _may_convert(checkout) else ""
            await self._run([_READ, *places, converts, *modes, *(idle or ["-name", ".git"])], copy)
            self._copy = copy
            read, count = await asyncio.to_thread(_read_output, Path(output), str(self._folder))
        found = TrackedFiles(*read, settled_ns=settled_ns, mode=mode, executable_mode=executable_mode)
        return found, count - len(found.idents) + len(found.unusual & found.idents.keys())

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
                    self.context, folder=str(self._folder), script=script, environ=environ, limit_s=60.0
                )
        except (SupervisorLost, OSError) as error:
            raise GitFailed(str(error)) from error


def _index_of(checkout: Checkout) -> Path:
    return checkout.git_folder / "index"


def _may_convert(checkout: Checkout) -> bool:
    """Return whether settings of the repository may name a conversion, which git is not given."""
    texts = [small_text(folder / "config") for folder in (checkout.git_folder, checkout.shared_folder)]
    texts.append(small_text(checkout.git_folder / "config.worktree"))
    words = ("autocrlf", "attributesfile", "[include")
    return any(word in text.lower() for text in texts if text for word in words)


def _split(items: Sequence[str], most: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(items), most):
        yield items[start : start + most]


_Read = tuple[dict[str, str], set[str], set[str]]


def _read_output(output: Path, folder: str) -> tuple[_Read, int]:
    """Parse the output of `_READ`: blobs, executable files and unusual ones, and the number of all entries.

    Raises OSError or ValueError.
    """

    def names(file: str) -> list[str]:
        return os.fsdecode((output / file).read_bytes()).split("\0")[:-1]

    top, *unusual = names("unusual")
    if top != ".":
        raise ValueError("find does not know these expressions")
    found, executable = _regular_files(names("entries"))
    count = len(found)
    for name in (*names("changed"), *names("filtered")):
        found.pop(name, None)
    if converted := names("converted"):
        # A blob of the size of the file has its contents: the sizes of a converted file differ.
        sizes = (output / "sizes").read_text().split("\n")[:-1]
        for entry, size in zip(converted, sizes, strict=True):
            name = entry.partition("\t")[2]
            if name in found and size != str(os.lstat(f"{folder}/{name}").st_size):
                del found[name]
    return (found, executable, {name[2:] for name in unusual}), count


def _regular_files(entries: Sequence[str]) -> tuple[dict[str, str], set[str]]:
    """Return the blobs of files that git compares, and the names of executable ones.

    The tag of these is "H": they are not outside of a sparse checkout or assumed unchanged. Their stage is 0:
    they are not unmerged.
    """
    if not entries:
        return {}, set()
    start = len("H 100644 ")
    end = start + len(entries[0].split(" ", 3)[2])
    plain = {each[end + 3 :]: each[start:end] for each in entries if each.startswith("H 100644 ")}
    executable = {each[end + 3 :]: each[start:end] for each in entries if each.startswith("H 100755 ")}
    return plain | executable, set(executable)


def _objects(data: bytes) -> Iterator[tuple[str, bytes]]:
    at = 0
    while (end := data.find(b"\n", at)) >= 0:
        head = data[at:end].decode().split(" ")
        at = end + 1
        if len(head) == 3 and head[2].isdigit():
            yield head[0], data[at : at + int(head[2])]
            at += int(head[2]) + 1
