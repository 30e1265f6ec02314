"""/clear, /resume, /fork, /rename, /export and /copy against the strict server."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.events import ClipboardCopy, Notice
from agent.model_port import IncomingReply
from transcripts import RequestSent
from transcripts.messages import TextBlock
from transcripts.session_lock import RECORDS_FOLDER

from .controller_run import ControllerRun, ScriptedChooser, run_controller, started


def test_clear_keeps_the_old_session_and_resume_goes_back(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        await run.do("/rename first things", "help")
        old = run.controller.in_use[0].sid
        before = run.bodies()
        assert old in await run.do("/clear")
        assert run.bodies() == []
        await run.do("help", "/resume first things")
        assert run.controller.in_use[0].sid == old
        assert run.bodies() == before
        await run.do("help")

    run_controller(tmp_path, work)


def test_a_fork_leaves_the_original_unchanged(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        await run.do("help")
        old, before = run.controller.in_use[0].sid, run.bodies()
        await run.do("/fork", "help")
        assert run.bodies()[: len(before)] == before and len(run.bodies()) > len(before)
        await run.do(f"/resume {old}")
        assert run.bodies() == before

    run_controller(tmp_path, work)


def test_another_session_begins_in_the_permission_mode_of_the_previous_one(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        await run.do("/rename first things", "help")
        for mode in ("plan", "acceptEdits"):
            for command in ("/fork", "/clear", "/resume first things"):
                await run.do(f"/permissions mode {mode}", "help", command)
                assert run.controller.in_use[1].permissions.rules.mode == mode, command

    run_controller(tmp_path, work)


def test_a_fork_costs_what_its_original_cost_also_where_that_was_rewound(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        await run.do("help", "help", "what can you do?", "/rewind 1 conversation", "help")
        for _ in range(2):
            spent, cost = run.controller.in_use[0].spent, run.controller.in_use[0].cost
            await run.do("/fork")
            assert run.controller.in_use[0].spent == spent
            assert run.controller.in_use[0].cost == pytest.approx(cost)

    run_controller(tmp_path, work)


def test_lists_report_which_session_a_fork_is_a_copy_of(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        await run.do("help")
        sids = [run.controller.in_use[0].sid]
        for _ in range(2):
            await run.do("/fork", "help")
            sids.append(run.controller.in_use[0].sid)
        lines = (await run.do("/sessions")).splitlines()
        told = {line.split()[0]: line.partition("(fork of ")[2].partition(")")[0] for line in lines}
        short = [sid[:8] for sid in sids]
        assert told == {short[0]: "", short[1]: short[0], short[2]: short[1]}
        run.controller.chooser = chooser = ScriptedChooser("")
        await run.do("/resume")
        rows = {row.value: row.facts[3:] for row in chooser.menus[0].rows}
        assert rows == {sids[0]: (short[0],), sids[1]: (short[1], f"fork of {short[0]}")}

    run_controller(tmp_path, work)


def test_a_fork_of_an_agents_session_is_the_users(tmp_path: Path) -> None:
    """Listed as a copy, not as another agent of the session that started the agent."""

    async def work(run: ControllerRun) -> None:
        await run.do("help")
        repository = run.controller.services.repository
        about = {"agent": "plain", "number": 1, "task": "look"}
        agent = repository.copy_for_agent(run.controller.in_use[0], about)
        agent.close()
        await run.controller.use(*await run.controller.factory.fork_of(agent.sid))
        await run.do("help")
        copy = run.controller.in_use[0].sid
        lines = [line for line in (await run.do("/sessions")).splitlines() if copy[:8] in line]
        assert [f"(fork of {agent.sid[:8]})" in line for line in lines] == [True]
        assert repository.newest(scripted=False).stem == copy
        assert await run.do("/rename Mine") == "this session is named 'Mine'"

    run_controller(tmp_path, work)


def test_a_name_that_another_session_has_is_refused_with_its_id(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        await run.do("help", "/rename Blue")
        old = run.controller.in_use[0].sid
        assert "'Blue'" in await run.do("/rename Blue")
        await run.do("/clear", "help")
        assert f"cannot name this session 'blue': {old} has that name" in await run.do("/rename blue")
        assert await run.do("/rename") == "this session has no name; run /rename NAME"
        assert await run.do("/rename one\n  two") == "this session is named 'one two'"
        assert "[one two] help" in await run.do("/sessions")
        odd = "C:\\dir can't 👩\u200d🚀"
        assert await run.do(f"/rename {odd}") == f"this session is named '{odd}'"

    run_controller(tmp_path, work)


def test_export_writes_a_file_of_the_asked_form(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        await run.do("run `echo one`", "/export out.md", "/export out.html", "/export out.jsonl")
        assert "echo one" in (tmp_path / "out.md").read_text("utf-8")
        assert "<html" in (tmp_path / "out.html").read_text("utf-8")
        assert {path.stat().st_mode & 0o777 for path in tmp_path.glob("out.*")} == {0o600}
        assert "the file exists" in await run.do("/export out.md")
        assert "with space.json" in await run.do(f'/export "{tmp_path}/with space.json"')
        await run.do("/export 'a b'.md")
        assert json.loads((tmp_path / "with space.json").read_text())["messages"]
        assert (tmp_path / "'a b'.md").exists(), "which are no quotes around it"
        told = f"cannot write {tmp_path}/nowhere/out.md: No such file or directory"
        assert await run.do("/export nowhere/out.md") == told
        assert f"wrote {tmp_path.parent / 'up.md'}\n" in await run.do("/export ../up.md") + "\n"

    run_controller(tmp_path, work)


def test_an_export_goes_to_the_directory_that_was_there_when_the_user_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command in the background may exchange it for a link while the text is made."""
    project = tmp_path / "project"
    (project / "out").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()

    def exchanged(*values: object) -> list[str]:
        (project / "out").rename(project / "moved")
        (project / "out").symlink_to(tmp_path / "elsewhere")
        return ["text"]

    async def work(run: ControllerRun) -> None:
        monkeypatch.setattr("agent.commands.sessions.export_pieces", exchanged)
        await run.do("/export out/page.md")
        assert (project / "moved/page.md").read_text() == "text"
        assert list((tmp_path / "elsewhere").iterdir()) == []

    run_controller(project, work)


