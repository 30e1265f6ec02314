"""List the files of a project, for people and for searches, without git: that runs what the project names.

Folders that hold no work are left out, and what .gitignore files, .git/info/exclude and the person's own
patterns name, read as git reads them. What is tracked although it is ignored is left out too.
"""

from __future__ import annotations

import os
import re
import stat
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from tools.truncate import is_plain
from transcripts.disk import opened_fd

from .regex_search import NAMED_SETS
from .text_encoding import word_set

IGNORE_FILE = ".gitignore"
MAX_LISTED_FILES = 150_000
MAX_SEEN_ENTRIES = 400_000  # looked at, ignored ones too
MAX_IGNORE_BYTES = 65_536  # read of one file of patterns
MAX_IGNORE_PATTERNS = 1_000  # of one file
MAX_GLOB_ALTERNATIVES = 200  # that the braces of one pattern stand for
_IDLE_FOLDERS = word_set(
    ".git .hg .svn .jj node_modules __pycache__ .venv .tox .nox .mypy_cache .pytest_cache .ruff_cache"
    " .hypothesis .gradle .terraform .direnv .transcripts .task_outputs"
)
_EXCLUDES_FILE = re.compile(
    r"^[ \t]*\[core\][^\[]*?^[ \t]*excludesfile[ \t]*=[ \t]*([^\n#;]+?)[ \t]*$", re.IGNORECASE | re.MULTILINE
)
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")  # the innermost ones
_SET_MEMBER = r"(?>\[:[^\]]{0,30}:\]|(?:\\.|[^\\\]])(?:-(?:\\.|[^\\\]]))?)"  # `[:alpha:]`, `a-z` or `a`
_GLOB_PART = re.compile(  # stars, a set of characters, `?`, or one character, maybe behind a backslash
    rf"(?s:(\*+)|\[([!^]?)(\](?:-(?:\\.|[^\\\]]))?(?:{_SET_MEMBER})*|(?:{_SET_MEMBER})+)\]|(\?)|\\(.)|(.))"
)
_NOTHING = "(?!)"  # fits no name


@dataclass(frozen=True, slots=True)
class IgnoreRule:
    """Patterns of one kind that stand together in a file.

    kept      they take back what was ignored before
    folders   they name folders alone
    name      matches the last part of a path; None where the patterns have a slash
    parts     one pattern for each part of the path, None for `**`
    """

    kept: bool
    folders: bool
    name: re.Pattern[str] | None = None
    parts: tuple[re.Pattern[str] | None, ...] = ()

    def matches(self, path: Sequence[str], is_folder: bool) -> bool:
        if self.folders and not is_folder:
            return False
        return bool(self.name.match(path[-1])) if self.name else _fits(self.parts, path)


@dataclass(frozen=True, slots=True)
class IgnoreFile:
    """The rules of one file; `depth` is how many parts the path of its folder has."""

    depth: int
    rules: tuple[IgnoreRule, ...]

    def verdict(self, path: Sequence[str], is_folder: bool) -> bool | None:
        """Whether the path is ignored; None where no rule is about it. The last rule counts."""
        below = path[self.depth :]
        found = next((rule for rule in reversed(self.rules) if rule.matches(below, is_folder)), None)
        return None if found is None else not found.kept


def list_project(folder: Path, stopped: Callable[[], bool] = lambda: False) -> list[str]:
    """The files below a real folder and the folders that hold them, shallow ones first, folders with a slash.

    Links are listed, not followed. Names with characters that cannot be seen are left out. Blocks on the
    disk until it is done, has found MAX_LISTED_FILES, or `stopped` says so.
    """
    seen = (name for name, _ in _walk(folder, stopped) if is_plain(name))
    names = list(islice(seen, MAX_LISTED_FILES))
    folders = {f"{parent}/" for name in names for parent in _folders_above(name)}
    by_depth = sorted([*folders, *names], key=lambda name: (name.rstrip("/").count("/"), name))
    return by_depth[:MAX_LISTED_FILES]


def regular_files(
    folder: Path, stopped: Callable[[], bool] = lambda: False, kinds: Sequence[str] = ("file",)
) -> tuple[list[str], bool]:
    """The names of the regular files below a real folder, level by level; and whether these are all.

    Whatever characters they hold. `kinds` may ask for "link" too. Of a folder that is itself ignored, or in
    one that holds no work, no file is left out as ignored.
    """
    walk = _walk(folder, stopped, heeded=False)
    names: list[str] = []
    while len(names) < MAX_LISTED_FILES:
        try:
            name, kind = next(walk)
        except StopIteration as end:
            return names, bool(end.value)
        names += [name] if kind in kinds else []
    return names, False


