"""The import guard: our rooms come from beside this package, and nothing comes from the current folder.

`python -m agent` puts the current folder first on the path: a user's own `tools/`, `json.py` or `rich/` would
run inside us before any question was asked. This module runs before everything else of ours, so it leans
only on what the interpreter has loaded by then (`sys`, `os`, the frozen import machinery): even
`__future__` and `pathlib` could be decoys. It cannot beat an `agent/` package of the user's own, nor decoys
of what `-m` itself loads; there the console command `makeroom` or `python -P -m agent` is the safe way.
"""

import os
import sys

ROOMS = ("tools", "compact", "transcripts")
ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))  # noqa: PTH120  pathlib may be a decoy
_located = sys.modules["_frozen_importlib_external"].spec_from_file_location


class Anchor:
    """A finder that resolves exactly our rooms, to the folders beside this package."""

    @staticmethod
    def find_spec(name, path=None, target=None):  # type: ignore[no-untyped-def]
        if name not in ROOMS:
            return None
        place = f"{ROOT}/{name}"
        return _located(name, f"{place}/__init__.py", submodule_search_locations=[place])


def anchor() -> None:
    """Drop the current folder from the path unless it is our own, and find our rooms first."""
    if sys.path and _is_elsewhere(sys.path[0]):
        del sys.path[0]
    if Anchor not in sys.meta_path:
        sys.meta_path.insert(0, Anchor)


def _is_elsewhere(entry: str) -> bool:
    """Whether a path entry is the current folder and not our root."""
    try:
        here = os.path.realpath(os.getcwd())  # noqa: PTH109
    except OSError:
        return entry == ""  # the current folder is gone: nothing can come from it
    return os.path.realpath(entry or here) == here and here != ROOT
