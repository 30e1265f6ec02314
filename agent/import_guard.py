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
    """Remove the current directory from the path, unless it is our root, and find our packages first."""
    try:
        import_nothing_from(os.getcwd())  # noqa: PTH109
    except OSError:  # it does not exist: nothing can be loaded from it
        sys.path[:] = [entry for entry in sys.path if entry]
    if PackageFinder not in sys.meta_path:
        sys.meta_path.insert(0, PackageFinder)


def import_nothing_from(folder: str) -> None:
    """Remove a directory and all in it from the path, except installed packages (read-only in the sandbox).

    Commands may write there, and modules are also imported late. Our root stays, for programs that import our
    packages; see `leave_root`.
    """
    top = os.path.realpath(folder)
    sys.path[:] = [entry for entry in sys.path if not _is_in(os.path.realpath(entry or folder), top)]


def leave_root() -> None:
    """Remove our root from the path, since the finder is enough for our own packages."""
    sys.path[:] = [entry for entry in sys.path if entry and os.path.realpath(entry) != ROOT]


def _is_in(path: str, folder: str) -> bool:
    installed = any(
        path.startswith(f"{os.path.realpath(prefix)}/") for prefix in (sys.prefix, sys.base_prefix)
    )
    if installed or path == ROOT or path.endswith(("/site-packages", "/dist-packages")):
        return False
    return f"{path}/".startswith(f"{folder.rstrip('/')}/")
