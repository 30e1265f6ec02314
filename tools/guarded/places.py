"""Find guarded files in a project and in a home: those that control programs, and secrets.

The names are those of names.py. Files that control programs are only searched near a project's root, since
every command waits for it. Deeper ones are found by their names when a file tool uses them. secret_search.py
finds secrets in any directory.
"""

# Making a Path for each of thousands of names would take most of the time.
# ruff: noqa: PTH110, PTH111, PTH112, PTH113, PTH114, PTH116, PTH118, PTH120

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from tools.files import links_on_way
from tools.text import word_set
from transcripts import RECORD_FOLDERS
from transcripts.patterns import lazy_bytes_pattern

from .index_paths import repositories_in_index
from .names import (
    GIT_STEERING,
    GUARDED_CONFIG_FOLDERS,
    GUARDED_FILES,
    GUARDED_FOLDERS,
    HOME_SECRETS,
    LOCAL_MEMORY_NAME,
    MEMORY_NAMES,
    OTHERS_STEERING,
    SECRET_FOLDERS,
)
from .secret_names import MAYBE_TOKEN_FILES, beginning, holds_token, plain_name
from .secret_search import SecretSearch, Stamp, search_of_project, stamp_of

_MAX_DEPTH = 3  # of directories below a project's root
_MAX_FOLDERS = 2_000  # of a project that are listed
_SETTLED_NS = 2_000_000_000  # of file systems' clocks: two changes within it may have the same time
_MAX_ENTRIES = 2_000  # of guarded directories that are checked for links
_MAX_HELD_BYTES = 256 << 20  # of an index
_MAX_GIT_FOLDERS = 500  # of submodules, and of worktrees
_PASSED_OVER = word_set(
    "node_modules .venv venv env target build dist out vendor __pycache__ .tox .nox .mypy_cache .ruff_cache"
    " .pytest_cache .gradle .next .nuxt .cache site-packages coverage .eggs .bundle pods deriveddata"
)
_ELSEWHERE = {".git", ".makeroom", ".npmrc", *RECORD_FOLDERS}  # handled separately, or needed by its program
# Entries of ~/.claude that hooks, skills and plugins run and read.
_CLAUDE_EXTENSIONS = word_set("agents claude.md commands hooks output-styles plugins rules skills")
_CLAUDE_PLUGINS = word_set("cache marketplaces")
_SECRET = SECRET_FOLDERS - _ELSEWHERE
_MEMORY = {name.lower() for name in (*MEMORY_NAMES, LOCAL_MEMORY_NAME)}
_FIXED = (GUARDED_FILES | GUARDED_FOLDERS | _MEMORY | _ELSEWHERE) - {
    ".git",
    *OTHERS_STEERING,
    *RECORD_FOLDERS,
}
_NAMED = _SECRET | _FIXED | {".git", *OTHERS_STEERING}
_CONFIGURED = rb"(?:^|\])[ \t]*%b[ \t]*=((?:[^\\\n]|\\[\s\S])*)"
_HOOKS_PATH, _INCLUDED_PATH, _WORKTREE = (
    lazy_bytes_pattern(_CONFIGURED % name, re.IGNORECASE | re.MULTILINE)
    for name in (b"hookspath", b"path", b"worktree")
)
_OF_GIT_FOLDERS = word_set("objects refs logs hooks info branches lfs rebase-merge rebase-apply")


