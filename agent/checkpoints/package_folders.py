"""The directories of dependencies in a project: what rebuilds them, and what in them nothing can rebuild."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from transcripts.storage import read_regular

_PYTHON_MANIFESTS = ("pyproject.toml", "requirements.txt", "setup.py", "setup.cfg", "Pipfile", "uv.lock")
MANIFESTS = {  # files beside a directory of dependencies that can rebuild it
    "node_modules": ("package.json",),
    ".venv": _PYTHON_MANIFESTS,
    "venv": _PYTHON_MANIFESTS,
    ".terraform": (".terraform.lock.hcl",),
}
_MAX_BYTES = 32 << 20  # of all lists of installed files
_MAX_FILES = 100_000  # of packages whose times are compared
_INSTALLING_S = 600  # after which scripts of a package have ended, which build or download files


def own_files(folder: Path) -> list[str]:
    """Return what in a directory of dependencies no package manager can make again, as paths below it.

    They are in no package, or were written in one after it was installed.
    """
    with suppress(OSError):
        if folder.name == "node_modules":
            found = [*_own_modules(folder), *_edited_modules(folder)]
        else:
            found = [*_own_in_environment(folder), *_edited_in_environment(folder)]
        return sorted(path.relative_to(folder).as_posix() for path in set(found))
    return []


def _own_modules(folder: Path) -> Iterator[Path]:
    text = _text(folder / ".package-lock.json", _MAX_BYTES)
    installed = set(re.findall(r'"node_modules/((?:@[^/"]+/)?[^/"]+)"', text))
    any_needed = re.search(r'ependencies"\s*:\s*\{\s*"', _text(folder.parent / "package.json", _MAX_BYTES))
    for path in _entries(folder):
        for each in _entries(path) if path.name.startswith("@") else (path,):
            name = each.relative_to(folder).as_posix()
            known = name in installed if text else any_needed and (each / "package.json").exists()
            if not (known or each.is_symlink()):
                yield each


def _own_in_environment(folder: Path) -> Iterator[Path]:
    usual = r"bin|lib|lib64|include|share|etc|man|pyvenv\.cfg|CACHEDIR\.TAG|\.(?:gitignore|lock|Python)"
    yield from (path for path in folder.iterdir() if not re.fullmatch(usual, path.name))
    for packages in folder.glob("lib/python*/site-packages"):
        installed = set[str]()
        left = _MAX_BYTES  # a command may have made any number of lists
        for path in packages.glob("*.dist-info/RECORD"):
            text = _text(path, left)
            left -= len(text)
            installed.update(line.split(",", 1)[0].strip('"') for line in text.splitlines())
        tops = {name.split("/", 1)[0] for name in installed}
        programs = {name.rpartition("/")[2] for name in installed if "/bin/" in name}
        older = (
            r"__pycache__|_virtualenv\.\w+|(?:distutils-precedence|easy-install)\.pth|.*\.egg(?:-info|-link)?"
        )
        for path in _entries(packages):
            if path.name not in tops and not re.fullmatch(older, path.name):
                yield path
        for path in _entries(folder / "bin"):
            is_usual = re.match(r"python|pip|pydoc|[aA]ctivate|deactivate", path.name)
            if path.name not in programs and not is_usual:
                yield path


def _edited_modules(folder: Path) -> Iterator[Path]:
    """Yield files in packages that were written long after the `package.json` of their package."""
    left = _MAX_FILES
    waiting = [folder]
    while waiting:
        for package in _packages(waiting.pop()):
            latest = _latest(package / "package.json")
            for place, folders, names in os.walk(package):
                if "node_modules" in folders:
                    waiting.append(Path(place, "node_modules"))
                folders[:] = [name for name in folders if name[0] not in "._" and name != "node_modules"]
                left -= len(names)
                if left < 0:
                    return
                yield from (path for name in names if _is_later(path := Path(place, name), latest))


def _packages(modules: Path) -> Iterator[Path]:
    for path in _entries(modules):
        found = _entries(path) if path.name.startswith("@") else [path]
        yield from (each for each in found if not each.is_symlink())


def _edited_in_environment(folder: Path) -> Iterator[Path]:
    """Yield files of packages that were written long after the list of their package's files."""
    left = _MAX_BYTES
    for record in folder.glob("lib/python*/site-packages/*.dist-info/RECORD"):
        latest = _latest(record)
        text = _text(record, left)
        left -= len(text)
        names = (line.split(",", 1)[0].strip('"') for line in text.splitlines())
        plain = (name for name in names if not name.startswith(("/", "..")) and not name.endswith(".pyc"))
        packages = record.parent.parent
        yield from (path for name in plain if _is_later(path := packages / name, latest))


def _latest(path: Path) -> float:
    """Return when the files of a package were installed at the latest, by the time of one that all have."""
    with suppress(OSError):
        return path.lstat().st_mtime + _INSTALLING_S
    return float("inf")


def _is_later(path: Path, latest: float) -> bool:
    with suppress(OSError, ValueError):
        return path.lstat().st_mtime > latest
    return False


def _entries(folder: Path) -> list[Path]:
    """Return what is in a directory, without the hidden files of programs."""
    with suppress(OSError):
        return [path for path in folder.iterdir() if not path.name.startswith(".")]
    return []


def _text(path: Path, max_bytes: int) -> str:
    with suppress(OSError):
        return read_regular(path, max_bytes).decode("utf-8", "replace")
    return ""
