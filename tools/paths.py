"""Turn what the model wrote as a path into the one real path that is judged, shown and opened.

`canonical` resolves links and dots itself, so that the rules see where a call would really act; files.py
then opens exactly that path and follows no link on the way. Which places are special is in protected.py.
"""

# A Path would drop the dots and slashes that have to be judged.
# ruff: noqa: PTH111, PTH112, PTH113, PTH115, PTH118, PTH120

from __future__ import annotations

import os
import re
import unicodedata
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Literal

from .base import Access, ToolContext, ToolError
from .protected_paths import is_link_to_protected, is_protected
from .truncate import escaped

_LONGEST = 4_095  # bytes; PATH_MAX of Linux without its NUL
_LINKS = 40  # links followed in one path before it counts as a loop, as Linux does
_SIBLINGS = 5_000  # names looked at to find a similar one
_MAGIC = re.compile(r"/proc/\d+(?:/task/\d+)?/(?:fd|map_files|ns)/")
_LOOKALIKE = str.maketrans("\u202f\u00a0\u2009\u2018\u2019\u201c\u201d\u2013\u2014", "   ''\"\"--")


def judge_path(context: ToolContext, text: str, kind: Literal["read", "write"], new: bool = False) -> Access:
    """What using this path would touch. Unless `new`, a missing name is looked for under a lookalike.

    Raises ToolError where the text is no path, or leads in circles.
    """
    real = resolve(context, text, new)
    protected = is_protected(real, kind) or (kind == "write" and _is_ours(context, real))
    if kind == "write" and not protected:
        home = Path(context.environ.get("HOME") or Path.home())
        protected = is_link_to_protected(real, (context.folder, home))
    return Access(kind, real, outside=not is_inside(real, str(context.folder)), protected=protected)


def resolve(context: ToolContext, text: str, new: bool = False) -> str:
    """The canonical path of a text, relative to the session's current folder. Nothing need exist there."""
    path = expand(text, context)
    if not path.startswith("/"):
        path = _beneath(context, path)
    if not new and not os.path.lexists(path):
        path = lookalike(path) or path
    return canonical(path)


def expand(text: str, context: ToolContext | None = None) -> str:
    """`~` at the start, once; everything else is literal. Raises ToolError for what no path can hold."""
    if not text.strip():
        raise ToolError("The path is empty.\nGive the path of a file.")
    if "\0" in text:
        raise ToolError("The path holds a NUL byte, which no file name can.\nGive it without.")
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError:
        raise ToolError("The path holds half a character (a lone surrogate).\nGive it without.") from None
    if size > _LONGEST:
        raise ToolError(
            f"The path is too long: {size:,} bytes, at most {_LONGEST:,} are possible.\nGive a shorter one."
        )
    home = context.environ.get("HOME") if context is not None else None
    if home and (text == "~" or text.startswith("~/")):
        return home + text[1:]
    return os.path.expanduser(text)


def _beneath(context: ToolContext, path: str) -> str:
    """A relative path in the current folder; `@src/a.py`, as people mention files, is src/a.py."""
    if not context.cwd.is_dir():
        raise ToolError(
            f"The current folder {shown(context.cwd)} is gone.\n"
            f"Give an absolute path; the project is {context.folder}."
        )
    first = path.split("/", 1)[0]
    if path.startswith("@") and len(path) > 1 and not os.path.lexists(context.cwd / first):
        path = path[1:]
        if path.startswith(("/", "~")):
            return expand(path, context)
    return f"{context.cwd}/{path}"


def canonical(path: str) -> str:
    """The path without links, dots and double slashes; parts that do not exist are taken as they are.

    Raises ToolError for loops, and for the magic links of /proc, which name no path but an open file.
    """
    parts = path.split("/")[::-1]
    done, links = "/", 0
    while parts:
        part = parts.pop()
        if part in ("", "."):
            continue
        if part == "..":
            done = os.path.dirname(done)
            continue
        step = f"{done}/{part}" if done != "/" else f"/{part}"
        try:
            link = os.readlink(step)
        except OSError:
            done = step
            continue
        links += 1
        if links > _LINKS:
            raise ToolError(f"{shown(path)}: its links lead in a circle.\nGive another path.")
        if _MAGIC.match(step):
            raise ToolError(
                f"{shown(path)} is the open file of a process, not a file on disk.\nGive the file's own path."
            )
        if link.startswith("/"):
            done = "/"
        parts.extend(link.split("/")[::-1])
    return done


def is_inside(path: str, folder: str) -> bool:
    """Whether a canonical path is the folder or below it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def lookalike(path: str) -> str | None:
    """The one existing path that looks the same: other composition of accents, odd spaces, curly quotes."""
    folder, name = os.path.split(path.rstrip("/"))
    if not name:
        return None
    if not os.path.isdir(folder):
        found = lookalike(folder) if folder not in ("", "/") else None
        if found is None:
            return None
        folder = found
        if os.path.lexists(f"{folder}/{name}"):
            return f"{folder}/{name}"
    same = [each for each in _names(folder) if _looks(each) == _looks(name)]
    return os.path.join(folder, same[0]) if len(same) == 1 else None


def suggestions(path: str, root: Path) -> list[str]:
    """At most three existing paths that may have been meant by one that does not exist."""
    folder, name = os.path.split(path)
    found = [os.path.join(folder, each) for each in _similar(name, _names(folder))]
    parts = path.split("/")
    for drop in range(len(parts) - 1, 0, -1):  # the same file with a folder too many or too few
        guess = os.path.join(root, *parts[drop:])
        if guess != path and os.path.isfile(guess):
            found.append(guess)
    return list(dict.fromkeys(found))[:3]


def shown(path: str | Path, folder: str | Path | None = None) -> str:
    """The path on one line with nothing a terminal obeys, relative to `folder` where it is inside."""
    text = str(path)
    if folder is not None and is_inside(text, str(folder)) and text != str(folder):
        text = text[len(str(folder).rstrip("/")) + 1 :]
    return escaped(text, keep="")


def _is_ours(context: ToolContext, real: str) -> bool:
    """The program's own settings, and the outputs it keeps, wherever they were put."""
    settings = context.environ.get("XDG_CONFIG_HOME")
    ours = [str(context.outputs)] + ([canonical(f"{settings}/makeroom")] if settings else [])
    return any(is_inside(real, folder) for folder in ours)


def _similar(name: str, names: list[str]) -> list[str]:
    by_plain: dict[str, str] = {}
    for each in names:
        by_plain.setdefault(each.casefold(), each)
    near = get_close_matches(name.casefold(), by_plain, 3, 0.6)
    stem = name.casefold().rpartition(".")[0] or name.casefold()
    same_stem = [plain for plain in by_plain if (plain.rpartition(".")[0] or plain) == stem]
    return [by_plain[plain] for plain in dict.fromkeys([*same_stem[:2], *near])]


def _names(folder: str) -> list[str]:
    try:
        with os.scandir(folder or ".") as entries:
            return [entry.name for entry in islice(entries, _SIBLINGS)]
    except OSError:
        return []


def _looks(name: str) -> str:
    return unicodedata.normalize("NFC", name.translate(_LOOKALIKE))
