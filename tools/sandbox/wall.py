"""The wall around commands: what it lets through, and what it refused. Plain data.

A walled command may write in the project and in a private folder for temporary files, and read the rest but
for secrets and our own records; it reaches no network but through the session's proxy.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from msgspec import Struct

# What holds walled commands: mount, PID and network namespaces; Landlock and seccomp (weaker); macOS's
# sandbox-exec; nothing.
WallLevel = Literal["namespaces", "landlock", "sandbox-exec", "none"]
WALLED_OFF = "walled off"  # how a refusal is told
SandboxSetting = Literal["auto", "require", "off"]
# A person's answer to what the wall refused: rerun outside of it once; let that path or host through from now
# on in this project, and rerun; no.
LeaveAnswer = Literal["once", "allow", "no"]


class LeaveDecision(Struct, frozen=True):
    """What became of the question whether a command may leave the wall; `words` tell the model why not."""

    answer: LeaveAnswer
    words: str = ""


class WallProfile(Struct, frozen=True):
    """What walled commands of a session may touch. All paths are real; those that do not exist are left out.

    folder         the project
    shown          git folders of its repository, as they are, where commands had a private layer otherwise
    writable       besides the project and the private TMPDIR: what the person allowed
    read_only      within what is writable: hooks, configuration, whatever runs or grants rights later
    hidden         not to be read either: secrets, other homes
    records        our own records, hidden from open commands too
    caches         folders of package managers, each with a private layer over it, kept in `cache_layers`
    project_writable  False in plan mode and with `sandbox.project = "read-only"`
    proxy          the Unix socket of the session's network proxy; None: no network
    """

    folder: Path
    shown: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    read_only: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    records: tuple[Path, ...] = ()
    caches: tuple[Path, ...] = ()
    cache_layers: Path | None = None
    project_writable: bool = True
    proxy: Path | None = None


class WallRefusal(Struct, frozen=True, eq=False):
    """What the wall refused: writing or reading the path `target`, or reaching the host `target`.

    program  that was refused, where its message tells
    folder   the project, whose paths are shown as they are below it
    said     the last lines that the command wrote, by which a person may judge it
    """

    action: Literal["write", "read", "reach"]
    target: str
    program: str = ""
    folder: str = ""
    said: str = ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WallRefusal) and self._refused == other._refused

    def __hash__(self) -> int:
        return hash(self._refused)

    @property
    def _refused(self) -> tuple[str, ...]:
        """What identifies the refusal: the output around it may differ from run to run."""
        return (self.action, self.target, self.program, self.folder)

    def __str__(self) -> str:
        """One line, such as `walled off: write ~/.cargo/registry (make)`."""
        program = f" ({self.program})" if self.program else ""
        return f"{WALLED_OFF}: {self.action} {short_path(self.target, self.folder)}{program}"


def short_path(path: str, folder: str = "") -> str:
    """A path as it is below the project `folder`, or with `~` for the home."""
    if folder and path.startswith(f"{folder}/"):
        return path.removeprefix(f"{folder}/")
    home = str(Path.home())
    return f"~{path.removeprefix(home)}" if path == home or path.startswith(f"{home}/") else path
