"""/init, /memory, /diff, /tasks and `!command` against the strict server."""

import asyncio
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from agent.checkpoints.snapshot import SnapshotLimits
from agent.commands.rewind import checkpoints_of
from agent.events import CommandOutput, ContextChart, Notice, ToolCallProgress
from agent.session.memory_files import MemoryPlaces
from agent.session.memory_imports import MAX_MEMORY_CHARS
from tests.agent.app.agent_session import parts
from tests.strict_api.reply import Reply, calls
from tools.base import ToolCall
from tools.bash import run_bash
from tools.processes.foreground import CommandLimits
from tools.processes.runner import command_runner

from .controller_run import READ_ALL, ControllerRun, files, run_controller


def test_init_asks_the_model_in_a_turn_of_its_own(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        await run.do("/init mention the tabs")
        sent = run.bodies()[0].decode()
        assert (
            "write AGENTS.md" in sent
            and "mention the tabs" in sent
            and "AGENTS.md exists already" not in sent
        )
        (tmp_path / "AGENTS.md").write_text("use tabs", "utf-8")
        await run.do("/init")
        assert any(b"AGENTS.md exists already" in body for body in run.bodies())

    run_controller(tmp_path, work)


def test_memory_names_the_files_with_their_tokens_and_what_changed_since(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("Always use tabs in this project.", "utf-8")

    async def work(run: ControllerRun) -> None:
        text = await run.do("/memory")
        assert f"tokens  {tmp_path / 'AGENTS.md'}\n" in text and "since)" not in text
        (tmp_path / "AGENTS.md").write_text("Use spaces.", "utf-8")
        assert "(changed since)" in await run.do("/memory")
        text = await run.do("/clear", "/memory")
        assert "since)" not in text
        (tmp_path / "AGENTS.md").unlink()
        assert "(deleted since)" in await run.do("/memory")

    run_controller(tmp_path, work)


def test_memory_counts_tokens_like_context(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("Always use tabs in this project.\n" * 200, "utf-8")

    async def work(run: ControllerRun) -> None:
        memory = await run.do("hello", "/memory")
        shown = int(memory.partition(" tokens  ")[0].split()[-1].replace(",", ""))
        await run.do("/context")
        (chart,) = run.emitted(ContextChart)
        assert shown == dict(chart.rows)["memory files"]

    run_controller(tmp_path, work)


def test_memory_names_imports_and_what_claude_code_would_read(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "AGENTS.md").write_text("Use @rules.md", "utf-8")
    instead = f"({tmp_path / 'AGENTS.md'} is used instead)"
    for name in ("rules.md", "CLAUDE.md", "CLAUDE.local.md"):
        (tmp_path / name).write_text("x", "utf-8")

    async def work(run: ControllerRun) -> None:
        text = await run.do("/memory")
        assert f"tokens  {tmp_path / 'rules.md'}\n" in text
        for name in ("CLAUDE.md", "CLAUDE.local.md"):
            assert f"not read  {tmp_path / name}  {instead}" in text
        (tmp_path / "AGENTS.md").write_text("Use @rules.md and @CLAUDE.local.md", "utf-8")
        text = await run.do("/clear", "/memory")
        assert f"tokens  {tmp_path / 'CLAUDE.local.md'}\n" in text and text.count("not read") == 1

    run_controller(tmp_path, work)


def test_memory_names_the_files_of_directories_below_with_what_was_read_there(tmp_path: Path) -> None:
    files(tmp_path, count=2, lines=2)
    (tmp_path / "src/AGENTS.md").write_text("Rules of src; see @extra.md", "utf-8")
    (tmp_path / "src/extra.md").write_text("More rules.", "utf-8")
    (tmp_path / "lib").mkdir()
    for name in ("AGENTS.md", "a.py"):
        (tmp_path / "lib" / name).write_text("x = 1\n", "utf-8")

    async def work(run: ControllerRun) -> None:
        assert "no memory file" in await run.do("/memory")
        text = await run.do(READ_ALL, "what is @lib/a.py", "/memory")
        for name, file in (("src/AGENTS.md", "src/part_0.py"), ("lib/AGENTS.md", "lib/a.py")):
            assert f"tokens  {tmp_path / name}  (loaded with {file})" in text
        assert f"tokens  {tmp_path / 'src/extra.md'}  (loaded with src/part_" in text
        assert "no memory file" in await run.do("/clear", "/memory")

    run_controller(tmp_path, work)


def test_memory_files_that_take_much_of_the_window_are_reported(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        for words, told in ((900, False), (1_100, True)):
            (tmp_path / "AGENTS.md").write_text("tabs " * words, "utf-8")
            assert ("of the context window); see /memory" in await run.do("/clear")) == told, words

    run_controller(tmp_path, work, window=20_000)


def test_a_memory_file_that_is_cut_is_reported_as_such(tmp_path: Path) -> None:
    (tmp_path / "CLAUDE.md").write_text("é" * (MAX_MEMORY_CHARS - 1), "utf-8")
    assert MemoryPlaces(tmp_path, tmp_path / "none").unread() == []
    (tmp_path / "CLAUDE.md").write_text("always\n" * MAX_MEMORY_CHARS, "utf-8")
    (told,) = MemoryPlaces(tmp_path, tmp_path / "none").unread()
    assert told == f"{tmp_path / 'CLAUDE.md'} is too long: only its first 60,000 characters are used"

    async def work(run: ControllerRun) -> None:
        assert "CLAUDE.md  (only the first 60,000 characters)\n" in await run.do("/memory")

    run_controller(tmp_path, work)


def test_without_a_memory_file_memory_reports_where_to_put_one(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        assert "create AGENTS.md or CLAUDE.md in" in await run.do("/memory")
        (tmp_path / "CLAUDE.md").write_text("x", "utf-8")
        assert f"not read  {tmp_path / 'CLAUDE.md'}  (created since)" in await run.do("/memory")

    run_controller(tmp_path, work)


def test_diff_shows_what_the_session_changed_and_no_more(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n", "utf-8")
    (tmp_path / "b.txt").write_text("here\n", "utf-8")
    (tmp_path / "c.txt").write_text("there\n", "utf-8")

    async def work(run: ControllerRun) -> None:
        assert "no changes recorded in this session" in await run.do("/diff")
        await run.do("read a.txt, then replace `two` with `three` in a.txt")
        text = await run.do("/diff")
        assert "changed  a.txt  +1 -1" in text and "-two\n+three" in text and "1 file, +1 -1" in text
        await run.do("!rm b.txt; seq 500 > new.txt")
        assert "b.txt" not in await run.do("/diff")  # the user's own commands are not the session's doing
        await run.do("run `rm -f b.txt c.txt; mkdir d; seq 500 > d/long.txt`")
        text = await run.do("/diff")
        assert "new      d/long.txt  +500 -0" in text and "run /diff d/long.txt to see" in text
        assert "deleted  c.txt  +0 -1" in text and "-there" not in text
        assert "-there" in await run.do("/diff c.txt")
        assert "+500" in await run.do("/diff ./d") and "+499\n" in run.text()
        assert "a.txt" not in run.text()
        with (tmp_path / "a.txt").open("a", encoding="utf-8") as file:
            file.write("by hand\n")
        text = await run.do("/diff a.txt")
        assert "changed  a.txt  +1 -1" in text and "theirs   a.txt  +1 -0" in text and "1 file, +1 -1" in text
        (tmp_path / "a.txt").write_text("one\ntwo\n", "utf-8")
        assert "a.txt" not in await run.do("/diff")

    run_controller(tmp_path, work)


def test_a_name_of_several_lines_stays_on_its_row(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        await run.do("run `echo x >$'a\\ndeleted  b.txt'`")
        assert "new      a␊deleted  b.txt  +1 -0" in await run.do("/diff")
        assert "+++ b/a␊deleted  b.txt\n" in run.text()
        assert "a␊deleted  b.txt" in await run.do("/rewind 1 files")
        assert "\ndeleted" not in run.text()

    run_controller(tmp_path, work)


def test_what_could_not_be_looked_at_is_said_also_where_nothing_was_seen(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a", "utf-8")
    (tmp_path / "z.txt").write_text("z", "utf-8")

    async def work(run: ControllerRun) -> None:
        checkpoints = checkpoints_of(run.controller)
        assert checkpoints is not None
        checkpoints.scanner.limits = SnapshotLimits(max_files=1)
        await run.do("run `rm -f z.txt`")
        assert any("too large for checkpoints" in notice.text for notice in run.emitted(Notice))
        gap = "not covered: only 1 files of the project"
        for line in ("/diff", "/rewind 1 files", "/rewind 1 files yes"):
            said = await run.do(line)
            assert ("no changes recorded" in said or "no recorded changes" in said) and gap in said, line
        assert "no files known to have changed since" in await run.do("/rewind")

    run_controller(tmp_path, work)


def test_diff_without_a_record_says_that_there_are_no_checkpoints(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        assert "have no checkpoints" in await run.do("/diff")

    run_controller(tmp_path, work, no_session=True)


def test_plan_goes_to_plan_mode_and_shows_the_newest_plan_there(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        mode = run.controller.in_use[1].permissions
        assert "plan mode is on: nothing changes" in await run.do("/plan") and mode.planning
        assert "no plan yet" in await run.do("/plan")
        asked = len(run.server.requests)
        mode.set_mode("acceptEdits")
        await run.do("/plan")
        assert "plan mode is off; acceptEdits mode edits" in await run.do("/plan off")
        assert mode.rules.mode == "acceptEdits"
        assert await run.do("/plan off") == "plan mode is not on" and len(run.server.requests) == asked
        await run.do("/plan")
        mode.set_mode("manual")
        await run.do("/plan hello")
        assert mode.planning and b"".join(run.bodies()).count(b"Plan mode is on") == 1
        await run.do("/plan")
        (shown,) = run.emitted(CommandOutput)
        assert shown.form == "markdown" and shown.text
        assert "the to-do list is empty" in await run.do("/todo")

    run_controller(tmp_path, work)


def test_todo_marks_what_is_done_and_what_is_being_done(tmp_path: Path) -> None:
    states = {"read": "completed", "write": "in_progress", "run": "pending"}
    todos = [{"content": what, "status": status, "activeForm": what} for what, status in states.items()]

    async def work(run: ControllerRun) -> None:
        await run.do("go")
        assert await run.do("/todo") == "☒ read\n▸ write\n☐ run"

    run_controller(tmp_path, work, respond=parts(go=[Reply([calls("todo", todos=todos)]), "done"]))


def test_tasks_shows_background_commands_and_ends_them(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        assert "no background commands yet" in await run.do("/tasks")
        _, context = run.controller.in_use
        bash = context.tools["bash"]
        given = {"command": "echo up; sleep 777", "run_in_background": True}
        await bash.run(bash.parse(given), ToolCall(context.tool_context, "t.1"))
        text = await run.do("/ps")
        assert "b1  echo up; sleep 777" in text and "running" in text
        assert "running: b1 (usage: /tasks [kill ID])" in await run.do("/tasks kill b9")
        assert "Background command b1 (echo up; sleep 777) stopped" in await run.do("/tasks kill b1")
        text = await run.do("/tasks")
        assert "stopped" in text and "running: none" in await run.do("/tasks kill b1")
        await run.do("hello")
        assert any(b"Background command b1" in body for body in run.bodies())

    run_controller(tmp_path, work)


def test_a_command_of_the_users_own_is_shown_to_the_model_unless_it_is_private(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        assert "for both" in await run.do("!echo for both")
        assert "for me" in await run.do("!!echo for me")
        await run.do("help")
        sent = str(run.server.requests[-1]["messages"])
        assert "for both" in sent and "for me" not in sent

    run_controller(tmp_path, work)


def test_what_a_command_of_the_users_own_said_is_reported_again_after_a_rewind(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        await run.do("help", "!echo walrus", "help", "/rewind 2 conversation", "help")
        assert sum(body.count(b"$ echo walrus") for body in run.bodies()) == 1
        await run.do("/rewind 1 conversation", "help")
        assert b"walrus" not in b"".join(run.bodies())

    run_controller(tmp_path, work)


def test_a_late_command_of_the_users_own_continues_and_a_private_one_stays_private(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        runner = command_runner(run.controller.in_use[1].tool_context)
        said = await run.do("!!echo for me; sleep 300")
        assert "continues as background job b1. /tasks lists it, /tasks kill b1 ends it]" in said
        assert "continues as background job b2" in await run.do("!echo for both; sleep 300")
        for job in runner.running:
            await runner.stop(job)
        await run.do("help")
        sent = str(run.server.requests[-1]["messages"])
        assert "for both" in sent and "for me" not in sent

    run_controller(tmp_path, work, environ={"BASH_DEFAULT_TIMEOUT_MS": "300"})


def test_a_late_command_is_ended_where_no_one_is_at_the_screen(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        assert "timed out after 0.3 s" in await run.do("!sleep 300")

    for options in ({"headless": True}, {"input_format": "stream-json"}):
        run_controller(tmp_path, work, environ={"BASH_DEFAULT_TIMEOUT_MS": "300"}, **options)


def test_an_editor_after_a_bang_reports_what_the_user_can_do(tmp_path: Path) -> None:
    (tmp_path / "vi").write_text("#!/bin/sh\nsleep 60\n")
    (tmp_path / "vi").chmod(0o755)

    async def work(run: ControllerRun) -> None:
        context = run.controller.in_use[1]
        soon = partial(run_bash, limits=CommandLimits(editor_s=0.2))
        context.tools = {**context.tools, "bash": replace(context.tools["bash"], run=soon)}
        said = await run.do("!vi notes")
        assert "keyboard input" in said and "in another terminal" in said
        assert "edit or write" not in said

    run_controller(tmp_path, work, environ={"PATH": f"{tmp_path}:/usr/bin:/bin"})


def test_a_running_command_of_the_users_own_shows_its_output_and_keeps_it_when_interrupted(
    tmp_path: Path,
) -> None:
    async def work(run: ControllerRun) -> None:
        running = asyncio.ensure_future(run.controller.command("!echo as it comes; sleep 100"))
        while not run.emitted(ToolCallProgress):
            await asyncio.sleep(0.01)
        assert [event.text for event in run.emitted(ToolCallProgress)] == ["as it comes\n"]
        assert not run.emitted(CommandOutput)
        running.cancel()
        await asyncio.wait([running])
        assert running.cancelled() and "as it comes" in run.emitted(CommandOutput)[0].text
        await run.do("help")
        assert "as it comes" in str(run.server.requests[-1]["messages"])

    run_controller(tmp_path, work)


def test_a_command_of_the_users_own_gets_no_credentials_either(tmp_path: Path) -> None:
    """Its output goes to the model, and the model's background commands may look at its processes."""

    async def work(run: ControllerRun) -> None:
        assert "unset ****" in await run.do("!echo ${MY_TOKEN-unset} t0ken-9f8e")

    run_controller(tmp_path, work, environ={"MY_TOKEN": "t0ken-9f8e"})