def test_an_export_into_the_project_does_not_leave_it_through_a_link(tmp_path: Path) -> None:
    project = tmp_path / "project"
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "deep").mkdir(parents=True)
    project.mkdir()
    (project / "docs").symlink_to(elsewhere)
    (project / "loop").symlink_to("loop")

    async def work(run: ControllerRun) -> None:
        assert "cannot write" in await run.do("/export loop/page.md")
        for name, real in (("docs", elsewhere), ("docs/deep", elsewhere / "deep")):
            told = f"{project / name} leads to {real} through a link; name that directory"
            assert await run.do(f"/export {name}/page.md") == f"cannot write {project / name}/page.md: {told}"
        assert [path.name for path in elsewhere.rglob("*")] == ["deep"]
        assert "wrote" in await run.do(f"/export {elsewhere}/page.md")

    run_controller(project, work)


def test_copy_gives_the_newest_answers_to_the_terminal_or_the_clipboard_program(tmp_path: Path) -> None:
    programs = tmp_path.parent / f"{tmp_path.name}-bin"
    for folder, clip in ((programs, "clip"), (tmp_path, "planted")):
        folder.mkdir(exist_ok=True)
        (folder / "wl-copy").write_text(f"#!/bin/sh\ncat > {tmp_path}/{clip}\n", "utf-8")
        (folder / "wl-copy").chmod(0o755)

    async def work(run: ControllerRun) -> None:
        assert "no answer to copy" in await run.do("/copy")
        await run.do("hello", "/copy")
        (first,) = run.emitted(ClipboardCopy)
        await run.do("what can you do?", "/copy 2")
        assert run.emitted(ClipboardCopy)[0].text == first.text != ""
        assert "N must be from 1 to 2 (usage: /copy [N])" in await run.do("/copy 3")
        assert "N must be from 1 to 2 (usage: /copy [N])" in await run.do("/copy x")
        environ = {"WAYLAND_DISPLAY": "w", "PATH": f"{tmp_path}:{programs}:/usr/bin:/bin"}
        run.controller.setup = replace(run.controller.setup, environ=environ)
        assert "with wl-copy" in await run.do("/copy 2") and not run.emitted(ClipboardCopy)
        assert (tmp_path / "clip").read_text("utf-8") == first.text
        assert not (tmp_path / "planted").exists(), "a command may have written a program of the project"
        run.controller.setup = replace(run.controller.setup, environ={**environ, "SSH_TTY": "/dev/pts/1"})
        await run.do("/copy")
        assert run.emitted(ClipboardCopy)

    run_controller(tmp_path, work)


