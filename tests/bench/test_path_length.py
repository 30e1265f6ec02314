"""How much of the product one has to know to follow a prompt: functions and files that run on the way.

`python -m pytest -n 0 -s tests/bench/test_path_length.py` prints them. The bounds are part of the gate. What
a tool itself does (its module and those that only tools use) is not on the way of the result, but printed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tests.agent.ui.headless_run import RUN_DEADLINE_S, environment
from tests.strict_api.reply import Reply, calls
from tests.strict_api.scripted_model import ScriptedModel
from tests.strict_api.server import Server

TRACED = Path(__file__).with_name("traced_run.py")
MAX_FILES = 18
MAX_FUNCTIONS = 80
OF_TOOLS, PORTS = "tools/", ("tools/base.py", "tools/processes/jobs.py")
ENDS = {
    "prompt": ("agent/app/controller.py", "agent/model/anthropic/client.py"),
    "result": ("agent/model/anthropic/accumulator.py", "agent/session/session.py"),
}

Way = list[tuple[str, str]]


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Way]:
    """(file, function) on the way of the prompt and of the result, in a run that reads one file."""
    project = tmp_path_factory.mktemp("project")
    (project / "README.md").write_text("# Title\n\nSome words.\n")
    with Server(ScriptedModel([Reply((calls("read", file_path="README.md"),)), "It has a title."])) as server:
        run = subprocess.run(
            [sys.executable, str(TRACED), "-p", "what does README.md say?"],
            cwd=project,
            env=environment(project, server, PYTHONPATH=str(TRACED.parents[2])),
            capture_output=True,
            text=True,
            timeout=RUN_DEADLINE_S,
            check=False,
        )
    assert (run.returncode, run.stdout.strip()) == (0, "It has a title."), run.stderr
    found: dict[str, Way] = json.loads(run.stderr.splitlines()[-1])
    return found


@pytest.mark.parametrize("name", ["prompt", "result"])
def test_a_way_through_the_product_is_short(
    ways: dict[str, Way], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    by_file = defaultdict(list)
    for file, function in ways[name]:
        by_file[file].append(function)
    own = {file: names for file, names in by_file.items() if not file.startswith(OF_TOOLS) or file in PORTS}
    with capsys.disabled():
        for what, files in ((name, own), (f"{name} with the tool itself", by_file)):
            print(f"\n{what}: {len(files)} files, {sum(map(len, files.values()))} functions")
        for file, functions in by_file.items():
            print(f"  {file}: {', '.join(functions)}")
    assert set(ENDS[name]) <= own.keys()
    assert len(own) <= MAX_FILES
    assert sum(map(len, own.values())) <= MAX_FUNCTIONS
