"""If namespaces hide the transcripts, no command reaches them, and everything of our own still does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.agent.commands.controller_run import ControllerRun, run_controller
from tools.base import ToolCall
from tools.processes.runner import command_runner
from transcripts.facts import Result
from transcripts.load import read_transcript
from transcripts.stored_outputs import OutputsFolder

MARKER = "mark-in-the-record"
LOOKING = """
cat .transcripts/* .task_outputs/* .task_outputs/*/*; grep -rs "$MARK" .; find . -path './.t*' -type f
tar cf - . | tar tf -; cp -a . "${TMPDIR:-/tmp}/copied"; grep -rs "$MARK" "${TMPDIR:-/tmp}/copied"
cat /proc/*/root"$PWD"/.transcripts/* /proc/*/cwd/.transcripts/*
git init -q; git add -f .transcripts .task_outputs; git ls-files; ln .transcripts/* .
"""
CHANGING = """
rm -rf .transcripts .task_outputs; mv .transcripts moved; mv .task_outputs moved; git clean -fdxq
for f in .transcripts/*.jsonl .task_outputs/*/*; do echo x >"$f"; done; mkdir .transcripts/x; chmod -R 777 .t*
mount -t tmpfs none .transcripts
"""
# For a command in the sandbox: root may unmount these outside.
FREEING = "umount .transcripts; umount -l .task_outputs; umount -R .\n"


async def use(run: ControllerRun, name: str, sandboxed: bool = False, **given: Any) -> Any:
    """The result of a tool."""
    _, context = run.controller.in_use
    tool = context.tools[name]
    call = ToolCall(context.tool_context, f"t.{len(run.events)}{name}", sandboxed=sandboxed)
    return await tool.run(tool.parse(given), call)


def text_of(result: Any) -> str:
    return "\n".join(getattr(block, "text", "") for block in result.content)


def test_no_command_reaches_the_records_and_all_else_does(tmp_path: Path) -> None:
    (project := tmp_path / "project").mkdir()
    sids: list[str] = []

    async def work(run: ControllerRun) -> None:
        session, context = run.controller.in_use
        sids.append(session.sid)
        if (await command_runner(context.tool_context).supervisor()).how != "namespace":
            pytest.skip("the system does not allow namespaces")
        await run.do(f"hello {MARKER}", "hello")
        stored = (await use(run, "bash", command=f"seq 40000; echo {MARKER[:9]}'{MARKER[9:]}'")).stored
        record = project / ".transcripts" / f"{session.sid}.jsonl"
        before = (record.read_bytes(), (project / stored.path).read_bytes())
        assert MARKER.encode() in before[0] and MARKER.encode() in before[1]
        assert context.sandbox is not None
        await context.sandbox.settle()
        for sandboxed in (True, False) if context.sandbox.level == "namespaces" else (False,):
            mark = f"MARK={MARKER[:9]}'{MARKER[9:]}'\n"
            own = "" if sandboxed else f"export TMPDIR={tmp_path}\n"  # the sandbox has its own
            line = mark + own + LOOKING + CHANGING + (FREEING + LOOKING + CHANGING if sandboxed else "")
            shown = text_of(await use(run, "bash", sandboxed, command=f"{line}echo all tried"))
            assert "all tried" in shown
            assert MARKER not in shown.replace(MARKER[:9] + "'", "") and session.sid not in shown, shown
            assert (record.read_bytes(), (project / stored.path).read_bytes()) == before
        shown = text_of(await use(run, "read", file_path=stored.path, offset=39_990))
        assert MARKER in shown and "40000" in shown
        place: dict[str, Any] = {"path": str(Path(stored.path).parent), "output_mode": "content"}
        assert f":{MARKER}" in text_of(await use(run, "grep", pattern="mark-", **place))
        (project / "seen.txt").write_text(MARKER)
        assert "seen.txt" in text_of(await use(run, "grep", pattern=MARKER))
        await run.do("/permissions deny read(seen.txt)")
        assert "seen.txt" not in text_of(await use(run, "grep", pattern=MARKER))
        assert MARKER in (OutputsFolder(context.tool_context.outputs).read(stored) or "")
        assert MARKER in text_of(await use(run, "recall", query=MARKER))
        assert "wrote" in await run.do("/export ../page.html")
        assert MARKER in (tmp_path / "page.html").read_text()

    async def go_on(run: ControllerRun) -> None:
        assert MARKER.encode() in b"".join(run.bodies())
        await run.do("and on", "run `echo seen`")

    run_controller(project, work)
    run_controller(project, go_on, resume=sids[0])
    loaded = read_transcript(project / ".transcripts" / f"{sids[0]}.jsonl")
    assert (loaded.damaged, loaded.torn_size) == ((), 0)
    assert any(isinstance(fact, Result) and "seen" in str(fact.content) for fact in loaded.facts)
