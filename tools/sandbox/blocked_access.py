"""An access that the sandbox blocked, and the user's decision about it. Plain values."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal

from msgspec import Struct

from .proxy.hosts import is_mirror

BLOCKED_MARK = "blocked"  # begins each line about a blocked access
# The user's decision: rerun once outside the sandbox; always allow the path or host in this project, and
# rerun; deny.
UnblockAnswer = Literal["once", "allow", "no"]
# host, its private address or "", the client's port or 0 -> the user allows it
AskHost = Callable[[str, str, int], Awaitable[bool]]


class UnblockDecision(Struct, frozen=True):
    """The decision about a blocked access.

    why     the reason for the model if it is denied
    reason  the user's own reason
    hosts   the hosts that the answer is about
    stop    the user ends the command, too
    """

    answer: UnblockAnswer
    why: str = ""
    reason: str = ""
    hosts: tuple[str, ...] = ()
    stop: bool = False


class BlockedAccess(Struct, frozen=True, eq=False):
    """A blocked access: writing or reading the path `target`, or reaching the host `target`.

    program  the program that was blocked, if that is known
    folder   the project; paths below it are shown relative to it
    output   the last lines of the command's output, for the user's decision
    waiting  the command still runs, and its connection to the host is held until the user has decided
    address  the private address that the host's name resolves to, if that is the reason
    others   hosts that are asked about together with this one
    job      the id of the waiting command, if it runs in the background
    """

    action: Literal["write", "read", "reach"]
    target: str
    program: str = ""
    folder: str = ""
    output: str = ""
    waiting: bool = False
    address: str = ""
    others: tuple[str, ...] = ()
    job: str = ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BlockedAccess) and self._refused == other._refused

    def __hash__(self) -> int:
        return hash(self._refused)

    @property
    def has_private_address(self) -> bool:
        """Return whether the host has a private address that is not a company's mirror of a package index."""
        return bool(self.address) and not is_mirror(self.target, self.address)

    @property
    def _refused(self) -> tuple[str, ...]:
        """The identity of the access, without the output, which may differ from run to run."""
        return (self.action, self.target, self.program, self.folder)

    def __str__(self) -> str:
        """Return one line, such as `blocked: write ~/.cargo/registry (make)`."""
        if self.waiting:
            private = f", which has the private address {self.address}" if self.address else ""
            private += "," if private and self.others else ""
            job = f"background command {self.job}" if self.job else ""
            by = ", ".join(filter(None, (self.program, job)))
            hosts = " and ".join((f"{self.target}{private}", *self.others))
            return f"waiting to {self.action} {hosts}{f' ({by})' if by else ''}"
        program = f" ({self.program})" if self.program else ""
        return f"{BLOCKED_MARK}: {self.action} {short_path(self.target, self.folder)}{program}"


def short_path(path: str, folder: str = "") -> str:
    """Return a path relative to the project `folder` if below it, else with `~` for the home directory."""
    if folder and path.startswith(f"{folder}/"):
        return path.removeprefix(f"{folder}/")
    home = str(Path.home())
    return f"~{path.removeprefix(home)}" if path == home or path.startswith(f"{home}/") else path
