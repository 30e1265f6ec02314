"""The lines of the mutated modules: those that an import runs, and those that each test runs.

A set of lines is an integer with a bit for each line, so that thousands of tests fit in memory.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass, field

from .tracer import Lines


def bits(first: int, last: int) -> int:
    """Return the set of the lines from first to last."""
    return (1 << last + 1) - (1 << first)


def body_lines(source: str, head: int) -> int:
    """Return the lines of the body of the function whose head is at a line; none without such a function."""
    return next(
        (
            bits(node.body[0].lineno, node.end_lineno or node.lineno)
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.lineno == head
        ),
        0,
    )


@dataclass(slots=True)
class TestRun:
    """One test: the lines that it ran, and its time while they were traced."""

    __test__ = False

    lines: Lines = field(default_factory=dict)
    seconds: float = 0.0
    has_passed: bool = True

    def add(self, lines: Lines) -> None:
        """Add lines that the test ran."""
        for file, more in lines.items():
            self.lines[file] = self.lines.get(file, 0) | more


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
