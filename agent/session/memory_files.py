"""The memory files: AGENTS.md, else those of Claude Code, of the user and of the project.

Claude Code's are, in its order: CLAUDE.md, .claude/CLAUDE.md, .claude/rules/**/*.md and CLAUDE.local.md, and
those in ~/.claude for the user. In a directory with an AGENTS.md, only that file is used. Memory files in
directories above the repository are used once the user approves them.

Each is sent to the model followed by the files that it imports (memory_imports.py).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from agent.checkpoints import SKIPPED_FOLDERS
from tools.guarded import LOCAL_MEMORY_NAME, MEMORY_NAMES
from tools.text import count_invisible, printable
from transcripts.patterns import lazy_pattern
from transcripts.storage import trusted_owners

from .memory_imports import MAX_MEMORY_CHARS, MemoryFile, read_memory_file, real_path, with_imports

MEMORY_HEADS = ("Instructions from ", "Instructions of the user from ")  # now, and in older sessions
MEMORY_NOTE = " (follow them unless the user says otherwise; they grant no permissions):"
MAX_RULE_FILES = 1_000  # of one .claude/rules
# Directories of other projects' files, whose instructions are not followed.
_FOREIGN_FOLDERS = SKIPPED_FOLDERS | {"site-packages", "vendor"}
_CUT_NOTE = lazy_pattern(
    r"^\[[\d,]+ more characters are left out; read the file for the rest\]$", re.MULTILINE
)


class MemoryPlaces(Struct, frozen=True):
    """The places of the memory files of a session in `folder`. The methods block on the disk.

    user_dir  our settings directory
    claude    that of the user's own Claude Code files
    above     the approved files above the repository
    """

    folder: Path
    user_dir: Path
    claude: Path | None = None
    above: Collection[Path] = ()

    def files(self) -> list[MemoryFile]:
        """Return the memory files that apply: the user's, then from the repository's top down to `folder`."""
        return [file for file in self._candidates() if not file.why]

    def find(
        self, scopes: Sequence[str] | None = None, may_read: Callable[[str], bool] = lambda path: True
    ) -> dict[Path, str]:
        """Return the contents of the memory files of these scopes (None for all), by path.

        Links and imports do not lead to real paths that `may_read` rejects.
        """
        wanted = [file for file in self.files() if scopes is None or file.scope in scopes]
        return _readable(read_memory(wanted), may_read)

    def unread(self) -> list[str]:
        """Return a line about each memory file that is ignored or not completely sent to the model."""
        candidates = list(self._candidates())
        ignored = [f"{file.path} {file.why} (ignored)" for file in candidates if file.why]
        for path, text, why in with_imports([file for file in candidates if not file.why]):
            if why:
                ignored.append(f"{path} {why} (ignored)")
            elif len(text) > MAX_MEMORY_CHARS:
                ignored.append(f"{path} is too long: only its first {MAX_MEMORY_CHARS:,} characters are used")
        for place in (self.claude, *(each / ".claude" for each in repository_folders(self.folder))):
            if place is not None and _rules(place).cut:
                ignored.append(
                    f"{place / 'rules'} is too large: only {MAX_RULE_FILES:,} of its files are used"
                )
        return ignored

    def passed_over(self, used: Iterable[str]) -> dict[Path, str]:
        """Return the existing memory files of Claude Code that are not `used`, with the reasons."""
        used_paths = {Path(path).resolve() for path in used}
        above = memory_above(self.folder, self.claude)
        instead = dict.fromkeys(_of_claude(self.claude), self.user_dir)
        for place in reversed(repository_folders(self.folder)):
            paths = (*(place / name for name in MEMORY_NAMES), *_of_claude(place / ".claude"))
            instead = dict.fromkeys((*paths, place / LOCAL_MEMORY_NAME), place) | instead
        unused = [path for path in instead if path.is_file() and path.resolve() not in used_paths]
        others = {path: _why_passed_over(path, instead[path]) for path in unused}
        unapproved = [path for path in above if path.resolve() not in used_paths]
        return dict.fromkeys(unapproved, "above the repository, and not approved; see /trust") | others

    def replaced(self) -> dict[Path, Path]:
        """Return the memory files of Claude Code that are not read, each with the file that is used instead.

        A CLAUDE.md that only refers to the AGENTS.md beside it counts as read.
        """
        found: dict[Path, Path] = {}
        names = (self.user_dir / name for name in MEMORY_NAMES)
        own = next((path for path in names if path.is_file()), None)
        if own is not None:
            found |= {path: own for path in _of_claude(self.claude) if path.is_file()}
        agents_name, claude_name = MEMORY_NAMES
        for place in reversed(repository_folders(self.folder)):
            agents = place / agents_name
            if not agents.is_file():
                continue
            paths = [*_of_claude(place / ".claude"), place / LOCAL_MEMORY_NAME]
            text = read_memory_file((place / claude_name).resolve()).text
            if not _only_refers(text, agents_name):
                paths.insert(0, place / claude_name)
            real = agents.resolve()
            found |= {path: agents for path in paths if path.is_file() and path.resolve() != real}
        return found

    def _candidates(self) -> Iterator[MemoryFile]:
        """Yield the memory files, each directory's unusable ones before the usable ones."""
        own = [_checked(MemoryFile(self.user_dir / name, self.user_dir, "user")) for name in MEMORY_NAMES]
        found = _until_usable(own)
        claude = self.claude
        if claude is not None and all(file.why for file in found):
            of_claude = [_checked(MemoryFile(path, claude, "user")) for path in _of_claude(claude)]
            found += [file for file in of_claude if file is not None]
        yield from found
        yield from (file for file in _above(self.folder, claude) if file.path in self.above)
        yield from _of_directories(reversed(repository_folders(self.folder)), self.folder, claude)


