"""Complaints of users about other agents' compaction, each turned into a requirement of the pipeline.

Those that need the running agent (single flight, faults at an await, the recall tool, resume) are tested
with it.
"""

from itertools import pairwise

import pytest
from msgspec.structs import replace

from agent.replay.policies import PRICE_TIERS
from compact.estimate import estimate_prompt
from compact.folding import RESTORED_HEADING
from compact.invariants import problems
from compact.layers.summary import TOO_LITTLE, fallback_summary
from compact.notices import compaction_notice
from compact.pipeline import dry_run
from compact.policy import choose_batch
from compact.replacement import CONTINUE_BELOW, NO_OPEN_REQUEST
from compact.settings import CompactSettings
from compact.situation import OUTPUTS_PREFIX
from tests.narrowing import block_text
from tests.tables import each_row
from transcripts.facts import Clear, Compacted, Fold, Reply, RequestSent, Undone, Unthink
from transcripts.messages import TextBlock, ToolUseBlock, Usage

from .worlds import World, again, answered, bodies, failed, summary_text

WINDOW = 40_000
TOO_LONG = failed("too long: prompt is too long: 90000 tokens > 40000 maximum", too_long=True)


def busy(calls=20, size=8_000, window=WINDOW, **more):
    """A session of many reads, a request in progress."""
    world = World(window=window, **more)
    world.user("Mend src/app.py. Never push to main.")
    for at in range(calls):
        world.call("read", f"def name_{at}_x(): ... " + "line " * (size // 5), file_path=f"src/f{at}.py")
    return world


def over(share, **more):
    """A session of so many times the window."""
    return busy(calls=int(share * 20), size=8_000, judged=share < 2, **more)


@each_row("share", [1.0, 1.5, 3.0])
@each_row("policy", ["thrifty", "classic", "off"])
def test_complaint_01_compact_ends_with_a_sendable_request_from_any_state(share, policy):
    world = over(share, settings=CompactSettings(policy=policy))
    assert world.situation.tokens >= share * 0.9 * WINDOW
    world.compact("manual", TOO_LONG)
    assert world.situation.fits
    assert problems(world.folded.view) == []


def test_complaint_01_even_where_a_single_message_is_three_times_the_window():
    world = World(window=WINDOW)
    world.user("word " * WINDOW * 3)
    world.compact("manual", TOO_LONG)
    assert world.situation.fits
    assert 'recall("r1.0") shows all of it' in "".join(world.shown)


@pytest.mark.parametrize("calls", [100, 400])
def test_complaint_02_the_reactive_path_frees_the_overflow_without_the_model(calls):
    world = busy(calls, size=1_500, judged=False)
    assert world.situation.tokens > WINDOW
    overflow = world.situation.tokens - WINDOW
    made = world.compact("reactive", rung=1)
    assert world.questions == []
    assert made.proposals[-1].report["freed"] >= overflow
    assert world.situation.fits


def test_complaint_02_hundreds_of_large_outputs_that_no_one_has_seen_are_previewed():
    world = World(window=30_000)
    world.user("run everything")
    uses = [ToolUseBlock(f"t{at}", "bash", {"command": f"make {at}"}) for at in range(100)]
    reply = world.reply(*uses)
    for at in range(100):
        world.result(reply, at, "output " * 500)
    world.compact("reactive", rung=1)
    assert world.situation.fits
    shown = "\n".join(world.shown)
    assert all(f'recall("r{seq}")' in shown for seq in range(4, 104))


def test_complaint_03_a_summary_at_the_full_window_leaves_room_for_its_own_answer():
    world = over(1.0)
    world.plan("manual")
    asked = world.questions[0]
    left = world.folded.view
    exchanges = [index for index, message in enumerate(left) if message.role == "assistant"]
    sent = left.tokens - left.tokens_before(exchanges[asked.leave_out])
    assert sent + asked.max_tokens <= WINDOW


@each_row(
    ("answer", "layers"),
    [
        (failed("rate limited"), []),
        (answered(""), ["ledger"]),
        (answered("<analysis>only this</analysis>"), ["ledger"]),
        (answered("cut off", stop="max_tokens"), ["ledger"]),
        (answered("I call a tool", stop="tool_use"), ["ledger"]),
        (answered("<summary>" + "word " * 60_000 + "</summary>"), ["ledger"]),
    ],
)
def test_complaint_04_the_history_is_replaced_only_by_a_valid_or_a_local_summary(answer, layers):
    world = busy(15)
    before = bodies(world.folded)
    made = world.compact("manual", answer)
    assert [proposal.layer for proposal in made.proposals] == layers
    assert made.failures
    assert (bodies(world.folded) == before) is not bool(layers)
    assert not answer.text or answer.text not in "\n".join(world.shown)


def test_complaint_05_one_plan_asks_at_most_three_times():
    world = over(1.5)
    world.plan("manual", TOO_LONG)
    assert len(world.questions) == CompactSettings().summary_max_requests
    left_out = [asked.leave_out for asked in world.questions]
    assert left_out == sorted(set(left_out))


def refilled(world, times):
    """The window fills up and is summarised, so many times, hardly a call apart."""
    for _ in range(times):
        for at in range(15):
            world.user("go on", source="harness")
            world.reply("words of the model " * 500, TextBlock(f"{at}"))
            if world.compact().proposals:
                break


def test_complaint_06_three_summaries_within_ten_calls_are_the_last_until_the_user_speaks():
    world = World(CompactSettings(summary_max_output_tokens=1_000), window=20_000)
    world.user("go on and on")
    refilled(world, 5)
    layers = [made.layer for made in world.folded.compactions]
    assert layers[:3] == ["summary"] * 3
    assert "summary" not in layers[3:]
    note = world.folded.compactions[-1].report["why"]
    assert "Largest blocks" in note
    world.user("another matter")
    refilled(world, 1)
    assert world.folded.compactions[-1].layer == "summary"


def test_complaint_07_restored_files_have_a_budget_and_count_in_what_is_left():
    world = World(window=100_000)
    world.user("read them all")
    for at in range(12):
        world.call("read", "x " * 5_000, file_path=f"src/f{at}.py")
    for at in range(12):
        world.reply(f"thoughts {at} " * 400)
    made = world.compact("manual")
    fold = next(edit for edit in made.proposals[0].edits if isinstance(edit, Fold))
    restored = [text for text in map(block_text, fold.blocks) if text.startswith(RESTORED_HEADING)]
    assert len(restored) == 1
    assert 1 <= len(made.proposals[0].report["restored"]) <= 5
    assert len(restored[0]) / 4 <= 0.10 * 100_000
    assert abs(made.proposals[0].report["after"] - world.situation.tokens) <= 0.05 * world.situation.tokens


@each_row("trigger", ["auto", "manual", "tool", "reactive"])
def test_complaint_08_a_compaction_leaves_less_than_what_makes_the_next_one_due(trigger):
    world = over(1.2)
    world.compact(trigger, answered(), rung=1)
    assert world.situation.tokens < world.situation.trigger_tokens


def test_complaint_09_less_than_a_tenth_is_not_a_compaction_and_the_share_is_reported():
    world = World(window=200_000, overhead=90_000)
    world.user("word " * 1_500)
    for at in range(8):
        world.reply(f"words of the model {at} " * 190)
    made = world.compact("manual")
    assert made.proposals == ()
    assert made.note == TOO_LITTLE
    assert world.questions == []
    full = busy(15).compact("manual")
    report = full.proposals[-1].report
    assert report["freed"] >= 0.1 * report["before"]
    assert f"(-{round(100 * report['freed'] / report['before'])}%)" in compaction_notice(full.proposals)


def test_complaint_10_all_user_messages_are_kept_to_the_letter_through_many_compactions():
    texts = [f"Request {at}: keep\n\n  the *spacing* and \u00fcml\u00e4uts of item {at}." for at in range(12)]
    world = World(window=WINDOW)
    for text in texts:
        world.user(text)
        world.call("read", "line " * 2_000, file_path="src/a.py")
        world.reply("looked " * 400)
        world.compact("manual")
    assert len(world.folded.compactions) >= 5
    shown = "\n".join(world.shown)
    assert all(text in shown for text in texts)


def test_complaint_11_after_a_manual_compaction_nothing_stands_as_a_request():
    world = busy(15)
    world.reply("All mended; a next step could be to push.")
    world.compact("manual")
    record = world.shown[0]
    assert record.splitlines()[0].startswith("[summarized:") and "not a request" in record.splitlines()[0]
    assert record.endswith(f"\n\n{NO_OPEN_REQUEST}{CONTINUE_BELOW}")


def test_complaint_12_state_beside_the_conversation_is_attached_from_its_live_value():
    world = busy(15)
    world.note("pin", id=1, text="answer in French")
    world.note("pin", id=2, text="no longer wanted")
    world.note("unpin", id=2)
    situation = replace(world.situation, live=("permission mode: plan",))
    text = summary_text(fallback_summary(situation, "manual", "test"))
    assert "permission mode: plan" in text
    assert "answer in French (pinned by the user)" in text
    assert "no longer wanted" not in text


def test_complaint_13_the_newest_request_is_last_and_said_to_be_open_only_while_it_is():
    world = busy(5)
    world.reply("The first request is done.")
    world.user("Now write the tests.")
    for at in range(15):
        world.call("read", "line " * 1_500, file_path=f"tests/t{at}.py")
    world.compact("tool")
    record = world.shown[0]
    words = record[record.index("## All user messages") :]
    assert words.index("Mend src/app.py") < words.index("Now write the tests.")
    assert "The user's last message above (not counting answers) is the request being worked on" in words


def test_complaint_14_the_local_summary_reports_what_was_touched_and_how_commands_ended():
    world = busy(12)
    world.call("edit", "ok", file_path="src/changed.py", old_string="a", new_string="b")
    world.call("bash", "2 failed", command="pytest tests/test_it.py", thinks="")
    reply = world.reply(ToolUseBlock("tx", "bash", {"command": "ruff check"}))
    world.result(reply, 0, "bad", error=True, about={"exit": 2})
    for at in range(8):
        world.call("bash", "x " * 3_000, command=f"make part{at}")
    text = summary_text(fallback_summary(world.situation, "manual", "test"))
    assert "Files changed:\n- src/changed.py" in text
    assert "ruff check -> 2" in text
    assert "src/f3.py" in text


def test_complaint_15_policies_count_calls_and_tokens_and_work_within_one_prompt():
    world = World(window=200_000)
    world.user("one prompt, no other ever")
    for at in range(150):
        world.call("read", f"line {at} " * 700, file_path=f"src/f{at}.cpp")
        world.compact()
    assert {made.layer for made in world.folded.compactions} <= {"micro", "ledger"} and not world.questions
    assert world.situation.tokens < 100_000


@each_row("tier", ["standard", "cheap", "cheapest", "hour"])
def test_complaint_16_an_edit_is_made_only_if_it_pays_and_says_what_it_costs(tier):
    world = World(window=200_000)
    world.prices = PRICE_TIERS[tier]
    world.user("go through everything")
    for at in range(160):
        world.call("bash", "line " * 900, command=f"make part{at}", thinks="hm " * 20)
        world.compact()
    assert world.folded.compactions
    before = 0
    for made in world.folded.compactions:
        report = made.report
        assert report["pays_back_calls"] <= report["calls"] - before  # as fast as what it clears has gathered
        before = report["calls"]
        extra = report["rewritten"] * (world.prices.write - world.prices.read)
        assert report["pays_back_calls"] * report["freed"] * world.prices.read >= extra
        assert report["predicted_cost_usd"] > 0


def test_complaint_16_nothing_happens_while_doing_nothing_is_cheapest():
    world = World(window=200_000)
    world.user("a small matter")
    for at in range(8):
        world.call("read", "line " * 2_000, file_path=f"src/f{at}.py")
        assert world.plan().proposals == ()
    assert choose_batch(world.situation) is None


@pytest.mark.parametrize("policy", ["thrifty", "classic"])
def test_complaint_17_a_result_that_the_model_has_not_seen_is_never_cleared(policy):
    world = World(CompactSettings(policy=policy), window=200_000)
    world.user("look at all of these")
    for _ in range(9):
        begun = world.folded.last_seq
        reply = world.reply(
            *(ToolUseBlock(f"t{begun}_{n}", "read", {"file_path": f"f{n}"}) for n in range(8))
        )
        results = [world.result(reply, n, f"content {n} " * 1_000) for n in range(8)]
        world.compact()
        assert all(world.folded.edits.shows(result.seq, 0, "content") for result in results)
    assert world.folded.compactions


def test_complaint_17_batches_do_not_touch_what_earlier_batches_left():
    world = World(window=400_000)
    world.vetoed = True
    world.user("a long haul")
    for at in range(160):
        world.call("bash", "line " * 900, command=f"make part{at}")
        world.compact()
    batches = [made for made in world.folded.compactions if made.layer == "micro"]
    assert len(batches) >= 3
    ends = [[edit.seq for edit in made.edits if isinstance(edit, Clear)] for made in batches]
    assert all(max(old) < min(new) for old, new in pairwise(ends))
    assert len(batches) <= 0.2 * 160


def test_complaint_18_every_removal_leaves_an_id_a_size_and_a_way_back():
    world = busy(20, settings=CompactSettings(policy="classic"))
    original = {part.seq: part.tokens for message in world.folded.view for part in message.parts if part.use}
    world.compact()
    for made in world.folded.compactions:
        for edit in made.edits:
            if isinstance(edit, Clear):
                assert f'recall("r{edit.seq}")' in edit.text
                assert f"{original[edit.seq]:,} tokens" in edit.text
    assert again(world).facts == world.facts


def test_complaint_19_a_page_of_a_stored_result_is_not_stored_again():
    world = World(window=WINDOW)
    world.user("show me the log")
    world.call("bash", "line " * 60_000, command="cat big.log")
    world.compact()
    assert list(world.files) == ["r4.txt"]
    world.call("recall", "line " * 30_000, id="r4")
    world.compact()
    assert list(world.files) == ["r4.txt"]
    assert f"{OUTPUTS_PREFIX}r4.txt" in world.texts


def test_complaint_21_thinking_of_the_open_turn_is_whole_or_absent_through_all_layers():
    for binds in (True, False):
        world = World(window=60_000, binds=binds)
        world.user("think hard")
        for at in range(60):
            world.call("bash", "line " * 800, command=f"make part{at}", thinks=f"thought {at}")
            world.compact("auto", answered())  # the judge of the world looks at every view
        world.compact("tool", answered())
        world.compact("reactive", rung=3)
        assert world.folded.compactions


def test_complaint_22_no_operation_leaves_a_call_without_a_result():
    world = World(CompactSettings(policy="classic", min_compact_size=100), window=30_000)
    world.user("compact while you work")
    for at in range(40):
        uses = (ToolUseBlock(f"a{at}", "compact", {}), ToolUseBlock(f"b{at}", "read", {"file_path": "a.py"}))
        reply = world.reply(*uses)
        world.result(reply, 0, "before the next request")
        world.result(reply, 1, "line " * 300)
        world.compact("tool" if at % 5 == 4 else "auto", answered())
        shown = [part.seq for message in world.folded.view for part in message.parts]
        assert reply.seq in shown  # the compact tool's own exchange stays in the tail


def test_complaint_23_the_estimate_learns_from_the_usage_and_the_window_is_the_models():
    world = World(window=1_000_000)
    world.user("\u8bf7\u4fee\u590d\u8fd9\u4e2a\u95ee\u9898 " * 400)
    folded, errors = world.folded, []
    for at in range(30):
        raw = 3_000 + folded.view.tokens
        actual = 2_500 + int(1.37 * raw)
        errors.append(abs(estimate_prompt(folded, 3_000) - actual) / actual)
        asked = world.add(RequestSent, "turn", 0, raw)
        use = ToolUseBlock(f"t{at}", "read", {"file_path": f"\u6587\u4ef6{at}.py"})
        output = int(1.37 * sum(COUNT.blocks((use,))))
        reply = world.add(Reply, (use,), COUNT.blocks((use,)), Usage(actual, output), asked=asked.seq)
        world.result(reply, 0, "\u5185\u5bb9 content " * (50 + 37 * at % 300))
    assert sum(errors[3:]) / len(errors[3:]) <= 0.05
    assert world.situation.trigger_tokens == int(0.92 * 1_000_000)


def test_complaint_24_the_summary_is_asked_on_the_view_as_sent_and_its_cost_is_shown_warm_and_cold():
    world = busy(12, window=60_000)
    made = world.compact("manual")
    assert world.questions[0].leave_out == 0
    report = made.proposals[0].report
    assert report["cold_cost_usd"] >= report["predicted_cost_usd"] > 0
    assert made.proposals[0].report["pays_back_calls"] > 0


def test_complaint_25_what_the_summary_lacks_is_appended_and_its_coverage_is_reported():
    world = busy(15)
    made = world.compact("manual", answered("<summary>1. It went well.</summary>"))
    coverage = made.proposals[0].report["coverage"]
    assert coverage["paths"][0] == 0
    assert coverage["paths"][1] == coverage["paths"][2] >= 10
    assert "src/f3.py" in world.texts


@pytest.mark.parametrize("trigger", ["auto", "manual"])
def test_complaint_25_the_preview_equals_what_then_happens(trigger):
    world = over(1.0)
    preview = dry_run(world.situation, trigger)
    made = world.plan(trigger)
    assert [p.layer for p in preview.proposals] == [p.layer for p in made.proposals] != []
    assert [spans(p) for p in preview.proposals] == [spans(p) for p in made.proposals]
    assert preview.removed and preview.remaining
    assert not [fact for fact in world.facts if isinstance(fact, Compacted)]


def spans(proposal):
    return [
        (edit.first, edit.last) if isinstance(edit, Fold | Unthink) else (edit.seq, edit.block, edit.field)
        for edit in proposal.edits
    ]


@pytest.mark.parametrize("policy", ["thrifty", "classic"])
def test_complaint_25_undoing_restores_every_byte(policy):
    settings = CompactSettings(
        policy=policy, min_compact_size=100, tail_max_tokens=1_000, batch_min_tokens=1_000
    )
    world = World(settings, window=60_000)
    world.user("begin")
    for at in range(30):
        world.call("write", "fine " * 60, file_path=f"src/f{at}.py", content="code " * 300)
    world.reply("done")
    before = bodies(world.folded)
    world.now += 1_000  # the cache has gone cold: clearing is free
    world.compact("auto")
    world.compact("manual")
    assert len(world.folded.compactions) >= 2
    while any(made.id not in world.folded.undone for made in world.folded.compactions):
        world.undo()
    assert bodies(world.folded) == before
    assert any(isinstance(fact, Undone) for fact in world.facts)


COUNT = World().situation.counter
