"""Run the tests that reach each mutant, in a copy of the tree, up to the first that fails.

One process imports the product and the tests, once. Its first fork runs all tests and traces the lines that
each of them runs. Then each mutant is written to its file, and gets a fork of its own, that puts the mutated
code into the functions as they were imported, and runs the tests that run its lines, the quickest first. The
tests of a mutant of a line that runs at import (a constant, a default) run in a process that imports nothing
of ours before.

Programs that a test starts are traced as well (`tracer.py`), and import the mutated module from its file.
Tests with random examples take the same ones each time, and do not look for a smaller one.
"""

from __future__ import annotations

import ast
import gc
import importlib
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal
from zlib import crc32

import pytest

from .mutants import Mutant
from .reach import Reach, TestRun, bits, body_lines
from .swap import CannotSwap, Functions
from .targets import ROOT
from .tracer import Lines, Tracer, with_tracing

PARTS = ("agent", "compact", "tools", "transcripts", "tests", "docs")
FILES = ("pyproject.toml", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE")
MAX_MEMORY_BYTES = 4 << 30  # of one run: an endless loop may collect what it makes
PYTEST = (
    "-q", "-n", "0", "--tb", "no", "-p", "no:cacheprovider", "--hypothesis-profile", "mutation",
    "-W", "ignore::pytest.PytestAssertRewriteWarning",
)  # fmt: skip
PASSED = 0  # the exit code of pytest; other numbers stand for tests or imports that failed
_CANNOT_SWAP = -1
_fork = get_context("fork")

Outcome = Literal["killed", "hung", "mistyped", "survived", "not reached"]


@dataclass(frozen=True, slots=True)
class Job:
    """A mutant to judge, and the path of its module within the tree."""

    module: str
    mutant: Mutant


@dataclass(frozen=True, slots=True)
class Baseline:
    """The tests as they run without a mutant, and the libraries that they import."""

    tests: int
    failing: list[str]
    seconds: float
    libraries: list[str]


@dataclass(frozen=True, slots=True)
class _Trial:
    """A job with its tests, the quickest first, and the seconds that each takes while it is traced."""

    job: Job
    tests: dict[str, float]
    is_afresh: bool  # needs a new import

    @property
    def limit(self) -> float:
        return 30.0 + 3 * sum(self.tests.values())


class CannotJudge(Exception):
    """The tests cannot be run at all."""


@contextmanager
def copied_tree() -> Iterator[Path]:
    """Yield a copy of the project in a temporary directory, which is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        tree = Path(folder).resolve() / "tree"
        tree.mkdir()
        for part in PARTS:
            shutil.copytree(ROOT / part, tree / part, ignore=shutil.ignore_patterns("__pycache__"))
        for name in FILES:
            shutil.copy2(ROOT / name, tree / name)
        yield tree


def judge(
    tree: Path,
    jobs: list[Job],
    *,
    modules: list[str],
    tests: list[str],
    told: Callable[[Baseline], None],
    done: Callable[[Job, Outcome], None],
) -> None:
    """Run the tests against each mutant, and call `done` with the outcome. Raises CannotJudge.

    `modules` are those of the room: tests are chosen by the lines that they run in any of them.
    """
    reader, writer = _fork.Pipe(duplex=False)
    session = _Session(tree, modules, jobs, writer)
    process = _fork.Process(target=_run_session, args=(tree, tests, session, reader))
    process.start()
    writer.close()
    afresh: list[_Trial] = []
    with suppress(EOFError):
        baseline = reader.recv()
        told(baseline)
        while True:
            match reader.recv():
                case _Trial() as each:
                    afresh.append(each)
                case job, outcome:
                    done(job, outcome)
    process.join()
    if process.exitcode != PASSED:
        raise CannotJudge(f"the tests cannot be collected: pytest exits with {process.exitcode}")
    for name in baseline.libraries:
        importlib.import_module(name)
    for each in afresh:
        done(each.job, _judge_afresh(tree, each))


def _judge_afresh(tree: Path, each: _Trial) -> Outcome:
    module = tree / each.job.module
    source = module.read_text("utf-8")
    _write(module, each.job.mutant.text)
    try:
        process = _fork.Process(target=_run_pytest, args=(tree, ["-x", *each.tests]))
        process.start()
        process.join(each.limit)
        if process.exitcode is None:
            os.killpg(process.pid or 0, signal.SIGKILL)
            process.join()
            return "hung"
        return "survived" if process.exitcode == PASSED else "killed"
    finally:
        _write(module, source)


def _write(module: Path, text: str) -> None:
    """Write a module's file, with a time by which programs know if a compiled file is of another text."""
    module.write_text(text, "utf-8")
    seconds = crc32(text.encode())
    os.utime(module, (seconds, seconds))


def _run_session(tree: Path, tests: list[str], session: _Session, reader: Connection) -> None:
    reader.close()  # or this process would wait for ever where the one that reads is gone
    _run_pytest(tree, tests, session)


def _run_pytest(tree: Path, arguments: list[str], session: _Session | None = None) -> None:
    """In a forked process: become a fresh run of pytest in the tree."""
    os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    os.chdir(tree)
    sys.path[:] = [str(tree), *(path for path in sys.path if path and Path(path).resolve() != ROOT)]
    for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
        if not name.startswith(__package__):  # whose values go through pipes
            del sys.modules[name]
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    sys.dont_write_bytecode = True
    os.environ["PYTHONPATH"] = str(tree)  # for the programs that tests start

    from hypothesis import Phase, settings

    generating = (Phase.explicit, Phase.generate)
    settings.register_profile("mutation", derandomize=True, database=None, deadline=None, phases=generating)
    # Runs of pytest beside this one remove what they take for leftovers in the common directory.
    arguments = [*PYTEST, "--basetemp", str(tree.parent / "tests"), *arguments]
    if session is None:
        os._exit(int(pytest.main(arguments)))
    session.tracer.start()
    code = int(pytest.main(arguments, plugins=[session]))
    if session.asker is not None:
        session.asker.send(code)
    os._exit(code)


class _Session:
    """Plugin of pytest that forks this process behind the collection, instead of running the tests in it."""

    def __init__(self, tree: Path, modules: list[str], jobs: list[Job], results: Connection) -> None:
        notes = tree.parent / "notes"
        self.tracer = Tracer.with_notes((str(tree / module) for module in modules), notes)
        self._sources = {module: (tree / module).read_text("utf-8") for module in modules}
        for module, source in self._sources.items():
            _write(tree / module, with_tracing(source, notes))
        self.asker: Connection | None = None  # in a fork: the way to the process that waits for its answer
        self._tree = tree
        self._modules = modules
        self._jobs = jobs
        self._results = results

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Judge all mutants. Returns None in a fork, which goes through the tests that are left in it."""
        for module in self._modules:
            importlib.import_module(module.removesuffix(".py").replace("/", "."))
        imported = self.tracer.stop()
        started = time.monotonic()
        fork = self._forked()
        if fork is None:
            assert self.asker is not None
            session.config.pluginmanager.register(_Mapping(self.tracer, self.asker))
            return None
        reach = Reach(imported, fork.answer(limit=1_800.0) or {})
        for module, source in self._sources.items():
            _write(self._tree / module, source)
        baseline = Baseline(
            tests=len(reach.tests),
            failing=reach.failing(),
            seconds=time.monotonic() - started,
            libraries=_loaded_libraries(),
        )
        self._results.send(baseline)
        functions = Functions()
        gc.freeze()  # a collection in a fork would copy the memory of all modules
        for job in self._jobs:
            trial = self._trial(job, reach)
            if not trial.tests:
                self._results.send((job, "not reached"))
            elif trial.is_afresh:
                self._results.send(trial)
            else:
                _write(self._tree / job.module, job.mutant.text)
                fork = self._forked()
                if fork is None:
                    self._prepare(session, trial, functions)
                    return None
                code = fork.answer(trial.limit)
                _write(self._tree / job.module, self._sources[job.module])
                self._results.send(trial if code == _CANNOT_SWAP else (job, _outcome(code)))
        return True

    def _forked(self) -> _Fork | None:
        """Fork. Returns None in the fork."""
        reader, writer = _fork.Pipe(duplex=False)
        pid = os.fork()
        if pid:
            writer.close()
            return _Fork(pid, reader)
        os.setpgid(0, 0)
        reader.close()
        self.asker = writer
        return None

    def _trial(self, job: Job, reach: Reach) -> _Trial:
        file = str(self._tree / job.module)
        lines = {file: bits(job.mutant.line, job.mutant.last_line)}
        is_afresh = bool(reach.imported.get(file, 0) & lines[file])
        if is_afresh:
            tests = reach.running(self._using(job)) or reach.running({file: -1})
        else:
            tests = reach.running(lines)
        seconds = {name: reach.tests[name].seconds for name in tests}
        return _Trial(job, seconds, is_afresh)

    def _using(self, job: Job) -> Lines:
        """Return the lines of the room that name one of the things that the statement of a mutant defines.

        If it defines a function, its body is among them: tests may call it themselves.
        """
        source = self._sources[job.module]
        names = _defined(job.mutant, source)
        found: Lines = {str(self._tree / job.module): body_lines(source, job.mutant.line)}
        if not names:
            return found
        word = re.compile(rf"\b(?:{'|'.join(sorted(names))})\b")
        for module, source in self._sources.items():
            path = str(self._tree / module)
            for number, line in enumerate(source.split("\n"), start=1):
                if word.search(line):
                    found[path] = found.get(path, 0) | 1 << number
        return found

    def _prepare(self, session: pytest.Session, trial: _Trial, functions: Functions) -> None:
        """In a fork: run the tests with a mutant instead of the original code."""
        job = trial.job
        try:
            functions.swap(str(self._tree / job.module), self._sources[job.module], job.mutant.text)
        except CannotSwap:
            assert self.asker is not None
            self.asker.send(_CANNOT_SWAP)
            os._exit(0)
        items = {item.nodeid: item for item in session.items}
        for name, seconds in trial.tests.items():
            items[name].add_marker(pytest.mark.timeout(10.0 + 3 * seconds), append=False)
        session.items[:] = [items[name] for name in trial.tests]
        session.config.option.maxfail = 1


class _Mapping:
    """Plugin of pytest, in a fork: traces each test, and sends the runs of all of them."""

    def __init__(self, tracer: Tracer, asker: Connection) -> None:
        self._tracer = tracer
        self._asker = asker
        self._runs: dict[str, TestRun] = {}
        self._run = TestRun()
        self._shared: dict[str, Lines] = {}  # by the name of a fixture that several tests use

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        run = self._run = self._runs[item.nodeid] = TestRun()
        started = time.monotonic()
        self._tracer.start()
        try:
            return (yield)
        finally:
            run.add(self._tracer.stop())
            run.seconds = time.monotonic() - started
            for name in getattr(item, "fixturenames", ()):
                run.add(self._shared.get(name, {}))

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
        """Note the lines of a fixture that is set up once for several tests: all of them run its lines."""
        if fixturedef.scope == "function":
            return (yield)
        self._run.add(self._tracer.stop())
        self._tracer.start()
        try:
            return (yield)
        finally:
            self._shared[fixturedef.argname] = self._tracer.stop()
            self._tracer.start()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._runs[report.nodeid].has_passed &= not report.failed

    def pytest_sessionfinish(self) -> None:
        self._asker.send(self._runs)
        os._exit(0)


@dataclass(frozen=True, slots=True)
class _Fork:
    """A fork of the process with the tests."""

    pid: int
    answers: Connection

    def answer(self, limit: float) -> Any:
        """Wait for its answer, then end it. Returns None where there is none in time, or it died."""
        answer = None
        if self.answers.poll(limit):
            with suppress(EOFError):
                answer = self.answers.recv()
        self.answers.close()
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        return answer


def _outcome(code: int | None) -> Outcome:
    if code is None:
        return "hung"
    return "survived" if code == PASSED else "killed"


def _defined(mutant: Mutant, source: str) -> set[str]:
    """Return the names that the statement of a mutant outside of functions defines, and that of its class."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.ClassDef(lineno=first, end_lineno=last, name=name) if (
                first <= mutant.line <= (last or 0)
            ):
                names.add(name)
            case (
                ast.Assign(lineno=mutant.line, targets=[ast.Name(id=name), *_])
                | ast.AnnAssign(lineno=mutant.line, target=ast.Name(id=name))
                | ast.FunctionDef(lineno=mutant.line, name=name)
                | ast.AsyncFunctionDef(lineno=mutant.line, name=name)
            ):
                names.add(name)
    return names


def _loaded_libraries() -> list[str]:
    """Return the names of the imported modules of others, without the plugins that pytest has to import."""
    ours = {*PARTS, "conftest", "pytest_timeout", "xdist", "anthropic", "__main__", "__mp_main__"}
    return [
        name
        for name, module in sys.modules.items()
        if name.partition(".")[0] not in ours
        and not name.startswith("_hypothesis")
        and getattr(getattr(module, "__spec__", None), "name", None) == name
    ]
