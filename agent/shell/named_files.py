"""Find which of given files a line names: those that rules withhold, where no sandbox hides them.

    cat conf/*.yml            names conf/a.yml
    cd conf && sort <a.yml    the same
    curl -d @conf/a.yml x     the same
    grep -r key .             may read it, since it is below
    python3 -c "open('conf/a.yml')"   may do so as well

A program that is not in the line can still read them. So this is no replacement for a sandbox.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from tools.text import word_set

from .command_pattern import Certainty
from .line_reading import read_line
from .parsed_text import ANY, CLASS, MARKS, ONE, STAR
from .vital_places import Places, Scene, paths_of, scenes

_PRINTING = word_set("echo printf")  # their words are text
# Programs that read whole directories, some only with one of these options.
_READING_DIRECTORIES = word_set("tar bsdtar zip 7z 7za rsync scp rg ag ack cpio")
_READING_WITH = {
    **dict.fromkeys(word_set("grep egrep fgrep"), ("rR", "recursive", "dereference-recursive")),
    "cp": ("rRa", "recursive", "archive"),
    "find": ("", "exec", "execdir", "ok", "okdir"),
}
_SEARCHING = word_set("rg ag ack grep egrep fgrep git")  # in the current directory if nothing is named
_MAX_WORD_CHARS = 4_096  # as for a path


class NamedFile(NamedTuple):
    """A file that a line names for certain, or may read or write."""

    path: str
    certainty: Certainty


def files_named_in(
    line: str, places: Places, files: Collection[str], resolve: Callable[[str], str] = str
) -> Iterator[NamedFile]:
    """Yield the files, real paths, that a line names, or that are in a directory that it reads.

    `resolve` returns the target of a path through links.
    """
    reading = read_line(line)
    for code in reading.code:
        yield from (NamedFile(path, Certainty.MAYBE) for path in files if _mentions(code, path, places))
    for scene in scenes(reading.invocations, places):
        if scene.program in _PRINTING:
            targets = [each.target for each in scene.command.redirects]
        else:
            targets = [*scene.arguments, *(each.target for each in scene.command.redirects)]
        reads_below = _reads_directories(scene)
        for word in targets:
            for path in _paths(word, scene):
                for each in dict.fromkeys((path, resolve(path))):
                    yield from _named(each, files, reads_below=reads_below)
        if reads_below and scene.program in _SEARCHING and scene.here:
            named = scene.operands()[2 if scene.program == "git" else 1 :]  # after what is searched for
            yield from _named(scene.here, files, reads_below=not named)


def _named(path: str, files: Collection[str], *, reads_below: bool) -> Iterator[NamedFile]:
    above = path
    while above not in ("/", ""):
        if not MARKS.search(above):
            yield from (NamedFile(file, Certainty.YES) for file in (above,) if file in files)
        else:
            pattern = re.compile(_expression(above))
            is_meant = MARKS.sub("", posixpath.basename(above)) != ""  # a `*` is not about this file
            certainty = Certainty.YES if is_meant else Certainty.MAYBE
            yield from (NamedFile(file, certainty) for file in files if pattern.fullmatch(file))
        above = posixpath.dirname(above)
    if reads_below:
        below = re.compile(_expression(path.rstrip("/")) + "/")
        yield from (NamedFile(file, Certainty.MAYBE) for file in files if below.match(file))


def _paths(word: str, scene: Scene) -> Iterator[str]:
    """Yield the paths that a word may mean: as a whole, or behind `=`, `@`, `<`, `:` or a letter."""
    if len(word) > _MAX_WORD_CHARS:
        return
    parts = {word, word.partition("=")[2], word.removeprefix("file://"), *re.split(r"[@<:]", word)}
    if re.match(r"-[A-Za-z][^-=]", word):
        parts.add(word[2:])  # as in `-fconf/a.yml`
    for part in sorted(filter(None, parts)):
        yield from paths_of(part, scene.places, scene.here)


def _expression(path: str) -> str:
    """Return a regular expression for a path with the marks of globs."""
    parts = {STAR: "[^/]*", ONE: "[^/]", CLASS: "[^/]", ANY: ".*"}
    return "".join(parts.get(char) or re.escape(char) for char in path)


def _reads_directories(scene: Scene) -> bool:
    program = scene.program
    if program == "git":
        return "grep" in scene.arguments
    if program in _READING_WITH:
        letters, *names = _READING_WITH[program]
        words = [f"-{name}" for name in names] if program == "find" else []
        return scene.has_flag(letters, *names) or any(word in scene.arguments for word in words)
    return program in _READING_DIRECTORIES


def _mentions(code: str, path: str, places: Places) -> bool:
    """Return whether the code of another language contains the path, relative to the project or absolute."""
    relative = path.removeprefix(f"{places.folder}/")
    return re.search(rf"(?<![\w.-]){re.escape(relative)}(?![\w-])", code) is not None or path in code