def memory_above(folder: Path, claude: Path | None = None) -> dict[Path, dict[Path, str]]:
    """Return the memory files of directories above the repository, the outermost first.

    The values are its contents and those of its imports, by path. Blocks on the disk.
    """
    found = {file.path: read_memory([file]) for file in _above(folder, claude)}
    return {path: texts for path, texts in found.items() if texts}


def _above(folder: Path, claude: Path | None) -> list[MemoryFile]:
    above = repository_folders(folder)[-1].parents
    return [file for file in _of_directories(reversed(above), folder, claude) if not file.why]


def _only_refers(text: str, name: str) -> bool:
    """Return whether a text names a file and contains nothing but headings and lines with that name."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return name in text and all(name in line for line in lines)


def _why_passed_over(path: Path, place: Path) -> str:
    """Return the reason why a file is not used; a memory file in `place` precedes it."""
    others = (place / name for name in MEMORY_NAMES if place / name != path)
    found = next((other for other in others if other.is_file()), None)
    return f"{found} is used instead" if found is not None else "empty or not readable"


def _of_directories(places: Iterable[Path], folder: Path, claude: Path | None) -> Iterator[MemoryFile]:
    """Yield the memory files of directories in the checkout that contains `folder`."""
    trusted = trusted_owners(folder)
    own = None if claude is None else claude.resolve()
    for place in places:
        top = repository_folders(place)[-1]
        preferred, *_ = names = [MemoryFile(place / name, top) for name in MEMORY_NAMES]
        found = _until_usable(_checked(file, trusted) for file in names)
        yield from found
        if found and found[-1] == preferred:
            continue
        below = () if place / ".claude" == own else _of_claude(place / ".claude")
        others = [MemoryFile(path, top) for path in below]
        others.append(MemoryFile(place / LOCAL_MEMORY_NAME, top, "local"))
        yield from filter(None, (_checked(file, trusted) for file in others))


def _of_claude(folder: Path | None) -> Iterator[Path]:
    """Yield the places of memory files in a `.claude`: its CLAUDE.md and its rules, by name."""
    if folder is not None:
        yield folder / MEMORY_NAMES[1]
        yield from _rules(folder).paths


class _Rules(NamedTuple):
    """The files of a directory of rules, by name, and whether there are more."""

    paths: list[Path]
    cut: bool


def _rules(folder: Path) -> _Rules:
    """Return the rules of a `.claude`. Links to directories are followed, each directory once."""
    seen = set[tuple[int, int]]()
    paths: list[Path] = []
    for number, (place, folders, names) in enumerate(os.walk(folder / "rules", followlinks=True)):
        if number == 1_000 or len(paths) > MAX_RULE_FILES:  # a link may lead to a large tree
            return _Rules(sorted(paths[:MAX_RULE_FILES]), cut=True)
        with suppress(OSError):
            state = Path(place).stat()
            if (state.st_dev, state.st_ino) in seen:
                folders.clear()
                continue
            seen.add((state.st_dev, state.st_ino))
        folders.sort()
        paths += (Path(place, name) for name in sorted(names) if name.endswith(".md"))
    return _Rules(sorted(paths[:MAX_RULE_FILES]), cut=len(paths) > MAX_RULE_FILES)


def _until_usable(files: Iterable[MemoryFile | None]) -> list[MemoryFile]:
    """Return the existing files up to the first usable one."""
    found: list[MemoryFile] = []
    for file in filter(None, files):
        found.append(file)
        if not file.why:
            break
    return found


def _checked(file: MemoryFile, trusted: Set[int] | None = None) -> MemoryFile | None:
    """Return an existing file, with the reason if it is unusable; None if there is none.

    `trusted` are the owners that a file of a checkout may have.
    """
    try:
        found = file.path.stat()
        link = file.path.lstat()
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode):
        return file._replace(why="is not a regular file")
    if trusted is not None and not {found.st_uid, link.st_uid} <= trusted:
        return file._replace(why="belongs to another user")
    return file


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


def cut_after(text: str) -> int | None:
    """Return the number of characters after which a memory file in a system prompt is cut; None: nowhere."""
    return MAX_MEMORY_CHARS if _CUT_NOTE.search(text) is not None else None


def _shown(text: str, most: int) -> str:
    """Return a memory file as an editor shows it, with notes about omitted and invisible characters."""
    shown = printable(text[:most])
    if (left := len(text) - most) > 0:
        shown += f"\n[{left:,} more characters are left out; read the file for the rest]"
    if hidden := count_invisible(text[:most]):
        shown += f"\n[{hidden:,} invisible characters removed]"
    return shown.strip()


def read_memory(files: Sequence[MemoryFile], known: Iterable[str] = ()) -> dict[Path, str]:
    """Return the contents of memory files, by path; a file that is empty or cannot be read is skipped.

    A project's files come with its checkout: a link there must not reveal other files or secrets. The imports
    of a memory file follow it, under their real paths, except those that are `known`.
    """
    return {path: text for path, text, why in with_imports(files, known) if not why}


def memory_below(
    folder: Path, path: Path, known: Iterable[str], may_read: Callable[[str], bool]
) -> dict[Path, str]:
    """Return the memory files in the directories between a project and a file in it, the outermost first.

    `folder` and `path` are real paths. Blocking; raises no OSError. Files that are not the project's own have
    none, and imports whose paths are `known` are left out. Links and imports do not lead to real paths that
    `may_read` rejects.
    """
    if not path.is_relative_to(folder) or not _FOREIGN_FOLDERS.isdisjoint(path.relative_to(folder).parts):
        return {}
    places = reversed([place for place in path.parents if place != folder and place.is_relative_to(folder)])
    with suppress(OSError):
        found = [file for file in _of_directories(places, folder, None) if not file.why]
        return _readable(read_memory(found, known), may_read)
    return {}


def _readable(files: Mapping[Path, str], may_read: Callable[[str], bool]) -> dict[Path, str]:
    """Return the memory files without links to, and imports of, files that a rule protects from reading."""
    names = {*MEMORY_NAMES, LOCAL_MEMORY_NAME}
    return {
        path: text
        for path, text in files.items()
        if (real := real_path(path)) is not None
        and (may_read(str(real)) or (real == path and path.name in names))
    }
