"""Turn what the model wrote as a path into the one real path that is judged, shown and opened.

`canonical_path` resolves links and dots itself, so that the permission rules see where a call would really
act; opening.py then opens exactly that path and follows no link on the way.
"""

# A Path would drop the dots and slashes that have to be judged.
# ruff: noqa: PTH111, PTH112, PTH113, PTH115, PTH118, PTH120, PTH122

from __future__ import annotations

import os
import re
import unicodedata
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from time import monotonic

from tools.text import escaped, has_surrogate
from transcripts.patterns import lazy_pattern

from .errors import FileError
from .project_files import list_project
from .workspace import Workspace

_MAX_PATH_BYTES = 4_095  # PATH_MAX of Linux without its NUL
MAX_LINKS = 40  # followed in one path before it counts as a loop, as in Linux
_MAX_SIBLINGS = 5_000  # names of a folder among which a similar one is sought
_MIN_NAME_LIKENESS = 0.7  # of names without their endings, as difflib counts
_LOOK_LIMIT_S = 0.15  # for files of the same name elsewhere in the project; it keeps the screen waiting
_NOT_OF_PATH = lazy_pattern(r"(?::\d+(?:[:-]\d+)?|#L\d+(?:-L?\d+)?)?[\s'\"]*\Z")  # a.py:12, a.py#L3, a blank
_GUESSED_NAMES = lazy_pattern(r"|__init__\.py|index\.\w+|README.*", re.IGNORECASE)  # there are many of them
_MAGIC_LINK = lazy_pattern(r"/proc/\d+(?:/task/\d+)?/(?:fd|map_files|ns)/")
_LOOKALIKES = str.maketrans("\u202f\u00a0\u2009\u2018\u2019\u201c\u201d\u2013\u2014", "   ''\"\"--")


def check_project(context: Workspace) -> None:
    """Check that the project's directory was not moved or removed. Raises FileError."""
    if not context.folder.is_dir():
        raise FileError(f"The project's folder {context.folder} is gone.\nThe person has to bring it back.")


def resolve_path(context: Workspace, text: str, new: bool = False) -> str:
    """The canonical path of a text, relative to the session's current folder. Nothing need exist there.

    Unless `new`, a name that does not exist is sought in the project's folder (results name files so), then
    under a lookalike. `@src/a.py`, as people mention
    files, is src/a.py. Raises FileError.
    """
    path = expanded_path(text, context)
    if not path.startswith("/"):
        if not context.cwd.is_dir():
            check_project(context)
            raise FileError(
                f"The current folder {one_line_path(context.cwd)} is gone.\n"
                f"Give an absolute path; the project is {context.folder}."
            )
        first = path.split("/", 1)[0]
        if path.startswith("@") and len(path) > 1 and not os.path.lexists(context.cwd / first):
            path = path[1:]
            path = expanded_path(path, context) if path.startswith("~") else path
        path = path if path.startswith("/") else _beside(path, context, new)
    if not new and not os.path.lexists(path):
        path = _lookalike(path) or path
    return canonical_path(path)


def _beside(path: str, context: Workspace, new: bool) -> str:
    """A relative path from the current folder, or from the project's where only that has it."""
    here = f"{context.cwd}/{path}"
    if new or context.cwd == context.folder or os.path.lexists(here):
        return here
    there = f"{context.folder}/{path}"
    return there if os.path.lexists(there) else here


def expanded_path(text: str, context: Workspace | None = None) -> str:
    """`~` at the start is expanded; the rest is literal. Raises FileError for what no path can hold."""
    if not text.strip():
        raise FileError("The path is empty.\nGive the path of a file.")
    if "\0" in text:
        raise FileError("The path holds a NUL byte, which no file name can.\nGive it without.")
    if text.startswith(("https://", "http://")):
        raise FileError(
            f"{one_line_path(text)} is an address, not a path.\n"
            "Read it with bash and curl; the person may be asked to let the host through."
        )
    text = text.removeprefix("file://") if text.startswith("file:///") else text
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError:
        raise FileError("The path holds half a character (a lone surrogate).\nGive it without.") from None
    if size > _MAX_PATH_BYTES:
        raise FileError(
            f"The path is too long: {size:,} bytes, at most {_MAX_PATH_BYTES:,} are possible.\n"
            "Give a shorter one."
        )
    home = context.environ.get("HOME") if context is not None else None
    if home and (text == "~" or text.startswith("~/")):
        return home + text[1:]
    return os.path.expanduser(text)


