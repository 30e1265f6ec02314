"""Resolve a path written by the model to the one real path that is judged, shown and opened.

`canonical_path` resolves links and dots itself, so that the permission rules judge the real target of a call.
opening.py then opens exactly that path without following links.
"""

# A Path would drop dots and slashes that have to be checked.
# ruff: noqa: PTH111, PTH112, PTH115, PTH118, PTH120

from __future__ import annotations

import os
import unicodedata
from itertools import islice
from pathlib import Path

from tools.text import escaped, has_surrogate, mark_stray_bytes
from transcripts.patterns import lazy_pattern

from .errors import FileError
from .workspace import Workspace

_MAX_PATH_BYTES = 4_095  # PATH_MAX of Linux without its NUL
MAX_LINKS = 40  # followed in one path before it counts as a loop, as in Linux
_MAGIC_LINK = lazy_pattern(r"/proc/\d+(?:/task/\d+)?/(?:fd|map_files|ns)/")
_LOOKALIKES = str.maketrans("\u202f\u00a0\u2009\u2018\u2019\u201c\u201d\u2013\u2014", "   ''\"\"--")


def resolve_path(context: Workspace, text: str, new: bool = False) -> str:
    """Return the canonical path of a text, relative to the project's directory. It need not exist.

    The directory that commands run in does not matter, so that a path has the same meaning in every call.
    Unless `new`, a name that does not exist is looked up under a similar name. `@src/a.py` is src/a.py, as
    files are mentioned in prompts. Raises FileError.
    """
    path = expanded_path(text, context)
    if not path.startswith("/"):
        context.check_folder()
        first = path.split("/", 1)[0]
        if path.startswith("@") and len(path) > 1 and not os.path.lexists(context.folder / first):
            path = path[1:]
            path = expanded_path(path, context) if path.startswith("~") else path
        path = path if path.startswith("/") else f"{context.folder}/{path}"
    if not new and not os.path.lexists(path):
        path = _lookalike(path) or path
    return canonical_path(path)


def expanded_path(text: str, context: Workspace | None = None) -> str:
    """Return the path with a leading `~` expanded. Raises FileError for text that cannot be a path."""
    if not text.strip():
        raise FileError("The path is empty.\nGive the path of a file.")
    if "\0" in text:
        raise FileError("The path contains a NUL byte, which is not allowed in file names.\nRemove it.")
    if text.startswith(("https://", "http://")):
        raise FileError(
            f"{one_line_path(text)} is a URL, not a path.",
            remedy="Fetch it with web_fetch. The user may be asked to allow the host.",
            tools="web_fetch",
        )
    text = text.removeprefix("file://") if text.startswith("file:///") else text
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError:
        raise FileError("The path contains a lone surrogate (half a character).\nRemove it.") from None
    if size > _MAX_PATH_BYTES:
        raise FileError(
            f"The path is too long: {size:,} bytes, at most {_MAX_PATH_BYTES:,}.\nGive a shorter one."
        )
    home = context.environ.get("HOME") if context is not None else None
    if home and (text == "~" or text.startswith("~/")):
        return home + text[1:]
    return os.path.expanduser(text)


def canonical_path(path: str) -> str:
    """Return the path without links, dots and double slashes; parts that do not exist are kept unchanged.

    Raises FileError for loops, and for the magic links of /proc, which represent open files, not paths.
    """
    *links, real = links_on_way(path)
    magic = next(filter(_MAGIC_LINK.match, links), None)
    if magic is not None:
        raise FileError(
            f"{one_line_path(path)} is the open file of a process, not a file on disk.\n"
            "Give the file's own path."
        )
    if len(links) > MAX_LINKS:
        raise FileError(f"{one_line_path(path)}: its symbolic links form a loop.\nGive another path.")
    return real


def path_outside(path: str, folder: str) -> str:
    """Return a search path without relative directories and those in a project, where commands may write.

    For programs that makeroom itself runs outside the sandbox.
    """
    entries = (entry for entry in path.split(":") if entry.startswith("/"))
    return ":".join(entry for entry in entries if not _may_be_inside(entry, folder))


def _may_be_inside(path: str, folder: str) -> bool:
    try:
        return is_inside(canonical_path(path), folder)
    except FileError:
        return True


def links_on_way(path: str) -> list[str]:
    """Return the links that an absolute path leads through, then its target.

    Parts that do not exist are kept unchanged. There are at most MAX_LINKS + 1 paths, since links may form
    loops.
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
    """Return whether a canonical path is the directory or below it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def one_line_path(path: str | Path, folder: str | Path | None = None) -> str:
    """Return the path on one line, safe for a terminal, and relative to `folder` if it is inside."""
    text = str(path)
    if folder is not None and is_inside(text, str(folder)) and text != str(folder):
        text = text[len(str(folder).rstrip("/")) + 1 :]
    return escaped(text, keep="")


def shown_cwd(context: Workspace) -> str:
    """Return the directory of the next command for the model, relative to the project: "." or "src"."""
    inside = context.cwd != context.folder
    return mark_stray_bytes(one_line_path(context.cwd, context.folder)) if inside else "."


def _lookalike(path: str) -> str | None:
    """Return the only existing path that looks the same, None for none or several.

    Accents may be composed differently, spaces be unusual ones, and quotes curly. A name with a newline or
    similar also matches its escaped form in results.
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
    same = [each for each in names_in(folder) if _appearance(each) == _appearance(name)]
    return os.path.join(folder, same[0]) if len(same) == 1 else None


def _appearance(name: str) -> str:
    return unicodedata.normalize("NFC", escaped(name, keep="").translate(_LOOKALIKES))


def names_in(folder: str) -> list[str]:
    """Return the names in a directory, at most as many as are quickly compared; [] if it cannot be read."""
    try:
        with os.scandir(folder or ".") as entries:
            return [entry.name for entry in islice(entries, 5_000) if not has_surrogate(entry.name)]
    except OSError:
        return []
