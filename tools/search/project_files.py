"""Walk the files of a project that git does not ignore, in pure Python.

listing.py uses git for this if it is installed. The walk is for machines without git, and for suggestions for
a misspelled path. pathspec reads the patterns of .gitignore files, .git/info/exclude and the user's own.
Tracked files that match a pattern are left out.
"""

from __future__ import annotations

import os
import re
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from msgspec import Struct

from tools.files import LISTED_FOLDER, closing, safe_open
from tools.text import is_plain, word_set

from .checkout import Checkout, small_text

IGNORE_FILE = ".gitignore"
MAX_LISTED_FILES = 150_000
MAX_SEEN_ENTRIES = 400_000  # including ignored ones
# Directories without work of the project, which are only listed if a search names them.
IDLE_FOLDERS = word_set(
    ".git .hg .svn .jj node_modules __pycache__ .venv .tox .nox .mypy_cache .pytest_cache .ruff_cache"
    " .hypothesis .gradle .terraform .direnv .transcripts .task_outputs"
)
# Of one ignore pattern: pathspec's time for a name that does not match grows exponentially with them.
_MAX_STARS = 3
_EXCLUDES_FILE = r"(?im)^[ \t]*\[core\][^\[]*?^[ \t]*excludesfile[ \t]*=[ \t]*([^\n#;]+?)[ \t]*$"


class IgnorePattern(Struct, frozen=True):
    """One pattern, which ignores or re-includes matching paths."""

    regex: re.Pattern[str]
    ignores: bool


class IgnoreFile(Struct, frozen=True):
    """The patterns of one file; `depth` is the number of parts of its directory's path.

    `together` matches any of the patterns, since most paths match none, which it decides at once.
    """

    depth: int
    patterns: Sequence[IgnorePattern]
    together: re.Pattern[str]

    def verdict(self, path: Sequence[str], is_folder: bool) -> bool | None:
        """Return True for an ignored path, False for a re-included one, None if no pattern matches.

        The last matching pattern decides. Patterns that match a parent directory were evaluated before.
        """
        below = _as_bytes("/".join(path[self.depth :]) + ("/" if is_folder else ""))
        for pattern in reversed(self.patterns) if self.together.match(below) else ():
            found = pattern.regex.match(below)
            if found is not None and (found.lastgroup is None or found.end(found.lastgroup) == len(below)):
                return pattern.ignores
        return None


def list_project(folder: Path, stopped: Callable[[], bool] = lambda: False) -> list[str]:
    """Return the files below a real directory and their directories (with a slash), shallow ones first.

    Links are listed, not followed. Names with invisible characters are left out. Blocks on the disk until it
    is done, has found MAX_LISTED_FILES, or `stopped` returns true.
    """
    return with_folders(name for name, _ in _walk(folder, stopped))


def with_folders(files: Iterable[str]) -> list[str]:
    """Return the names and their directories (with a slash), shallow ones first.

    Names with invisible characters are left out.
    """
    names = list(islice(filter(is_plain, files), MAX_LISTED_FILES))
    folders = {f"{parent}/" for name in names for parent in _folders_above(name)}
    by_depth = sorted([*folders, *names], key=lambda name: (name.rstrip("/").count("/"), name))
    return by_depth[:MAX_LISTED_FILES]


def regular_files(
    folder: Path, stopped: Callable[[], bool] = lambda: False, kinds: Sequence[str] = ("file",)
) -> tuple[list[str], bool]:
    """Return the names of the regular files below a real directory, level by level, and whether they are all.

    They may contain any characters. `kinds` may include "link". In a directory that is itself ignored or
    without work, no files are left out as ignored.
    """
    walk = _walk(folder, stopped, heeded=False)
    names: list[str] = []
    while len(names) < MAX_LISTED_FILES:
        try:
            name, kind = next(walk)
        except StopIteration as end:
            return names, bool(end.value)
        names += [name] if kind in kinds else []
    return names, False


def _walk(
    folder: Path, stopped: Callable[[], bool], heeded: bool = True
) -> Generator[tuple[str, str], None, bool]:
    """Yield (name, kind as in `_entries`), level by level, those of a directory in order.

    The generator returns whether it reached the end. Patterns are `heeded`, except in an ignored directory.
    """
    files = _ignore_files_above(folder)
    heeded = heeded or not _is_left_out(files, folder)
    depth = len(folder.parts)
    waiting = deque([(str(folder), list(folder.parts), files)])
    seen = 0
    while waiting and seen < MAX_SEEN_ENTRIES and not stopped():
        path, parts, files = waiting.popleft()
        entries = _entries(path, MAX_SEEN_ENTRIES - seen)
        seen += len(entries)
        if heeded and (IGNORE_FILE, "file") in entries:  # trying to open it takes longer
            own = _ignore_file(Path(path, IGNORE_FILE), len(parts))
            files = [*files, own] if own else files
        for name, kind in entries:
            is_folder = kind == "folder"
            here = [*parts, name]
            if name == ".git" or (is_folder and name in IDLE_FOLDERS):
                continue
            if heeded and _is_ignored(files, here, is_folder):
                continue
            if is_folder:
                waiting.append((f"{path.rstrip('/')}/{name}", here, files))
            else:
                yield "/".join(here[depth:]), kind
    return not waiting


