"""Run makeroom under the SDK for Python, as its users do: through `cli_path`, against a server of a test."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.agent.ui.headless_run import credentials
from tests.strict_api.server import Server

ROOT = Path(__file__).resolve().parents[3]
NEEDS_SDK = pytest.mark.skipif(find_spec("claude_agent_sdk") is None, reason="the SDK is not installed")
SCRIPT = f"""\
#!/bin/sh
exec {sys.executable} -c '
import sys
sys.path.insert(0, "{ROOT}")
from agent.__main__ import main
sys.exit(main())' "$@"
"""


def cli_path(folder: Path) -> str:
    """A program that runs this checkout."""
    script = folder / "makeroom"
    script.write_text(SCRIPT, "utf-8")
    script.chmod(0o755)
    return str(script)


class Sdk:
    """The SDK in a project directory. `stderr` are the lines on standard error."""

    def __init__(self, folder: Path) -> None:
        import claude_agent_sdk

        self.sdk = claude_agent_sdk
        self.folder = folder / "project"
        self.folder.mkdir()
        self.stderr: list[str] = []
        self._cli_path = cli_path(folder)

    def options(self, server: Server, **more: Any) -> Any:
        """Options that lead to this checkout and the server."""
        environ = credentials(self.folder.parent, server) | more.pop("env", {})
        return self.sdk.ClaudeAgentOptions(
            cli_path=self._cli_path, cwd=self.folder, env=environ, stderr=self.stderr.append, **more
        )

    async def query(self, server: Server, prompt: Any = "go", **more: Any) -> list[Any]:
        """The messages of one run."""
        found = []
        async for message in self.sdk.query(prompt=prompt, options=self.options(server, **more)):
            found.append(message)
        return found

    async def turn(self, client: Any, prompt: Any) -> list[Any]:
        """The messages of one turn of a client."""
        await client.query(prompt)
        return [message async for message in client.receive_response()]


def init_of(messages: list[Any]) -> dict[str, Any]:
    """Return the first line of a turn."""
    found: dict[str, Any] = next(one.data for one in messages if getattr(one, "subtype", "") == "init")
    return found
