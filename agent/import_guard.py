"""Guard the imports: load our packages from beside this one, and nothing from the current directory.

`python -m agent` puts the current directory first on the path, so a project's `tools/`, `json.py` or `rich/`
would run inside this program before any question. This module runs before the rest of the program. It uses
only what the interpreter has already loaded (`sys`, `os`, the frozen import machinery), because even
`__future__` and `pathlib` could be decoys. It cannot guard against an `agent/` package in the project, or
against decoys of modules that `-m` itself loads. The command `makeroom` and `python -P -m agent` are safe.
"""

import os
import sys

PACKAGES = ("tools", "compact", "transcripts")
ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))  # noqa: PTH120  pathlib may be a decoy
_located = sys.modules["_frozen_importlib_external"].spec_from_file_location


class PackageFinder:
    """A finder that resolves exactly our packages, to the directories beside this one."""

    @staticmethod
    def find_spec(name, path=None, target=None):  # type: ignore[no-untyped-def]
        if name not in PACKAGES:
            return None
        folder = f"{ROOT}/{name}"
        return _located(name, f"{folder}/__init__.py", submodule_search_locations=[folder])


def guard_imports() -> None:
    """Remove the current directory from the path unless it is our own, and find our packages first."""
    for at in (1, 0):  # behind our own root, which the wheel's entry point puts first
        if len(sys.path) > at and _is_elsewhere(sys.path[at]):
            del sys.path[at]
    if PackageFinder not in sys.meta_path:
        sys.meta_path.insert(0, PackageFinder)


def _is_elsewhere(entry: str) -> bool:
    """Return whether a path entry is the current directory and not our root."""
    try:
        here = os.path.realpath(os.getcwd())  # noqa: PTH109
    except OSError:
        return entry == ""  # the current directory does not exist: nothing can be loaded from it
    return os.path.realpath(entry or here) == here and here != ROOT
