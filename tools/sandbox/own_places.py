"""Keep our own settings and transcripts out of reach, also where they do not exist yet.

A mask needs something to be mounted upon, so a directory that does not exist cannot be hidden: a command
could create it, and write settings that the next start reads. Missing ones in writable places are therefore
created. A directory on the way to them could be moved away and created again, so each of those is pinned.

For example, the project is `/home/ann`, and `/home/ann/.config` is a link to `/home/ann/dots`: then
`/home/ann/dots/makeroom` is created and hidden, `/home/ann/dots` is pinned, and the link is read-only. If
only `settings.toml` is a link, to a repository that is the project, that file is read-only, but visible.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
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


def secure_own_places(
    own: Iterable[Path], writable: Sequence[Path], linked: Sequence[Path] = ()
) -> OwnPlaces:
    """Create our missing directories in writable places, and return the paths to protect there. Blocking.

    `linked` are files and directories elsewhere that our settings link to, as when a repository has them.
    """
    inside = [path for path in linked if any(place in path.parents for place in writable)]
    read_only: dict[str, None] = dict.fromkeys(map(str, inside))
    pinned = dict.fromkeys(above for path in inside for above in _above(path, writable))
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
        pinned |= dict.fromkeys(_above(real, writable))
    return OwnPlaces(pinned=tuple(sorted(pinned)), read_only=tuple(read_only))


def linked_from(place: Path) -> list[Path]:
    """Return what the links in a directory lead to."""
    with suppress(OSError):
        return [entry.resolve() for entry in place.iterdir() if entry.is_symlink() and entry.exists()]
    return []


def _above(path: Path, writable: Sequence[Path]) -> Iterator[Path]:
    """Yield the directories on the way to a path from writable places."""
    for above in path.parents:
        if any(above != place and above.is_relative_to(place) for place in writable):
            yield above


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
    return next(each for each in (path, *path.parents) if os.path.lexists(each))
