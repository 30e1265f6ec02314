"""/rewind: what is shown and asked before, and what each answer does."""

import asyncio
import os
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from agent.commands.rewind import rewind_points
from agent.events import Event, PromptReplayed, PromptRestored, TextDelta, ThinkingDelta
from agent.session.late_news import restore_news
from agent.session.session_replay import show_replayed
from tests.agent.app.agent_session import parts
from tests.strict_api.faults import Fault
from tests.strict_api.reply import Reply, calls, says, thinks
from tools.processes.inbox import Inbox
from tools.processes.runner import command_runner
from transcripts.data_tags import DataTag, quoted
from transcripts.facts import User
from transcripts.folding import fold
from transcripts.messages import TextBlock

from .controller_run import ControllerRun, ScriptedChooser, run_controller

WORK = ("help", "replace old by new in a.py", "run `echo made > made.txt; echo 1 >> a.py`")


def rewound(folder: Path, *values: str, after: Callable[[ControllerRun], Awaitable[None]]) -> ScriptedChooser:
    """Some work, then /rewind with these answers; `after` looks at what came of it."""
    (folder / "a.py").write_text("print('old')\n", "utf-8")
    chooser = ScriptedChooser(*values)

    async def work(run: ControllerRun) -> None:
        await run.do(*WORK)
        if "theirs" in values or "keep" in values:
            (folder / "made.txt").write_text("mine\n", "utf-8")
        run.controller.chooser = chooser
        await run.do("/rewind")
        await after(run)
        run.controller.chooser = None
        await run.do("help")

    run_controller(folder, work)
    assert chooser.values == []
    return chooser


def prompts(run: ControllerRun) -> int:
    return sum(b"replace old" in body for body in run.bodies())


