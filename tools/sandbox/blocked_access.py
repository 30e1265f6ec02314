"""An access that the sandbox blocked, and the decision on whether the command may have it. Plain values."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from msgspec import Struct

# A person's answer to what the sandbox refused: rerun outside of it once; let that path or host through from
# now on in this project, and rerun; no.
UnblockAnswer = Literal["once", "allow", "no"]


class UnblockDecision(Struct, frozen=True):
    """The answer to the question whether a command may run outside the sandbox; `words` tell the model why
    not.
    """

    answer: UnblockAnswer
    words: str = ""


class BlockedAccess(Struct, frozen=True, eq=False):
    """An access that the sandbox blocked: writing or reading the path `target`, or reaching the host
    `target`.

    program  that was refused, where its message tells
    folder   the project, whose paths are shown as they are below it
    said     the last lines that the command wrote, by which a user may judge it
    """

    action: Literal["write", "read", "reach"]
    target: str
    program: str = ""
    folder: str = ""
    said: str = ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BlockedAccess) and self._refused == other._refused

    def __hash__(self) -> int:
        return hash(self._refused)

    @property
    def _refused(self) -> tuple[str, ...]:
        """The identity of the refusal: the output around it may differ from run to run."""
        return (self.action, self.target, self.program, self.folder)

    def __str__(self) -> str:
        """One line, such as `walled off: write ~/.cargo/registry (make)`."""
        program = f" ({self.program})" if self.program else ""
        return f"walled off: {self.action} {short_path(self.target, self.folder)}{program}"


def short_path(path: str, folder: str = "") -> str:
    """A path as it is below the project `folder`, or with `~` for the home."""
    if folder and path.startswith(f"{folder}/"):
        return path.removeprefix(f"{folder}/")
    home = str(Path.home())
    return f"~{path.removeprefix(home)}" if path == home or path.startswith(f"{home}/") else path
