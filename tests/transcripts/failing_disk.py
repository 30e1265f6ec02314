"""Disks whose n-th call fails, writes only a part, or ends the process; all other calls are real."""

import gc
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import fields

from transcripts.storage.disk import Disk

CALLS = ("open", "write", "sync", "truncate", "rename", "mkdir", "read", "stat", "lock")


@dataclass(slots=True)
class FailurePlan:
    """Fail call number `at` (from 1) of those named in `calls`, and all later ones if `forever`.

    `count` is how many of them were made, `log` their names.
    """

    at: int
    error: int
    calls: tuple[str, ...] = CALLS
    forever: bool = False
    count: int = 0
    log: list[str] = field(default_factory=list)

    def is_due(self, name: str) -> bool:
        """Count a call; whether it is to fail."""
        if name not in self.calls:
            return False
        self.count += 1
        self.log.append(name)
        return self.count == self.at or (self.forever and self.count > self.at)


def disk_with(make_call: Callable[[str, Callable[..., Any], tuple[Any, ...]], Any]) -> Disk:
    """A disk each call of which is made by `make_call(name, real call, arguments)`."""
    real = Disk()

    def wrapped(name: str) -> Any:
        call = getattr(real, name)
        return lambda *args: make_call(name, call, args)

    return Disk(**{one.name: wrapped(one.name) for one in fields(Disk)})


def failing_disk(plan: FailurePlan) -> Disk:
    """A disk that fails as planned."""

    def make_call(name: str, call: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        if plan.is_due(name):
            raise OSError(plan.error, os.strerror(plan.error))
        return call(*args)

    return disk_with(make_call)


def short_writing_disk(plan: FailurePlan, keep: float) -> Disk:
    """A disk that writes only the part `keep` of the data where the plan fails."""

    def make_call(name: str, call: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        if name == "write" and plan.is_due(name):
            fd, piece = args
            return call(fd, piece[: int(len(piece) * keep)])
        return call(*args)

    return disk_with(make_call)


def crashing_disk(at: int, keep: float = 0.5) -> Disk:
    """A disk whose call number `at` ends the process with exit code 66; a write is done in part.

    Of the disks that keep all of it or nothing only the writes count: other calls know no part.
    """
    plan = FailurePlan(at, 0, CALLS if keep == 0.5 else ("write",))

    def make_call(name: str, call: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        if plan.is_due(name):
            if name == "write":
                call(args[0], args[1][: int(len(args[1]) * keep)])
            os._exit(66)
        return call(*args)

    return disk_with(make_call)


def run_in_child(work: Callable[[Callable[[int], object]], None]) -> tuple[int, int]:
    """Do `work(tell)` in a child process. Returns its exit code and the last number that it sent, else 0."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            gc.freeze()  # or a collection would copy all that the tests have loaded
            work(lambda number: os.write(writer, b"%d\n" % number))
            os._exit(0)
        finally:
            os._exit(1)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        told = file.read().split()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), int(told[-1]) if told else 0
