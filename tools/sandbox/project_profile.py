"""Derive the accesses of a session's sandboxed commands from its project and the user's home directory."""

# ruff: noqa: PTH112, PTH118

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path

from tools.guarded import (
    git_folders,
    guarded_elsewhere,
    guarded_in_project,
    linked_in,
    secrets_beside,
    secrets_of_home,
)
from transcripts import RECORD_FOLDERS
from transcripts.storage import project_key

from .own_places import linked_from, secure_own_places
from .own_program import ROOT, own_program
from .profile import SandboxProfile

_SYSTEM_SECRETS = ("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers.d")
_CACHE_FOLDERS = [
    ".cache",
    ".npm",
    ".cargo",
    ".m2",
    ".gradle",
    "go",
    ".yarn",
    ".bun",
    ".nuget",
    ".ivy2",
    ".sbt",
    ".ccache",
    ".pub-cache",
    ".local/share/pnpm",
]
_TEMPORARY = (Path("/tmp"), Path("/var/tmp"))  # in which commands have a private layer
# Directories in /run through which all programs of the system are found (NixOS, Guix).
_SYSTEM_PROGRAMS = ("current-system", "booted-system", "opengl-driver", "wrappers")
_SYSTEM_FILES = ("/usr/", "/bin/", "/sbin/", "/lib", "/nix/store/", "/gnu/store/", "/System/")
_PROGRAM = b"\x7fELF"  # with which programs begin
_FOLDERS_OF_HOMES = ("home", "homes", "Users", "users")


def sandbox_profile(
    folder: Path,
    home: Path,
    environ: Mapping[str, str],
    outputs: Path | None = None,
    written: Sequence[Path] = (),
) -> SandboxProfile:
    """Return the profile of a project, given its real directory. `outputs` stores outputs of commands.

    `written` are additional writable paths. The profile depends on the existing files, so make a new one if
    those may have changed. Our own directories in writable places are created if they are missing.
    """
    fixed, secret = guarded_in_project(str(folder))
    for place in map(str, filter(Path.is_dir, written)):
        others = guarded_elsewhere(place)
        fixed += _not_named([*others[0], *linked_in(fixed, place)], written)
        secret += _not_named(others[1], written)
    own = _own_folders(home, environ)
    settings = linked_from(own[0])
    secured = secure_own_places(own, (folder, *written), settings)
    fixed += secured.read_only
    hidden: list[str | Path] = [
        *filter(_is_possible, [*secret, *_not_below(secrets_beside(str(folder)), (folder, *written))]),
        *secrets_of_home(str(home)),
        *_SYSTEM_SECRETS,
        *own,
        *linked_from(own[1]),
    ]
    hidden += [*_services(), *_other_homes(home, environ), *_sockets(folder)]
    caches: list[str | Path] = [os.path.join(home, name) for name in _CACHE_FOLDERS]
    named = (environ.get(name, "") for name in ("XDG_CACHE_HOME", "CARGO_HOME", "GOPATH"))
    caches += [path for path in named if path and not Path(path).is_relative_to(folder)]
    records = {folder / name for name in RECORD_FOLDERS} | ({outputs} if outputs else set())
    layered = _real(caches)
    masked = _real(hidden)
    program = own_program([folder, *written])
    return SandboxProfile(
        folder=folder,
        shown=_git_below(folder, (*_TEMPORARY, *layered), masked),
        writable=tuple(written),
        read_only=tuple(dict.fromkeys([*map(Path, fixed), *program])),
        program=tuple(program),
        linked=tuple(path for path in settings if path.is_relative_to(folder)),
        pinned=secured.pinned,
        hidden=masked,
        records=tuple(sorted(path for path in records if os.path.isdir(path))),
        caches=layered,
        cache_layers=own[1] / "cache_layers" / project_key(folder),
    )


def _git_below(folder: Path, layered: Iterable[Path], hidden: Sequence[Path]) -> tuple[Path, ...]:
    """Return the git directories of a project's repository that are below a private layer of commands.

    A path named by a `.git` file does not reveal hidden files.
    """
    git = git_folders(str(folder))
    found = {Path(git.own), Path(git.shared)} if git is not None else set()
    return tuple(
        path
        for path in sorted(found)
        if not path.is_relative_to(folder)
        and any(path.is_relative_to(place) for place in layered)
        and not any(path.is_relative_to(place) or place.is_relative_to(path) for place in hidden)
    )


