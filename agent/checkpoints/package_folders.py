"""The directories of dependencies in a project: what rebuilds them, and what in them nothing can rebuild."""

from __future__ import annotations

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


def own_files(folder: Path) -> list[str]:
    """Return the entries of a directory of dependencies that no package manager has made, below `folder`.

    Within the packages nothing is looked at.
    """
    with suppress(OSError):
        found = _own_modules(folder) if folder.name == "node_modules" else _own_in_environment(folder)
        return sorted(path.relative_to(folder).as_posix() for path in found)
    return []


def _own_modules(folder: Path) -> Iterator[Path]:
    text = _text(folder / ".package-lock.json", _MAX_BYTES)
    installed = set(re.findall(r'"node_modules/((?:@[^/"]+/)?[^/"]+)"', text))
    for path in _entries(folder):
        for each in _entries(path) if path.name.startswith("@") else (path,):
            name = each.relative_to(folder).as_posix()
            known = name in installed if text else (each / "package.json").exists()
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


def _entries(folder: Path) -> list[Path]:
    """Return what is in a directory, without the hidden files of programs."""
    with suppress(OSError):
        return [path for path in folder.iterdir() if not path.name.startswith(".")]
    return []


def _text(path: Path, max_bytes: int) -> str:
    with suppress(OSError):
        return read_regular(path, max_bytes).decode("utf-8", "replace")
    return ""
