"""Compute the digests of files of a project that steer programs."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from glob import escape, iglob
from itertools import islice
from typing import NamedTuple

from tools.files import is_inside

# ruff: noqa: PTH112, PTH113, PTH118, PTH119, PTH120
from transcripts.patterns import lazy_bytes_pattern, lazy_pattern

from .git_files import file_bytes
from .launched_commands import MAKEFILES
from .option_syntax import NotProved
from .steering_names import READ_BY

_MAX_FILES = 200  # of one command
_MAX_NAMED = 2_000  # paths by one file, whether they exist or not
_MAX_BYTES = 1_000_000  # of one file
_SCRIPT = lazy_pattern(r"\.(?:sh|bash|py|js|mjs|cjs|ts|rb|pl|php|lua|mk|just|gradle|kts|ya?ml|toml|json)\Z")
_MADE = lazy_pattern(r"(?:\A|/)(?:node_modules|dist|build|out|target|\.venv|venv)/")  # change with each build
_PATH = lazy_bytes_pattern(rb"[\w@%+.-]*(?:/[\w@%+.-]+)+|[\w@%+-]+\.[A-Za-z]{1,4}\b")
# Files of command lines: what they name is run, unlike the modules that other sources name.
_OF_COMMANDS = lazy_pattern(
    r"(?:GNU)?[Mm]akefile|.+\.(?:mk|mak|sh|bash|zsh|just)|\.?[Jj]ustfile|package\.json"
)
_OF_SHELL = lazy_bytes_pattern(rb"#![^\n]*sh\b")
_INCLUDE = lazy_bytes_pattern(rb"^[ \t]*[-s]?include[ \t]+([^#\n]+)", re.MULTILINE)
_ENTERED = lazy_bytes_pattern(rb"(?:\bcd|-C|--directory|--dir|--prefix)[ \t=]+([\w@%+./-]+)")
_SOURCED = lazy_bytes_pattern(
    rb"(?:\b(?:(?:ba|da|z)?sh|source)|(?:^|[\s;&])\.)[ \t]+(?:-\w+[ \t]+)*([\w@%+./-]+)"
)
_MODULE = lazy_bytes_pattern(rb"\bpython[\d.]*[ \t]+-m[ \t]+([\w.]+)")
_WORD = lazy_bytes_pattern(rb"[\w.-]+")
_VARIABLE = lazy_bytes_pattern(rb"\$[({]\w+[)}]")


def steering_digests(
    names: Sequence[str], operands: Sequence[str], *, folder: str, project: str
) -> dict[str, str]:
    """Return the digest of each of these files by its path in the project, and of scripts that they name.

    A name may be a pattern with `*`. The files are looked for in `folder`, in directories that the operands
    name or that contain files that they name, and above these. An operand may also name a script: whatever
    the program, it may run it. Makefiles, shell scripts and package.json are followed as far as they name
    others, or programs that read such files, relative to themselves or to where they are run.
    """
    below = {word: _place_of(word, folder) for word in operands}
    folders = [path if os.path.isdir(path) else os.path.dirname(path) for path in below.values()]
    places = dict.fromkeys(place for each in (folder, *folders) for place in _upwards(each, project))
    given = (path for word, path in below.items() if not _MADE.search(word))
    waiting = [_Named(path, folder, is_read=os.access(path, os.X_OK)) for path in given]
    waiting += [named for place in places for named in _called(names, place, place)]
    found: dict[str, str] = {}
    for named in waiting:  # which grows
        shown = os.path.relpath(named.path, project)
        if len(found) >= _MAX_FILES:
            break
        if shown in found or not is_inside(named.path, project) or not os.path.isfile(named.path):
            continue
        content = _content(named.path)
        if named.is_read or _SCRIPT.search(named.path) or content.startswith(b"#!"):
            found[shown] = hashlib.sha256(content).hexdigest()
            if named.is_read or _is_of_commands(named.path, content):
                waiting += islice(_named_in(named, content), _MAX_NAMED)
    return found


class _Named(NamedTuple):
    """The path of a file, and the directory in which it is used.

    is_read  a program reads or runs it by itself, so it may have any name
    """

    path: str
    cwd: str
    is_read: bool = False


def _place_of(word: str, folder: str) -> str:
    """Return the path in an operand, such as `--file=PATH` or `PATH::test`."""
    return os.path.normpath(os.path.join(folder, word.rpartition("=")[2].partition("::")[0]))


def _called(names: Iterable[str], place: str, cwd: str) -> Iterator[_Named]:
    """Yield the files in a directory that programs read which know them by these names."""
    inner: list[str] | None = None
    for name in names:
        if name.startswith("*/"):
            inner = inner if inner is not None else _inner_folders(place)
            for folder in inner:
                yield from _called([name[2:]], folder, cwd)
        else:
            paths = _matching(os.fsencode(name), place) if "*" in name else [_place_of(name, place)]
            yield from (_Named(path, cwd, is_read=True) for path in paths)


def _inner_folders(place: str) -> list[str]:
    """Return the directories in a directory, apart from hidden ones and those that a build makes."""
    with suppress(OSError), os.scandir(place) as entries:
        found = (each for each in entries if each.is_dir(follow_symlinks=False) and each.name[0] != ".")
        return [each.path for each in islice(found, _MAX_FILES) if not _MADE.match(f"{each.name}/")]
    return []


def _is_of_commands(path: str, content: bytes) -> bool:
    return _OF_COMMANDS.fullmatch(os.path.basename(path)) is not None or _OF_SHELL.match(content) is not None


def _upwards(folder: str, project: str) -> Iterator[str]:
    while is_inside(folder, project):
        yield folder
        if folder == project or folder == os.path.dirname(folder):
            break
        folder = os.path.dirname(folder)


def _content(path: str) -> bytes:
    try:
        return file_bytes(path, _MAX_BYTES)
    except NotProved as unreadable:
        return str(unreadable).encode()


def _named_in(by: _Named, content: bytes) -> Iterator[_Named]:
    """Yield the files that a file names, apart from what a build makes."""
    folders = dict.fromkeys((os.path.dirname(by.path), by.cwd))
    for word in map(os.fsdecode, dict.fromkeys(_PATH.findall(content))):
        if not _MADE.search(word) and (_SCRIPT.search(word) or "/" in word):
            for folder in folders:
                yield _Named(os.path.normpath(os.path.join(folder, word.lstrip("@+-/"))), by.cwd)
    if not _is_of_commands(by.path, content):
        return
    for word in (word for words in _INCLUDE.findall(content) for word in words.split()):
        patterns = dict.fromkeys(_VARIABLE.sub(value, word) for value in (b"*", b"."))
        for pattern in (each for each in patterns if each.count(b"*") <= 2):  # others take long
            for folder in folders:
                yield from (_Named(path, by.cwd, is_read=True) for path in _matching(pattern, folder))
    yield from (_Named(path, by.cwd, is_read=True) for path in _scripts_in(content, by.cwd))
    programs = {os.fsdecode(word) for word in _WORD.findall(content)} & READ_BY.keys()
    names = dict.fromkeys(
        (*MAKEFILES, *(name for each in sorted(programs) for name in READ_BY[each].split()))
    )
    yield from _called(names, by.cwd, by.cwd)
    for word in map(os.fsdecode, dict.fromkeys(_ENTERED.findall(content))):
        for place in dict.fromkeys(_place_of(word, folder) for folder in folders):
            yield from _called(names, place, place)


def _scripts_in(content: bytes, cwd: str) -> Iterator[str]:
    """Yield the paths of what commands give to a shell or to `python -m`."""
    modules = (word.replace(b".", b"/") for word in _MODULE.findall(content))
    words = [*_SOURCED.findall(content), *(m + end for m in modules for end in (b".py", b"/__main__.py"))]
    return (_place_of(os.fsdecode(word), cwd) for word in dict.fromkeys(words))


def _matching(pattern: bytes, folder: str) -> Iterator[str]:
    """Yield the files that a word of an include names in a directory."""
    found = iglob(os.path.join(escape(folder), os.fsdecode(pattern)))  # noqa: PTH207 - the word may be absolute
    return map(os.path.normpath, islice(found, _MAX_FILES))
