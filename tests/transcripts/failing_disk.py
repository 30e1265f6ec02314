"""Disks that fail, or that end the process, at a chosen call: the real calls with a counter before them."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

from transcripts.disk import Disk

CALLS = ("open", "write", "sync", "truncate", "rename", "mkdir", "read", "stat", "lock")


@dataclass(slots=True)
class Plan:
    """Fail call number `at` (from 1) to any of `calls`, then all later ones if `forever`."""

    at: int
    error: int
    calls: tuple[str, ...] = CALLS
    forever: bool = False
    count: int = 0
    log: list[str] = field(default_factory=list)

    def due(self, name: str) -> bool:
        if name not in self.calls:
            return False
        self.count += 1
        self.log.append(name)
        return self.count == self.at or (self.forever and self.count > self.at)


def disk_that(trouble: Callable[[str, Callable[..., Any], tuple[Any, ...]], Any]) -> Disk:
    """A disk that asks `trouble` to make each call."""
    real = Disk()

    def wrapped(name: str) -> Any:
        call = getattr(real, name)
        return lambda *args: trouble(name, call, args)

    return Disk(**{one.name: wrapped(one.name) for one in fields(Disk)})


def failing(plan: Plan) -> Disk:
    """A disk that fails by plan with an error number."""

    def trouble(name: str, call: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        if plan.due(name):
            raise OSError(plan.error, os.strerror(plan.error))
        return call(*args)

    return disk_that(trouble)


def short_writing(plan: Plan, keep: float) -> Disk:
    """A disk that writes only a part where the plan says so."""

    def trouble(name: str, call: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        if name == "write" and plan.due(name):
            fd, piece = args
            return call(fd, piece[: int(len(piece) * keep)])
        return call(*args)

    return disk_that(trouble)


def crashing(at: int, keep: float = 0.5) -> Disk:
    """A disk at whose call number `at` the process ends; a write is cut off in its middle."""
    plan = Plan(at, 0)

    def trouble(name: str, call: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        if plan.due(name):
            if name == "write":
                call(args[0], args[1][: int(len(args[1]) * keep)])
            os._exit(66)
        return call(*args)

    return disk_that(trouble)


def in_a_child(work: Callable[[Callable[[int], object]], None]) -> tuple[int, int]:
    """Do work in a child, which tells numbers as it goes: (its exit code, the last number told, else 0)."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            work(lambda number: os.write(writer, b"%d\n" % number))
            os._exit(0)
        finally:
            os._exit(1)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        told = file.read().split()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), int(told[-1]) if told else 0