def name_matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a path below a folder fits a glob: by its name alone where the glob has no slash.

    `**` stands for any folders, `{a,b}` for each of its words; names such as `[id]` fit themselves too.
    Raises ValueError for more alternatives than MAX_GLOB_ALTERNATIVES.
    """
    globs = _without_braces(pattern)
    globs += [each.replace("[", "\\[") for each in globs if "[" in each]
    by_name = [re.compile(_glob(each)) for each in globs if "/" not in each]
    by_path = [_path_pattern(each.strip("/")) for each in globs if "/" in each]

    def fits(path: str) -> bool:
        name = path.rpartition("/")[2]
        if any(each.match(name) for each in by_name):
            return True
        return bool(by_path) and any(_fits(each, path.split("/")) for each in by_path)

    return fits


def _without_braces(pattern: str) -> list[str]:
    """The patterns that one with `{a,b}` stands for; braces without a comma are ordinary characters."""
    done, waiting = [], [pattern]
    while waiting:
        found = _BRACES.search(each := waiting.pop())
        if found is None:
            done.append(each)
            continue
        words = found[1].split(",")
        waiting += [f"{each[: found.start()]}{word}{each[found.end() :]}" for word in reversed(words)]
        if len(done) + len(waiting) > MAX_GLOB_ALTERNATIVES:
            raise ValueError(f"it stands for more than {MAX_GLOB_ALTERNATIVES} patterns")
    return done


def ignore_rules(text: str) -> tuple[IgnoreRule, ...]:
    """The rules of a .gitignore file, in its order."""
    rules: list[IgnoreRule] = []
    run: list[str] = []  # patterns for names that follow each other and are of one kind
    kind = (False, False)
    for line in text.removeprefix("\ufeff").split("\n")[:MAX_IGNORE_PATTERNS]:
        pattern = re.sub(r"(?<!\\)((?:\\\\)*) {1,99}\Z", r"\1", line.rstrip("\r\n"))
        if not pattern or pattern.startswith("#"):
            continue
        kept, pattern = pattern.startswith("!"), pattern.removeprefix("!")
        of_folders, pattern = pattern.endswith("/"), pattern.removesuffix("/")
        if "/" not in pattern and (kept, of_folders) == kind:
            run += [_glob(pattern)] if pattern else []
            continue
        rules += _name_rule(kind, run)
        run, kind = [], (kept, of_folders)
        if "/" not in pattern:
            run += [_glob(pattern)] if pattern else []
        else:
            rules.append(IgnoreRule(kept, of_folders, parts=_path_pattern(pattern)))
    return (*rules, *_name_rule(kind, run))


def _name_rule(kind: tuple[bool, bool], run: Sequence[str]) -> list[IgnoreRule]:
    return [IgnoreRule(*kind, re.compile("|".join(run)))] if run else []


def _path_pattern(pattern: str) -> tuple[re.Pattern[str] | None, ...]:
    """The patterns of the parts of a path. Several `**` in a row are one, which at the end takes one part."""
    parts: list[re.Pattern[str] | None] = []
    for part in pattern.removeprefix("/").split("/"):
        if part != "**":
            parts.append(re.compile(_glob(part)))
        elif parts[-1:] != [None]:
            parts.append(None)
    return (*parts, re.compile("")) if parts[-1:] == [None] else tuple(parts)


def _glob(pattern: str) -> str:
    """A glob of a name as a regular expression that does not go back at its stars.

    As git reads it: what a backslash or a `[` leaves open fits nothing.
    """
    between = [""]  # the stars
    for found in _GLOB_PART.finditer(pattern):
        stars, negated, members, any_char, escaped, plain = found.groups()
        if stars:
            between.append("")
        elif members:
            between[-1] += _char_set(bool(negated), members)
        elif plain in ("[", "\\"):
            return _NOTHING
        else:
            between[-1] += "." if any_char else re.escape(escaped or plain)
    first, *more = between
    if more:
        first += "".join(f"(?>.*?{each})" for each in more[:-1] if each) + f".*{more[-1]}"
    return f"(?s:{first})\\Z"


def _char_set(negated: bool, members: str) -> str:
    """A set of characters of a glob, as a regular expression."""
    kinds = ""
    for found in re.finditer(r"(?s:\[:([^\]]{0,30}):\]|(\\?.)(?:-(\\?.))?)", members):
        name, first, last = found[1], (found[2] or "")[-1:], (found[3] or "")[-1:]
        if name is not None and name not in NAMED_SETS:
            return _NOTHING
        kinds += NAMED_SETS[name] if name else re.escape(first)
        if first < last:  # of a range that runs backwards git takes the first alone
            kinds += f"-{re.escape(last)}"
    return f"[{'^' if negated else ''}{kinds}]"


def _fits(parts: Sequence[re.Pattern[str] | None], path: Sequence[str]) -> bool:
    """Whether the parts of a path match those of a pattern; a `**` may stand for any number of them."""
    if parts and parts[-1] is not None and not parts[-1].match(path[-1]):
        return False  # most paths, at once
    reached = {0}  # how many parts of the pattern are used up
    for name in path:
        after: set[int] = set()
        for at in _past_stars(parts, reached):
            if at < len(parts):
                pattern = parts[at]
                if pattern is None:
                    after.add(at)
                elif pattern.match(name):
                    after.add(at + 1)
        reached = after
    return len(parts) in reached


def _past_stars(parts: Sequence[re.Pattern[str] | None], reached: set[int]) -> set[int]:
    return reached | {at + 1 for at in reached if at < len(parts) and parts[at] is None}


def _walk(
    folder: Path, stopped: Callable[[], bool], heeded: bool = True
) -> Generator[tuple[str, str], None, bool]:
    """(name, its kind as `_entries` tells it), level by level, those of a folder in their order.

    The generator returns whether it came to the end. Patterns are `heeded`, at least in a folder that they do
    not leave out.
    """
    files = _ignore_files_above(folder)
    heeded = heeded or not _is_left_out(files, folder)
    depth = len(folder.parts)
    waiting = deque([(str(folder), list(folder.parts), files)])
    seen = 0
    while waiting and seen < MAX_SEEN_ENTRIES and not stopped():
        path, parts, files = waiting.popleft()
        entries = _entries(path, MAX_SEEN_ENTRIES - seen)
        seen += len(entries)
        if heeded and (IGNORE_FILE, "file") in entries:  # to try to open it takes long
            own = _ignore_file(Path(path, IGNORE_FILE), len(parts))
            files = [*files, own] if own else files
        for name, kind in entries:
            is_folder = kind == "folder"
            here = [*parts, name]
            if name == ".git" or (is_folder and name in _IDLE_FOLDERS):
                continue
            if heeded and _is_ignored(files, here, is_folder):
                continue
            if is_folder:
                waiting.append((f"{path.rstrip('/')}/{name}", here, files))
            else:
                yield "/".join(here[depth:]), kind
    return not waiting


def _entries(path: str, limit: int) -> list[tuple[str, str]]:
    """(name, "folder", "file", "link" or "other") of what a folder holds."""
    found: list[tuple[str, str]] = []
    with suppress(OSError), os.scandir(path) as entries:
        for entry in entries:
            found.append((entry.name, _kind(entry)))
            if len(found) >= limit:
                break
    return sorted(found)


def _kind(entry: os.DirEntry[str]) -> str:
    if entry.is_file(follow_symlinks=False):
        return "file"
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    return "link" if entry.is_symlink() else "other"


def _is_left_out(files: Sequence[IgnoreFile], folder: Path) -> bool:
    """Whether the folder or one above it is ignored, or holds no work."""
    parts = folder.parts
    above = (parts[:count] for count in range(1, len(parts) + 1))
    return not _IDLE_FOLDERS.isdisjoint(parts) or any(
        _is_ignored([file for file in files if file.depth < len(each)], each, True) for each in above
    )


def _is_ignored(files: Sequence[IgnoreFile], path: Sequence[str], is_folder: bool) -> bool:
    """The nearest file that has a rule about the path decides."""
    verdicts = (file.verdict(path, is_folder) for file in reversed(files))
    return next((verdict for verdict in verdicts if verdict is not None), False)


def _ignore_files_above(folder: Path) -> list[IgnoreFile]:
    """The files of patterns of the repository that the folder is in, but for the folder's own."""
    above = (folder, *folder.parents)
    top = next((place for place in above if (place / ".git").exists()), folder)  # a file in a worktree
    found = [_ignore_file(shared_git_folder(top) / "info" / "exclude", len(top.parts))]
    if (top / ".git").exists():
        found.insert(0, _ignore_file(_personal_patterns(), len(top.parts)))
    within = reversed(above[1 : above.index(top) + 1])
    found += [_ignore_file(place / ".gitignore", len(place.parts)) for place in within]
    return [file for file in found if file is not None]


