"""The command lines of a developer's day, run by the real program on fresh projects, and what they ask.

None may take a wrong question, more than one, or fail without its reason. A line whose program is not
installed is skipped. `SHOW=1` prints the table. In the mode "project" the user allows each access for the
project, so that only the first of several lines asks.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct, field

from tests.agent.everyday.projects import PROJECTS, make_project, servers
from tests.agent.ui.headless_run import environment
from tests.real_home import real_home
from tests.strict_api.reply import Reply, calls
from tests.strict_api.scripted_model import ScriptedModel, Step
from tests.strict_api.server import Server
from tools.text import word_set

pytestmark = [pytest.mark.sweep, pytest.mark.timeout(1800)]

HERE = Path(__file__).parent / "everyday"
SESSION_LIMIT_S = 900
NOBODY = 65534
GOOD = ("unasked", "asked")
# Programs of the table that a machine for tests may lack.
OPTIONAL = word_set(
    "npm node npx go gofmt cargo rustc docker psql pg_dump pg_isready redis-cli redis-server sqlite3"
    " wget curl twine jq tree make patch rsync openssl ssh scp sudo apt-get crontab systemctl journalctl ping"
    " gpg kubectl"
)


class EverydayLine(Struct):
    """A command line of the table, and what became of it."""

    expected: str
    text: str
    asked: list[dict[str, Any]] = field(default_factory=list)
    failed: bool = False
    said: str = ""

    def is_runnable(self, path: str) -> bool:
        """Return whether its programs and servers are installed here."""
        words = OPTIONAL.intersection(re.findall(r"[\w-]+", self.text))
        return not re.search(r"\{\w+\}", self.text.replace("%{http_code}", "")) and all(
            shutil.which(name, path=path) for name in words
        )

    def outcome(self, mode: str) -> str:
        """Return "unasked", "asked", or what is wrong."""
        about = " · ".join(" ".join((one["head"], one["refused"], one["why"])) for one in self.asked)
        kind, _, words = self.expected.partition(" ")
        if len(self.asked) > 1:
            return f"{len(self.asked)} questions: {about}"
        if kind == "ask" and not self.asked:
            is_known = mode == "project" and "[blocked" not in self.said
            return "unasked" if is_known else f"no question: {self.said[-300:]}"
        if kind == "ask":
            return "asked" if words.strip() in about else f"another question: {about}"
        if self.asked:
            return f"a question: {about}"
        if self.failed and "[blocked" in self.said:
            return f"blocked: {self.said[-300:]}"
        if kind != "reads" and self.failed != (kind == "fails"):
            return f"{'failed' if self.failed else 'succeeded'}: {self.said[-300:]}"
        return "unasked"


def read_lines(kind: str, ports: Mapping[str, int], mode: str) -> list[EverydayLine]:
    """Read a section of the table, with the ports of the servers that run."""
    text = (HERE / "lines.txt").read_text("utf-8")
    for name, port in ports.items():
        text = text.replace(f"{{{name}}}", str(port))
    section = text.partition(f"\n[{kind}]\n")[2].partition("\n\n")[0]
    rows = (row.partition("|") for row in section.splitlines())
    return [
        EverydayLine(_expected(left, mode), right.strip().replace("\\n", "\n")) for left, _, right in rows
    ]


def _expected(text: str, mode: str) -> str:
    """Return what is expected in a mode, of a text such as `run; landlock: ask the network`."""
    usual, *special = text.strip().split("; ")
    return next((each.partition(": ")[2] for each in special if each.startswith(f"{mode}:")), usual)


def path_of(mode: str) -> str:
    """Return the search path: for an ordinary user, without what is in the home of root."""
    path = os.environ["PATH"].split(os.pathsep)
    home = str(real_home())
    return os.pathsep.join(each for each in path if mode != "ordinary" or not each.startswith(f"{home}/"))


def run_session(place: Path, lines: Sequence[EverydayLine], mode: str, approves: bool = True) -> None:
    """Run the lines in one session of a project, and note what each asked and returned."""
    questions = place / "questions"
    steps: list[Step] = [Reply((calls("bash", command=line.text),)) for line in lines]
    with Server(ScriptedModel([*steps, "done"])) as server:
        given = environment(place, server) | {"PATH": path_of(mode)}
        rustup = real_home() / ".rustup"
        given |= {"RUSTUP_HOME": str(rustup)} if rustup.is_dir() else {}
        given |= {"EVERYDAY_PROJECT": "1"} if mode == "project" else {}
        given["MAKEROOM_NAMESPACE"] = "off" if mode == "landlock" else "on"
        user = None
        program = sys.executable
        if mode == "ordinary" and os.geteuid() == 0:
            user = NOBODY
            program = "/usr/bin/python3"  # another one may be in the home of root
            given["PYTHONPATH"] = os.pathsep.join([str(HERE.parents[2]), sysconfig.get_path("purelib")])
            subprocess.run(["chown", "-R", str(user), place], check=True)
        words: list[str | Path] = [
            program,
            *([HERE / "asked_run.py", questions] if approves else ["-m", "agent", "-p"]),
            "go",
            "--output-format",
            "stream-json",
        ]
        ended = subprocess.run(
            words,
            cwd=place / "project",
            env=given,
            user=user,
            group=user,
            extra_groups=[] if user is not None else None,
            capture_output=True,
            text=True,
            timeout=SESSION_LIMIT_S,
        )
        assert list(server.refused) == [], server.refused
    frames = [json.loads(row) for row in ended.stdout.splitlines()]
    blocks = [
        block
        for frame in frames
        if frame["type"] in ("user", "assistant") and isinstance(frame["message"]["content"], list)
        for block in frame["message"]["content"]
    ]
    used = [block["id"] for block in blocks if block["type"] == "tool_use"]
    assert len(used) == len(lines), ended.stderr
    results = {block["tool_use_id"]: block for block in blocks if block["type"] == "tool_result"}
    asked = (
        [json.loads(row) for row in questions.read_text("utf-8").splitlines()] if questions.exists() else []
    )
    for line, call in zip(lines, used, strict=True):
        line.asked = [one for one in asked if one["call"] == call]
        line.failed = bool(results[call].get("is_error"))
        line.said = str(results[call]["content"])


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, int]]:
    with servers(tmp_path_factory.mktemp("servers")) as running:
        yield running


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory outside of /tmp, of which sandboxed commands have one of their own."""
    shared = Path("/srv")
    with tempfile.TemporaryDirectory(dir=shared if os.access(shared, os.W_OK) else Path.home()) as name:
        made = Path(os.path.realpath(name))
        made.chmod(0o755)
        yield made


@pytest.mark.parametrize("mode", ["as is", "project", "ordinary", "landlock"])
@pytest.mark.parametrize("kind", PROJECTS)
def test_no_line_takes_a_wrong_question_or_fails_without_a_reason(
    kind: str, mode: str, place: Path, ports: Mapping[str, int]
) -> None:
    make_project(place, kind)
    every = read_lines(kind, ports, mode)
    lines = [line for line in every if line.is_runnable(path_of(mode))]
    if not lines:
        pytest.skip("its programs are not installed")
    for some in [lines] if kind != "database" or mode == "project" else [[line] for line in lines]:
        run_session(place, some, mode)  # an answer about a port holds for the rest of a session
    outcomes = {line.text: line.outcome(mode) for line in lines}
    if os.environ.get("SHOW"):
        for line in lines:
            print(json.dumps([line.expected, line.text, outcomes[line.text], line.asked, line.said[-400:]]))
    counted = Counter(outcomes.values())
    figures = ", ".join(f"{counted[each]} {each}" for each in GOOD)
    print(f"{kind}, {mode}: {figures}, of {len(every)}")
    assert not {text: found for text, found in outcomes.items() if found not in GOOD}
