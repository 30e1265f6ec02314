"""Agents with `isolation: worktree`: each works on a branch of its own, beside the project's files."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agent.events import Notice
from tests.narrowing import narrow
from tests.strict_api.reply import Reply, calls
from tests.strict_api.server import Server
from tools.processes.runner import CommandRunner

from .agent_session import AgentRun, agent_run, parts, run_agents, task

AGENTS = json.dumps(
    {
        name: {"description": "d", "prompt": "You fix things.", "isolation": "worktree"}
        for name in ("fixer", "looker")
    }
)
BYPASS: dict[str, Any] = {"permission_mode": "bypassPermissions", "agents": AGENTS}


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=n", "-c", "user.email=e@example.org")
    ran = subprocess.run(["git", *identity, *words], cwd=folder, capture_output=True, text=True, check=True)
    return ran.stdout


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with a subdirectory, one commit, and a change that is not committed."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.txt").write_text("one\n")
    (tmp_path / ".gitignore").write_text("home\ncache\nstate\n")
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "config", "user.name", "n")
    git(tmp_path, "config", "user.email", "e@example.org")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "first")
    (tmp_path / "src/a.txt").write_text("one\nlocal\n")
    return tmp_path


def worktrees(project: Path) -> list[str]:
    return sorted(path.name for path in (project / ".makeroom/worktrees").iterdir())


def branches(project: Path) -> list[str]:
    return git(project, "branch", "--format=%(refname:short)").split()


def edit(new: str) -> Reply:
    return Reply([calls("edit", file_path="src/a.txt", old_string="one", new_string=new)])


READ = Reply([calls("read", file_path="src/a.txt")])


def test_concurrent_agents_work_on_branches_of_their_own_and_report_what_they_changed(project: Path) -> None:
    model = parts(
        go=[Reply([task("alpha", "fixer"), task("beta", "fixer"), task("gamma", "looker")]), "done"],
        alpha=[READ, edit("two"), "I made two."],
        beta=[READ, edit("three"), "I made three."],
        gamma=[READ, "It says one."],
    )
    run = run_agents(project, model, **BYPASS)
    assert (project / "src/a.txt").read_text() == "one\nlocal\n"
    assert worktrees(project) == ["fixer-1", "fixer-2"]
    assert branches(project) == ["fixer-1", "fixer-2", "main"]
    made = {(project / ".makeroom/worktrees" / name / "src/a.txt").read_text() for name in worktrees(project)}
    assert made == {"two\n", "three\n"}
    alpha, beta, gamma = sorted(run.texts(), key=lambda text: "looker" in text)
    for text in (alpha, beta):
        assert "[Its changes are not in the project but in the worktree " in text
        assert "src/a.txt | 2 +-" in text
    assert {
        name for name in worktrees(project) for text in (alpha, beta) if f"the branch {name}" in text
    } == {
        "fixer-1",
        "fixer-2",
    }
    # It may begin before the others, which wait for their worktrees.
    assert re.match(r"It says one.\n\[looker #[123]: ", gamma) and "worktree" not in gamma
    told = json.dumps(next(each for each in run.server.requests if "beta" in json.dumps(each["messages"][0])))
    assert "You work in a git worktree of your own" in told
    assert git(project, "status", "--porcelain") == " M src/a.txt\n"


def test_a_background_agent_reports_its_branch_and_commits_count_as_changes(project: Path) -> None:
    commit = Reply([calls("bash", command="git rm -q src/a.txt && git commit -q -m gone && pwd")])
    model = parts(
        go=[
            Reply([calls("bash", command="sleep 300", run_in_background=True)]),
            Reply([task("alpha", "fixer", run_in_background=True)]),
            "started",
        ],
        alpha=[commit, "Gone."],
        later=["I see."],
    )

    async def then(run: AgentRun) -> None:
        assert run.context.agents is not None
        await asyncio.gather(*run.context.agents._tasks)
        own = narrow(run.context.tool_context.jobs, CommandRunner)
        assert [job.id for job in own.running] == ["b1"]
        waiting = run.context.tool_context.inbox.take(run.session.folded.last_seq + 1)
        (report,) = (block.text for block in waiting)
        assert "Gone." in report and "the branch fixer-1" in report and "commits: 1" in report

    run = run_agents(project, model, then=then, **BYPASS, input_format="stream-json")
    assert git(project, "log", "--format=%s", "fixer-1").split() == ["gone", "first"]
    place = project / ".makeroom/worktrees/fixer-1"
    assert str(place) in str(run.nested()[0])  # what pwd printed


def test_without_a_repository_no_isolated_agent_starts(tmp_path: Path) -> None:
    model = parts(go=[Reply([task("alpha", "fixer")]), "done"], alpha=["never"])
    (text,) = run_agents(tmp_path, model, **BYPASS).texts()
    assert text == "Cannot start agent fixer: `isolation: worktree` requires a git repository."


def test_the_worktree_of_an_interrupted_agent_is_removed_or_shown(project: Path) -> None:
    model = parts(
        go=[Reply([task("alpha", "fixer"), task("beta", "fixer")]), "done"],
        alpha=[Reply([calls("bash", command="touch new; sleep 1000")])],
        beta=[Reply([calls("bash", command="echo begun; sleep 1000")])],
    )

    async def whole(server: Server) -> AgentRun:
        async with agent_run(project, server, **BYPASS) as run:
            turn = asyncio.ensure_future(run.turn())
            while not all((project / f".makeroom/worktrees/fixer-{number}").is_dir() for number in (1, 2)):
                await asyncio.sleep(0)
            while str(run.events).count("ToolCallStarted(of") < 2 or not list(
                project.glob(".makeroom/*/*/new")
            ):
                await asyncio.sleep(0)
            turn.cancel()
            with pytest.raises(asyncio.CancelledError):
                await turn
        return run

    with Server(model) as server:
        run = asyncio.run(whole(server))
    notices = [event.text for event in run.events if isinstance(event, Notice)]
    assert len(worktrees(project)) == 1, notices
    (kept,) = worktrees(project)
    (place,) = (project / ".makeroom/worktrees").iterdir()
    assert (place / "new").exists()
    assert any(f"the branch {kept}" in text and "new | 0" in text for text in notices)


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="no sandbox is sure to exist")
def test_its_commands_are_sandboxed_in_its_worktree(project: Path) -> None:
    line = "echo x > mine.txt; echo y > ../../../theirs.txt"
    line += "; git add -A && git commit -q -m mine && echo committed"
    model = parts(
        go=[Reply([task("alpha", "fixer")]), "done"],
        alpha=[Reply([calls("bash", command=line)]), "Done."],
    )
    run = run_agents(project, model, agents=AGENTS, sandbox="auto")
    (text,) = run.texts()
    assert "mine.txt" in text and "commits: 1" in text
    assert not (project / "theirs.txt").exists()
    assert "committed" in str(run.nested()[0])
