"""The memory files: AGENTS.md, else CLAUDE.md, of the user and of the project.

Each is followed by the files that it imports (`@path`) and shown without its HTML comments. A project's files
come with its checkout, so that a link or an import must not reveal other files or secrets.
"""

from __future__ import annotations

import codecs
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from agent.checkpoints import SKIPPED_FOLDERS
from tools.files import is_inside
from tools.guarded import MEMORY_NAMES, is_protected
from tools.text import count_invisible, decode_text, is_plain, mark_stray_bytes, printable
from transcripts.patterns import lazy_pattern
from transcripts.storage import opened_regular, trusted_owners

MEMORY_HEAD = "Instructions of the user from "
MAX_MEMORY_BYTES = 1_000_000  # read of one memory file
MAX_MEMORY_CHARS = 60_000  # shown of one memory file; the prompt says how much is left out
MAX_IMPORT_DEPTH = 5  # of files, one imported by the other, from a memory file on
MAX_IMPORTS = 100  # that are looked up for one memory file
_IMPORT = lazy_pattern(r"(?<![^\s(])@((?:[^\s\\@]|\\ ){1,1000})")
_AFTER_IMPORT = ".,;:!?)"  # what may follow an import in a sentence
_CODE_OR_COMMENT = lazy_pattern(r"^[ \t]*(?P<fence>`{3,}(?=[^`\n]*$)|~{3,})|(?P<span>`+)|<!--", re.MULTILINE)
_FOREIGN_MEMORY = ("CLAUDE.local.md", ".claude/CLAUDE.md")
# Of what others wrote: its instructions are not followed.
_FOREIGN_FOLDERS = SKIPPED_FOLDERS | {"site-packages", "vendor"}
_AWAY = "leads out of the project or to a secret"
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # those of UTF-32 begin with them, or hold a NUL
_CUT_NOTE = lazy_pattern(
    r"^\[[\d,]+ more characters are left out; read the file for the rest\]$", re.MULTILINE
)


def memory_paths(folder: Path, user_dir: Path) -> list[Path]:
    """The memory files that apply: the user's, then from the top of the repository down to the folder."""
    return [path for path, why in _memory_candidates(folder, user_dir) if not why]


def unread_memory(folder: Path, user_dir: Path) -> list[str]:
    """A line about each file with the name of a memory file that is not followed, or not shown whole."""
    candidates = list(_memory_candidates(folder, user_dir))
    ignored = [f"{path} {why}: it is not read" for path, why in candidates if why]
    for path, text, why in _with_imports([path for path, why in candidates if not why], user_dir):
        if why:
            ignored.append(f"{path} {why}: it is not read")
        elif len(text) > MAX_MEMORY_CHARS:
            ignored.append(
                f"{path} has more than {MAX_MEMORY_CHARS:,} characters: the model is shown those alone"
            )
    return ignored


def passed_over(folder: Path, home: Path, used: Iterable[str]) -> list[Path]:
    """The memory files of Claude Code that are there, but for those `used` by their path or behind a link."""
    paths = [home / ".claude" / MEMORY_NAMES[1]]
    for place in reversed(repository_folders(folder)):
        paths += [place / name for name in (*MEMORY_NAMES, *_FOREIGN_MEMORY)]
    known = {Path(path).resolve() for path in used}
    return [path for path in dict.fromkeys(paths) if path.is_file() and path.resolve() not in known]


def _memory_candidates(folder: Path, user_dir: Path) -> Iterator[tuple[Path, str]]:
    """The memory files, of each place the first that can be used, and why those before it cannot."""
    return _candidates_in((user_dir, *reversed(repository_folders(folder))), folder, user_dir)