def _entries(path: str, limit: int) -> list[tuple[str, str]]:
    """Return (name, "folder", "file", "link" or "other") of the entries of a directory; [] behind a link."""
    found: list[tuple[str, str]] = []
    with suppress(OSError), closing(safe_open(path, LISTED_FOLDER)) as here, os.scandir(here) as entries:
        for entry in entries:
            found.append((entry.name, _kind(entry)))
            if len(found) >= limit:
                break
    return sorted(found)


def _kind(entry: os.DirEntry[str]) -> str:
    if entry.is_file(follow_symlinks=False):
        return "file"
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    return "link" if entry.is_symlink() else "other"


def is_in_idle_folder(folder: Path) -> bool:
    """Return whether the directory is one without work, or is in one."""
    return not IDLE_FOLDERS.isdisjoint(folder.parts)


def is_left_out(folder: Path) -> bool:
    """Return whether the directory or a parent is ignored or has no work in it."""
    return _is_left_out(_ignore_files_above(folder), folder)


def _is_left_out(files: Sequence[IgnoreFile], folder: Path) -> bool:
    parts = folder.parts
    above = (parts[:count] for count in range(1, len(parts) + 1))
    return is_in_idle_folder(folder) or any(
        _is_ignored([file for file in files if file.depth < len(each)], each, True) for each in above
    )


def _is_ignored(files: Sequence[IgnoreFile], path: Sequence[str], is_folder: bool) -> bool:
    """Return whether a path is ignored, which the nearest file with a matching pattern decides."""
    verdicts = (file.verdict(path, is_folder) for file in reversed(files))
    return next((verdict for verdict in verdicts if verdict is not None), False)


def _ignore_files_above(folder: Path) -> list[IgnoreFile]:
    """Return the pattern files of the repository that apply to a directory, without the directory's own."""
    above = (folder, *folder.parents)
    checkout = Checkout.around(folder)
    top = folder if checkout is None else checkout.top
    found = [_ignore_file(Checkout(top).exclude_file, len(top.parts))]
    if checkout is not None:
        found.insert(0, _ignore_file(_personal_patterns(), len(top.parts)))
    within = reversed(above[1 : above.index(top) + 1])
    found += [_ignore_file(place / ".gitignore", len(place.parts)) for place in within]
    return [file for file in found if file is not None]


def _personal_patterns() -> Path:
    """Return the file of the user's patterns for all repositories: from git's settings, or the default."""
    home = Path(os.environ.get("HOME") or "/")
    config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "git"
    for settings in (home / ".gitconfig", config / "config"):
        named = re.search(_EXCLUDES_FILE, small_text(settings.resolve()) or "")
        if named is not None:
            path = named[1].strip('"')
            return (home / path[2:] if path.startswith("~/") else home / path).resolve()
    return (config / "ignore").resolve()


def _ignore_file(path: Path, depth: int) -> IgnoreFile | None:
    """Read the patterns of a file; None if there is no regular file, or it has no patterns."""
    text = small_text(path)
    if text is None:
        return None
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern  # only on machines without git

    patterns = list[IgnorePattern]()
    with warnings.catch_warnings(action="ignore", category=FutureWarning):  # re warns of sets such as [[a]
        for line in text.removeprefix("\ufeff").split("\n")[:1_000]:  # patterns of one file
            if line.replace("**/", "").count("*") > _MAX_STARS:
                continue
            with suppress(re.error, ValueError):
                read = GitIgnoreSpecPattern(_as_bytes(line.rstrip("\r")))
                if read.regex is not None:
                    patterns.append(IgnorePattern(read.regex, bool(read.include)))
        alternatives = (each.regex.pattern.replace("(?P<ps_d>", "(?:") for each in patterns)
        together = re.compile("|".join(alternatives))
    return IgnoreFile(depth, patterns=patterns, together=together) if patterns else None


def _as_bytes(text: str) -> str:
    """Return the text with a character for each byte of its UTF-8: for git, `?` and `[!a]` match one byte."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("latin-1")


def _folders_above(name: str) -> Iterator[str]:
    at = name.rfind("/")
    while at > 0:
        yield name[:at]
        at = name.rfind("/", 0, at)
