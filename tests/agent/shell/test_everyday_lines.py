"""Harmless everyday commands: without rules hardly any needs approval, and the verdict is fast."""

from __future__ import annotations

import shutil
import time

import pytest

from agent.permissions.rules import judge_call
from tools.base import Access

from .reading_project import ReadingProject, lines_of

LINES = lines_of("everyday_lines.txt")
MAX_ASKED_SHARE = 0.03


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> ReadingProject:
    made = ReadingProject(tmp_path_factory.mktemp("everyday"))
    for name in ("src/main.py", "src/util.py", "tests/test_main.py", "CHANGELOG.md", "data.csv", "Makefile"):
        (made.root / name).parent.mkdir(exist_ok=True)
        (made.root / name).write_text("def main(): ...\n")
    (made.root / "package.json").write_text('{"scripts": {}, "version": "1"}\n')
    tools = made.place / "tools"
    tools.mkdir()
    for name in ("rg", "jq", "node", "tree", "make", "gcc"):  # not every system has them; none is run
        shutil.copy("/bin/true", tools / name)
    made.environ["PATH"] = f"{tools}:{made.environ['PATH']}"
    made.commit()
    return made


def test_hardly_any_everyday_command_needs_approval(project: ReadingProject) -> None:
    assert len(LINES) >= 200
    asked = [line for line in LINES if not project.runs(line)]
    assert len(asked) <= MAX_ASKED_SHARE * len(LINES), asked


@pytest.mark.bench
def test_a_verdict_takes_milliseconds(project: ReadingProject) -> None:
    """In a project with more files than a search is looked through for."""
    for at in range(2_000):
        (project.root / f"src/d{at % 50}").mkdir(exist_ok=True)
        (project.root / f"src/d{at % 50}/f{at}").touch()
    rules = project.rules("npm test", "make test", "pytest")
    took = []
    for line in [*LINES, *lines_of("lines_in_doubt.txt"), *lines_of("lines_that_attack.txt")] * 3:
        start = time.process_time()
        judge_call("bash", [Access("run", line, cwd=str(project.root))], rules)
        took.append((time.process_time() - start) * 1_000)
    took.sort()
    middle, most = took[len(took) // 2], took[int(len(took) * 0.99)]
    print(f"{len(took):,} verdicts, CPU: median {middle:.2f} ms, p99 {most:.2f} ms, most {took[-1]:.1f} ms")
    assert most < 40 * middle
