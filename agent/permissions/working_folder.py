"""In which folder each command of a line runs: `cd` is followed, and forgotten where its subshell ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .launches import is_open, program_name
from .line_reading import Invocation
from .shell_values import SPLIT, UNSET
from .vital_places import Places, paths_of, vital_place


@dataclass(frozen=True, slots=True)
class Scene:
    """A command, and where it runs: `here` is a real path, None where it is not known.

    line  all commands of the line
    """

    command: Invocation
    here: str | None
    places: Places
    line: tuple[Invocation, ...]

    @property
    def program(self) -> str:
        return program_name(self.command.words[0]) if self.command.words else ""

    @property
    def arguments(self) -> tuple[str, ...]:
        return self.command.words[1:]

    def paths(self, word: str) -> list[str]:
        """The whole paths that a word may mean."""
        return paths_of(word, self.places, self.here)

    def vital(self, word: str) -> str:
        """The vital place that a word leads to, in words; "" where it is none."""
        return next(filter(None, (vital_place(path, self.places) for path in self.paths(word))), "")

    def options(self) -> list[str]:
        """The arguments that are options."""
        words = list(self.arguments)
        end = words.index("--") if "--" in words else len(words)
        return [word for word in words[:end] if word.startswith("-") and len(word) > 1]

    def operands(self, with_values: frozenset[str] = frozenset()) -> list[str]:
        """The arguments that are no options, and no values of the options `with_values`."""
        found: list[str] = []
        words = iter(self.arguments)
        for word in words:
            if word == "--":
                return [*found, *words]
            if word.startswith("-") and len(word) > 1:
                if word in with_values:
                    next(words, None)
            else:
                found.append(word)
        return found

    def has_flag(self, letters: str, *names: str) -> bool:
        """Whether one of the letters stands among the short options, or one of the long ones is given."""
        return any(
            (option.startswith("--") and any(name.startswith(option.partition("=")[0]) for name in names))
            or (not option.startswith("--") and any(letter in option for letter in letters))
            for option in self.options()
        )


def scenes(invocations: Sequence[Invocation], places: Places) -> Iterator[Scene]:
    """Each command of a line with the folder that it runs in."""
    moves: list[tuple[tuple[int, ...], str | None]] = [((), places.cwd or places.folder or None)]
    line = tuple(invocations)
    for command in invocations:
        here = next(place for shells, place in reversed(moves) if command.shells[: len(shells)] == shells)
        scene = Scene(command, here, places, line)
        yield scene
        if scene.program in ("cd", "pushd", "popd") and command.sure:
            moves.append((command.shells, _destination(scene)))


def _destination(scene: Scene) -> str | None:
    """Where `cd` leads to."""
    if scene.program == "popd":
        return scene.places.cwd or None
    target = next(iter(scene.operands()), "~")
    if target == "~" or target == UNSET + SPLIT:
        return scene.places.home or None
    if target.startswith(UNSET) and is_open(target):
        return scene.here
    paths = scene.paths(target)
    return paths[0] if paths else None
