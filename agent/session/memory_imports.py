"""Read memory files: their text without HTML comments, and the files that they import (`@path`).

A project's files come with its checkout, so a link or an import must not reveal other files or secrets.
"""

from __future__ import annotations

import codecs
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

from tools.files import FileError, is_inside, opened_file
from tools.guarded import is_protected
from tools.text import decode_text, is_plain, mark_stray_bytes
from transcripts.patterns import lazy_pattern
from transcripts.storage import trusted_owners
from transcripts.wording import cause_of

MAX_MEMORY_CHARS = 60_000  # shown of one memory file; a note in the prompt says how much is omitted
MAX_MEMORY_BYTES = 1_000_000  # read of one memory file
MAX_IMPORT_DEPTH = 5  # of a chain of imports that begins with a memory file
MAX_IMPORTS = 100  # looked up for one memory file
_IMPORT = lazy_pattern(r"(?<![^\s(])@((?:[^\s\\@]|\\ ){1,1000})")
_CODE_OR_COMMENT = lazy_pattern(r"^[ \t]*(?P<fence>`{3,}(?=[^`\n]*$)|~{3,})|(?P<span>`+)|<!--", re.MULTILINE)
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # those of UTF-32 begin with them or contain a NUL


class MemoryFile(NamedTuple):
    """A memory file that applies, unless there is a reason `why` it is ignored.

    top    the directory that its imports may not leave
    scope  the setting source that it belongs to
    """

    path: Path
    top: Path
    scope: Literal["user", "project", "local"] = "project"
    why: str = ""


class _ReadFile(NamedTuple):
    """A memory file or an import of one, and the reason `why` it is ignored, if it is."""

    path: Path
    text: str
    why: str = ""


def with_imports(files: Sequence[MemoryFile], known: Iterable[str] = ()) -> Iterator[_ReadFile]:
    """Yield the memory files, each followed by its imports."""
    places = {file.path: real_path(file.path) for file in files}
    seen = {*map(Path, known), *filter(None, places.values())}
    for file in files:
        real = places[file.path]
        if real is None:
            continue
        if file.scope != "user" and _leads_away(real, file.top):
            yield _ReadFile(file.path, "[not read: a link out of the project or to a secret]")
        else:
            text, names, why = read_memory_file(real)
            if text or why:
                yield _ReadFile(file.path, text, why)
            yield from _imports(file, names, seen)


def real_path(path: Path) -> Path | None:
    """Return the real path; None if a link on the way is replaced in the meantime."""
    with suppress(OSError):
        return path.resolve()
    return None


def _imports(memory: MemoryFile, names: Sequence[str], seen: set[Path]) -> Iterator[_ReadFile]:
    """Yield the imports of a memory file."""
    left = MAX_MEMORY_CHARS
    waiting = [(memory.path, name, 1) for name in reversed(names)]
    for _ in range(MAX_IMPORTS):
        if not waiting:
            return
        file, name, depth = waiting.pop()
        target = _imported(file, name)
        if target is None or target in seen:
            continue
        seen.add(target)
        why = _why_not_imported(target, memory.top, memory.scope == "user", depth)
        text = ""
        if not why:
            text, further, why = read_memory_file(target)
            if len(text) > left:
                why = f"exceeds the limit of {MAX_MEMORY_CHARS:,} characters for the imports of one file"
            else:
                left -= len(text)
                waiting += [(target, each, depth + 1) for each in reversed(further)]
        if text or why:
            yield _ReadFile(target, text, f"{why} (@{name} in {file})" if why else "")


def _imported(file: Path, name: str) -> Path | None:
    """Return the real path of the file that `@name` means; None if this is another use of @."""
    for written in dict.fromkeys((name, name.rstrip(".,;:!?)"))):
        with suppress(OSError, ValueError, RuntimeError):
            path = (file.parent / Path(written.replace("\\ ", " ")).expanduser()).resolve()
            if not path.is_dir() and (path.exists() or written.endswith(".md")):
                return path
    return None


