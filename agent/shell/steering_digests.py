"""Compute the digests of files of a project that steer programs."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from glob import escape, iglob
from itertools import islice
from typing import NamedTuple

from tools.files import is_inside

# ruff: noqa: PTH112, PTH113, PTH118, PTH119, PTH120
from transcripts.patterns import lazy_bytes_pattern, lazy_pattern

from .git_files import file_bytes
from .launched_commands import MAKEFILES
from .option_syntax import NotProved

_MAX_FILES = 200  # of one command
_MAX_NAMED = 2_000  # paths by one file, whether they exist or not
_MAX_BYTES = 1_000_000  # of one file
_SCRIPT = lazy_pattern(r"\.(?:sh|bash|py|js|mjs|cjs|ts|rb|pl|php|lua|mk|just|gradle|kts|ya?ml|toml|json)\Z")
_MADE = lazy_pattern(r"(?:\A|/)(?:node_modules|dist|build|out|target|\.venv|venv)/")  # change with each build
_PATH = lazy_bytes_pattern(rb"[\w@%+.-]*(?:/[\w@%+.-]+)+|[\w@%+-]+\.[A-Za-z]{1,4}\b")
# Files of command lines: what they name is run, unlike the modules that other sources name.
_OF_COMMANDS = lazy_pattern(r"(?:GNU)?[Mm]akefile|.+\.(?:mk|mak|sh|bash|zsh)|\.?[Jj]ustfile")
_OF_SHELL = lazy_bytes_pattern(rb"#![^\n]*sh\b")
_INCLUDE = lazy_bytes_pattern(rb"^[ \t]*[-s]?include[ \t]+([^#\n]+)", re.MULTILINE)
_ENTERED = lazy_bytes_pattern(rb"(?:\bcd|-C|--directory|--dir|--prefix)[ \t=]+([\w@%+./-]+)")
_VARIABLE = lazy_bytes_pattern(rb"\$[({]\w+[)}]")


def steering_digests(
    names: Sequence[str], operands: Sequence[str], *, folder: str, project: str
) -> dict[str, str]:
    """Return the digest of each of these files by its path in the project, and of scripts that they name.

    A name may be a pattern with `*`. The files are looked for in `folder`, above it, and in directories that
    the operands name. An operand may also name a script: whatever the program, it may run it. Makefiles and
    shell scripts are followed as far as they name others, relative to themselves or to where they are run.
    """
    places = [*_upwards(folder, project)]
    below = {word: os.path.normpath(os.path.join(folder, word.rpartition("=")[2])) for word in operands}
    places += [place for place in below.values() if os.path.isdir(place)]
    given = (path for word, path in below.items() if not _MADE.search(word))
    waiting = [_Named(path, folder, is_read=os.access(path, os.X_OK)) for path in given]
    waiting += [
        _Named(path, place, is_read=True)
        for place in places
        for name in names
        for path in (
            _matching(os.fsencode(name), place)
            if "*" in name
            else [os.path.normpath(os.path.join(place, name))]
        )
    ]
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
    for word in map(os.fsdecode, dict.fromkeys(_ENTERED.findall(content))):
        for place in (os.path.normpath(os.path.join(folder, word)) for folder in folders):
            yield from (_Named(os.path.join(place, name), place, is_read=True) for name in MAKEFILES)


def _matching(pattern: bytes, folder: str) -> Iterator[str]:
    """Yield the files that a word of an include names in a directory."""
    found = iglob(os.path.join(escape(folder), os.fsdecode(pattern)))  # noqa: PTH207 - the word may be absolute
    return map(os.path.normpath, islice(found, _MAX_FILES))
