"""The run of the tests: its home directory, and the work of collecting, which several workers share."""

from __future__ import annotations

import gc
import os
import re
import shutil
import signal
import sys
from collections.abc import Generator
from contextlib import suppress
from importlib import import_module
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from zlib import crc32

import pytest
from hypothesis import settings

# The time that an example takes depends on what else the machine does, and by default one that takes 200 ms
# fails. On a CI server and with --hypothesis-profile, another profile applies.
settings.register_profile("no deadline", deadline=None)
if settings.get_current_profile_name() == "default":
    settings.load_profile("no deadline")


def pytest_configure(config: pytest.Config) -> None:
    """Give the run an empty home directory: what programs and sandboxes store there is no user's."""
    if hasattr(config, "workerinput"):  # a worker has the home directory of the run
        return
    home = TemporaryDirectory(prefix="makeroom-test-home-", ignore_cleanup_errors=True)
    config.add_cleanup(home.cleanup)
    os.environ["HOME"] = home.name
    if config.getoption("numprocesses", None):
        # A run that is terminated removes its folders, as with Ctrl-C. The tests are in other processes.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    use_this_python()


_NUMBERS = count()


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the directory of a test, numbered by a counter.

    pytest's own fixture finds the next number in the names of all directories made so far, of which there are
    thousands, and makes a symbolic link for each.
    """
    name = re.sub(r"\W", "_", request.node.name)[:30]
    folder = tmp_path_factory.getbasetemp() / f"{name}{next(_NUMBERS)}"
    folder.mkdir(0o700)
    return folder


def use_this_python() -> None:
    """Let the commands of tests find this Python, where `python3` is the script of a version manager.

    pyenv's starts five shells before the interpreter, which takes 0.1 s of CPU time for each command.
    """
    found = shutil.which("python3")
    if found is not None and Path(found).read_bytes()[:2] == b"#!":
        os.environ["PATH"] = f"{Path(sys.executable).resolve().parent}{os.pathsep}{os.environ['PATH']}"


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect without garbage collections, and keep what is collected out of every later one.

    On a clean checkout, rewriting assertions creates millions of short-lived objects beside 400,000 that
    stay: garbage collections took a third of the time of collecting the tests.
    """
    gc.disable()
    try:
        import_test_modules(session)
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(50_000, 20, 50)  # most tests end before; the young generation's took two percent
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the check of the types, which takes longest, and mix the files.

    Each worker begins with a part of the list. In the order of the directories, one would run all tests that
    wait for a terminal or a time limit, and others those that compute.
    """
    items.sort(
        key=lambda item: (item.path.name != "test_types.py", crc32(item.nodeid.partition("::")[0].encode()))
    )


def import_test_modules(session: pytest.Session) -> None:
    """In a worker, import the modules that will be collected; each worker begins at another one of them.

    Where all go through them in one order, as the collection does, each compiles all of them at the same time
    as the others, which takes most of a collection on a clean checkout. The collection tells what cannot be
    imported.
    """
    worker = getattr(session.config, "workerinput", None)
    if worker is None:
        return
    root = session.config.rootpath
    places = [Path(root, argument.partition("::")[0]) for argument in session.config.args]
    paths = {path for place in places for path in (place, *place.rglob("test_*.py"))}
    found = sorted(path for path in paths if path.is_file())
    first = len(found) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
    for path in (*found[first:], *found[:first]):
        with suppress(Exception, pytest.skip.Exception):
            import_module(".".join(path.relative_to(root).with_suffix("").parts))
    # Hypothesis then reads the constants in all modules of the program, which takes 1.7 s, and stores them in
    # files. So here, too, each worker begins at another module.
    modules = list(sys.modules.values())
    first = len(modules) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
    with suppress(ImportError):  # another version may have another module for it
        from hypothesis.internal.constants_ast import constants_from_module, is_local_module_file

        for module in (*modules[first:], *modules[:first]):
            if (file := getattr(module, "__file__", None)) is not None and is_local_module_file(file):
                constants_from_module(module)
