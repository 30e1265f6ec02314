"""Keep our own settings and transcripts out of reach, also where they do not exist yet.

A mask needs something to be mounted upon, so a directory that does not exist cannot be hidden: a command
could create it, and write settings that the next start reads. Missing ones in writable places are therefore
created. A directory on the way to them could be moved away and created again, so each of those is pinned.

For example, the project is `/home/ann`, and `/home/ann/.config` is a link to `/home/ann/dots`: then
`/home/ann/dots/makeroom` is created and hidden, `/home/ann/dots` is pinned, and the link is read-only.

The files of the running program are found as well. Its modules are also imported late, outside the sandbox
and with the key in the environment, so commands may not write them, even if they are in the project, such as
in a checkout with its own `.venv`.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from transcripts.storage import make_private_folders


class OwnPlaces(NamedTuple):
    """The paths to protect in writable places, besides our own directories, which are hidden.

    pinned     real directories on the way to ours, which must not be moved
    read_only  our directories, links on the way to them, and the places of those that cannot be created
    """

    pinned: tuple[Path, ...]
    read_only: tuple[str, ...]


def secure_own_places(own: Iterable[Path], writable: Sequence[Path]) -> OwnPlaces:
    """Create our missing directories in writable places, and return the paths to protect there. Blocking."""
    pinned: dict[Path, None] = {}
    read_only: dict[str, None] = {}
    for path in map(Path.absolute, own):
        real = path.resolve()
        if real != path:
            for link in _links_on_way(path, writable):
                read_only[str(link)] = None
        if not any(real.is_relative_to(place) for place in writable):
            continue
        try:
            if not real.is_dir():
                make_private_folders(real)
        except OSError:  # a command, which runs as the same user, could replace what is in the way
            read_only[str(_nearest_existing(path))] = None
            continue
        read_only[str(real)] = None
        for above in real.parents:
            if any(above != place and above.is_relative_to(place) for place in writable):
                pinned[above] = None
    return OwnPlaces(pinned=tuple(sorted(pinned)), read_only=tuple(read_only))


def _links_on_way(path: Path, writable: Sequence[Path]) -> Iterator[Path]:
    """Yield the links in writable places that a path leads through, by their real locations."""
    at = Path("/")
    for name in path.parts[1:]:
        step = at / name
        is_link = step.is_symlink()
        if is_link and any(at.is_relative_to(place) for place in writable):
            yield step
        # Without links a step below a real path is real; resolving it takes as long as the rest.
        at = step.resolve() if is_link or name == ".." else step


def _nearest_existing(path: Path) -> Path:
    """Return the last entry on the way to a path that exists, which may be a dangling link."""
    return next(each for each in (path, *path.parents) if each.is_symlink() or each.exists())


ROOT = Path(__file__).resolve().parent.parent.parent  # contains our packages
_PACKAGES = ("agent", "tools", "compact", "transcripts")
_INSTALLED = ("stdlib", "platstdlib", "purelib", "platlib", "scripts")


def own_program(writable: Iterable[Path]) -> list[Path]:
    """Return the real paths of the program's files and directories within writable directories.

    An installation that contains a writable directory is represented by its parts in it.
    """
    places = [*writable]
    inner = [path for path, above in _program() if not above.isdisjoint(places)]
    return [
        path for path in inner if not any(path != other and path.is_relative_to(other) for other in inner)
    ]


@cache
def _program() -> tuple[tuple[Path, frozenset[Path]], ...]:
    """Return the real paths of the program, each with the directories above it."""
    prefixes = dict.fromkeys((sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix))
    found = [*prefixes, *(f"{prefix}/pyvenv.cfg" for prefix in prefixes)]
    found += [path for name in _INSTALLED if (path := sysconfig.get_path(name))]
    found += [path for path in sys.path if path.endswith(("/site-packages", "/dist-packages"))]
    found += [str(ROOT / name) for name in _PACKAGES]
    real = (Path(path).resolve() for path in dict.fromkeys(found))
    return tuple((path, frozenset(path.parents)) for path in real if path.exists())