def guarded_in_project(folder: str) -> tuple[list[str], list[str]]:
    """Return (paths that may not be changed, paths that may not be read either) among a project's files.

    The former include links to them and the targets of links.
    """
    fixed = git_steering(os.path.join(folder, ".git"))
    search = search_of_project(folder)
    searched = dict.fromkeys(search.find())
    secret = []
    if not os.path.isdir(os.path.join(folder, ".git")) and (found := git_folders(folder)):
        # The configuration of a worktree, or of a parent directory.
        named = _named_in_configuration((found.own, found.shared), found.checkout)
        fixed += [each for path in named for each in links_on_way(path) if os.path.lexists(each)]
        fixed += linked_in([os.path.join(found.shared, "hooks")], folder)
    for place, found_name in _named_near_root(folder, search):
        name = plain_name(found_name)
        path = os.path.join(place, found_name)
        if name == ".git":
            fixed += git_steering(path) if place != folder else []
        elif name in OTHERS_STEERING:
            steering = (f"{path}/{each}" for each in OTHERS_STEERING[name])
            fixed += filter(os.path.lexists, steering)
        elif name in _SECRET:
            secret.append(path)
        elif path not in searched and (
            name in _FIXED or (place.endswith("/.config") and name in GUARDED_CONFIG_FOLDERS)
        ):
            fixed.append(path)
    secret += [path for path in searched if not any(path.startswith(f"{place}/") for place in secret)]
    fixed = [path for path in fixed if path.startswith(f"{folder}/")]
    return [*fixed, *linked_in(fixed, folder)], secret


def guarded_elsewhere(place: str) -> tuple[list[str], list[str]]:
    """Return the same for another writable directory; of a git directory, only files that control git."""
    above = [place, *map(str, Path(place).parents)]
    git = next((path for path in reversed(above) if _is_git_folder(path)), None)
    steering = [path for path in git_steering(git) if path.startswith(f"{place}/")] if git else []
    fixed, secret = ([], []) if ".git" in place.split("/") else guarded_in_project(place)
    return [*fixed, *steering, *linked_in(steering, place)], secret


def linked_in(guarded: list[str], folder: str) -> list[str]:
    """Return the targets of links among guarded paths, and the links on the way to them."""
    links = [path for path in guarded if os.path.islink(path) and not path.endswith("/.git")]
    waiting = list(guarded)
    left = _MAX_ENTRIES
    for place in waiting:
        with suppress(OSError), os.scandir(place) as entries:
            for entry in islice(entries, left):
                left -= 1
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif entry.is_symlink() and not entry.is_dir():
                    links.append(entry.path)
    passed = chain.from_iterable(map(links_on_way, links))
    return [path for path in dict.fromkeys(passed) if path.startswith(f"{folder}/")]


class GitFolders(NamedTuple):
    """The directories of a checkout: its git directory, the one that all its worktrees share, itself."""

    own: str
    shared: str
    checkout: str


def git_folders(folder: str) -> GitFolders | None:
    """Return the directories of the checkout that contains `folder`, as real paths; None if there is none."""
    above = (folder, *map(str, Path(folder).parents))
    top = next((path for path in above if os.path.lexists(os.path.join(path, ".git"))), None)
    if top is None:
        return None
    own = os.path.join(top, ".git")
    if not os.path.isdir(own):
        own = os.path.join(top, _line_of(own).removeprefix("gitdir:").strip())
    shared = os.path.realpath(os.path.join(own, _line_of(os.path.join(own, "commondir"))))
    own = os.path.realpath(own)
    whole = _is_git_folder(shared) and os.path.isfile(os.path.join(own, "HEAD"))
    return GitFolders(own, shared=shared, checkout=os.path.realpath(top)) if whole else None


def worktree_places(folder: str) -> list[str]:
    """Return the paths outside a worktree that a commit in it writes, without those that contain programs."""
    found = git_folders(folder)
    if found is None or not found.own.startswith(f"{found.shared}/worktrees/"):
        return []
    parts = [path for name in ("objects", "refs") if os.path.isdir(path := os.path.join(found.shared, name))]
    if os.path.isdir(logs := os.path.join(found.shared, "logs")) or not os.path.lexists(logs):
        parts.append(logs)
    return [*(path for path in parts if os.path.realpath(path) == path), found.own]