def _candidates_in(places: Iterable[Path], folder: Path, user_dir: Path | None) -> Iterator[tuple[Path, str]]:
    trusted = trusted_owners(folder)
    for place in places:
        for path in (place / name for name in MEMORY_NAMES):
            try:
                found = path.stat()
                link = path.lstat()
            except OSError:
                continue
            if not stat.S_ISREG(found.st_mode):
                yield path, "is no regular file"
            elif place != user_dir and not {found.st_uid, link.st_uid} <= trusted:
                yield path, "belongs to another user"
            else:
                yield path, ""
                break


def repository_folders(folder: Path) -> list[Path]:
    """The folder and those above it, up to the nearest that holds .git; it alone where none does."""
    above = [folder, *folder.parents]
    top = next((place for place in above if (place / ".git").exists()), folder)
    return above[: above.index(top) + 1]


def memory_text(path: Path, text: str, most: int = MAX_MEMORY_CHARS) -> str:
    """A memory file as the model is shown it, at most so many characters of what it says."""
    return f"{MEMORY_HEAD}{path}:\n\n{_shown(text, most)}"


def memory_path_of(text: str) -> str | None:
    """Return the path of the memory file that a text shows to the model; None for another text."""
    if not text.startswith(MEMORY_HEAD):
        return None
    return text.partition("\n")[0].removeprefix(MEMORY_HEAD).removesuffix(":")


def memory_of(system: Sequence[str]) -> dict[str, str]:
    """The memory files in a system prompt: the text of each by its path."""
    return {path: text for text in system if (path := memory_path_of(text)) is not None}


def chars_left(text: str) -> int | None:
    """Return how much a system prompt shows of a memory file that was cut; None where that is all of it."""
    return MAX_MEMORY_CHARS if _CUT_NOTE.search(text) is not None else None


def _shown(text: str, most: int) -> str:
    """A memory file as an editor would show it, with a note of what an editor would not show."""
    shown = printable(text[:most])
    if (left := len(text) - most) > 0:
        shown += f"\n[{left:,} more characters are left out; read the file for the rest]"
    if hidden := count_invisible(text[:most]):
        shown += f"\n[{hidden:,} invisible characters were taken out]"
    return shown.strip()


def find_memory(
    folder: Path, user_dir: Path, is_wanted: Callable[[Path], bool] = lambda path: True
) -> list[tuple[Path, str]]:
    """The memory files that apply and are wanted, with their contents, as `read_memory` gives them."""
    return read_memory([path for path in memory_paths(folder, user_dir) if is_wanted(path)], user_dir)


def read_memory(paths: Sequence[Path], user_dir: Path) -> list[tuple[Path, str]]:
    """The memory files with their contents; one that cannot be read, or is empty, is skipped.

    A project's files come with its checkout: a link there must not reveal other files or secrets. What a
    memory file imports follows it, under the real paths.
    """
    return [(path, text) for path, text, why in _with_imports(paths, user_dir) if not why]


def memory_below(folder: Path, path: Path, known: Iterable[str]) -> list[tuple[Path, str]]:
    """The memory files of the folders between a project's and a file in it, the outermost first.

    `folder` and `path` are real paths. Blocks on the disk and raises no OSError. None for what is not the
    project's own work, and no import that is `known` by its path.
    """
    if not path.is_relative_to(folder) or not _FOREIGN_FOLDERS.isdisjoint(path.relative_to(folder).parts):
        return []
    places = reversed([place for place in path.parents if place != folder and place.is_relative_to(folder)])
    with suppress(OSError):
        found = [each for each, why in _candidates_in(places, folder, None) if not why]
        return [(each, text) for each, text, why in _with_imports(found, None, known) if not why]
    return []


def _with_imports(
    paths: Sequence[Path], user_dir: Path | None, known: Iterable[str] = ()
) -> Iterator[tuple[Path, str, str]]:
    """(path, text, why it is not read) of the memory files, each followed by what it imports."""
    seen = {*map(Path, known), *(path.resolve() for path in paths)}
    for path in paths:
        if path.parent != user_dir and _leads_away(path.resolve(), repository_folders(path.parent)[-1]):
            yield path, "[a link to another place or to a secret: it was not read]", ""
        else:
            text, names, why = _read_memory_file(path)
            if text or why:
                yield path, text, why
            yield from _imports(path, names, path.parent == user_dir, seen)