def shared_git_folder(top: Path) -> Path:
    """Where the repository of a checkout keeps what all of its worktrees share; `top` is where .git lies."""
    folder = git_folder(top)
    return folder if folder == top / ".git" else folder / (_small_text(folder / "commondir") or "").strip()


def git_folder(top: Path) -> Path:
    """The git folder of a checkout: `.git`, or in a worktree or submodule the one that this file leads to."""
    leads_to = _small_text(top / ".git")
    return top / (".git" if leads_to is None else leads_to.removeprefix("gitdir:").strip())


def _personal_patterns() -> Path:
    """Where the person's patterns for all repositories are: as git's settings say, or the usual place."""
    home = Path(os.environ.get("HOME") or "/")
    config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "git"
    for settings in (home / ".gitconfig", config / "config"):
        named = _EXCLUDES_FILE.search(_small_text(settings.resolve()) or "")
        if named is not None:
            path = named[1].strip('"')
            return (home / path[2:] if path.startswith("~/") else home / path).resolve()
    return (config / "ignore").resolve()


def _ignore_file(path: Path, depth: int) -> IgnoreFile | None:
    """The rules in a file; None where there is no such regular file."""
    text = _small_text(path)
    return None if text is None else IgnoreFile(depth, ignore_rules(text))


def _small_text(path: Path) -> str | None:
    """The text of a regular file that no link leads to; None where there is none."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    with suppress(OSError), opened_fd(path, flags) as descriptor:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return os.read(descriptor, MAX_IGNORE_BYTES).decode("utf-8", "surrogateescape")
    return None


def _folders_above(name: str) -> Iterator[str]:
    at = name.rfind("/")
    while at > 0:
        yield name[:at]
        at = name.rfind("/", 0, at)