def steers_git(path: str) -> bool:
    """Return whether the path (which need not exist) is a file that controls git, or the lock of one."""
    path = path.removesuffix(".lock")
    for place in map(str, Path(path).parents):
        name = os.path.relpath(path, place)
        steering = any(name == each or name.startswith(f"{each}/") for each in GIT_STEERING)
        if steering and (_is_git_folder(place) or os.path.exists(os.path.join(place, "commondir"))):
            return True
    return False


def _line_of(path: str) -> str:
    text = os.fsdecode(beginning(path)).strip()
    return "" if "\0" in text else text


def _is_git_folder(path: str) -> bool:
    return all(os.path.exists(os.path.join(path, name)) for name in ("HEAD", "objects", "refs"))


class _Listing(Struct, frozen=True):
    """The guarded names in a directory, and the paths of the directories that are searched as well.

    stamp: of the directory, which changes whenever an entry is made, removed or renamed; None if it had just
        changed, so that it may change again with the same times
    """

    stamp: Stamp | None
    named: tuple[str, ...]
    folders: tuple[str, ...]


@cache
def _looked_at(project: str) -> dict[str, _Listing]:
    """Return the checked directories of a project by path, which new directories do not displace."""
    return {}


def _named_near_root(project: str, search: SecretSearch) -> Iterator[tuple[str, str]]:
    """Yield (directory, name) of possibly guarded entries in directories near the root, outer ones first."""
    listings = _looked_at(project)
    if len(listings) >= _MAX_FOLDERS:
        for path in [path for path in listings.copy() if not os.path.isdir(path)]:
            listings.pop(path, None)
    layer = [project]
    for _ in range(_MAX_DEPTH):
        below: list[str] = []
        for place in layer:
            listing = listings.get(place)
            if listing is None and len(listings) >= _MAX_FOLDERS:
                continue
            try:
                stamp = search.stamp(place)
                if listing is None or listing.stamp != stamp:
                    listing = listings[place] = _listing(place, stamp)
            except OSError:
                continue
            for name in listing.named:
                yield place, name
            below += listing.folders
        layer = below


def _listing(folder: str, stamp: Stamp) -> _Listing:
    """List all guarded names in a directory that has this stamp. Raises OSError."""
    settled = time.time_ns() - stamp.changed > _SETTLED_NS
    named = []
    folders = []
    in_config = folder.endswith("/.config")
    with os.scandir(folder) as entries:
        for entry in entries:
            name = plain_name(entry.name)
            fixed = name in _NAMED or (in_config and name in GUARDED_CONFIG_FOLDERS)
            if fixed:
                named.append(entry.name)
            hidden = name.startswith(".") and name != ".config"
            if not hidden and entry.is_dir(follow_symlinks=False) and name not in _PASSED_OVER:
                folders.append(entry.path)
    return _Listing(stamp if settled else None, named=tuple(sorted(named)), folders=tuple(sorted(folders)))


def git_steering(git: str) -> list[str]:
    """Return the files that control git in the directories of a repository, its submodules and worktrees."""
    waiting = [git]
    found = list[str]()
    visited = {git}
    for each in waiting:
        for path in _steering_of(each):
            if not path.endswith("/.git") or os.path.islink(path) or not os.path.isdir(path):
                found.append(path)
            elif path not in visited:
                visited.add(path)
                waiting.append(path)
    return list(dict.fromkeys(found))


