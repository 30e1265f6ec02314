"""Find which of given files a line names: those that rules withhold, where no sandbox hides the files.

    cat conf/*.yml            names conf/a.yml
    cd conf && sort <a.yml    the same
    curl -d @conf/a.yml x     the same
    grep -r key .             may read it, since it is below
    mv conf x; ln -s conf x   may do so, since its path changes or another leads to it
    ls conf/* | xargs cat     may do so, since it is not known what `cat` reads
    python3 -c "open('conf/a.yml')"   may do so as well

A program that is not in the line can still read them. So this is no replacement for a sandbox.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from fnmatch import fnmatchcase
from glob import escape
from typing import NamedTuple

from tools.text import word_set
from transcripts.patterns import lazy_pattern

from .command_pattern import Certainty
from .line_reading import read_line
from .parsed_text import ANY, CLASS, MARKS, ONE, SPLIT, STAR, UNSET, is_open
from .vital_places import Places, Scene, paths_of, scenes

_PRINTING = word_set("echo printf")  # their words are text
# Programs that read whole directories, or give them another path; some only with one of these options.
_READING_DIRECTORIES = word_set(
    "tar bsdtar zip 7z 7za rsync scp rg ag ack ugrep rgrep cpio pax mv ln mmv mount docker podman"
)
_RECURSIVE_GREP = ("rRd", "--recursive", "--dereference-recursive", "--directories")
_READING_WITH = {
    **dict.fromkeys(word_set("grep egrep fgrep"), _RECURSIVE_GREP),
    "cp": ("rRa", "--recursive", "--archive"),
    "diff": ("r", "--recursive"),
    "find": ("", "exec", "execdir", "ok", "okdir"),
}
# They read the current directory if none is named.
_SEARCHING = word_set("rg ag ack ugrep rgrep grep egrep fgrep git cpio pax")
# Programs that show or send the content of files that they are given, without those that mostly read the
# output of others, as in `diff <(sort a) <(sort b)`.
_SHOWING = word_set(
    "cat tac nl head tail less more bat cut sort uniq od xxd hexdump strings base64 rev fold fmt pr wc column"
) | word_set(
    "sed awk gawk mawk perl grep egrep fgrep zgrep rg jq yq cp dd install split tar zip curl wget nc"
    " scp rsync openssl gpg bash sh source ."
)
# The last letter of an option, or the option, for the directory in which a program starts.
_STARTING_IN = lazy_pattern(r"-\w*[CD]|--(?:chdir|directory|cwd|work-tree|prefix)")
_LINKS_OF_A_PROCESS = lazy_pattern(r"/+proc/+[^/]+/+(cwd|root)(?=/|$)")
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
        yield from _maybe(file for file in files if _mentions(code, file, places))
    if reading.opaque:
        yield from _maybe(file for file in files if _has_part(line, file, places))
    for scene in scenes(reading.invocations, places):
        yield from _named_by(scene, files, resolve)


def _named_by(scene: Scene, files: Collection[str], resolve: Callable[[str], str]) -> Iterator[NamedFile]:
    """Yield the files that one command of a line names, or may read."""
    redirects = [each.target for each in scene.command.redirects]
    runs_file = any("/" in word for word in scene.command.words[:1])
    arguments = scene.command.words if runs_file else scene.arguments
    words = redirects if scene.program in _PRINTING else [*arguments, *redirects]
    reads_below = _reads_directories(scene)
    for word in words:
        for path in _paths(word, scene, scene.here):
            for each in dict.fromkeys((path, resolve(path))):
                yield from _named(each, files, reads_below=reads_below)
        yield from _maybe(_unknown(word, scene, files))
    if scene.program == "sed":  # its scripts have commands that read and write files
        yield from _maybe(
            file for file in files if any(_mentions(word, file, scene.places) for word in words)
        )
    for folder in _starting_folders(scene):
        for path in (path for word in words for path in _paths(word, scene, folder)):
            found = _named(resolve(path), files, reads_below=reads_below)
            yield from _maybe(each.path for each in found)
    if reads_below and scene.program in _SEARCHING and scene.here:
        named = scene.operands()[2 if scene.program == "git" else 1 :]  # after what is searched for
        yield from _named(scene.here, files, reads_below=not named)


def _maybe(files: Iterable[str]) -> Iterator[NamedFile]:
    yield from (NamedFile(file, Certainty.MAYBE) for file in files)


def _named(path: str, files: Collection[str], *, reads_below: bool) -> Iterator[NamedFile]:
    above = path
    while above not in ("/", ""):
        if not MARKS.search(above):
            yield from (NamedFile(file, Certainty.YES) for file in (above,) if file in files)
        else:
            is_meant = MARKS.sub("", posixpath.basename(above)) != ""  # a `*` is not about this file
            certainty = Certainty.YES if is_meant else Certainty.MAYBE
            yield from (NamedFile(file, certainty) for file in files if _matches(above, file))
        above = posixpath.dirname(above)
    if reads_below:
        top = path.rstrip("/")
        depth = top.count("/") + 1
        yield from _maybe(
            file
            for file in files
            if file.count("/") >= depth and _matches(top, "/".join(file.split("/")[:depth]))
        )


def _unknown(word: str, scene: Scene, files: Collection[str]) -> Iterator[str]:
    """Yield the files that a word may mean of which a part is unknown, such as `conf/$x.yml` or `$f`."""
    is_list = any(word.startswith(option) for option in ("--files0-from", "--files-from", "-T"))
    if len(word) > _MAX_WORD_CHARS or not (is_list or ANY in word or SPLIT in word):
        return
    if is_list or is_open(word.replace("/", "")):
        if scene.program in _SHOWING:
            yield from (file for file in files if _may_list(scene, file))
        return
    begins_unknown = MARKS.match(word) is not None or word.startswith("/")
    path = word if begins_unknown else f"{scene.here or ''}/{word}"
    glob = _glob(path)
    yield from (file for file in files if fnmatchcase(file, glob))


def _may_list(scene: Scene, file: str) -> bool:
    """Return whether what a command reads its operands from, such as `find -name`, may list a file."""
    source = scene.command.source
    if source is None or source.program != "find":
        return True
    words = source.words[1:]
    names = [words[at + 1] for at, word in enumerate(words[:-1]) if word in ("-name", "-iname")]
    if len(names) != 1 or not {"-o", "-or", "!", "-not", ","}.isdisjoint(words):
        return True
    name = posixpath.basename(file).casefold()
    return any(fnmatchcase(name, glob.casefold()) for glob in (names[0], _glob(names[0])))


def _starting_folders(scene: Scene) -> Iterator[str]:
    """Yield the directories in which a program starts by its options, as in `env -C conf cat a.yml`."""
    words = scene.command.words
    for at, word in enumerate(words[1:], 1):
        option, equals, value = word.partition("=")
        if _STARTING_IN.fullmatch(option):
            folder = value if equals else "".join(words[at + 1 : at + 2])
            yield from (path for path in scene.paths(folder) if not MARKS.search(path))


def _paths(word: str, scene: Scene, here: str | None) -> Iterator[str]:
    """Yield the paths that a word may mean: as a whole, or behind `=`, `@`, `<`, `:` or a letter."""
    if len(word) > _MAX_WORD_CHARS:
        return
    url = re.sub("^file://(?:localhost(?=/))?", "", word)
    parts = {word, word.partition("=")[2], url, url.partition("/./")[2], *re.split(r"[@<:]", word)}
    if re.match(r"-[A-Za-z][^-=]", word):
        parts.add(word[2:])  # as in `-fconf/a.yml`
    for part in sorted(filter(None, parts)):
        if here:
            part = _LINKS_OF_A_PROCESS.sub(lambda link: here if link[1] == "cwd" else "", part)
        yield from paths_of(part, scene.places, here)


def _matches(path: str, file: str) -> bool:
    """Match a path with the marks of globs, of which none crosses a slash.

    Names are compared one by one, and fnmatch does not backtrack: a line of the model may have any number of
    stars.
    """
    names = file.split("/")
    parts = path.split("/")
    return len(names) == len(parts) and all(
        fnmatchcase(name, _glob(part)) for name, part in zip(names, parts, strict=True)
    )


def _glob(text: str) -> str:
    """Return a glob of fnmatch for text with marks."""
    marks = {STAR: "*", ONE: "?", CLASS: "?", ANY: "*", SPLIT: "*", UNSET: ""}
    pieces = re.split(f"({MARKS.pattern})", text)
    return "".join(marks[piece] if piece in marks else escape(piece) for piece in pieces)


def _reads_directories(scene: Scene) -> bool:
    program = scene.program
    if program == "git":
        return not {"grep", "--no-index"}.isdisjoint(scene.arguments)
    if program in _READING_WITH:
        letters, *names = _READING_WITH[program]
        words = [f"-{name}" for name in names] if program == "find" else []
        return scene.has_flag(letters, *names) or any(word in scene.arguments for word in words)
    return program in _READING_DIRECTORIES


def _mentions(code: str, path: str, places: Places) -> bool:
    """Return whether the code of another language contains the path, relative to the project or absolute."""
    relative = path.removeprefix(f"{places.folder}/")
    return re.search(rf"(?<![\w.-]){re.escape(relative)}(?![\w-])", code) is not None or path in code


def _has_part(line: str, path: str, places: Places) -> bool:
    """Return whether a line contains the name of a file, or of a directory of the project on its path."""
    parts = path.removeprefix(f"{places.folder}/").removeprefix("/").split("/")
    return any(re.search(rf"(?<![\w.-]){re.escape(part)}(?![\w-])", line) for part in parts)
