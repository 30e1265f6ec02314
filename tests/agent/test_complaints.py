"""Complaints about other agents that only the whole program can answer, each a test by its number."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent.events import ContextCompacted, Notice
from agent.loop.model_call import prompt_tokens
from agent.offline.faults import Fault
from agent.offline.reply import Reply, calls, says
from agent.offline.script import Script
from compact.settings import CompactSettings
from compact.window import ContextWindow
from tests.agent.commands.test_commands import READ_ALL, Desk, at_desk, files
from transcripts.facts import Compacted, Failed, User
from transcripts.messages import TextBlock


def is_summary(body: dict[str, Any]) -> bool:
    return "<analysis>" in str(body["messages"][-1])


SUMMARY_FAULTS = [
    Fault("status", status=429, headers={"retry-after": "3600"}, times=None, when=is_summary),
    Fault("status", status=400, text="no", times=None, when=is_summary),
    Fault("empty_content", times=None, when=is_summary),
    Fault("max_tokens_text", times=None, when=is_summary),
    Fault("refusal", times=None, when=is_summary),
]


@pytest.mark.parametrize("fault", SUMMARY_FAULTS, ids=lambda fault: f"{fault.kind}{fault.status or ''}")
def test_complaint_04_a_failed_summary_costs_no_word_and_compact_still_ends(
    tmp_path: Path, fault: Fault
) -> None:
    files(tmp_path, 20)

    async def work(desk: Desk) -> None:
        await desk.do("never touch the blue door", READ_ALL)
        before = desk.bodies()
        desk.server.faults.add(fault)
        await desk.do("/compact")
        session, _ = desk.agent.in_use
        assert any(isinstance(fact, Failed) for fact in session.folded.facts)
        assert "never touch the blue door" in str(desk.bodies())
        desk.server.faults.clear()
        for made in [fact for fact in session.folded.facts if isinstance(fact, Compacted)]:
            await desk.do(f"/uncompact {made.id}")
        assert desk.bodies() == before
        await desk.do("read src/part_1.py")

    at_desk(tmp_path, work)


def test_complaint_04_an_interrupted_compaction_leaves_every_byte(tmp_path: Path) -> None:
    files(tmp_path, 20)

    async def work(desk: Desk) -> None:
        await desk.do(READ_ALL)
        before, asked = desk.bodies(), len(desk.server.requests)
        stall = Fault("stall", at=400, when=is_summary)
        desk.server.faults.add(stall)
        task = asyncio.ensure_future(desk.agent.command("/compact"))
        while len(desk.server.requests) == asked:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        stall.release.set()
        assert desk.bodies() == before
        await desk.do("read src/part_1.py")

    at_desk(tmp_path, work)


def test_complaint_10_every_user_message_is_there_byte_for_byte_after_many_compactions(
    tmp_path: Path,
) -> None:
    files(tmp_path, 12)
    words = [f"remember point {n}: the {n}th door, “quoted” — and\ttabs  stay" for n in range(5)]

    async def work(desk: Desk) -> None:
        for each in words:
            await desk.do(each, READ_ALL, "/compact")
        shown = "".join(
            part.block.text
            for message in desk.agent.in_use[0].folded.view
            for part in message.parts
            if isinstance(part.block, TextBlock)
        )
        for each in words:
            assert each in shown

    at_desk(tmp_path, work)


def test_complaint_18_every_removal_can_be_listed_and_brought_back(tmp_path: Path) -> None:
    files(tmp_path, 30)

    async def work(desk: Desk) -> None:
        await desk.do(READ_ALL, "/context")
        session, context = desk.agent.in_use
        made = [fact for fact in session.folded.facts if isinstance(fact, Compacted)]
        assert made
        for each in made:
            assert each.id in desk.words()
            assert {"before", "after", "freed"} <= set(each.report)
            for edit in each.edits:
                seq = getattr(edit, "seq", None)
                if seq is not None and context.tool_context.library is not None:
                    assert context.tool_context.library.original(f"r{seq}")

    at_desk(tmp_path, work, window=40_000)


def test_complaint_19_a_stored_output_is_read_in_pages_and_never_stored_again(tmp_path: Path) -> None:
    stored: list[str] = []

    def second(body: dict[str, Any]) -> Reply:
        stored.extend(path.name for path in (tmp_path / ".task_outputs" / "tool-results").glob("*.txt"))
        path = f".task_outputs/tool-results/{stored[0]}"
        return Reply([calls("read", file_path=path, offset=9000, limit=1000)])

    def third(body: dict[str, Any]) -> Reply:
        assert "  9500\t9500" in str(body["messages"][-1]).replace("\\t", "\t")
        return Reply([says("seen")])

    async def work(desk: Desk) -> None:
        desk.server.brain = Script([Reply([calls("bash", command="seq 20000")]), second, third])
        await desk.do("count")
        now = [path.name for path in (tmp_path / ".task_outputs" / "tool-results").glob("*.txt")]
        assert now == stored and len(now) == 1

    at_desk(tmp_path, work)


def test_complaint_24_a_summary_is_asked_on_the_prefix_that_is_cached(tmp_path: Path) -> None:
    files(tmp_path, 20)

    async def work(desk: Desk) -> None:
        await desk.do(READ_ALL, "/compact")
        (asked,) = [body for body in desk.server.requests if is_summary(body)]
        before = desk.server.requests[desk.server.requests.index(asked) - 1]
        assert (asked["system"], asked["tools"]) == (before["system"], before["tools"])
        unmarked = str(before["messages"]).replace(", 'cache_control': {'type': 'ephemeral'}", "")[:-1]
        assert (
            str(asked["messages"])
            .replace(", 'cache_control': {'type': 'ephemeral'}", "")
            .startswith(unmarked)
        )
        assert [made for made in desk.told(ContextCompacted) if "pays back" in made.notice]

    at_desk(tmp_path, work)


def test_complaint_35_what_the_model_is_given_anew_comes_from_the_record_and_not_from_memory(
    tmp_path: Path,
) -> None:
    files(tmp_path, 20)

    async def work(desk: Desk) -> None:
        await desk.do(READ_ALL, "/compact")
        ran = len(desk.server.requests)
        await desk.do("/context", "/recall task_3_7", "/cost")
        assert len(desk.server.requests) == ran, "no command asks the model"
        session, _ = desk.agent.in_use
        assert sum(isinstance(fact, User) for fact in session.folded.facts) == 1
        assert not [event for event in desk.events if isinstance(event, Notice) and event.level == "error"]

    at_desk(tmp_path, work)


def test_in_a_full_context_without_automatic_compaction_only_compact_goes_on(tmp_path: Path) -> None:
    files(tmp_path, 20)

    async def work(desk: Desk) -> None:
        await desk.do(READ_ALL)
        session, context = desk.agent.in_use
        context.compaction.settings = CompactSettings(enabled=False, min_compact_size=100)
        context.compaction.window = ContextWindow(int(prompt_tokens(session, context) / 0.985), 1_000)
        asked = len(desk.server.requests)
        ended = await desk.agent.prompt("read src/part_1.py")
        assert ended.reason == "failed" and "/compact" in ended.error
        assert desk.agent.status().state == "BLOCKING" and len(desk.server.requests) == asked
        await desk.do("/compact", "read src/part_1.py")

    at_desk(tmp_path, work)