def _steering_of(git: str, checkout: str = "") -> list[str]:
    """Return the files that control git in one repository; of the repositories in its index, only the `.git`.

    A `.git` that is a file or link refers to the directory that controls its checkout. Others belong to the
    directory above them.
    """
    if os.path.islink(git) or not os.path.isdir(git):
        top = os.path.dirname(git)
        real = os.path.realpath(os.path.join(top, _line_of(git).removeprefix("gitdir:").strip() or git))
        return [git] * os.path.lexists(git) + (_steering_of(real, top) if os.path.isdir(real) else [])
    places = [git]
    found = []
    for top in (f"{git}/modules", f"{git}/worktrees"):
        parts = list(islice(_parts_below(top), _MAX_GIT_FOLDERS + 1))
        if len(parts) > _MAX_GIT_FOLDERS:
            found.append(top)  # if there are too many, the whole directory is guarded
        else:
            places += [part for part in parts if os.path.lexists(os.path.join(part, "HEAD"))]
    found += [f"{place}/{name}" for place in places for name in GIT_STEERING]
    project = checkout or os.path.dirname(git)
    checkouts = _checkouts(git)
    named = _named_in_configuration([git], project)
    repositories = _held(git, project)
    for part in places[1:]:
        if (leading := _leading_to(part)).startswith(f"{project}/"):
            checkouts.add(leading)
            own = part.startswith(f"{git}/modules/")
            named += _named_in_configuration([part] if own else [part, git], os.path.dirname(leading))
            repositories += _held(part, os.path.dirname(leading))
    named = [passed for path in named for passed in links_on_way(path)]
    found += (path for path in named if path.startswith(f"{project}/"))
    files = filter(os.path.isfile, sorted(checkouts.copy()))
    found += (path for path in files if os.path.realpath(path) == path)
    return [path for path in dict.fromkeys([*found, *repositories]) if os.path.lexists(path)]


@cache
def _indexes() -> dict[str, tuple[Stamp | None, list[bytes]]]:
    """Return the indexes read so far, by directory: the stamp of each, and its repositories."""
    return {}


def _held(place: str, checkout: str) -> list[str]:
    """Return the `.git` entries of the repositories that the index of a repository contains."""
    try:
        state = os.stat(f"{place}/index")
    except OSError:
        return []
    stamp = stamp_of(state)
    index = _indexes().get(place)
    if index is None or index[0] != stamp:
        data = beginning(f"{place}/index", _MAX_HELD_BYTES)
        parts = [data]
        if b"link" in data:  # the index may be split into several files
            files = Path(place).glob("sharedindex.*")
            parts += (beginning(str(path), _MAX_HELD_BYTES) for path in files)
        names = [name for part in parts for size in (20, 32) for name in repositories_in_index(part, size)]
        settled = len(parts) == 1 and time.time_ns() - state.st_ctime_ns > _SETTLED_NS
        index = _indexes()[place] = (stamp if settled else None, names)
    paths = (os.path.join(checkout, os.fsdecode(name)) for name in index[1])
    whole = (path for path in paths if path != checkout and "\0" not in path)
    return [f"{path}/.git" for path in whole if os.path.realpath(path) == path]


@cache
def _checkouts(git: str) -> set[str]:
    """Return the `.git` files that have referred to parts of a repository, as references may have changed."""
    return set()


def _leading_to(part: str) -> str:
    """Return the `.git` file of the checkout that a submodule's or worktree's directory names."""
    named = _line_of(os.path.join(part, "gitdir"))
    if not named and (found := _WORKTREE.search(beginning(os.path.join(part, "config")))):
        named = os.path.join(os.fsdecode(_unquoted(found[1])), ".git")
    path = os.path.normpath(os.path.join(part, named))
    return path if path.endswith("/.git") and "\0" not in path else ""


def _parts_below(top: str) -> Iterator[str]:
    """Yield the directories of submodules or worktrees, and those on the way to them.

    The name of a submodule may contain slashes, and any process can make a file HEAD on the way.
    """
    waiting = [top]
    for place in waiting:
        yield place
        passed_over = _OF_GIT_FOLDERS if os.path.lexists(os.path.join(place, "HEAD")) else ()
        with suppress(OSError), os.scandir(place) as entries:
            folders = (entry for entry in entries if entry.is_dir(follow_symlinks=False))
            waiting += (entry.path for entry in folders if entry.name not in passed_over)


