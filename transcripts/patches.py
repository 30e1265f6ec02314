"""Parse patches of apply_patch, Codex's tool for edits, anywhere in a text.

A patch names files, and for each file pieces of its text with the lines before and after a change:

    *** Begin Patch
    *** Update File: a.py
    @@ def f():
         x = 1
    -    return 1
    +    return x
    *** End Patch
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

PATCH_START = "*** Begin Patch"
_PATCH_END = "*** End Patch"
_ACTIONS = {"*** Add File: ": "add", "*** Delete File: ": "delete", "*** Update File: ": "update"}


class PatchHunk(Struct, frozen=True):
    """A piece of a file with its changes; a line without a mark is an unchanged empty line."""

    lines: tuple[str, ...]

    @property
    def old(self) -> str:
        """The text before the change."""
        return "\n".join(line[1:] for line in self.lines if not line.startswith("+"))

    @property
    def new(self) -> str:
        """The text after the change."""
        return "\n".join(line[1:] for line in self.lines if not line.startswith("-"))


class FilePatch(Struct, frozen=True):
    """The changes of one file: "add", "delete" or "update"; `lines` begin with the one that names it."""

    action: str
    path: str
    lines: tuple[str, ...]

    @property
    def hunks(self) -> list[PatchHunk]:
        """The pieces that change, without their headings; an added file is one piece."""
        return list(self._hunks())

    def _hunks(self) -> Iterator[PatchHunk]:
        piece: list[str] = []
        for line in self.lines[1:]:
            if line.startswith("@@"):
                if piece:
                    yield PatchHunk(tuple(piece))
                piece = []
            elif not line.startswith("*** "):
                piece.append(line)
        if piece:
            yield PatchHunk(tuple(piece))


def file_patches(text: str) -> list[FilePatch]:
    """Return the changes of each file in the patches of a text, in order; [] for a text without a patch.

    A patch that is cut off counts as far as it goes.
    """
    start = text.find(PATCH_START)
    found: list[FilePatch] = []
    section: list[str] = []
    for line in (*text[start:].split("\n"), _PATCH_END) if start >= 0 else ():
        ends = line.startswith((PATCH_START, _PATCH_END))
        heading = next((each for each in _ACTIONS if line.startswith(each)), None)
        if (ends or heading is not None) and section:
            named = next(each for each in _ACTIONS if section[0].startswith(each))
            path = section[0].removeprefix(named).strip()
            found.append(FilePatch(_ACTIONS[named], path=path, lines=tuple(section)))
            section = []
        if heading is not None or (section and not ends):
            section.append(line)
    return found