def test_rewind_restores_the_conversation_before_a_prompt(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        await run.do("help")
        before = run.bodies()
        await run.do("run `echo one`")
        assert "echo one" in await run.do("/rewind")
        await run.do("/rewind 2")
        assert run.bodies() == before
        await run.do("run `echo two`")

    run_controller(tmp_path, work)


def test_where_the_project_is_gone_no_file_is_said_to_be_as_before(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()

    async def work(run: ControllerRun) -> None:
        await run.do("run `echo one > a.txt`")
        folder.rename(tmp_path / "away")
        gone = f"cannot compare or restore files: the project {folder} does not exist"
        for command in ("/diff", "/rewind 1 files", "/rewind 1 both yes"):
            assert await run.do(command) == gone
        (tmp_path / "away").rename(folder)
        assert "a.txt  +1 -0" in await run.do("/diff")
        await run.do("/rewind 1 files yes")
        assert not (folder / "a.txt").exists()

    run_controller(folder, work)


def test_after_a_rewind_the_last_exchange_that_is_left_is_shown(tmp_path: Path) -> None:
    """The removed exchanges stay on the screen above."""

    async def work(run: ControllerRun) -> None:
        await run.do("run `echo giraffe`", "help", "run `echo 'okapi \"x\"'`")
        told, _, end = (await run.do("/rewind 3")).partition("the conversation now ends here:")
        assert "rewound the conversation to before prompt 3: run `echo 'okapi \"x\"'`\n" in told
        assert "I understand:" in end and "okapi" not in end and "giraffe" not in end
        assert PromptReplayed("help") in run.events
        told = await run.do("/rewind 1")
        assert told.endswith("now empty: the model sees none of the messages above")

    run_controller(tmp_path, work)


def test_pasted_text_is_shown_by_its_label(tmp_path: Path) -> None:
    pasted = quoted("\n".join(f"line {number}" for number in range(30)), DataTag.PASTED, " id=2")

    async def work(run: ControllerRun) -> None:
        await run.do(f"look at {pasted} and say hello", "help")
        assert "look at [paste 2: 30 lines] and say hello" in await run.do("/rewind")
        await run.do("/rewind 2")
        assert PromptReplayed("look at [paste 2: 30 lines] and say hello") in run.events
        await run.do("/rewind 1")
        assert run.events[-1] == PromptRestored(f"look at {pasted} and say hello")

    run_controller(tmp_path, work)


def test_what_was_rewound_is_recalled_and_continued_in_a_copy(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        await run.do("help", "run `echo giraffe`", "help")
        before, (session, _) = run.bodies(), run.controller.in_use
        seq = session.folded.entries[2].seq
        told = await run.do("/rewind 2")
        sid, at = re.findall(r"in a copy with makeroom -r (\S+) --at r(\d+)", told)[0]
        shown = await run.do(f"/recall r{seq}")
        assert shown.startswith("[rewound: no longer part of the conversation. ")
        assert f" {sid} --at r{seq}]" in shown
        assert shown.endswith("]\nrun `echo giraffe`")
        assert "[rewound:" in (shown := await run.do(f"/recall r{seq}-r{at}")) and "giraffe" in shown
        assert "[rewound:" not in await run.do(f"/recall r1-r{at}", f"/recall r{seq - 1}")
        assert "unknown recall id r" in await run.do(f"/recall r{int(at) + 50}")
        await run.controller.use(*await run.controller.factory.fork_of(sid, int(at)))
        assert run.bodies() == before
        copy, context = run.controller.in_use
        show_replayed(copy, context.tools, run.events.append)
        assert run.text().endswith(f"resumed session {copy.sid}, a fork of {sid} up to r{at}")
        await run.do("/fork")
        show_replayed((fork := run.controller.in_use[0]), context.tools, run.events.append)
        assert run.text().endswith(f"resumed session {fork.sid}, a fork of {copy.sid[:8]}")

    run_controller(tmp_path, work)


def test_rewind_restores_files_after_it_has_shown_which(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("print('old')\n", "utf-8")

    async def work(run: ControllerRun) -> None:
        await run.do("help", "replace old by new in a.py", "run `echo made > made.txt; echo 1 >> a.py`")
        shown = await run.do("/rewind 2 files")
        assert "would restore  a.py" in shown and "would remove   made.txt" in shown
        assert "new" in (tmp_path / "a.py").read_text("utf-8")
        await run.do("/rewind 2 both yes")
        assert (tmp_path / "a.py").read_text("utf-8") == "print('old')\n"
        assert not (tmp_path / "made.txt").exists()
        assert len([text for text in run.bodies() if b"replace old" in text]) == 0

    run_controller(tmp_path, work)


def test_rewind_leaves_what_the_user_changed_since_unless_asked(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("print('old')\n", "utf-8")

    async def work(run: ControllerRun) -> None:
        await run.do("replace old by new in a.py")
        (tmp_path / "a.py").write_text("mine\n", "utf-8")
        assert "(changed outside this session since)" in await run.do("/rewind 1 files")
        await run.do("/rewind 1 files yes")
        assert (tmp_path / "a.py").read_text("utf-8") == "mine\n"
        await run.do("/rewind 1 files yes theirs")
        assert (tmp_path / "a.py").read_text("utf-8") == "print('old')\n"

    run_controller(tmp_path, work)


def test_the_prompt_stays_until_it_is_said_what_becomes_of_others_changes(tmp_path: Path) -> None:
    """Without the prompt no number would lead to these files any more."""
    (tmp_path / "a.py").write_text("print('old')\n", "utf-8")

    async def work(run: ControllerRun) -> None:
        await run.do("replace old by new in a.py")
        (tmp_path / "a.py").write_text("mine\n", "utf-8")
        told = await run.do("/rewind 1 both yes")
        assert "nothing was rewound: 1 file was changed outside this session" in told
        assert "add `theirs`" in told and prompts(run) == 1
        assert "unknown word 'foo'" in await run.do("/rewind 1 foo")
        await run.do("/rewind 1 both yes keep")
        assert prompts(run) == 0 and (tmp_path / "a.py").read_text("utf-8") == "mine\n"

    run_controller(tmp_path, work)


def test_the_prompts_are_listed_newest_first_with_what_changed_since(tmp_path: Path) -> None:
    async def after(run: ControllerRun) -> None:
        assert prompts(run) > 0 and run.emitted(PromptRestored) == []

    menu = rewound(tmp_path, "", after=after).menus[0]
    assert [row.title for row in menu.rows] == [*reversed(WORK)]
    assert [row.facts for row in menu.rows] == [("just now", "2 files changed since")] * 3
    assert menu.row_for_key("1") == menu.rows[2]


def test_the_conversation_is_restored_and_its_prompt_comes_back_whole(tmp_path: Path) -> None:
    async def after(run: ControllerRun) -> None:
        assert prompts(run) == 0 and run.emitted(PromptRestored) == [PromptRestored(WORK[1])]
        assert (tmp_path / "made.txt").exists()
        assert "would restore  a.py  +1 -2\nwould remove   made.txt  +0 -1" in run.text()

    menus = rewound(tmp_path, "2", "conversation", after=after).menus
    assert menus[1].title == f"Rewind to before: {WORK[1]}"
    assert [row.title for row in menus[1].rows][1] == "The files: 2 files, +1 -3"


def test_a_prompt_that_is_cut_ends_so(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        await run.do("what can you do? " * 40)
        assert (await run.do("/rewind")).partition("  ")[2].count("…") == 1
        cut = "what can you do? " * 3 + "what can"
        assert f"to before prompt 1: {cut}…\n" in await run.do("/rewind 1")

    run_controller(tmp_path, work)


def test_the_files_alone_are_restored(tmp_path: Path) -> None:
    async def after(run: ControllerRun) -> None:
        assert prompts(run) > 0 and run.emitted(PromptRestored) == []
        assert (tmp_path / "a.py").read_text("utf-8") == "print('old')\n"
        assert not (tmp_path / "made.txt").exists()

    rewound(tmp_path, "2", "files", after=after)


def test_directories_and_files_are_counted_apart(tmp_path: Path) -> None:
    (tmp_path / "kept").touch()
    chooser = ScriptedChooser("1", "files")

    async def work(run: ControllerRun) -> None:
        await run.do("run `mkdir -p d/e; touch d/e/a d/b; rm kept`", "run `touch kept c; rm c`")
        run.controller.chooser = chooser
        await run.do("/rewind")
        assert run.text().endswith("\nremoved 2 files and 2 directories")

    run_controller(tmp_path, work)
    facts = [row.facts[1] for row in chooser.menus[0].rows]
    assert facts == ["1 file changed since", "2 files changed since"]
    assert chooser.menus[1].rows[1].title == "The files: 2 files and 2 directories, +0 -0"


def test_what_others_changed_stays_unless_it_is_asked_for(tmp_path: Path) -> None:
    async def kept(run: ControllerRun) -> None:
        assert prompts(run) == 0 and (tmp_path / "made.txt").read_text("utf-8") == "mine\n"
        assert (tmp_path / "a.py").read_text("utf-8") == "print('old')\n"

    menus = rewound(tmp_path, "2", "both", "keep", after=kept).menus
    assert menus[2].title == "1 file was changed outside this session since"


def test_what_others_changed_is_restored_as_well_on_request(tmp_path: Path) -> None:
    async def gone(run: ControllerRun) -> None:
        assert not (tmp_path / "made.txt").exists()

    rewound(tmp_path, "1", "files", "theirs", after=gone)


def test_that_no_file_had_to_change_or_could_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("print('old')\n", "utf-8")

    async def work(run: ControllerRun) -> None:
        await run.do("replace old by new in a.py", "run `true`")
        assert await run.do("/rewind 2 files yes") == "no files to restore"
        (tmp_path / "a.py").write_text("mine\n", "utf-8")
        said = await run.do("/rewind 1 files yes")
        assert said == "a.py: kept, since it was changed outside this session\nno files were restored"

    run_controller(tmp_path, work)


def test_what_background_commands_of_earlier_runs_changed_in_git_is_reported_as_not_covered(
    tmp_path: Path,
) -> None:
    async def work(run: ControllerRun) -> None:
        await run.do("run `true` in the background", "hello")
        gap = "not covered: what background commands of earlier runs changed in git (b1)"
        jobs = command_runner(run.controller.in_use.context.tool_context).jobs
        await jobs["b1"].has_ended.wait()
        for line in ("/diff", "/rewind 1 files"):
            assert gap not in await run.do(line), line
        jobs.clear()  # as when the session is continued
        for line in ("/diff", "/rewind 1 files"):
            assert gap in await run.do(line), line

    run_controller(tmp_path, work)


def test_the_end_of_a_command_whose_start_was_taken_out_is_not_reported_again(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")

    async def work(run: ControllerRun) -> None:
        await run.do("hello", "run `cat gate` in the background")
        _, context = run.controller.in_use
        await asyncio.to_thread((tmp_path / "gate").write_text, "open")  # not before the turn is over
        await command_runner(context.tool_context).jobs["b1"].has_ended.wait()
        await run.do("and on")
        assert "finished" in str(run.bodies()[-2])
        await run.do("/rewind 3 conversation", "and on")  # the prompt that reported it
        assert "finished" in str(run.bodies()[-2])
        await run.do("/rewind 2 conversation", "and on")
        assert "finished" not in str(run.bodies())

    run_controller(tmp_path, work)


def test_the_end_of_a_command_that_a_result_reported_is_reported_again_without_that_result(
    tmp_path: Path,
) -> None:
    kill = Reply([calls("bash", job="b1", kill=True)])
    begin = Reply([calls("bash", command="sleep 300", run_in_background=True)])
    respond = parts(begin=[begin, "done"], end=[kill, "done"], more=["done"], last=["done"])

    async def work(run: ControllerRun) -> None:
        await run.do("begin", "end", "more")
        assert b"Background command" not in b"".join(run.bodies())  # the result reported it
        await run.do("/rewind 2 conversation", "more", "last")
        assert b"".join(run.bodies()).count(b"[Background command b1 (sleep 300) stopped") == 1
        await run.do("/clear", f"/resume {run.controller.in_use[0].sid}", "/rewind 2 conversation", "last")
        assert b"".join(run.bodies()).count(b"[Background command b1 (sleep 300) stopped") == 1

    run_controller(tmp_path, work, respond=respond)


@pytest.mark.parametrize("seen", [ThinkingDelta, TextDelta])
def test_a_prompt_that_is_stopped_in_the_thought_before_an_answer_leaves_the_conversation(
    tmp_path: Path, seen: type[Event]
) -> None:
    """The face gives it back then for editing: else it would be there twice."""
    answer = Reply([*([thinks("Well. " * 500)] if seen is ThinkingDelta else []), says("Yes. " * 500)])
    stall = Fault("stall", at=4_000, when=lambda body: "gazelle" in str(body["messages"][-1]))
    respond = parts(first=["well"], gazelle=[answer], again=["well"])

    async def work(run: ControllerRun) -> None:
        await run.do("first", "!echo walrus")
        turn = asyncio.ensure_future(run.controller.prompt("gazelle"))
        while not run.emitted(seen):
            await asyncio.sleep(0.001)
        turn.cancel()
        assert (await turn).reason == "interrupted"
        cost = run.controller.in_use[0].cost
        await run.do("again")
        sent = str(run.server.requests[-1]["messages"])
        assert sent.count("gazelle") == (seen is TextDelta) and sent.count("$ echo walrus") == 1
        assert 0 < cost < run.controller.in_use[0].cost

    run_controller(tmp_path, work, respond=respond, faults=(stall,), verified=False)


def test_a_prompt_is_given_back_also_where_an_answer_was_asked_for_again(tmp_path: Path) -> None:
    asked = "Your reply was empty"
    stall = Fault("stall", at=4_000, when=lambda body: asked in str(body["messages"][-1]))
    respond = parts(
        first=["well"],
        gazelle=[Reply([thinks("Hm.")])],
        empty=[Reply([thinks("Well. " * 500), says("Yes.")])],
        again=["well"],
    )

    async def work(run: ControllerRun) -> None:
        await run.do("first")
        turn = asyncio.ensure_future(run.controller.prompt("gazelle"))
        while len(run.emitted(ThinkingDelta)) < 2 or asked not in str(run.server.requests[-1]["messages"]):
            await asyncio.sleep(0.001)
        turn.cancel()
        assert (await turn).reason == "interrupted"
        await run.do("again")
        sent = str(run.server.requests[-1]["messages"])
        assert "gazelle" not in sent and asked not in sent

    run_controller(tmp_path, work, respond=respond, faults=(stall,), verified=False)


def test_a_record_that_ends_with_the_prompt_that_reported_news_does_not_report_it_again(
    tmp_path: Path,
) -> None:
    """As that of a fork of there, or where the program was killed before it noted that."""

    async def work(run: ControllerRun) -> None:
        await run.do("hello", "!echo walrus", "and on")
        facts = run.controller.in_use[0].folded.facts
        carries = [isinstance(fact, User) and "walrus" in str(fact.blocks) for fact in facts]
        at = carries.index(True)
        waiting = []
        for end in (at, at + 1):
            restore_news(fold(facts[:end]), inbox := Inbox())
            waiting.append(len(inbox.waiting))
        assert waiting == [1, 0]

    run_controller(tmp_path, work)


def test_cancelling_does_nothing(tmp_path: Path) -> None:
    async def after(run: ControllerRun) -> None:
        assert prompts(run) > 0 and "new" in (tmp_path / "a.py").read_text("utf-8")

    assert len(rewound(tmp_path, "2", "cancel", after=after).menus) == 2


def test_a_fork_can_restore_files_to_before_it_was_made(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("print('old')\n", "utf-8")

    async def work(run: ControllerRun) -> None:
        await run.do("replace old by new in a.py", "/rename first", "/fork")
        assert "first (copy)" in await run.do("/rename")
        await run.do("/fork")
        assert "first (copy 2)" in await run.do("/rename")
        await run.do("/rewind 1 both yes")
        assert (tmp_path / "a.py").read_text("utf-8") == "print('old')\n"
        assert run.emitted(PromptRestored) == [PromptRestored("replace old by new in a.py")]

    run_controller(tmp_path, work)


def test_the_prompt_of_a_server_is_listed_as_typed() -> None:
    blocks = [TextBlock("<surroundings>\nx\n</surroundings>"), TextBlock("/mcp__calc__hello Bob")]
    called = User(1, 0.0, (*blocks, TextBlock("say: hello Bob")), source="user")
    asked = User(2, 0.0, (TextBlock("one"), TextBlock("two")), source="user")
    assert [point.text for point in rewind_points(fold([called, asked]))] == ["/mcp__calc__hello Bob", "two"]


def test_news_that_an_earlier_run_reported_is_reported_again_where_its_prompt_is_taken_out(
    tmp_path: Path,
) -> None:
    """A resume makes the session again from its record, as another run of the program does."""
    os.mkfifo(tmp_path / "gate")

    async def again(run: ControllerRun) -> None:
        await run.do("/clear", f"/resume {run.controller.in_use[0].sid}")

    def told(run: ControllerRun, words: bytes) -> int:
        return b"".join(run.bodies()).count(words)

    async def work(run: ControllerRun) -> None:
        await run.do("hello", "run `cat gate` in the background", "!echo walrus")
        await again(run)  # what waited waits
        await run.do("and on")
        assert told(run, b"$ echo walrus") == told(run, b"was killed when makeroom exited") == 1
        await again(run)
        await run.do("more")
        assert told(run, b"$ echo walrus") == told(run, b"was killed when makeroom exited") == 1
        await again(run)
        await run.do("/rewind 3 conversation")
        await again(run)
        await run.do("and on", "and on")
        assert told(run, b"$ echo walrus") == told(run, b"was killed when makeroom exited") == 1
        await run.do("/rewind 2 conversation", "and on")
        assert told(run, b"$ echo walrus") == told(run, b"was killed when makeroom exited") == 0

    run_controller(tmp_path, work)