def test_what_is_copied_contains_nothing_that_a_terminal_obeys(tmp_path: Path) -> None:
    """A shell would take what follows the end of a pasted text as typed."""

    async def work(run: ControllerRun) -> None:
        await run.do("hello")
        session, _ = run.controller.in_use
        asked = next(fact.seq for fact in session.folded.facts if isinstance(fact, RequestSent))
        session.reply(IncomingReply([TextBlock("ls\x1b[201~\x03\n\trm -r x\u202e é")]), asked)
        await run.do("/copy")
        assert run.emitted(ClipboardCopy)[0].text == "ls\n\trm -r x é"

    run_controller(tmp_path, work)


def test_a_session_without_words_leaves_no_file(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        await run.do("/context", "/cost", "/status", "/help")

    run_controller(tmp_path, work)
    assert not list(tmp_path.glob(".transcripts/*.jsonl"))


def test_another_session_is_chosen_from_a_list_without_the_one_in_use(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        await run.do("help", "/rename the first")
        old = run.controller.in_use[0].sid
        await run.do("/clear", "help")
        run.controller.chooser = chooser = ScriptedChooser("", old)
        await run.do("/resume")
        assert run.controller.in_use[0].sid != old
        assert f"resumed session {old}" in await run.do("/resume")
        assert [[row.value for row in menu.rows] for menu in chooser.menus] == [[old]] * 2
        assert chooser.menus[0].rows[0].title == "the first"
        assert chooser.menus[0].rows[0].facts[:2] == ("just now", "1 prompt")
        assert "is the current session" in await run.do(f"/resume {old}")
        assert f"{old[:8]}  just now " in await run.do("/sessions")

    run_controller(tmp_path, work)


def test_a_session_is_found_by_words_of_its_first_prompt(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        sids = []
        for prompt in ("mend the Parser of dates", "mend the parser of names", "tidy up"):
            await run.do("/clear", prompt)
            sids.append(run.controller.in_use[0].sid)
        assert "no session 'parser' in this project" in await run.do("/resume parser"), (
            "of which nobody chooses one"
        )
        assert f"resumed session {sids[0]}" in await run.do("/resume dates parser")
        assert "no session 'nothing of it' in this project" in await run.do("/resume nothing of it")
        run.controller.chooser = chooser = ScriptedChooser("", sids[1])
        await run.do("/resume mend", "/clear")
        assert not chooser.menus, "the other one is the only one besides that in use"
        assert await run.do("/resume mend") == ""
        assert f"resumed session {sids[1]}" in await run.do("/resume MEND")
        assert [[row.value for row in menu.rows] for menu in chooser.menus] == [[sids[1], sids[0]]] * 2

    run_controller(tmp_path, work)


def test_a_session_in_use_can_be_viewed_or_forked_from_another(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        await run.do("run `echo one`")
        sid = run.controller.in_use[0].sid
        before = (tmp_path / RECORDS_FOLDER / f"{sid}.jsonl").read_bytes()

        async with started(run.controller.setup, run.server) as there:
            own = there.controller.in_use[0].sid
            await there.do(f"/resume {sid}")
            assert f"`makeroom --resume {sid} --fork-session`" in there.emitted(Notice)[-1].text
            there.controller.chooser = chooser = ScriptedChooser("view", "leave", "copy")
            assert "> run `echo one`" in await there.do(f"/resume {sid}")
            await there.do(f"/resume {sid}")
            assert there.controller.in_use[0].sid == own
            await there.do(f"/resume {sid}")
            assert there.controller.in_use[0].sid not in (own, sid)
            assert there.bodies() == run.bodies() and "in use by pid" in chooser.menus[0].title
            await there.do("run `echo two`")
        assert (tmp_path / RECORDS_FOLDER / f"{sid}.jsonl").read_bytes() == before
        await run.do("help")

    run_controller(tmp_path, work)