def canonical_path(path: str) -> str:
    """The path without links, dots and double slashes; parts that do not exist are taken as they are.

    Raises FileError for loops, and for the magic links of /proc, which stand for open files, not for paths.
    """
    *links, real = links_on_way(path)
    magic = next(filter(_MAGIC_LINK.match, links), None)
    if magic is not None:
        raise FileError(
            f"{one_line_path(path)} is the open file of a process, not a file on disk.\n"
            "Give the file's own path."
        )
    if len(links) > MAX_LINKS:
        raise FileError(f"{one_line_path(path)}: its links lead in a circle.\nGive another path.")
    return real


def links_on_way(path: str) -> list[str]:
    """The links that an absolute path leads through, and last what it leads to: parts that do not exist are
    taken as they are. At most MAX_LINKS and one more, as there are circles.
    """
    parts = path.split("/")[::-1]
    found = list[str]()
    done = "/"
    while parts and len(found) <= MAX_LINKS:
        part = parts.pop()
        if part in ("", ".", ".."):
            done = os.path.dirname(done) if part == ".." else done
            continue
        step = os.path.join(done, part)
        try:
            link = os.readlink(step)
        except OSError:
            done = step
            continue
        found.append(step)
        done = "/" if link.startswith("/") else done
        parts.extend(link.split("/")[::-1])
    return [*found, done]


def is_inside(path: str, folder: str) -> bool:
    """Return whether a canonical path is the folder or below it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def one_line_path(path: str | Path, folder: str | Path | None = None) -> str:
    """The path on one line with nothing a terminal obeys, relative to `folder` where it is inside."""
    text = str(path)
    if folder is not None and is_inside(text, str(folder)) and text != str(folder):
        text = text[len(str(folder).rstrip("/")) + 1 :]
    return escaped(text, keep="")


def _lookalike(path: str) -> str | None:
    """The one existing path that looks the same: accents composed otherwise, odd spaces, curly quotes.

    So does a name that holds a new line or the like, and its spelling in results.
    """
    folder, name = os.path.split(path.rstrip("/"))
    if not name:
        return None
    if not os.path.isdir(folder):
        found = _lookalike(folder) if folder not in ("", "/") else None
        if found is None:
            return None
        folder = found
        if os.path.lexists(f"{folder}/{name}"):
            return f"{folder}/{name}"
    same = [each for each in _names_in(folder) if _appearance(each) == _appearance(name)]
    return os.path.join(folder, same[0]) if len(same) == 1 else None


def _appearance(name: str) -> str:
    return unicodedata.normalize("NFC", escaped(name, keep="").translate(_LOOKALIKES))


def suggestions(path: str, root: Path) -> list[str]:
    """Return at most three existing paths that may have been meant by one that does not exist."""
    folder, name = os.path.split(_NOT_OF_PATH.sub("", path))
    name = name.lstrip("'\"")
    by_stem: dict[str, list[str]] = {}  # compared without their endings: alike endings say nothing
    for each in _names_in(folder):
        by_stem.setdefault(_stem(each), []).append(each)
    stems = get_close_matches(_stem(name), by_stem, 3, _MIN_NAME_LIKENESS)
    near = [each for stem in stems for each in _by_ending(by_stem[stem], name)[:2]]
    found = [os.path.join(folder, each) for each in near]
    parts = path.split("/")
    for drop in range(len(parts) - 1, 0, -1):  # the same file with a folder too many
        guess = os.path.join(root, *parts[drop:])
        if guess != path and os.path.isfile(guess):
            found.append(guess)
    exact = [each for each in found if each.rpartition("/")[2].casefold() == name.casefold()]
    elsewhere = [] if exact or _GUESSED_NAMES.fullmatch(name) else _named_alike(root, name)
    return list(dict.fromkeys((*exact, *elsewhere, *found)))[:3]


def _by_ending(names: list[str], wanted: str) -> list[str]:
    """The names of one stem, first those with the ending of the wanted one."""
    ending = os.path.splitext(wanted.casefold())[1]
    return sorted(names, key=lambda name: os.path.splitext(name.casefold())[1] != ending)


def _named_alike(root: Path, name: str) -> list[str]:
    """The files of that name anywhere in a project, as far as a short look finds them."""
    until = monotonic() + _LOOK_LIMIT_S
    names = list_project(root, lambda: monotonic() > until)
    same = (each for each in names if each.rpartition("/")[2].casefold() == name.casefold())
    return [os.path.join(root, each) for each in islice(same, 3)]


def _stem(name: str) -> str:
    return os.path.splitext(name.casefold())[0]


def _names_in(folder: str) -> list[str]:
    try:
        with os.scandir(folder or ".") as entries:
            return [entry.name for entry in islice(entries, _MAX_SIBLINGS) if not has_surrogate(entry.name)]
    except OSError:
        return []
