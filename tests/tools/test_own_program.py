"""Commands cannot change the program that runs them, even if it is installed in their project."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools.sandbox.own_program import ROOT, own_program
from tools.sandbox.supervisor.landlock import LEAST_ABI, landlock_abi

RUN = """
import asyncio, json, sys
from pathlib import Path
sys.path[:0] = [sys.argv[1]]
from tests.tools.sandbox_session import sandboxed_session
from tests.tools.restricted_process import restrict
if len(sys.argv) > 3:
    restrict(sys.argv[3])
session = sandboxed_session(Path(sys.argv[2]))
level, why = session.runner.run(session.commands.sandbox())
print(level, why)
if level != "none":
    for line in sys.stdin.read().splitlines():
        print(session.prints(line))
session.end()
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project that is a checkout of the program, with an environment of its own a directory deeper."""
    folder = tmp_path.resolve() / "project"
    folder.mkdir()
    for name in ("agent", "tools", "compact", "transcripts"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "tests").symlink_to(ROOT / "tests")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "env/.venv"], check=True)
    site = next((folder / "env/.venv/lib").glob("python*/site-packages"))
    (site / "ours.pth").write_text("\n".join(path for path in sys.path if path.endswith("-packages")))
    return folder


def run(project: Path, *lines: str, kind: str = "") -> str:
    python = project / "env/.venv/bin/python"
    words = [str(python), "-P", "-c", RUN, str(project), str(project.parent), *([kind] if kind else [])]
    done = subprocess.run(
        words, input="\n".join(lines), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


def test_commands_cannot_write_the_program_or_move_it_away(project: Path) -> None:
    site = next((project / "env/.venv/lib").glob("python*/site-packages")).relative_to(project)
    writes = [
        "agent/version.py",
        "tools/todo.py",
        "tools/new.py",
        "env/.venv/pyvenv.cfg",
        f"{site}/evil.pth",
        "env/.venv/bin/python",
    ]
    moves = ["mv env e", "mv env/.venv v", "rm -r tools", "mv agent a"]
    told = run(project, *(f"echo evil >>{path}" for path in writes), *moves, "echo free >free; cat free")
    level, *rows = told.splitlines()
    if level.startswith("none"):
        pytest.skip(f"there is no sandbox here: {level}")
    assert rows[-1] == "free"
    assert told.count("Read-only file system") >= len(writes)
    assert (project / "agent/version.py").read_text() == (ROOT / "agent/version.py").read_text()
    assert (project / "tools/todo.py").exists()
    assert (project / "env/.venv/pyvenv.cfg").exists()
    assert not (project / site / "evil.pth").exists()


@pytest.mark.skipif(landlock_abi() < LEAST_ABI, reason="Landlock is too old here")
def test_a_sandbox_that_cannot_protect_the_program_is_not_used(project: Path) -> None:
    told = run(project, "echo evil >>agent/version.py", kind="docker")
    assert told.startswith("none ")
    assert f"Landlock cannot protect the program itself in {project}/" in told


def test_only_what_is_in_writable_directories_is_named(tmp_path: Path) -> None:
    assert own_program([tmp_path]) == []
    assert own_program([ROOT / "agent"]) == []
    assert ROOT / "agent" in own_program([ROOT])
    assert own_program([Path(sys.prefix).resolve()])


def test_modules_are_not_imported_from_the_project(tmp_path: Path) -> None:
    """Neither from its root, which an editable installation names, nor from a directory in it."""
    (tmp_path / "src").mkdir()
    guard = "from agent.import_guard import guard_imports, leave_root; guard_imports(); leave_root()"
    look = f"{guard}; import sys; print(sys.path)"
    for root, folder in ((ROOT, ROOT), (ROOT, tmp_path)):
        paths = os.pathsep.join(map(str, (root, folder / "src", folder)))
        words = [sys.executable, "-c", look]
        environ = os.environ | {"PYTHONPATH": paths}
        done = subprocess.run(words, cwd=folder, env=environ, capture_output=True, text=True, check=True)
        left = done.stdout
        assert not any(repr(str(path)) in left for path in (root, folder, folder / "src"))
        assert "site-packages" in left
