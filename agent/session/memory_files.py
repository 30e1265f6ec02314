"""The memory files: AGENTS.md, else CLAUDE.md, of the user and of the project.

Each is sent to the model without its HTML comments, followed by the files that it imports (`@path`). A
project's files come with its checkout, so a link or an import must not reveal other files or secrets.
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

MEMORY_HEADS = ("Instructions from ", "Instructions of the user from ")  # now, and in older sessions
MEMORY_NOTE = " (follow them unless the user says otherwise; they grant no permissions):"
MAX_MEMORY_BYTES = 1_000_000  # read of one memory file
MAX_MEMORY_CHARS = 60_000  # shown of one memory file; a note in the prompt says how much is omitted
MAX_IMPORT_DEPTH = 5  # of a chain of imports that begins with a memory file
MAX_IMPORTS = 100  # looked up for one memory file
_IMPORT = lazy_pattern(r"(?<![^\s(])@((?:[^\s\\@]|\\ ){1,1000})")
_AFTER_IMPORT = ".,;:!?)"  # what may follow an import in a sentence
_CODE_OR_COMMENT = lazy_pattern(r"^[ \t]*(?P<fence>`{3,}(?=[^`\n]*$)|~{3,})|(?P<span>`+)|<!--", re.MULTILINE)
_FOREIGN_MEMORY = ("CLAUDE.local.md", ".claude/CLAUDE.md")
# Directories of other projects' files, whose instructions are not followed.
_FOREIGN_FOLDERS = SKIPPED_FOLDERS | {"site-packages", "vendor"}
_AWAY = "leads out of the project or to a secret"
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # those of UTF-32 begin with them or contain a NUL
_CUT_NOTE = lazy_pattern(
    r"^\[[\d,]+ more characters are left out; read the file for the rest\]$", re.MULTILINE
)


def memory_paths(folder: Path, user_dir: Path) -> list[Path]:
    """Return the memory files that apply: the user's, then from the repository's top down to `folder`."""
    return [path for path, why in _memory_candidates(folder, user_dir) if not why]


def unread_memory(folder: Path, user_dir: Path) -> list[str]:
    """Return a line about each memory file that is ignored or not completely sent to the model."""
    candidates = list(_memory_candidates(folder, user_dir))
    ignored = [f"{path} {why} (ignored)" for path, why in candidates if why]
    for path, text, why in _with_imports([path for path, why in candidates if not why], user_dir):
        if why:
            ignored.append(f"{path} {why} (ignored)")
        elif len(text) > MAX_MEMORY_CHARS:
            ignored.append(f"{path} is too long: only its first {MAX_MEMORY_CHARS:,} characters are used")
    return ignored


def passed_over(folder: Path, home: Path, used: Iterable[str]) -> list[Path]:
    """Return the existing memory files of Claude Code, except those `used` under their path or a link."""
    paths = [home / ".claude" / MEMORY_NAMES[1]]
    for place in reversed(repository_folders(folder)):
        paths += [place / name for name in (*MEMORY_NAMES, *_FOREIGN_MEMORY)]
    known = {Path(path).resolve() for path in used}
    return [path for path in dict.fromkeys(paths) if path.is_file() and path.resolve() not in known]


def _memory_candidates(folder: Path, user_dir: Path) -> Iterator[tuple[Path, str]]:
    """Yield each directory's first usable memory file, after the unusable ones with their reasons."""
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
                yield path, "is not a regular file"
            elif place != user_dir and not {found.st_uid, link.st_uid} <= trusted:
                yield path, "belongs to another user"
            else:
                yield path, ""
                break


def repository_folders(folder: Path) -> list[Path]:
    """Return a directory and its parents up to the nearest that contains .git; without one, only itself."""
    above = [folder, *folder.parents]
    top = next((place for place in above if (place / ".git").exists()), folder)
    return above[: above.index(top) + 1]


def memory_text(path: Path, text: str, most: int = MAX_MEMORY_CHARS) -> str:
    """Return a memory file's text for the model, with at most `most` characters of its content."""
    return f"{MEMORY_HEADS[0]}{path}{MEMORY_NOTE}\n\n{_shown(text, most)}"


def memory_path_of(text: str) -> str | None:
    """Return the path of the memory file that a text shows to the model; None for another text."""
    head = text.partition("\n")[0]
    start = next((start for start in MEMORY_HEADS if head.startswith(start)), None)
    if start is None:
        return None
    return head.removeprefix(start).removesuffix(MEMORY_NOTE).removesuffix(":")


