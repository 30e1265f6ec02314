"""Run the tests of a target against each of its mutants, in a copy of the tree, one at a time.

Each run is a process forked from this one, which has imported the libraries and nothing of ours: so a run
begins with the mutated module, and pays for no library. Tests with random examples take the same ones each
time, and do not look for a smaller one.
"""

from __future__ import annotations

import importlib
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from .mutants import Mutant, mutants_of, sample
from .targets import Target

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("agent", "compact", "tools", "transcripts", "tests", "docs")
FILES = ("pyproject.toml", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE")
MIN_LIMIT_S = 10.0
SLOWNESS = 3  # times the time of a good run: a mutant that takes longer hangs
MAX_MEMORY_BYTES = 4 << 30  # of one run: an endless loop may collect what it makes
PYTEST = (
    "-x", "-q", "-n", "0", "-p", "no:cacheprovider", "--hypothesis-profile", "mutation",
    "-W", "ignore::pytest.PytestAssertRewriteWarning",
)  # fmt: skip
PASSED = 0  # what pytest exits with; other numbers stand for tests or imports that failed
_fork = get_context("fork")


@dataclass(frozen=True, slots=True)
class Report:
    """What came of a target: how many mutants it has, those that were run, and those that lived."""

    target: Target
    made: int
    run: tuple[Mutant, ...]
    survived: tuple[Mutant, ...]
    seconds: float


class CannotJudge(Exception):
    """The tests of a target cannot tell a mutant from the module: they fail, or do not use it."""


@contextmanager
def copied_tree() -> Iterator[Path]:
    """A copy of the project in a temporary folder, removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        tree = Path(folder).resolve() / "tree"
        tree.mkdir()
        for part in PARTS:
            shutil.copytree(ROOT / part, tree / part, ignore=shutil.ignore_patterns("__pycache__"))
        for name in FILES:
            shutil.copy2(ROOT / name, tree / name)
        yield tree


def run_target(tree: Path, target: Target, most: int, tell: Callable[[Mutant], None]) -> Report:
    """Run a target's tests against its mutants, or a sample of so many. Raises CannotJudge.

    `tell` is called with each mutant that survives, at once.
    """
    started = time.monotonic()
    module = tree / target.module
    source = module.read_text("utf-8")
    limit = _time_of_good_run(tree, target) * SLOWNESS + MIN_LIMIT_S
    mutants = list(mutants_of(source))
    chosen = sample(mutants, most)
    try:
        if not _is_killed(tree, target, "raise SystemError('control')\n", limit):
            raise CannotJudge(f"{target.module}: its tests do not use it")
        survived: list[Mutant] = []
        for mutant in chosen:
            if not _is_killed(tree, target, mutant.text, limit):
                survived.append(mutant)
                tell(mutant)
    finally:
        module.write_text(source, "utf-8")
    return Report(target, len(mutants), tuple(chosen), tuple(survived), time.monotonic() - started)


def _time_of_good_run(tree: Path, target: Target) -> float:
    """Seconds that the tests take with the module as it is. Imports the libraries that they use.

    Raises CannotJudge.
    """
    reader, writer = _fork.Pipe(duplex=False)
    if _exit_code(tree, target, 600.0, writer) != PASSED:
        raise CannotJudge(f"{target.module}: its tests fail without any mutant: {' '.join(target.tests)}")
    for name in reader.recv():
        importlib.import_module(name)
    started = time.monotonic()
    _exit_code(tree, target, 600.0)
    return time.monotonic() - started


def _is_killed(tree: Path, target: Target, text: str, limit: float) -> bool:
    module = tree / target.module
    module.write_text(text, "utf-8")
    shutil.rmtree(module.parent / "__pycache__", ignore_errors=True)  # its times are too coarse to trust
    return _exit_code(tree, target, limit) != PASSED


def _exit_code(tree: Path, target: Target, limit: float, libraries: Connection | None = None) -> int | None:
    """What pytest exits with; negative where a signal ended it, None where the time was up."""
    process = _fork.Process(target=_run_pytest, args=(tree, target, libraries))
    process.start()
    process.join(limit)
    if process.exitcode is None:
        os.killpg(process.pid or 0, signal.SIGKILL)
        process.join()
        return None
    return process.exitcode


def _run_pytest(tree: Path, target: Target, libraries: Connection | None) -> None:
    """In a forked process: become a fresh run of pytest in the tree."""
    os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    os.chdir(tree)
    sys.path[:] = [str(tree), *(path for path in sys.path if path and Path(path).resolve() != ROOT)]
    for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
        del sys.modules[name]
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    sys.dont_write_bytecode = libraries is None

    import pytest
    from hypothesis import Phase, settings

    generating = (Phase.explicit, Phase.generate)
    settings.register_profile("mutation", derandomize=True, database=None, deadline=None, phases=generating)
    code = pytest.main([*PYTEST, *target.tests], plugins=[ExamplesLast()])
    if libraries is not None:
        libraries.send(_loaded_libraries())
    os._exit(int(code))


class ExamplesLast:
    """Plugin of pytest: tests with random examples come last, since one of the others is often enough."""

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items.sort(key=lambda item: item.get_closest_marker("hypothesis") is not None)


def _loaded_libraries() -> list[str]:
    """The modules of others that are imported now, apart from plugins, which pytest has to import itself."""
    ours = {*PARTS, "conftest", "pytest_timeout", "xdist", "anthropic", "__main__", "__mp_main__"}
    return [
        name
        for name, module in sys.modules.items()
        if name.partition(".")[0] not in ours
        and not name.startswith("_hypothesis")
        and getattr(getattr(module, "__spec__", None), "name", None) == name
    ]
