"""/context, /cost, /compact, /uncompact, /recall and /pin against the strict server."""

import asyncio
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from agent.app import Options
from agent.app.controller import prompt_blocks
from agent.commands import costs
from agent.events import ContextChart, ContextCompacted, TurnFinished
from agent.loop.model_call import prompt_tokens
from agent.session.environment import own_words_sent
from compact import local_summary
from compact.entry_account import account_of
from compact.identifiers import joined_text
from compact.notices import MIN_TOLD_TOKENS, compaction_notice
from compact.request_bills import UNUSED_SUMMARY
from tests.narrowing import block_text, narrow, present
from tests.sampling import sampled
from tests.strict_api.demo_bridge import demo_reply
from tests.strict_api.reply import Reply as Answer
from tests.strict_api.reply import calls, says
from tests.strict_api.scripted_model import ScriptedModel
from tools import BUILTIN
from transcripts.entries import Entry, Prompt
from transcripts.facts import Compacted, Reply, Result
from transcripts.messages import TextBlock, Usage

from .controller_run import READ_ALL, ControllerRun, ScriptedChooser, files, run_controller


def test_compact_says_what_it_would_do_then_does_it_and_can_be_undone(tmp_path: Path) -> None:
    files(tmp_path, 8, 500)

    async def work(run: ControllerRun) -> None:
        await run.do(READ_ALL)
        before = run.bodies()
        preview = await run.do("/compact --dry-run")
        assert run.bodies() == before
        said = await run.do("/compact keep the file list")
        assert len(run.emitted(ContextCompacted)) == 1
        assert "Freeing about " in said and "Would free about " in preview
        assert re.search(r"the summary costs about \$0\.\d\d \([\d,]+ tokens in, [\d,]+ out\)", preview)
        goes = next(line for line in preview.splitlines() if line.startswith("  r") and " become " in line)
        assert goes in said.splitlines()
        assert run.emitted(TurnFinished) == []
        assert len(b"".join(run.bodies())) < len(b"".join(before)) // 2
        assert "no request was sent with it" in await run.do("/context")
        await run.do("/uncompact")
        assert run.bodies() == before

    run_controller(tmp_path, work)


def usual_summary(body: dict[str, Any]) -> Any:
    """Answer like a model that analyzes the conversation before it writes a summary of the usual length."""
    if "Do not call any tool" not in str(body["messages"][-1]):
        return demo_reply(body)
    words = "the user reads all files of the project and nothing has been decided yet " * 100
    return Answer([says(f"<analysis>{words}</analysis><summary>1. Request: {words}</summary>")])


