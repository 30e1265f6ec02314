"""Length of six paths through the product: the files and functions that run.

The ways are a prompt, calls of read, edit and bash (the tool itself included), a compaction, and a permission
question on the screen. `python -m pytest -n 0 -s tests/bench/test_path_length.py` prints them. What
path_length.json holds may not grow; `STORE=1` in front of that command stores what there is now.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from agent.ui.question_form import LISTEN_DELAY_S
from tests.agent.ui.headless_run import RUN_DEADLINE_S, environment
from tests.agent.ui.pty_terminal import PtyTerminal
from tests.strict_api.reply import Reply, calls
from tests.strict_api.scripted_model import ScriptedModel
from tests.strict_api.server import Server

TRACED = Path(__file__).with_name("traced_run.py")
STORED = Path(__file__).with_name("path_length.json")
EDIT = {"file_path": "README.md", "old_string": "Some words.", "new_string": "Other words."}
CALLS: Mapping[str, Reply] = {
    "read": Reply((calls("read", file_path="README.md"),)),
    "edit": Reply((calls("edit", **EDIT),)),
    "bash": Reply((calls("bash", command="echo hi"),)),
}
# Timers and redraws beside a way run a little more or less on another machine.
SLACK: Mapping[str, int] = {"files": 1, "functions": 3}
SCREEN_SLACK: Mapping[str, int] = {"files": 3, "functions": 10}
Way = list[tuple[str, str]]


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Way]:
    """(file, function) on each way, in runs of the whole program."""
    found: dict[str, Way] = {}
    folders = {name: tmp_path_factory.mktemp(name) for name in CALLS}
    for name, reply in CALLS.items():
        traced = run_traced(folders[name], [reply, "done"], "-p", "go", "--yolo")
        found[name] = traced["result"]
        found.setdefault("prompt", traced["prompt"])
    found["compaction"] = run_traced(folders["read"], ["a summary"], "-c", "-p", "/compact")["compaction"]
    found["question"] = question_on_screen(tmp_path_factory.mktemp("question"))
    if grown({"question": found["question"]}):
        again = question_on_screen(tmp_path_factory.mktemp("again"))  # more timers run on a busy machine
        found["question"] = [step for step in found["question"] if step in again]
    return found


def lengths_of(ways: Mapping[str, Way]) -> dict[str, dict[str, int]]:
    return {
        name: {"files": len({file for file, _ in way}), "functions": len(way)} for name, way in ways.items()
    }


def grown(ways: Mapping[str, Way]) -> set[str]:
    """Describe the lengths that exceed the stored ones by more than the slack."""
    stored = json.loads(STORED.read_text())
    return {
        f"{name}: {length} {what}, {stored[name][what]} before"
        for name, lengths in lengths_of(ways).items()
        for what, length in lengths.items()
        if length > stored[name][what] + (SCREEN_SLACK if name == "question" else SLACK)[what]
    }


def run_traced(folder: Path, answers: Sequence[Reply | str], *words: str) -> dict[str, Way]:
    out = prepared(folder)
    with Server(ScriptedModel(list(answers))) as server:
        run = subprocess.run(
            [sys.executable, str(TRACED), str(out), *words],
            cwd=folder / "project",
            env=environment(folder, server, PYTHONPATH=str(TRACED.parents[2])),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=RUN_DEADLINE_S,
            check=False,
        )
    assert run.returncode == 0, run.stderr
    traced: dict[str, Way] = json.loads(out.read_text())
    return traced


def question_on_screen(folder: Path) -> Way:
    """The way of a question whether an edit may be made, which is answered with yes."""
    out = prepared(folder)
    with Server(ScriptedModel([CALLS["read"], CALLS["edit"], "done"])) as server:
        environ = environment(folder, server, PYTHONPATH=str(TRACED.parents[2]), TERM="xterm-256color")
        argv = [sys.executable, str(TRACED), str(out)]
        with PtyTerminal(folder / "project", (100, 30), argv, **environ) as terminal:
            terminal.sees("❯").type("go\r").sees("Other words.", "Allow edit?")
            terminal.drain(1.2 * LISTEN_DELAY_S).type("1").sees("done").type("\x04").ends()
    traced: dict[str, Way] = json.loads(out.read_text())
    return traced["question"]


def prepared(folder: Path) -> Path:
    """Make the project of a run, if it is not there; returns the file for its ways."""
    (folder / "project").mkdir(exist_ok=True)
    (folder / "project" / "README.md").write_text("# Title\n\nSome words.\n")
    return folder / "ways.json"


def test_no_way_through_the_product_grows(ways: dict[str, Way], capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        for name, way in ways.items():
            by_file = defaultdict(list)
            for file, function in way:
                by_file[file].append(function)
            print(f"\n{name}: {len(by_file)} files, {len(way)} functions")
            for file, functions in by_file.items():
                print(f"  {file}: {', '.join(functions)}")
    if os.environ.get("STORE"):
        STORED.write_text(json.dumps(lengths_of(ways), indent=2) + "\n")
    assert grown(ways) == set()