def _imports(path: Path, names: Sequence[str], own: bool, seen: set[Path]) -> Iterator[tuple[Path, str, str]]:
    """Return the imports of a memory file with their text, as `_with_imports`; `own`: the file is the user's
    own.
    """
    top = path.parent if own else repository_folders(path.parent)[-1]
    room = MAX_MEMORY_CHARS
    waiting = [(path, name, 1) for name in reversed(names)]
    for _ in range(MAX_IMPORTS):
        if not waiting:
            return
        file, name, depth = waiting.pop()
        target = _imported(file, name)
        if target is None or target in seen:
            continue
        seen.add(target)
        why = _why_not_imported(target, top, own, depth)
        text = ""
        if not why:
            text, further, why = _read_memory_file(target)
            if len(text) > room:
                why = f"is too much: all that one file imports may have {MAX_MEMORY_CHARS:,} characters"
            else:
                room -= len(text)
                waiting += [(target, each, depth + 1) for each in reversed(further)]
        if text or why:
            yield target, text, f"{why} (@{name} in {file})" if why else ""


def _imported(file: Path, name: str) -> Path | None:
    """The real path of the file that `@name` means; None where it means none: people write @ for more."""
    for written in dict.fromkeys((name, name.rstrip(_AFTER_IMPORT))):
        with suppress(OSError, ValueError, RuntimeError):
            path = (file.parent / Path(written.replace("\\ ", " ")).expanduser()).resolve()
            if not path.is_dir() and (path.exists() or written.endswith(".md")):
                return path
    return None


def _why_not_imported(path: Path, top: Path, own: bool, depth: int) -> str:
    """Return the reason why a memory file may not import `path`, "" if it may.

    With `own` the memory file is the user's own, else it belongs to the repository `top`.
    """
    real = top.resolve()
    if own and (not is_inside(str(path), str(real)) or path.suffix != ".md"):  # our settings lie there, too
        return f"is no .md file in {top}"
    if not own and _leads_away(path, real):
        return _AWAY
    try:
        found = path.stat()
        if not own and found.st_uid not in trusted_owners(top):
            return "belongs to another user"
    except OSError as error:
        return "is not there" if isinstance(error, FileNotFoundError) else "cannot be read"
    if not stat.S_ISREG(found.st_mode) or not is_plain(str(path)):
        return "is no regular file" if is_plain(str(path)) else "has no plain name"
    return f"is imported over more than {MAX_IMPORT_DEPTH} files" if depth > MAX_IMPORT_DEPTH else ""


def _read_memory_file(path: Path) -> tuple[str, list[str], str]:
    """The text without HTML comments, what it imports, and why it is not followed although it can be read.

    No text where it cannot be read or is empty.
    """
    try:
        with opened_regular(path) as file:
            data = file.read(MAX_MEMORY_BYTES)
    except OSError:
        return "", [], ""
    text = data.decode("utf-8-sig", "replace")
    if "\0" in text or data.startswith(_UTF16_MARKS):
        wide = decode_text(data)
        if wide is None or "\0" in wide[0]:
            return "", [], "is no text"
        text = mark_stray_bytes(wide[0])
    return *_text_and_imports(text), ""


def _text_and_imports(text: str) -> tuple[str, list[str]]:
    """A text without its HTML comments, and the names behind `@`; code stays whole and imports nothing."""
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
    whole = "".join(kept)
    return whole if whole.strip() else "", list(dict.fromkeys(names))[:MAX_IMPORTS]


def _end_of(text: str, mark: re.Match[str], inner: int) -> int:
    """Return the end of the code or comment that begins with `mark`; -1 for a comment that never ends."""
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