def named_by_git(folder: str, is_trusted: Callable[[str], bool]) -> set[str]:
    """Return the real paths that the git configuration of a directory's checkout names, as git acts on them.

    They need not exist. Only configurations that `is_trusted` are read: others can name any file of the user.
    """
    found = git_folders(folder)
    if found is None:
        return set()
    named = _named_in_configuration((found.own, found.shared), found.checkout, is_trusted)
    for part in islice(_parts_below(f"{found.shared}/modules"), _MAX_GIT_FOLDERS):
        if leading := _leading_to(part):
            named += _named_in_configuration([part], os.path.dirname(leading), is_trusted)
    return {links_on_way(path)[-1] for path in named}


def _named_in_configuration(
    gits: Iterable[str], checkout: str, is_trusted: Callable[[str], bool] = lambda path: True
) -> list[str]:
    """Return the hooks directories that configurations of a checkout or the user name, and included files."""
    files = [f"{git}/{name}" for git in gits for name in ("config", "config.worktree")]
    own = _own_configurations()
    files += own
    hooks = list[str]()
    given = len(files)
    for file in files:
        text = beginning(file) if is_trusted(file) else b""
        hooks += _named_paths(_HOOKS_PATH.findall(text), checkout)
        included = _named_paths(_INCLUDED_PATH.findall(text), os.path.dirname(file))
        new = (path for path in dict.fromkeys(included) if path not in files)
        # More configurations of a checkout are not read.
        files += islice(new, max(0, 50 - len(files)))
    return [*hooks, *own, *files[given:]]


def _own_configurations() -> list[str]:
    """Return the paths of the system's and the user's configuration, which may be in the project."""
    system = os.environ.get("GIT_CONFIG_SYSTEM", "/etc/gitconfig")
    if (named := os.environ.get("GIT_CONFIG_GLOBAL")) is not None:
        return [system, named]
    settings = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return [system, f"{settings}/git/config", os.path.expanduser("~/.gitconfig")]


def _named_paths(values: Iterable[bytes], folder: str) -> Iterator[str]:
    for name in (os.fsdecode(_unquoted(value)).replace("\0", "") for value in values):
        if name:
            yield os.path.normpath(os.path.join(folder, os.path.expanduser(name)))


def _unquoted(value: bytes) -> bytes:
    """Return a value of a configuration as git reads it, without its quotes, escapes and comment."""
    text = bytearray()
    quoted = False
    for part in re.findall(rb"\\.|.", value, re.DOTALL):
        if part == b'"':
            quoted = not quoted
        elif part in (b"#", b";") and not quoted:
            break
        elif part != b"\\\n":  # which continues the line
            text += {b"\\n": b"\n", b"\\t": b"\t"}.get(part, part.removeprefix(b"\\") or part)
    return bytes(text.strip())


def _secrets_of_claude(folder: str) -> Iterator[str]:
    """Yield the entries of ~/.claude that are not instructions or programs: logins, sessions, history."""
    for place, usual in ((folder, _CLAUDE_EXTENSIONS), (os.path.join(folder, "plugins"), _CLAUDE_PLUGINS)):
        with suppress(OSError), os.scandir(place) as entries:
            yield from sorted(entry.path for entry in entries if plain_name(entry.name) not in usual)


@cache
def _possible_secrets(home: str) -> tuple[str, ...]:
    """Return the paths of secrets in a home directory, whether they exist or not."""
    return tuple(os.path.join(home, name) for name in (*SECRET_FOLDERS - _ELSEWHERE, *HOME_SECRETS))


def secrets_of_home(home: str) -> list[str]:
    """Return the existing secrets in a home directory."""
    found = [path for path in _possible_secrets(home) if os.path.lexists(path)]
    if (claude := os.path.join(home, ".claude")) in found and not os.path.islink(claude):
        found.remove(claude)
        found += _secrets_of_claude(claude)
    settings = (
        os.path.join(home, name) for name in (*MAYBE_TOKEN_FILES, ".pip/pip.conf", ".config/pip/pip.conf")
    )
    return found + [path for path in settings if holds_token(path)]