@pytest.mark.parametrize(
    "options",
    sampled(
        [
            {},
            {"cache": "1h"},
            {"cache": None, "policy": "off"},
            {"configured": {"summary_model": "claude-haiku-4-5"}},
        ],
        every=3,
    ),
)
def test_the_preview_of_a_compaction_includes_the_cost_of_the_summary(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    files(tmp_path, 8, 500)

    async def work(run: ControllerRun) -> None:
        run.controller.services.counter.warm()
        await run.do(READ_ALL)
        before = run.controller.in_use[0].cost
        said = await run.do("/compact")
        paid = run.controller.in_use[0].cost - before
        (told,) = re.findall(r"the summary costs about \$(\d+\.\d\d) ", said)
        assert float(told) == pytest.approx(paid, rel=0.25, abs=0.006)  # rounded to a cent
        assert paid > 0.02

    run_controller(tmp_path, work, respond=usual_summary, **options)


def test_the_context_after_an_undone_compaction_is_reported_as_the_status_line_and_the_server_count_it(
    tmp_path: Path,
) -> None:
    files(tmp_path, 6, 400)

    async def work(run: ControllerRun) -> None:
        run.controller.services.counter.warm()
        told = await run.do(READ_ALL, "/compact", "read src/part_2.py", "/uncompact")
        after = figure(told, r"-> ([\d,]+) tokens")
        session, context = run.controller.in_use
        assert after == prompt_tokens(session, context)
        sent = len(session.folded.sizes.requests)
        await run.do("what can you do?")
        assert session.folded.sizes.requests[sent].tokens == pytest.approx(after, abs=50)

    run_controller(tmp_path, work)


def test_a_local_summary_replaces_one_of_no_use_whose_cost_is_reported_and_is_undone(tmp_path: Path) -> None:
    files(tmp_path, 8, 500)

    def respond(body: dict[str, Any]) -> Any:
        if "Do not call any tool" in str(body["messages"][-1]):
            return Answer([calls("read", file_path="x")], usage={"output_tokens": 50_000})
        return demo_reply(body)

    async def work(run: ControllerRun) -> None:
        await run.do(READ_ALL)
        session = run.controller.in_use[0]
        before = session.cost
        bodies = run.bodies()
        said = await run.do("/compact")
        paid = session.cost - before
        assert paid > 0.5 and f"called a tool; the attempt cost ${paid:.2f}" in said
        [made] = run.emitted(ContextCompacted)
        assert "summarized locally after the model's summary failed; undo with /uncompact" in made.notice
        assert len(b"".join(run.bodies())) < len(b"".join(bodies)) / 2
        await run.do("/uncompact")
        assert run.bodies() == bodies

    run_controller(tmp_path, work, respond=respond)


def test_after_an_undone_compaction_the_conversation_continues(tmp_path: Path) -> None:
    files(tmp_path, 6, 400)

    async def work(run: ControllerRun) -> None:
        await run.do(
            READ_ALL, "/compact", "read src/part_1.py", "/uncompact", "read src/part_2.py", "/compact"
        )
        await run.do("read src/part_3.py")

    run_controller(tmp_path, work)


def test_what_every_tool_answers_can_be_compacted_again_and_again(tmp_path: Path) -> None:
    """Any tool may put any data into `about`; a compaction handles values of unexpected types."""
    files(tmp_path, 8, 500)
    page, names = str(tmp_path / "src" / "part_1.py"), [f"src/part_{number}.py" for number in range(20)]
    question = {"question": "Go on?", "options": [{"label": "yes"}, {"label": "no"}]}
    used = [
        *(calls("read", file_path=name) for name in names),
        calls("write", file_path="new.py", content="x = 1\n"),
        calls("edit", file_path=page, old_string="nowhere", new_string="x"),
        *(calls("grep", pattern="value 7", output_mode=mode) for mode in ("content", "count")),
        *(calls(name, pattern="*_1*") for name in ("grep", "glob")),
        calls("bash", command="echo more >> new.py; echo x > other; false"),
        calls("bash", command="true", run_in_background=True),
        calls("monitor", command="echo one; sleep 60"),
        calls("todo", todos=[{"content": "go on", "status": "pending"}]),
        calls("recall", query="value"),
        calls("web_fetch", url="not an address"),
        calls("task", description="Look around", prompt="hello", agent="general"),
        calls("ask_user", questions=[question]),
        calls("exit_plan", plan="1. Go on"),
        calls("compact"),
        calls("nothing_like_it"),
    ]
    assert {each["name"] for each in used} >= {*BUILTIN}
    respond = ScriptedModel(
        [Answer(used[:20]), Answer(used[20:])],
        then=lambda _: Answer([says("All files are read, part_1.py too.")]),
    )

    async def work(run: ControllerRun) -> None:
        for line in ("work", "/compact", "and on", "/compact", "and on"):
            await run.do(line)
        assert any(made.layer == "summary" for made in run.controller.in_use[0].folded.compactions)

    run_controller(tmp_path, work, respond=respond, permission_mode="bypassPermissions")


def test_complaint_11_a_manual_compaction_starts_no_turn(tmp_path: Path) -> None:
    files(tmp_path, 6, 400)

    async def work(run: ControllerRun) -> None:
        await run.do(READ_ALL)
        asked = len(run.server.requests)
        await run.do("/compact")
        assert len(run.server.requests) - asked <= 1  # the summary, and nothing that follows it
        (made,) = run.emitted(ContextCompacted)
        assert made.ids
        assert "[summarized: this replaces the earlier conversation" in str(run.bodies()[0])

    run_controller(tmp_path, work)


def test_a_session_of_another_model_can_be_compacted_before_its_first_prompt(tmp_path: Path) -> None:
    """Its thinking is signed by no one whom the server knows."""
    files(tmp_path, 8, 500)
    sids: list[str] = []

    async def demo(run: ControllerRun) -> None:
        await run.do(READ_ALL)
        sids.append(run.controller.in_use[0].sid)

    async def other(run: ControllerRun) -> None:
        assert "earlier thinking is no longer in the context" in await run.do("/compact")
        (made,) = run.emitted(ContextCompacted)
        assert made.ids and len(run.server.requests) == 1

    run_controller(tmp_path, demo, offline=True)
    run_controller(tmp_path, other, resume=sids[0], verified=False)


def test_compact_says_in_plain_words_why_it_does_nothing_or_what_it_would_do(tmp_path: Path) -> None:
    files(tmp_path)

    async def work(run: ControllerRun) -> None:
        assert "not summarized: the context has only" in await run.do("hello", "/compact")
        text = await run.do(READ_ALL, "/compact --dry-run")
        assert "become a summary of about" in text and "Largest blocks that remain:" in text
        assert "unthink" not in text

    run_controller(tmp_path, work)


def test_what_left_the_context_is_recalled_by_id_and_by_words(tmp_path: Path) -> None:
    files(tmp_path, 12)

    async def work(run: ControllerRun) -> None:
        assert "Nothing has been cleared or summarized yet" in await run.do("/recall")
        await run.do(READ_ALL, "/compact")
        lines = (await run.do("/recall")).splitlines()
        made = run.controller.in_use[0].folded.compactions[-1].id
        assert len(lines) == 20 and f" tokens  {made:>5}  read src/part_" in lines[0]
        assert re.search(r"  read src/part_\d+\.py: def task_\d+_0\(\): return", lines[0])
        assert (
            "more; use /recall WORDS to find them" in lines[-2]
            and f"Use /recall {lines[0].split()[0]} to show" in lines[-1]
        )
        found = await run.do("/recall task_3_77")
        ident = found.split()[0]
        assert ident.startswith("r") and max(map(len, found.splitlines())) <= 80
        assert "def task_3_77(): return 'value 77'" in await run.do(f"/recall {ident}")
        assert "no matches for 'zebra-crossing'" in await run.do("/recall zebra-crossing")
        vague = "no matches for 'the'; the words are too short or too common to search for"
        assert vague in await run.do("/recall the")
        assert "task_3_77" in await run.do("/search where is task_3_77?")
        assert await run.do("/search") == "usage: /search WORDS"
        await run.do("/uncompact")
        assert made not in (await run.do("/recall")).split()

    run_controller(tmp_path, work)


def test_context_names_files_and_shows_the_newest_compactions_unless_asked_for_all(tmp_path: Path) -> None:
    files(tmp_path, 1)

    async def work(run: ControllerRun) -> None:
        await run.do("read src/part_0.py")
        assert "  read src/part_0.py\n" in await run.do("/context")
        session = run.controller.in_use[0]
        made = [session.compacted("micro", "auto", (), {}).id for _ in range(11)]
        said = await run.do("/context")
        assert [line.split()[0] for line in said.splitlines() if "results cleared" in line] == made[:-9:-1]
        assert "... 3 earlier ones: /context all" in said
        said = await run.do("/context all")
        assert all(f"  {one}  " in said for one in made) and "earlier" not in said

    run_controller(tmp_path, work)


def test_context_names_the_last_cache_miss_and_cost_the_thinking(tmp_path: Path) -> None:
    files(tmp_path, 6, 400)

    async def work(run: ControllerRun) -> None:
        session, context = run.controller.in_use
        context.settings = replace(context.settings, diagnoses=True)
        await run.do("read src/part_0.py")
        assert run.server.requests[-2]["diagnostics"] == {"previous_message_id": None}
        assert "cache miss" not in await run.do("/context")
        asked = run.server.requests[-1]["diagnostics"]["previous_message_id"]
        assert asked == [fact for fact in session.folded.facts if isinstance(fact, Reply)][-2].ident
        await run.do(READ_ALL, "/compact", "hello")
        missed = session.folded.last_reply
        assert missed is not None and missed.cache_miss is not None
        assert missed.cache_miss.reason == "messages_changed" and missed.cache_miss.tokens > 0
        told = f"{missed.cache_miss.tokens:,} tokens at r{missed.seq}, because earlier messages changed."
        assert f"Last cache miss: {told}" in await run.do("/context")
        thought = session.spent.thinking
        cost = await run.do("/cost")
        assert thought > 0 and f"  thinking        {thought:>12,}  (" in cost
        session.charge(Usage(cache_read=10**9), missed.model, 0)
        assert "(100%)" not in await run.do("/cost") and "(99%)" in await run.do("/cost")

    run_controller(tmp_path, work)


def test_cost_why_explains_every_request_and_its_parts_add_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs, "MAX_LISTED_REQUESTS", 3)
    files(tmp_path, 6, 400)

    async def work(run: ControllerRun) -> None:
        session, context = run.controller.in_use
        context.settings = replace(context.settings, diagnoses=True)
        assert await run.do("/cost why") == "no requests yet"
        await run.do(READ_ALL, "/compact", "hello")
        said = await run.do("/cost why")
        summed = re.search(r"total: (\d+) read \+ (\d+) new \+ (\d+) again = (\d+)", said.replace(",", ""))
        read, new, again, total = map(int, present(summed).groups())
        assert read + new + again == total == session.spent.prompt
        last = present(session.folded.last_reply).seq
        (row,) = [line for line in said.splitlines() if line.startswith(f"r{last} ")]
        assert row.endswith(f"the history changed: {session.folded.compactions[-1].id}")
        assert "the API says" not in said and "(1 agree with this table)" in said
        assert re.search(r"tokens billed again in 1 request.*: the history changed", said)
        requests = len(re.findall(r"^r\d", await run.do("/cost why all"), re.MULTILINE))
        assert len(re.findall(r"^r\d", said, re.MULTILINE)) == 3
        assert f"... {requests - 3} earlier ones: /cost why all" in said
        assert "unknown argument" in await run.do("/cost nothing")
        assert "tokens of agents and of requests that were rewound" not in said
        session.failed(UNUSED_SUMMARY, "the session ended", {"asked": session.folded.last_seq})
        session.failed(UNUSED_SUMMARY, "the session ended", {"asked": session.folded.last_seq})
        said = await run.do("/cost why")
        assert said.endswith(
            "not included: 2 summary requests cancelled before the server reported any usage"
        )

    run_controller(tmp_path, work)