def _why_not_imported(path: Path, top: Path, own: bool, depth: int) -> str:
    """Return the reason why a memory file may not import `path`, "" if it may.

    With `own` the memory file is the user's own, otherwise it belongs to the repository `top`.
    """
    real = top.resolve()
    if own and (not is_inside(str(path), str(real)) or path.suffix != ".md"):  # our settings are there, too
        return f"is not a .md file in {top}"
    if not own and _leads_away(path, real):
        return "leads out of the project or to a secret"
    try:
        found = path.stat()
        if not own and found.st_uid not in trusted_owners(top):
            return "belongs to another user"
    except OSError as error:
        return "does not exist" if isinstance(error, FileNotFoundError) else "cannot be read"
    if not stat.S_ISREG(found.st_mode) or not is_plain(str(path)):
        return "is not a regular file" if is_plain(str(path)) else "has special characters in its name"
    return f"is nested more than {MAX_IMPORT_DEPTH} imports deep" if depth > MAX_IMPORT_DEPTH else ""


class _MemoryText(NamedTuple):
    """The text of a file without HTML comments, the names of its imports, and why it is ignored or ""."""

    text: str = ""
    imports: Sequence[str] = ()
    why: str = ""


def read_memory_file(path: Path) -> _MemoryText:
    """Read the file at a real path.

    The text is empty, without a reason, if there is no such file or a link was put into the path.
    """
    try:
        with opened_file(str(path)) as (descriptor, _), open(descriptor, "rb", closefd=False) as file:
            data = file.read(MAX_MEMORY_BYTES)
    except (FileNotFoundError, NotADirectoryError, FileError):
        return _MemoryText()
    except OSError as error:
        return _MemoryText(why=f"cannot be read: {cause_of(error)}")
    text = data.decode("utf-8-sig", "replace")
    if "\0" in text or data.startswith(_UTF16_MARKS):
        wide = decode_text(data)
        if wide is None or "\0" in wide[0]:
            return _MemoryText(why="is not a text file")
        text = mark_stray_bytes(wide[0])
    return _text_and_imports(text)


def _text_and_imports(text: str) -> _MemoryText:
    """Return a text without its HTML comments, and the names of its imports. Code is kept unchanged."""
    kept = list[str]()
    prose = list[str]()
    at = 0
    while mark := _CODE_OR_COMMENT.search(text, at):
        start, inner = mark.span()
        is_comment = not mark["fence"] and not mark["span"]
        end = _end_of(text, mark, inner)
        if end < 0:
            break
        prose += (text[at:start], "`")
        kept.append(text[at : start if is_comment else end])
        if is_comment and text[start - 1 : start] in ("", "\n") and text.startswith("\n", end):
            end += 1
        at = end
    kept.append(text[at:])
    prose.append(text[at:])
    names = [found[1] for found in _IMPORT.finditer("".join(prose))]
    content = "".join(kept)
    return _MemoryText(content if content.strip() else "", list(dict.fromkeys(names))[:MAX_IMPORTS])


def _end_of(text: str, mark: re.Match[str], inner: int) -> int:
    """Return the end of the code or comment that begins with `mark`; -1 for a comment without an end."""
    if mark["fence"]:
        closing = re.compile(rf"^[ \t]*{mark['fence']}", re.MULTILINE).search(text, inner)
        return closing.end() if closing else len(text)
    if mark["span"]:
        line_end = text.find("\n", inner)
        end = text.find(mark["span"], inner, line_end if line_end >= 0 else len(text))
        return end + len(mark["span"]) if end >= 0 else inner
    end = text.find("-->", inner)
    return end + len("-->") if end >= 0 else -1


def _leads_away(real: Path, top: Path) -> bool:
    """Return whether a real path leads out of the repository, or to a secret."""
    return is_protected(str(real), "read") or not is_inside(str(real), str(top))
