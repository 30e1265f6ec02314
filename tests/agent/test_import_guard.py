"""Decoys in the current directory never run inside us, however the program is started."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DECOYS = {"tools", "compact", "transcripts", "rich", "prompt_toolkit", "anthropic", "pydantic", "tiktoken"}
DECOYS |= {"httpx2", "__future__", "json", "argparse", "asyncio", "dataclasses", "pathlib", "re", "logging"}
DECOYS |= {"shlex", "fnmatch", "tomllib", "hashlib", "tempfile", "random", "secrets", "signal"}


@pytest.fixture
def decoys(tmp_path: Path) -> Path:
    for name in DECOYS:
        (tmp_path / f"{name}.py").write_text(f"print('DECOY {name}')\nraise SystemExit(99)\n", "utf-8")
    package = tmp_path / "tools"
    package.mkdir()
    (package / "__init__.py").write_text("print('DECOY tools')\nraise SystemExit(99)\n", "utf-8")
    return tmp_path


@pytest.mark.parametrize("argv", [["--version"], ["--help"], ["-p", "--offline", "--no-session", "help"]])
def test_decoys_in_the_current_directory_do_not_run(decoys: Path, argv: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "agent", *argv],
        cwd=decoys,
        env=os.environ | {"PYTHONPATH": str(ROOT)},  # this checkout, whichever is installed
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "DECOY" not in done.stdout + done.stderr
    assert done.returncode == 0, done.stderr


def test_the_console_command_is_as_safe(decoys: Path) -> None:
    command = Path(sys.executable).parent / "makeroom"
    done = subprocess.run(
        [command, "--version"], cwd=decoys, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.startswith("makeroom ")


def test_python_path_is_left_unchanged_for_children(decoys: Path) -> None:
    guarded = "import os; from agent.import_guard import guard_imports; guard_imports()"
    script = f"{guarded}; print('PYTHONSAFEPATH' in os.environ)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "False"
