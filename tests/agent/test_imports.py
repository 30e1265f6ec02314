"""Modules that are slow or large to import are imported only when they are needed."""

import subprocess
import sys
from pathlib import Path

from tests.tables import each_row

ROOT = Path(__file__).resolve().parents[2]


@each_row(
    ("module", "heavy"),
    [
        ("agent.cli.arguments", {"asyncio", "anthropic", "prompt_toolkit", "rich", "pydantic", "tiktoken"}),
        ("agent.replay.command", {"anthropic", "prompt_toolkit", "rich", "pydantic"}),
        ("agent.cli.sessions_command", {"anthropic", "prompt_toolkit", "rich", "pydantic", "markdown_it"}),
        (
            "agent.ui.headless",
            {"anthropic", "prompt_toolkit", "rich", "markdown_it"}
            | {"agent.shell.line_reading", "transcripts.search.ranking"},
        ),
        (
            "agent.ui.repl",
            {"anthropic", "rich", "pydantic", "tiktoken", "markdown_it"}
            | {"agent.permissions.rules", "agent.shell.program_names"}
            | {"compact.block_tracker", "compact.restoring", "compact.tokens"},
        ),
    ],
)
def test_nothing_heavy_comes_along_with(module: str, heavy: set[str]) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert heavy & set(done.stdout.split()) == set()
