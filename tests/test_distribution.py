"""The ways to get makeroom: the action runs a prompt, and the files of a distribution name what exists."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

TOP = Path(__file__).resolve().parents[1]


def loaded(name: str) -> dict[str, Any]:
    found = yaml.safe_load((TOP / name).read_text())
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(("flags", "code"), [("--offline", 0), ("", 5)])
def test_the_action_runs_a_prompt_and_writes_its_outputs(tmp_path: Path, flags: str, code: int) -> None:
    program = tmp_path / "makeroom"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m agent {flags} "$@"\n')
    program.chmod(0o755)
    (tmp_path / "project").mkdir()
    outputs = tmp_path / "outputs"
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith("ANTHROPIC_")},
        "PYTHONPATH": str(TOP),
        "HOME": str(tmp_path),
        "RUNNER_TEMP": str(tmp_path),
        "MAKEROOM": str(program),
        "GITHUB_OUTPUT": str(outputs),
        "PROMPT": "$(touch made) \"'",
        "MODEL": "",
        "MODE": "dontAsk",
        "BUDGET": "1",
        "TURNS": "5",
        "RULES": "\nbash(echo *)\nread\n",
    }
    script = str(TOP / ".github/run-action.sh")
    ran = subprocess.run(
        ["bash", script], cwd=tmp_path / "project", env=environ, capture_output=True, check=False
    )
    written = outputs.read_text()
    result = json.loads(Path(re.findall(r"result-file=(.*)", written)[0]).read_text())
    answer = result["result"] if code == 0 else result["errors"][0]
    assert ran.returncode == code and f"exit-code={code}\n" in written
    assert answer and f"\n{answer}\n" in written
    assert not (tmp_path / "project" / "made").exists()


def test_the_action_hands_on_each_input_in_a_variable() -> None:
    action = loaded("action.yml")
    step = action["runs"]["steps"][-1]
    used = set(re.findall(r"inputs\.([\w-]+)", str(action["runs"])))
    assert used == set(action["inputs"])
    assert not any("inputs." in each.get("run", "") for each in action["runs"]["steps"]), (
        "it would be executed"
    )
    script = (TOP / ".github/run-action.sh").read_text()
    assert all(f"${name}" in script or f"${{{name}:" in script for name in step["env"])


def test_the_example_workflow_uses_inputs_and_outputs_of_the_action() -> None:
    action = loaded("action.yml")
    (review,) = (
        step
        for step in loaded("docs/examples/review.yml")["jobs"]["review"]["steps"]
        if "makeroom@" in step.get("uses", "")
    )
    assert review["with"].keys() <= action["inputs"].keys()
    named = re.findall(r"steps\.review\.outputs\.([\w-]+)", (TOP / "docs/examples/review.yml").read_text())
    assert set(named) <= action["outputs"].keys()


def test_what_the_image_copies_exists_and_is_not_ignored() -> None:
    copied = [
        word
        for line in re.findall(r"^COPY (?!--from)(.*)$", (TOP / "Dockerfile").read_text(), re.MULTILINE)
        for word in line.split()[:-1]
    ]
    kept = {line[1:] for line in (TOP / ".dockerignore").read_text().split() if line.startswith("!")}
    assert len(copied) == 8 and all((TOP / name).exists() for name in copied) and set(copied) == kept
