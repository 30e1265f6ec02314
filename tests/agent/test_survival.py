"""Killed at any moment, a session is continued and ends with the right answer; two agents do not mix."""

import json
import random
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.agent.ui.headless_run import RUN_DEADLINE_S, environment, run_here, start_makeroom
from tests.strict_api.demo_bridge import demo_reply
from tests.strict_api.reply import Body, Reply, calls, says
from tests.strict_api.server import Server, ServerOptions
from transcripts.facts import Reply as Said
from transcripts.facts import Result
from transcripts.load import read_transcript

FILES = 5


FLAGS = ("--allowedTools", "bash", "--output-format", "json")


def start(folder: Path, server: Server, *argv: str) -> subprocess.Popen[str]:
    return start_makeroom(
        folder,
        environment(folder, server),
        *("-p", *FLAGS, *argv),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def kill_and_go_on(folder: Path, capfd: pytest.CaptureFixture[str], seed: int) -> None:
    """Kill a run at a random one of its requests, or a moment after it; then ask for the rest."""
    rng = random.Random(seed)
    (folder / "src").mkdir()
    for number in range(FILES):
        (folder / "src" / f"part_{number}.py").write_text(f"VALUE = {number}\n" * 50, "utf-8")
    last, moment = rng.randrange(1, FILES + 2), rng.random() * 0.03
    victim: list[subprocess.Popen[str]] = []
    brain, count = demo_reply, [0]

    def deadly(body: Body) -> Reply:
        count[0] += 1
        if count[0] == last:
            threading.Timer(moment, victim[0].kill).start()
        return brain(body)

    with Server(deadly, ServerOptions(binds_thinking=True)) as server:
        victim.append(start(folder, server, "Read every Python file in the src directory one by one"))
        victim[0].communicate(timeout=RUN_DEADLINE_S)
        server.responder = brain
        again = run_here(folder, capfd, server, *FLAGS, "-c", "continue")
        assert list(server.refused) == []
    result = json.loads(again.stdout)
    assert result["subtype"] == "success", again.stderr
    assert f"{FILES} files" in result["result"] or victim[0].returncode == 0, result["result"]


@pytest.mark.parametrize("seed", range(2))
def test_a_session_killed_at_a_random_moment_continues_to_the_right_answer(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], seed: int
) -> None:
    kill_and_go_on(tmp_path, capfd, seed)


@pytest.mark.sweep
@pytest.mark.timeout(3600)
def test_two_hundred_sessions_killed_at_random_moments(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for seed in range(1_000, 1_200):
        folder = tmp_path / str(seed)
        folder.mkdir()
        kill_and_go_on(folder, capfd, seed)


@pytest.mark.parametrize("turns", [15, pytest.param(300, marks=pytest.mark.sweep)])
def test_two_agents_in_one_project_keep_whole_records_of_their_own(tmp_path: Path, turns: int) -> None:
    (tmp_path / "home").mkdir()

    def brain(body: Body) -> Reply:
        done = sum(message["role"] == "assistant" for message in body["messages"])
        return Reply([calls("bash", command=f"echo {done}")] if done < turns else [says("done")])

    with Server(brain, ServerOptions(keep_requests=False, window=1_000_000)) as server:
        both = [start(tmp_path, server, f"agent {name}", "--policy", "off") for name in "ab"]
        outs: list[Any] = [json.loads(each.communicate(timeout=RUN_DEADLINE_S)[0]) for each in both]
        assert list(server.refused) == []
    assert [out["result"] for out in outs] == ["done", "done"]
    records = list((tmp_path / ".transcripts").glob("*.jsonl"))
    assert len(records) == 2
    for path in records:
        loaded = read_transcript(path)
        assert (loaded.damaged, loaded.torn_size) == ((), 0)
        assert sum(isinstance(fact, Said) for fact in loaded.facts) == turns + 1
        assert sum(isinstance(fact, Result) for fact in loaded.facts) == turns
        assert [fact.seq for fact in loaded.facts] == list(range(1, len(loaded.facts) + 1))