def test_a_server_that_caches_nothing_is_planned_for_as_such_after_five_replies(tmp_path: Path) -> None:
    files(tmp_path, 6)

    async def work(run: ControllerRun) -> None:
        session, context = run.controller.in_use
        state = context.compaction
        await run.do("read src/part_0.py")
        assert state.prices_in(session.folded) == state.prices
        await run.do(READ_ALL)
        prices = state.prices_in(session.folded)
        assert (prices.read, prices.write) == (1.0, 1.0) and prices.input == state.prices.input
        state.cuts_silently = True  # Ollama, which does not report what it caches
        assert state.prices_in(session.folded) == state.prices

    run_controller(tmp_path, work, cache=None)


def test_context_draws_what_there_is(tmp_path: Path) -> None:
    files(tmp_path, 2)

    async def work(run: ControllerRun) -> None:
        await run.do(READ_ALL, "/context")
        (chart,) = run.emitted(ContextChart)
        rows = dict(chart.rows)
        assert rows["tool results"] > rows["user text"] > 0
        assert abs(sum(rows.values()) - present(run.controller.status().tokens)) <= 10
        assert "Largest blocks" in run.text()

    run_controller(tmp_path, work)


def test_context_says_that_thinking_was_dropped_in_plain_words(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        await run.do("hello")
        made = run.controller.in_use[0].compacted("unthink", "reactive", (), {"reason": "refused"})
        said = await run.do("/context")
        assert f"  {made.id}  thinking dropped (reactive)" in said and "unthink" not in said
        assert made.layer == "unthink"  # the record keeps its name

    run_controller(tmp_path, work)


def test_a_pin_survives_every_compaction(tmp_path: Path) -> None:
    files(tmp_path, 6, 400)

    async def work(run: ControllerRun) -> None:
        await run.do("/pin the blue door stays shut", READ_ALL, "/compact")
        assert b"the blue door stays shut" in run.bodies()[0]
        assert (await run.do("/pin remove 1")).startswith("nothing is pinned; use /pin TEXT")

    run_controller(tmp_path, work)


def test_an_id_that_is_not_there_is_answered_with_those_near_it(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        assert await run.do("/recall r7") == "unknown recall id r7. This session has no messages yet"
        await run.do("hello", "hello again")
        told = await run.do("/recall r99999")
        assert told.startswith("unknown recall id r99999. Closest ids: r")
        assert "no session 'f5a78503' in this project; the most recent one is" in await run.do(
            "/recall f5a78503/r5"
        )
        session, _ = run.controller.in_use
        sid, prompt = session.sid, session.folded.entries[-2].seq
        assert await run.do(f"/recall r{prompt}") == "hello again"
        assert await run.do(f"/recall {sid[:8]}/r{prompt}") == "hello again"
        await run.do("/rewind 2")
        run.controller.setup = replace(run.controller.setup, options=Options(offline=True))
        assert f"run makeroom --offline -r {sid[:8]} --at r{prompt}]" in await run.do(f"/recall r{prompt}")
        left = ", ".join(f"r{entry.seq}" for entry in run.controller.in_use[0].folded.entries)
        assert await run.do("/recall r99999") == f"unknown recall id r99999. Closest ids: {left}"

    run_controller(tmp_path, work)


def told_with_prompts(run: ControllerRun) -> list[str]:
    """Return makeroom's own words to the model with each prompt."""
    folded = run.controller.in_use[0].folded
    sent = own_words_sent(folded)
    prompts = (entry.seq for entry in folded.entries if isinstance(entry, Prompt))
    return ["\n".join(text for of, text in sent if of == seq) for seq in prompts]


def test_pins_and_their_removal_are_reported_once_with_the_next_prompt(tmp_path: Path) -> None:
    files(tmp_path, 6, 400)

    async def work(run: ControllerRun) -> None:
        await run.do("/pin answer in French", "hello", "/pin use metric units", "hello", "hello")
        first, second, third = told_with_prompts(run)
        assert "- pinned by the user; applies from now on: answer in French" in first
        assert "applies from now on: use metric units" in second and "French" not in second
        assert third == ""
        await run.do(READ_ALL, "/compact", "hello")
        assert "# Pins" not in str(run.bodies()[0]) and told_with_prompts(run)[-1] == ""
        await run.do("/pin remove 1", "hello", "hello")
        *_, told, last = told_with_prompts(run)
        assert told == "# Pins\n- no longer pinned; no longer applies: answer in French" and last == ""

    run_controller(tmp_path, work)


def test_commands_that_ended_with_an_earlier_run_are_reported_as_ended(tmp_path: Path) -> None:
    files(tmp_path, 6, 400)

    async def work(run: ControllerRun) -> None:
        await run.do("run `sleep 60` in the background", READ_ALL, "/compact")
        sid = run.controller.in_use[0].sid
        assert "b1 is running" in str(run.bodies()[0])
        stopped = "background commands were stopped when the session ended: b1 (sleep 60)"
        assert stopped in await run.do("/clear", f"/resume {sid}")
        assert stopped not in await run.do("hello", "/clear", f"/resume {sid}")
        await run.do("hello")
        *_, told, last = told_with_prompts(run)
        assert "- Background command b1 (sleep 60) was killed when makeroom exited" in told
        assert last == ""
        await run.do(READ_ALL, "/compact")
        assert "sleep 60) was killed" not in str(run.bodies()[0])

    run_controller(tmp_path, work)


def test_complaint_05_nothing_is_compacted_while_idle(tmp_path: Path) -> None:
    files(tmp_path, 6, 400)

    async def work(run: ControllerRun) -> None:
        await run.do(READ_ALL)
        facts, asked = len(run.controller.in_use[0].folded.facts), len(run.server.requests)
        for _ in range(50):
            run.controller.status()
            await asyncio.sleep(0)
        assert (len(run.controller.in_use[0].folded.facts), len(run.server.requests)) == (facts, asked)

    run_controller(tmp_path, work, window=40_000)


def test_with_automatic_compaction_off_a_full_context_blocks_until_compact(tmp_path: Path) -> None:
    files(tmp_path, 3)

    async def work(run: ControllerRun) -> None:
        await run.do(READ_ALL)
        _, context = run.controller.in_use
        tokens = run.controller.status().tokens
        assert tokens is not None
        context.compaction.window = type(context.compaction.window)(tokens, 1000)
        ended = await run.controller.prompt("more")
        assert (ended.reason, "Run /compact" in ended.error) == ("failed", True)
        context.compaction.window = type(context.compaction.window)(tokens * 3, 1000)
        await run.do("help")

    run_controller(tmp_path, work, policy="off")


def test_each_model_is_paid_at_its_own_prices_also_in_a_resumed_session(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        assert "prices" not in await run.do("/cost")
        await run.do("hello")
        before = run.controller.status().cost
        await run.do("/model haiku")
        assert run.controller.status().cost == before > 0
        text = await run.do("hello", "/cost")
        assert "list prices of claude-sonnet-5-5, claude-haiku-5-5" in text
        assert f"\n  {run.server.base_url.rpartition('/')[2]} may charge other prices; set them" in text
        assert before < run.controller.status().cost < 2 * before
        spent, sid = run.controller.status().cost, run.controller.in_use[0].sid
        await run.do("/clear", f"/resume {sid}")
        assert run.controller.status().cost == pytest.approx(spent)

    run_controller(tmp_path, work)


def test_live_state_is_in_the_record_from_its_values_now(tmp_path: Path) -> None:
    files(tmp_path, 6, 400)

    async def work(run: ControllerRun) -> None:
        await run.do("/permissions mode plan", "what can you do?", "/permissions mode acceptEdits")
        session, _ = run.controller.in_use
        plan = next(
            block.text for block in session.folded.entries[1].fact.blocks if isinstance(block, TextBlock)
        )
        await run.do("run `sleep 60` in the background", READ_ALL, "/pin answer in French", "/compact")
        record = block_text(session.folded.view[0].parts[0].block)
        state = record.partition("## Current state\n")[2].partition("\n\n## ")[0]
        assert "- permission mode: acceptEdits\n" in state
        assert "- background command b1 is running: sleep 60\n" in state
        assert f"- plan (r5): {plan}" in state
        assert "- answer in French (pinned by the user)" in record
        words = record.partition("## All user messages")[2]
        assert "what can you do?" in words and "added by makeroom" not in words

    run_controller(tmp_path, work)


def test_what_a_summary_cost_is_known_after_a_resume(tmp_path: Path) -> None:
    files(tmp_path, 6, 400)

    async def work(run: ControllerRun) -> None:
        await run.do(READ_ALL, "/compact")
        session = run.controller.in_use[0]
        assert [made.layer for made in session.folded.compactions] == ["summary"]
        told = await run.do("/cost")
        assert await run.do("/clear", f"/resume {session.sid}", "/cost") == told

    run_controller(tmp_path, work)


def test_a_resumed_session_knows_the_texts_that_left_the_context_before(tmp_path: Path) -> None:
    files(tmp_path, 6, 400)

    async def work(run: ControllerRun) -> None:
        await run.do(READ_ALL, "/compact")
        sid = run.controller.in_use[0].sid
        await run.do("/clear", f"/resume {sid}")
        session, _ = run.controller.in_use
        words = (TextBlock("change task_0_7 in src/part_0.py"),)
        before, *_ = await prompt_blocks(session, run.controller.in_use[1], [], words)
        assert f"{TextBlock.PUT_BACK_START} src/part_0.py" in joined_text([before])
        await run.do("what does task_3_7 do?", READ_ALL, "/compact")
        shown = joined_text([part.block for part in session.folded.view[0].parts])
        assert re.search(r"^- \S*src/part_3.py: .*\btask_3_7\b", shown, re.MULTILINE)

    run_controller(tmp_path, work)


def test_a_resumed_session_accounts_once_for_each_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files(tmp_path, 6, 400)
    accounted: list[int] = []
    make = account_of

    def count(entry: Entry, *values: Any) -> Any:
        accounted.append(entry.seq)
        return make(entry, *values)

    async def work(run: ControllerRun) -> None:
        await run.do(READ_ALL, "/compact")
        sid = run.controller.in_use[0].sid
        await run.do("/clear", f"/resume {sid}")
        before = run.controller.in_use[0].folded.last_seq
        monkeypatch.setattr(local_summary, "account_of", count)
        await run.do("what does task_3_7 do?", READ_ALL, "/compact")
        found = Counter(seq for seq in accounted if seq < before)
        assert found and set(found.values()) == {1}

    run_controller(tmp_path, work)


def test_words_behind_compact_are_reported_with_the_next_prompt_and_stay_in_later_records(
    tmp_path: Path,
) -> None:
    files(tmp_path, 6, 400)

    async def work(run: ControllerRun) -> None:
        rule = "The user said this with /compact:\nfrom now on never touch billing"
        typed = "/compact from now on never touch billing"
        await run.do(READ_ALL, typed, "/clear", f"/resume {run.controller.in_use[0].sid}", "help", "help")
        session, _ = run.controller.in_use
        assert b"".join(run.bodies()).count(json.dumps(rule)[1:-1].encode()) == 1
        await run.do(READ_ALL, READ_ALL, "/compact")
        record = joined_text([part.block for part in session.folded.view[0].parts])
        assert session.folded.edits and record.count(f".0) {rule}") == 1

    run_controller(tmp_path, work)


def test_system_and_tools_stay_the_same_in_the_context_and_all_rows_add_up(tmp_path: Path) -> None:
    files(tmp_path, 6, 400)

    async def work(run: ControllerRun) -> None:
        seen = []
        for line in ("say hello", "read src/part_1.py", "run `seq 9 99`", READ_ALL, "/compact", "say well"):
            await run.do(line, "/context")
            (chart,) = run.emitted(ContextChart)
            rows, total = dict(chart.rows), prompt_tokens(*run.controller.in_use)
            assert abs(sum(rows.values()) - total) <= len(rows)
            seen.append(rows["system"] + rows["tools"])
        assert max(seen) - min(seen) < 0.02 * min(seen), seen

    run_controller(tmp_path, work)


def test_words_behind_compact_are_not_reported_where_nothing_was_compacted(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        await run.do("help", "/compact keep the walrus", "help")
        assert b"walrus" not in b"".join(run.bodies())

    run_controller(tmp_path, work)


def test_the_context_names_records_and_files_with_their_own_sizes_and_no_empty_rows(tmp_path: Path) -> None:
    files(tmp_path, 14, lines=50)

    async def work(run: ControllerRun) -> None:
        said = await run.do(READ_ALL, "/compact", "/context")
        (chart,) = run.emitted(ContextChart)
        assert all(tokens for _, tokens in chart.rows)
        largest = said.partition("Largest blocks\n")[2].partition("\n\n")[0].splitlines()
        named = {
            label: line.split()[0]
            for line in largest
            for label in ("summary of earlier messages", "files shown again")
            if label in line
        }
        assert (
            set(named) == {"summary of earlier messages", "files shown again"}
            and len(set(named.values())) == 2
        )
        assert any("  r3-r" in line and "summary of earlier messages" in line for line in largest)
        assert "r3.0" not in said and "r3.1" not in said
        labels = [line.split(None, 2)[2] for line in largest]
        assert len({line.index(label) for line, label in zip(largest, labels, strict=True)}) == 1

    run_controller(tmp_path, work)


def figure(text: str, pattern: str) -> int:
    """The number that a screen shows for the pattern's group."""
    found = re.search(pattern, text)
    assert found is not None, (pattern, text)
    return int(found[1].replace(",", ""))


def test_one_block_has_one_size_on_all_screens(tmp_path: Path) -> None:
    files(tmp_path, 6)
    chooser = ScriptedChooser("")

    async def work(run: ControllerRun) -> None:
        run.controller.services.counter.warm()
        await run.do(READ_ALL)
        said = await run.do("/context")
        (chart,) = run.emitted(ContextChart)
        total = prompt_tokens(*run.controller.in_use)
        assert sum(tokens for _, tokens in chart.rows) == pytest.approx(total, abs=5)
        ident, size = "r10", figure(said, r"([\d,]+)  r10  ")
        fact = next(fact for fact in run.controller.in_use[0].folded.facts if fact.seq == 10)
        raw = sum(narrow(fact, Result).tokens)
        assert size != raw, "the server counts otherwise"
        planned = await run.do("/compact --dry-run")
        record = figure(planned, r"become a summary of about ([\d,]+) tokens")
        shown = figure(planned, r"summary of earlier messages, ([\d,]+) tokens")
        assert record == pytest.approx(shown, abs=2)
        run.controller.chooser = chooser
        await run.do("/drop")
        rows = {row.value: row.facts for row in chooser.menus[0].rows}
        assert f"{size:,} tokens" in str(rows[ident])
        assert any(": def task_" in row.title for row in chooser.menus[0].rows)
        told = await run.do(f"/drop {ident}")
        less = figure(told, r"([\d,]+) tokens freed") + figure(told, r"placeholder takes ([\d,]+)")
        assert less - figure(told, r"including ([\d,]+) tokens of later thinking") == pytest.approx(
            size, abs=5
        )
        assert figure(await run.do("/recall"), rf"{ident}  +([\d,]+) tokens") == size

    run_controller(tmp_path, work)


def test_an_automatic_notice_mentions_a_summary_but_not_each_small_clearing(tmp_path: Path) -> None:
    files(tmp_path, 12)

    async def work(run: ControllerRun) -> None:
        await run.do(READ_ALL)
        layers = [made.layer for made in run.controller.in_use[0].folded.compactions]
        told = [made.notice for made in run.emitted(ContextCompacted)]
        assert layers.count("micro") > 3 and len(told) == layers.count("summary") + layers.count("ledger")
        assert all("the model summarized" in notice for notice in told)

    run_controller(tmp_path, work, policy="classic", window=40_000)


@pytest.mark.parametrize(("cache", "ttl", "write"), [("5m", 300, 1.25), ("1h", 3_600, 2.0)])
def test_entries_that_are_written_for_an_hour_are_planned_with_as_such(
    tmp_path: Path, cache: str, ttl: int, write: float
) -> None:
    async def work(run: ControllerRun) -> None:
        _, context = run.controller.in_use
        assert context.compaction.settings.cache_ttl_s == ttl
        assert context.compaction.prices.write == write

    run_controller(tmp_path, work, cache=cache)


def test_what_a_block_that_is_dropped_costs_is_reported_before_anything_is_sent(tmp_path: Path) -> None:
    files(tmp_path, 20)

    async def work(run: ControllerRun) -> None:
        await run.do(READ_ALL)
        folded = run.controller.in_use[0].folded
        first = next(fact.seq for fact in folded.facts if isinstance(fact, Result))
        told = await run.do(f"/drop r{first}")
        billed = present(re.search(r"next request: ([\d,]+) tokens of cache write, ~\$([\d.]+)\)$", told))
        tokens, dollars = billed.groups()
        assert "cache write" not in await run.do("/uncompact"), "what was sent last is in the cache as it was"
        await run.do(f"/drop r{first}", "what can you do?")
        usage = present(folded.last_reply).usage
        prices = run.controller.in_use[1].compaction.prices
        assert usage.cache_written == pytest.approx(int(tokens.replace(",", "")), rel=0.05)
        assert prices.dollars(prices.write * usage.cache_written) == pytest.approx(float(dollars), abs=0.006)

    run_controller(tmp_path, work, policy="off")


def test_why_a_record_cannot_be_dropped_is_reported_by_the_id_that_it_is_listed_with(tmp_path: Path) -> None:
    files(tmp_path, 14, lines=50)

    async def work(run: ControllerRun) -> None:
        listed = await run.do(READ_ALL, "/compact", "/context")
        blocks = dict(re.findall(r"(r[\dr-]+) +(summary of earlier messages|files shown again)", listed))
        made = run.controller.in_use[0].folded.compactions[-1].id
        for ident, what in blocks.items():
            assert await run.do(f"/drop {ident}") == (
                f"cannot drop {ident}: it ({what}) replaces messages that {made} summarized. "
                f"/uncompact {made} shows these messages again"
            )
        assert len(blocks) == 2

    run_controller(tmp_path, work)


def test_one_block_is_dropped_by_hand_and_restored(tmp_path: Path) -> None:
    files(tmp_path, 3)
    chooser = ScriptedChooser("")

    async def work(run: ControllerRun) -> None:
        run.controller.chooser = chooser
        assert await run.do("/drop") == "nothing to drop yet" and chooser.menus == []
        run.controller.chooser = None
        await run.do(READ_ALL)
        before = run.bodies()
        listed = await run.do("/context")
        ident = next(word for word in listed.split() if word.startswith("r") and word[1:].isdigit())
        told = await run.do(f"/drop {ident}")
        made = run.controller.in_use[0].folded.compactions[-1]
        assert (made.layer, made.trigger) == ("drop", "manual") and "src/part_" in told and made.id in told
        assert "tokens freed" in told and any(b"[cleared: read src/part_" in body for body in run.bodies())
        assert f"cannot drop {ident}: it is no longer shown" in await run.do(f"/drop {ident}")
        short = next(fact.seq for fact in run.controller.in_use[0].folded.facts if isinstance(fact, Reply))
        assert "it is shorter than a placeholder would be" in await run.do(f"/drop r{short}")
        assert made.report["dropped"] in told and made.report["dropped"] in compaction_notice([made])
        assert "cannot drop r999: no block" in await run.do("/drop r999")
        assert "(usage: /drop [ID])" in await run.do("/drop")
        run.controller.chooser = chooser
        assert await run.do("/drop") == ""
        chooser.values.append(chooser.menus[0].rows[0].value)
        assert "tokens freed" in await run.do("/drop")
        assert ident not in [row.value for row in chooser.menus[1].rows]
        await run.do("/uncompact", f"/uncompact {made.id}")
        assert run.bodies() == before
        await run.do("what is there?")

    run_controller(tmp_path, work)


def test_in_a_small_window_what_is_cleared_all_the_time_gets_no_line_each_time(tmp_path: Path) -> None:
    files(tmp_path, 20, 60)

    async def work(run: ControllerRun) -> None:
        await run.do(READ_ALL)
        made = [fact for fact in run.controller.in_use[0].folded.facts if isinstance(fact, Compacted)]
        small = [fact for fact in made if fact.layer == "micro" and fact.report["freed"] < MIN_TOLD_TOKENS]
        told = {ident for event in run.emitted(ContextCompacted) for ident in event.ids}
        assert len(small) > 2 and not told & {fact.id for fact in small}
        assert "results cleared" in await run.do("/context all")  # which lists them all

    run_controller(tmp_path, work, window=6_000)
