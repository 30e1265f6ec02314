"""Files that a prompt mentions, through a whole session: sending, notices, charges and memory."""

import asyncio
from pathlib import Path
from threading import Event

import pytest

from agent.events import Notice
from agent.permissions import Mode
from tests.agent.commands.controller_run import ControllerRun, run_controller
from tests.strict_api.faults import COUNTING, Fault
from tests.strict_api.reply import Body
from transcripts.entries import Exchange
from transcripts.messages import TextBlock


def test_a_mentioned_file_precedes_the_prompt_and_can_be_changed_also_after_a_resume(
    tmp_path: Path,
) -> None:
    (tmp_path / "notes.md").write_text("one\ntwo\n")
    path = str(tmp_path / "notes.md")
    sids = []

    async def mention(run: ControllerRun) -> None:
        await run.do("what does @notes.md say?")
        assert "read notes.md (2 lines)" in run.text()
        session, context = run.controller.in_use
        *_, file, words = [part.block for part in session.folded.view[0].parts]
        assert file.attachment and isinstance(words, TextBlock) and words.text == "what does @notes.md say?"
        assert context.tool_context.in_view(context.tool_context.seen[path].result or 0)
        sids.append(session.sid)

    async def resume(run: ControllerRun) -> None:
        seen = run.controller.in_use[1].tool_context.seen
        assert seen[path].lines is None and run.controller.in_use[0].sid == sids[0]

    run_controller(tmp_path, mention)
    run_controller(tmp_path, resume, resume=sids[0] if sids else "", verified=False)


def test_a_large_prompt_reports_what_it_adds_before_it_is_sent(tmp_path: Path) -> None:
    for name in ("one", "two"):
        lines = "".join(f"{name}_{at} = compute({at * 7919 % 10007})\n" for at in range(1_900))
        (tmp_path / f"{name}.py").write_text(lines)

    async def work(run: ControllerRun) -> None:
        session, _ = run.controller.in_use
        await run.do("say hello", "look at @one.py")  # from which the model's own count is learned
        before, exchanges = session.folded.last_reply, len(session.folded.entries)
        await run.do("look at @two.py")
        (bill,) = [notice.text for notice in run.emitted(Notice) if "large prompt" in notice.text]
        told = int(bill.removeprefix("large prompt: ").partition(" ")[0].replace(",", ""))
        after = next(one.fact for one in session.folded.entries[exchanges:] if isinstance(one, Exchange))
        assert before is not None
        added = after.usage.prompt - before.usage.total
        assert abs(told - added) <= 0.05 * added
        assert "~$" in bill and "@file#L10-20" in bill

    run_controller(tmp_path, work)


def test_the_first_large_prompt_is_billed_by_the_count_of_the_server(tmp_path: Path) -> None:
    lines = (f"12:00 INFO GET /api/items/{at * 7919 % 10007} in {at % 97} ms\n" for at in range(2_000))
    log = "".join(lines)

    async def work(run: ControllerRun) -> None:
        session, _ = run.controller.in_use
        await run.do("say hello")
        before = session.folded.last_reply
        await run.do("say well to this\n" + log)
        (bill,) = [notice.text for notice in run.emitted(Notice) if "large prompt" in notice.text]
        told = int(bill.removeprefix("large prompt: ").partition(" ")[0].replace(",", ""))
        after = session.folded.last_reply
        assert before is not None and after is not None
        added = after.usage.prompt - before.usage.total
        assert abs(told - added) <= 0.01 * added

    run_controller(tmp_path, work)


def test_news_waits_on_where_a_prompt_is_cancelled_before_it_got_in(tmp_path: Path) -> None:
    counting, over = Event(), Event()

    def held(body: Body) -> bool:
        counting.set()
        return over.wait()

    async def work(run: ControllerRun) -> None:
        await run.do("say hello", "!echo walrus")
        run.controller.after_prompt.append(TextBlock("mind the gap"))
        turn = asyncio.ensure_future(run.controller.prompt("say well to this\n" + "some words\n" * 20_000))
        await asyncio.to_thread(counting.wait)
        turn.cancel()
        await asyncio.wait({turn})
        over.set()
        await run.do("say well", "say more")
        said = str(run.server.requests[-1]["messages"])
        assert said.count("$ echo walrus") == said.count("mind the gap") == 1 and "some words" not in said

    run_controller(tmp_path, work, faults=(Fault("status", path=COUNTING, status=500, when=held),))


@pytest.mark.parametrize("mode", ["manual", "acceptEdits", "bypassPermissions"])
def test_a_file_that_may_contain_secrets_is_not_attached(tmp_path: Path, mode: Mode) -> None:
    (tmp_path / ".env").write_text("TOKEN=hidden-value\n")
    (tmp_path / "link").symlink_to(".env")

    async def work(run: ControllerRun) -> None:
        run.controller.in_use[1].permissions.set_mode(mode)
        await run.do("what is in @link?")
        assert run.text().count("it may contain secrets") == 1
        assert "hidden-value" not in str(run.controller.in_use[0].folded.view)

    run_controller(tmp_path, work)


def test_what_was_pasted_mentions_nothing(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("one\n")

    async def work(run: ControllerRun) -> None:
        await run.controller.prompt("look: it says @notes.md", typed="look:  ")
        view = run.controller.in_use[0].folded.view
        assert not any(part.block.attachment for message in view for part in message.parts)

    run_controller(tmp_path, work)


@pytest.mark.parametrize("sources", [None, ("user",), ()])
def test_the_memory_file_beside_a_mentioned_file_goes_with_the_prompt(
    tmp_path: Path, sources: tuple[str, ...] | None
) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg/AGENTS.md").write_text("A rule of this package.", "utf-8")
    (tmp_path / "pkg/a.py").write_text("print(1)\n", "utf-8")

    async def work(run: ControllerRun) -> None:
        await run.do("what is in @pkg/a.py")
        told = [notice.text for notice in run.emitted(Notice) if "now following" in notice.text]
        assert len(told) == (sources is None)
        assert ("A rule of this package." in str(run.server.requests[0])) == (sources is None)
        await run.do("and again: read pkg/a.py, @pkg/a.py")
        assert b"".join(run.bodies()).count(b"A rule of this package.") == (sources is None)

    run_controller(tmp_path, work, setting_sources=sources)