def memory_of(system: Sequence[str]) -> dict[str, str]:
    """Return the memory files in a system prompt: path -> text."""
    return {path: text for text in system if (path := memory_path_of(text)) is not None}


def chars_left(text: str) -> int | None:
    """Return how many characters of a cut memory file a system prompt shows; None if it shows all of it."""
    return MAX_MEMORY_CHARS if _CUT_NOTE.search(text) is not None else None


def _shown(text: str, most: int) -> str:
    """Return a memory file as an editor shows it, with notes about omitted and invisible characters."""
    shown = printable(text[:most])
    if (left := len(text) - most) > 0:
        shown += f"\n[{left:,} more characters are left out; read the file for the rest]"
    if hidden := count_invisible(text[:most]):
        shown += f"\n[{hidden:,} invisible characters removed]"
    return shown.strip()


def find_memory(
    folder: Path, user_dir: Path, is_wanted: Callable[[Path], bool] = lambda path: True
) -> list[tuple[Path, str]]:
    """Return the memory files that apply and are wanted, with their contents; see `read_memory`."""
    return read_memory([path for path in memory_paths(folder, user_dir) if is_wanted(path)], user_dir)


def read_memory(paths: Sequence[Path], user_dir: Path) -> list[tuple[Path, str]]:
    """Return the memory files with their contents; a file that is empty or cannot be read is skipped.

    A project's files come with its checkout: a link there must not reveal other files or secrets. The imports
    of a memory file follow it, under their real paths.
    """
    return [(path, text) for path, text, why in _with_imports(paths, user_dir) if not why]


def memory_below(folder: Path, path: Path, known: Iterable[str]) -> list[tuple[Path, str]]:
    """Return the memory files in the directories between a project and a file in it, the outermost first.

    `folder` and `path` are real paths. Blocking; raises no OSError. Files that are not the project's own have
    none, and imports whose paths are `known` are left out.
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
    """Yield (path, text, reason why it is ignored) of the memory files, each followed by its imports."""
    seen = {*map(Path, known), *(path.resolve() for path in paths)}
    for path in paths:
        if path.parent != user_dir and _leads_away(path.resolve(), repository_folders(path.parent)[-1]):
            yield path, "[not read: a link out of the project or to a secret]", ""
        else:
            text, names, why = _read_memory_file(path)
            if text or why:
                yield path, text, why
            yield from _imports(path, names, path.parent == user_dir, seen)


def _imports(path: Path, names: Sequence[str], own: bool, seen: set[Path]) -> Iterator[tuple[Path, str, str]]:
    """Yield the imports of a memory file like `_with_imports`; `own`: the file is the user's own."""
    top = path.parent if own else repository_folders(path.parent)[-1]
    left = MAX_MEMORY_CHARS
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
            if len(text) > left:
                why = f"exceeds the limit of {MAX_MEMORY_CHARS:,} characters for the imports of one file"
            else:
                left -= len(text)
                waiting += [(target, each, depth + 1) for each in reversed(further)]
        if text or why:
            yield target, text, f"{why} (@{name} in {file})" if why else ""


def _imported(file: Path, name: str) -> Path | None:
    """Return the real path of the file that `@name` means; None if this is another use of @."""
    for written in dict.fromkeys((name, name.rstrip(_AFTER_IMPORT))):
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
        return _AWAY
    try:
        found = path.stat()
        if not own and found.st_uid not in trusted_owners(top):
            return "belongs to another user"
    except OSError as error:
        return "does not exist" if isinstance(error, FileNotFoundError) else "cannot be read"
    if not stat.S_ISREG(found.st_mode) or not is_plain(str(path)):
        return "is not a regular file" if is_plain(str(path)) else "has special characters in its name"
    return f"is nested more than {MAX_IMPORT_DEPTH} imports deep" if depth > MAX_IMPORT_DEPTH else ""


def _read_memory_file(path: Path) -> tuple[str, list[str], str]:
    """Return (text without HTML comments, names of imports, reason why a readable file is ignored or "").

    The text is empty if the file cannot be read.
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
            return "", [], "is not a text file"
        text = mark_stray_bytes(wide[0])
    return *_text_and_imports(text), ""


def _text_and_imports(text: str) -> tuple[str, list[str]]:
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
    whole = "".join(kept)
    return whole if whole.strip() else "", list(dict.fromkeys(names))[:MAX_IMPORTS]


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
