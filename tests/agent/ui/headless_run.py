"""Run makeroom without a screen, as scripts do, against a server of the test."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agent.__main__ import main
from agent.app import composition  # noqa: F401  forks need not import what a session takes
from agent.ui import headless  # noqa: F401  nor what a run without a screen does
from tests.agent.known_sandbox import remember_sandbox
from tests.forked import start_forked
from tests.strict_api.server import Server

ROOT = Path(__file__).parents[3]
RUN_DEADLINE_S = 60  # a guard against hangs


def credentials(folder: Path, server: Server | None) -> dict[str, str]:
    """The variables that lead to the server, and to a home of the test's own."""
    found = {"HOME": str(folder / "home")}
    if server is not None:
        found |= {"ANTHROPIC_BASE_URL": server.base_url, "ANTHROPIC_API_KEY": "test-key-123456"}
    return found


def environment(folder: Path, server: Server | None, **more: str) -> dict[str, str]:
    """The environment of the tests with the server's credentials in place of the user's.

    `python -m agent` is the one of this checkout, whichever is installed.
    """
    environ = {name: value for name, value in os.environ.items() if not name.startswith("ANTHROPIC_")}
    return environ | {"PYTHONPATH": str(ROOT)} | credentials(folder, server) | more


def run_here(
    folder: Path,
    capfd: pytest.CaptureFixture[str],
    server: Server | None,
    *argv: str,
    stdin: int | None = None,
    sandbox_known: bool = True,
    **environ: str,
) -> subprocess.CompletedProcess[str]:
    """Run the program within this process, which saves a second of imports each time.

    stdin          a descriptor, which is closed; None: nothing
    sandbox_known  whether an earlier run has found out the kind of sandbox
    environ        more variables
    """
    if sandbox_known:
        remember_sandbox(folder / "home" / ".local" / "state" / "makeroom", environ)
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("ANTHROPIC_")]:
            patch.delenv(name)
        patch.chdir(folder)
        for name, value in (*credentials(folder, server).items(), *environ.items()):
            patch.setenv(name, value)
        with open(os.devnull if stdin is None else stdin) as given:  # noqa: PTH123
            patch.setattr("sys.stdin", given)
            try:
                code = main(["-p", *argv])
            except SystemExit as exit:
                code = int(exit.code or 0)
    return subprocess.CompletedProcess(argv, code, *capfd.readouterr())


def run_headless(
    folder: Path, server: Server | None, *argv: str, **more: Any
) -> subprocess.CompletedProcess[str]:
    """Run the program in a process of its own."""
    if "input" not in more:
        more["stdin"] = subprocess.DEVNULL
    ended: subprocess.CompletedProcess[str] = subprocess.run(
        [sys.executable, "-m", "agent", "-p", *argv],
        cwd=folder,
        env=environment(folder, server, **more.pop("environ", {})),
        capture_output=True,
        text=True,
        timeout=RUN_DEADLINE_S,
        check=False,
        **more,
    )
    return ended


def start_makeroom(
    folder: Path, environ: dict[str, str], *argv: str, **streams: Any
) -> subprocess.Popen[str]:
    """Start the program in a fork of this process, which saves the imports; `streams` are as for Popen."""
    return start_forked(partial(main, argv), folder, environ, **streams)
