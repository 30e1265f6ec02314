"""Trace the lines of the mutated modules: those that an import runs, and those that each test runs.

A set of lines is an integer with a bit for each line, so that thousands of tests fit in memory.
"""

from __future__ import annotations

import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

Lines = dict[str, int]  # by the path of the file


def bits(first: int, last: int) -> int:
    """Return the set of the lines from first to last."""
    return (1 << last + 1) - (1 << first)


class Tracer:
    """Notes the lines of some files that any thread runs."""

    def __init__(self, files: Iterable[str]) -> None:
        self._seen: dict[str, set[int]] = {file: set() for file in files}
        self._local = {file: _noting(lines.add) for file, lines in self._seen.items()}

    def start(self) -> None:
        threading.settrace(self._called)
        sys.settrace(self._called)

    def stop(self) -> Lines:
        """Stop tracing. Returns the lines that ran since the start."""
        sys.settrace(None)
        threading.settrace(None)
        run = {file: sum(1 << line for line in lines) for file, lines in self._seen.items() if lines}
        for lines in self._seen.values():
            lines.clear()
        return run

    def _called(self, frame: FrameType, event: str, value: Any) -> Callable[..., Any] | None:
        return self._local.get(frame.f_code.co_filename)


def _noting(add: Callable[[int], None]) -> Callable[..., Any]:
    def note(frame: FrameType, event: str, value: Any) -> Callable[..., Any]:
        if event == "line":
            add(frame.f_lineno)
        return note

    return note


@dataclass(slots=True)
class TestRun:
    """One test: the lines that it ran, and its time while they were traced."""

    __test__ = False

    lines: Lines = field(default_factory=dict)
    seconds: float = 0.0
    has_passed: bool = True


@dataclass(slots=True)
class Reach:
    """The lines of each test, by its id, and those that the imports before all tests ran."""

    imported: Lines
    tests: dict[str, TestRun] = field(default_factory=lambda: defaultdict(TestRun))

    def running(self, lines: Lines) -> list[str]:
        """Return the ids of the tests that pass and run any of the lines, the quickest first."""
        found = [
            (run.seconds, name)
            for name, run in self.tests.items()
            if run.has_passed and any(run.lines.get(file, 0) & wanted for file, wanted in lines.items())
        ]
        return [name for _, name in sorted(found)]

    def failing(self) -> list[str]:
        """Return the ids of the tests that fail without a mutant; they judge none."""
        return [name for name, run in self.tests.items() if not run.has_passed]