def _not_named(guarded: Iterable[str], written: Sequence[Path]) -> list[str]:
    """Return the guarded paths without those that the user allowed by name."""
    return [path for path in guarded if not any(place.is_relative_to(path) for place in written)]


def _is_possible(path: str) -> bool:
    """Return whether a file with the name of a secret is none of the system's, and no program.

    A clone may contain a link `prod.env` to bash or to `/`, without which no command would start. An ordinary
    file may be executable, too: on some file systems all files are.
    """
    if not Path(path).is_symlink():
        return True
    real = os.path.realpath(path)
    try:
        if real.startswith(_SYSTEM_FILES) or not stat.S_ISREG(Path(real).stat().st_mode):
            return False
        descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            return file.read(len(_PROGRAM)) != _PROGRAM
    except OSError:  # missing, or neither a command can read it
        return False


def _not_below(paths: Iterable[str], places: Sequence[Path]) -> list[str]:
    """Return the paths outside all these places, whose secrets are found by other searches."""
    return [
        path
        for path in paths
        if not any(path.startswith(f"{place}/") or path == str(place) for place in places)
    ]


def _own_folders(home: Path, environ: Mapping[str, str]) -> tuple[Path, Path]:
    """Return the directories of our settings and transcripts."""
    settings = environ.get("XDG_CONFIG_HOME") or home / ".config"
    state = environ.get("XDG_STATE_HOME") or home / ".local" / "state"
    return Path(settings, "makeroom"), Path(state, "makeroom")


def _services() -> list[str]:
    """Return the paths of the sockets of running services."""
    if not Path("/run/current-system").exists():
        return ["/run"]
    return [str(path) for path in Path("/run").iterdir() if path.name not in _SYSTEM_PROGRAMS]


def _other_homes(home: Path, environ: Mapping[str, str]) -> list[str]:
    """Return the homes of other users; of those with programs on the search path or our own, the secrets.

    Our own are needed to search without ripgrep.
    """
    programs = [*environ.get("PATH", "").split(":"), f"{sys.prefix}/bin", f"{sys.base_prefix}/bin", str(ROOT)]
    tops = {"/home", "/Users", str(home.parent) if home.parent.name in _FOLDERS_OF_HOMES else "/home"}
    found = ["/root"] if str(home) != "/root" else []
    for top in tops:
        with suppress(OSError), os.scandir(top) as entries:
            # Each takes 0.05 ms.
            found += [entry.path for entry in islice(entries, 200) if entry.path != str(home)]
    used = {path for path in found if any(program.startswith(path + "/") for program in programs)}
    return [*(path for path in found if path not in used), *chain(*map(secrets_of_home, sorted(used)))]


def _sockets(folder: Path) -> list[str]:
    """Return sockets of running services outside the project: of an agent, a desktop, a database.

    Those in directories for temporary files and in /run are not accessible anyway.
    """
    unreachable = (f"{folder}/", "/run/", "/tmp/", "/var/tmp/")
    try:
        lines = Path("/proc/net/unix").read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return []
    rows = (line.split(None, 7) for line in lines)
    paths = {row[7] for row in rows if len(row) == 8 and row[7].startswith("/")}
    return list(islice((path for path in paths if not path.startswith(unreachable)), 200))


def _real(paths: Iterable[str | Path]) -> tuple[Path, ...]:
    """Return the real paths of those that exist, each once."""
    folders: dict[str, str] = {}  # most paths share one of few directories
    found = set()
    for each in paths:
        path = str(each)
        try:
            is_link = stat.S_ISLNK(os.lstat(path).st_mode)
        except (OSError, ValueError):
            continue
        above, name = os.path.split(path)
        if is_link or name in ("", ".", ".."):
            found.add(os.path.realpath(path))
            continue
        if above not in folders:
            folders[above] = os.path.realpath(above)
        found.add(os.path.join(folders[above], name))
    return tuple(Path(path) for path in sorted(found))
