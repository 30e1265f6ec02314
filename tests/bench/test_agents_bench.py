"""Cost of agents for the session that starts them, and the time until ten of them end.

python -m pytest -m bench -n 0 -s tests/bench/test_agents_bench.py
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from agent.loop.agent_pool import MAX_AGENTS_AT_ONCE
from tests.agent.app.agent_session import agent_run, parts, run_agents, task
from tests.narrowing import present
from tests.strict_api.reply import Reply, calls
from tests.strict_api.server import Server
from transcripts.facts import Closed

pytestmark = pytest.mark.bench
MAX_ADDED_TOKENS = 1_500
CALLS = 50
REPORT = "\n".join(
    f"{at}. `src/module_{at}.py:{at * 7}` calls the parser with the text of the file and keeps the tree."
    for at in range(24)
)


def survivors(mark: str) -> list[int]:
    """The processes in whose command line the mark stands."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark.encode() in entry.read_bytes():
                found.append(int(entry.parent.name))
        except OSError:
            continue
    return found


def test_an_agent_of_fifty_requests_adds_little_to_the_session(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "big.py").write_text(
        "\n".join(f"value_{at} = {at}  # a line of code" for at in range(20_000))
    )
    reads = [calls("read", file_path="big.py", offset=1 + at * 200, limit=200) for at in range(CALLS)]
    prompt = "look through big.py from its first to its last line and tell where the parser is called"
    model = parts(
        go=[Reply([task(prompt, "explore")]), "done"],
        look=[*(Reply(reads[at : at + 2]) for at in range(0, CALLS, 2)), REPORT],
    )
    run = run_agents(tmp_path, model, forks=True)
    added = run.session.folded.view.tokens
    (agent,) = present(run.context.agents).agents
    assert agent.requests == CALLS // 2 + 1

    with capsys.disabled():
        print(
            f"\n{CALLS} calls, {agent.requests} requests, {agent.tokens:,} tokens of its own; added {added:,}"
        )
    assert added <= MAX_ADDED_TOKENS


def test_ten_at_once_end_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mark = f"sleep 300.{time.time_ns() % 10**9}"
    model = parts(
        go=[Reply([task(f"work {at}") for at in range(10)])], work=[Reply([calls("bash", command=mark)])]
    )

    async def whole(server: Server) -> tuple[float, float]:
        async with agent_run(tmp_path, server, permission_mode="bypassPermissions") as run:
            turn = asyncio.ensure_future(run.turn())
            while len(survivors(mark)) < MAX_AGENTS_AT_ONCE:
                await asyncio.sleep(0.01)
            assert run.context.agents is not None
            assert [agent.sid != "" for agent in run.context.agents.agents] == [True] * 4 + [False] * 6
            began = time.monotonic()
            turn.cancel()
            with pytest.raises(asyncio.CancelledError):
                await turn
            returned = time.monotonic() - began
            while survivors(mark):
                await asyncio.sleep(0.005)
            assert all(isinstance(facts[-1], Closed) for facts in run.nested())
            assert len(run.results()) == 10
            return returned, time.monotonic() - began

    with Server(model) as server:
        returned, gone = asyncio.run(whole(server))
    with capsys.disabled():
        print(f"\nten agents: the turn ended after {returned:.3f} s, processes after {gone:.3f} s")
    assert survivors(mark) == []
