"""Without a sandbox that hides transcripts, commands' changes to them are undone and reads are reported."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from agent.cli.arguments import parse
from agent.cli.launch import run as launch
from agent.events import Notice
from tests.agent.commands.controller_run import ControllerRun, run_controller
from tests.agent.ui.headless_run import credentials, run_headless
from tests.narrowing import present
from tests.strict_api.reply import Reply as Answer
from tests.strict_api.reply import calls
from tests.strict_api.scripted_model import ScriptedModel
from tests.strict_api.server import Server
from tests.transcripts.sample_turn import SID, append_all, turn
from tools.base import ToolCall
from tools.processes.runner import command_runner
from transcripts.load import read_transcript
from transcripts.records_guard import RecordsGuard
from transcripts.store import Store

OPEN = {"MAKEROOM_NAMESPACE": "off"}
SEARCH = "grep -rq old_name . && echo used"
RENAME = "grep -rlZ old_name . | xargs -0 sed -i s/old_name/new_name/g"
CLEAN = "git init -q; git clean -fdxq"


def keeps_times_of_reading(folder: Path) -> bool:
    probe = folder / "probe"
    probe.write_text("x")
    os.utime(probe, ns=(1, 10**18))
    probe.read_text()
    return probe.stat().st_atime_ns > 1


async def bash(run: ControllerRun, command: str, **more: Any) -> str:
    """The text of what the model gets for a command."""
    _, context = run.controller.in_use
    tool = context.tools["bash"]
    call = ToolCall(context.tool_context, f"t.{len(run.events)}")
    result = await tool.run(tool.parse({"command": command, **more}), call)
    return "\n".join(getattr(block, "text", "") for block in result.content)


def records(project: Path) -> dict[Path, bytes]:
    """Return the files that must not be lost, except the transcript of the running session."""
    found = (path for name in (".transcripts", ".task_outputs") for path in (project / name).rglob("*"))
    return {path: path.read_bytes() for path in found if path.is_file() and path.suffix in (".jsonl", ".txt")}


def test_a_command_that_searches_the_records_is_notified_and_one_that_changes_them_changes_nothing(
    tmp_path: Path,
) -> None:
    async def work(run: ControllerRun) -> None:
        await run.do("old_name should be called new_name")
        await bash(run, "seq 40000; echo old_name")
        await run.do("/clear", "where is old_name?")
        kept, own = records(tmp_path), run.controller.in_use[0].sid
        found = await bash(run, SEARCH)
        assert not keeps_times_of_reading(tmp_path) or "the transcript of this conversation" in found
        assert await bash(run, "echo quiet; ls .transcripts >../listed") == "quiet"
        for number, command in enumerate((RENAME, CLEAN, "rm -rf .transcripts"), 1):
            told = await bash(run, command)
            assert "command: restored" in told and ".transcripts/" in told
            assert f"{own}.jsonl" in told or "more were" in told
            assert len([one for one in run.emitted(Notice) if "restored" in one.text]) == number
            assert {path: path.read_bytes() for path in kept} == kept
        await bash(run, "sleep 0.1; rm -rf .transcripts .task_outputs", run_in_background=True)
        job = command_runner(run.controller.in_use[1].tool_context).jobs["b1"]
        await present(job.watching)
        assert {path: path.read_bytes() for path in kept} == kept
        assert "restored" in await bash(run, "true")
        await run.do("hello")
        loaded = read_transcript(tmp_path / ".transcripts" / f"{own}.jsonl")
        assert (loaded.damaged, loaded.torn_size) == ((), 0) and len(loaded.facts) > 4

    run_controller(tmp_path, work, environ=OPEN)


def test_what_an_interrupted_command_does_at_its_end_is_undone_with_the_next_one(tmp_path: Path) -> None:
    (project := tmp_path / "project").mkdir()
    store = Store.create(project, SID, pytest.fail)
    append_all(store, turn())
    store.close()
    kept, told = records(project), list[str]()
    guard = RecordsGuard(project, (tmp_path / "state",), told.append)

    async def interrupted() -> None:
        await guard.before(busy=False)
        await guard.after(busy=True)
        shutil.rmtree(project / ".transcripts")
        await guard.before(busy=False)
        assert records(project) == kept != {}
        await guard.after(busy=True)
        shutil.rmtree(project / ".transcripts")

    asyncio.run(interrupted())
    guard.close()
    assert records(project) == kept and len(told) == 2 and not (tmp_path / "state").exists()


def test_without_a_place_for_a_copy_the_user_is_informed_once(tmp_path: Path) -> None:
    told: list[str] = []
    guard = RecordsGuard(tmp_path, (tmp_path / "state",), told.append)

    async def twice() -> None:
        for _ in range(2):
            await guard.before(busy=False)
            await guard.after(busy=False)

    asyncio.run(twice())
    assert len(told) == 1 and "cannot protect" in told[0] and guard.take_notes() == ()
    guard.close()


def test_a_session_killed_by_the_command_that_removed_its_record_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (project := tmp_path / "project").mkdir()
    fatal = "git init -q; git clean -fdxq; kill -9 $(ps -o ppid= -p $PPID)"
    with Server(ScriptedModel([Answer([calls("bash", command=fatal)]), "gone on"])) as server:
        environ = OPEN | credentials(tmp_path, server)
        run_headless(project, server, "go", "--allowedTools", "bash", "--sandbox", "off", environ=environ)
        assert records(project) == {}
        monkeypatch.chdir(project)
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        assert launch(parse(["-p", "-c", "and now?"])) == 0
        out, err = capfd.readouterr()
        assert out == "gone on\n" and "command: restored" in err
        assert "may have run" in str(server.requests[-1]["messages"])
