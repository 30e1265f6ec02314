"""Run makeroom without a screen, as scripts do: in a process of its own, against a server of the test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.strict_api.server import Server

RUN_DEADLINE_S = 60  # a guard against hangs


def credentials(folder: Path, server: Server | None) -> dict[str, str]:
    """The variables that lead to the server, and to a home of the test's own."""
    found = {"HOME": str(folder / "home")}
    if server is not None:
        found |= {"ANTHROPIC_BASE_URL": server.base_url, "ANTHROPIC_API_KEY": "test-key-123456"}
    return found


def environment(folder: Path, server: Server | None, **more: str) -> dict[str, str]:
    """The environment of the tests with the server's credentials in place of the user's."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("ANTHROPIC_")}
    return environ | credentials(folder, server) | more


def run_headless(
    folder: Path, server: Server | None, *argv: str, **more: Any
) -> subprocess.CompletedProcess[str]:
    given = {"stdin": subprocess.DEVNULL} if "input" not in more else {}
    return subprocess.run(
        [sys.executable, "-m", "agent", "-p", *argv],
        cwd=folder,
        env=environment(folder, server, **more.pop("environ", {})),
        capture_output=True,
        text=True,
        timeout=RUN_DEADLINE_S,
        check=False,
        **given,
        **more,
    )
