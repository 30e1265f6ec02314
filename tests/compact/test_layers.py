"""budget, snip, micro and collapse: their limits, what they leave alone, and when no summary is made."""

import pytest
from msgspec.structs import replace

from compact.layers.budget import BUDGET_LAYER
from compact.layers.collapse import COLLAPSE_LAYER
from compact.layers.snip import SNIP_LAYER
from compact.layers.summary import ALL_SUMMARIZED, SUMMARY_LAYER, TOO_LITTLE
from compact.settings import CompactSettings, ContextWindow
from compact.situation import CompactionPlan, Proposal
from tests.narrowing import block_text, narrow
from tests.tables import each_row
from transcripts.facts import Clear, Compacted, Failed, Fold
from transcripts.messages import ToolUseBlock

from .worlds import World, answered, failed, summary_text


def heap(*texts, name="bash", **settings):
    """One message with a result for each text."""
    world = World(CompactSettings(**settings), judged=False)
    world.user("begin")
    reply = world.reply(*(ToolUseBlock(f"t{n}", name, {"command": f"cat {n}"}) for n in range(len(texts))))
    for n, text in enumerate(texts):
        world.result(reply, n, text)
    return world


def budgeted(world):
    """Return the only proposal of the budget layer."""
    (proposal,) = BUDGET_LAYER.plan(world.situation)
    return narrow(proposal, Proposal)


def stored(world):
    if not BUDGET_LAYER.plan(world.situation):
        return []
    return [narrow(edit, Clear).seq for edit in budgeted(world).edits]


@pytest.mark.parametrize(("size", "over"), [(99_999, False), (100_001, True)])
def test_results_of_one_message_are_stored_largest_first_until_the_rest_is_within_the_budget(size, over):
    assert stored(heap("a" * 100_000, "b" * size)) == ([5] if over else [])
    assert stored(heap("a" * 10_000, "b" * 150_000, "c" * 90_000)) == [5]
    assert stored(heap("a" * 120_000, "b" * 150_000, "c" * 110_000)) == [4, 5]


@pytest.mark.parametrize(("share", "over"), [(0.25, True), (0.26, False)])
def test_a_share_of_the_window_is_a_limit_too(share, over):
    world = heap("a" * 103_000, "b" * 103_000, budget_max_chars=1_000_000, budget_max_share=share)
    assert stored(world) == ([4] if over else [])


def test_the_preview_has_its_size_and_the_file_has_all():
    world = heap("a" * 300_000, budget_preview_chars=77)
    proposal = budgeted(world)
    preview = narrow(proposal.edits[0], Clear).text
    assert proposal.files == (("r4.txt", "a" * 300_000),) and "a" * 77 in preview
    assert "a" * 78 not in preview and proposal.report["why"] == "results over the budget"


@each_row("name", ["read", "Read", "view", "recall"])
def test_tools_that_page_by_themselves_are_exempt(name):
    assert stored(heap("a" * 300_000, name=name)) == []


def test_results_of_exempt_tools_that_the_window_has_no_room_for_become_previews_without_a_file():
    world = heap("a" * 30_000, "b" * 90_000, name="read")
    world.window, world.overhead = ContextWindow(32_000, 8_000), 4_000
    assert stored(world) == [5]  # the rest fits three quarters of the 20,000 tokens that are left
    proposal = budgeted(world)
    preview = narrow(proposal.edits[0], Clear).text
    assert proposal.files == () and 'recall("r5") pages through all of it' in preview
    assert "path=" not in preview
    world.window = ContextWindow(64_000, 8_000)
    assert stored(world) == []


def test_instructions_are_never_cut():
    world = heap("a" * 90_000, name="skill")
    world.window = ContextWindow(16_000, 4_000)
    world.open({"name": "skill", "kind": "instructs"})
    assert stored(world) == []


def test_further_tools_are_exempt_by_the_settings_or_by_what_they_declare():
    assert stored(heap("a" * 300_000, name="mine", budget_exempt=("mine",))) == []
    world = heap("a" * 300_000, name="mine")
    assert stored(world) == [4]
    world.open({"name": "mine", "kind": "recalls"})
    assert stored(world) == []


def test_only_the_newest_message_is_looked_at_and_nothing_is_stored_twice():
    world = heap("a" * 300_000)
    world.compact()
    assert stored(world) == []
    world = heap("a" * 300_000)
    world.reply("looked")
    assert stored(world) == [] and BUDGET_LAYER.plan(World(judged=False).situation) == ()


def talk(exchanges, **settings):
    world = World(CompactSettings(policy="classic", **settings), judged=False)
    world.user("begin")
    for at in range(exchanges):
        world.call("bash", f"result {at}", command="ls")
    return world


def snipped(world):
    (proposal,) = SNIP_LAYER.plan(world.situation) or (None,)
    return proposal.edits[0] if proposal is not None else None


def test_of_too_many_messages_the_first_3_and_the_last_47_stay():
    assert snipped(talk(24)) is None  # 49 messages
    fold = snipped(talk(26))  # 53: one exchange can go without parting a call from its result
    assert (fold.first, fold.last) == (6, 7)
    assert fold.blocks[0].text == "[snipped 2 messages: r6 to r7. recall shows and searches them]"
    fold = snipped(talk(40))
    assert (fold.first, fold.last) == (6, 3 * 16 + 1)
    assert snipped(talk(40, snip_head_messages=5, snip_tail_messages=20)).first == 9


def test_a_wider_snip_takes_the_place_of_the_narrower():
    world = talk(40)
    world.compact()
    assert snipped(world) is None
    for at in range(3):
        world.call("bash", f"more {at}", command="ls")
    fold = snipped(world)
    assert fold.first == 6 and "[snipped 36 messages:" in fold.blocks[0].text


def test_the_request_that_is_worked_on_is_kept_beside_the_note():
    world = talk(3)
    world.user("Now write the tests.")
    for at in range(40):
        world.call("bash", f"result {at}", command="ls")
    texts = [block.text for block in snipped(world).blocks]
    assert len(texts) == 2 and texts[1].endswith("Now write the tests.")
    assert len(snipped(talk(40)).blocks) == 1


def test_what_the_user_said_that_directs_the_work_is_kept_beside_the_note():
    world = talk(3)
    world.user("Thanks. Before you run a migration, wait for my go-ahead. It was a long day.")
    world.reply("ok")
    world.user("go on")
    for at in range(40):
        world.call("bash", f"result {at}", command="ls")
    texts = "\n".join(block.text for block in snipped(world).blocks)
    assert "- Before you run a migration, wait for my go-ahead. (r11.0)" in texts
    assert "It was a long day" not in texts and texts.count("go on") == 1


def test_a_stretch_that_was_undone_is_not_snipped_again():
    world = talk(40)
    world.compact()
    world.undo(next(made.id for made in world.folded.compactions if made.layer == "snip"))
    assert snipped(world) is None


def folded(calls=60, **settings):
    limits = {"collapse": True, "protected_tail_tokens": 5_000, "trigger": 60_000, **settings}
    world = World(CompactSettings(**limits), judged=False)
    world.user("begin with src/a.py")
    for at in range(calls):
        world.call("bash", f"{at:04}" * 1_000, command=f"make part{at}")
    return world, COLLAPSE_LAYER.plan(world.situation)


def test_old_segments_are_folded_until_there_is_room():
    assert folded(calls=28)[1] == ()
    _, made = folded()
    assert len(made) == 5 and {proposal.layer for proposal in made} == {"collapse"}
    assert made[-1].report["after"] <= 0.7 * 30_000 < made[-2].report["after"]
    spans = [(proposal.edits[0].first, proposal.edits[0].last) for proposal in made]
    assert all(first <= last for first, last in spans) and spans == sorted(spans)
    assert all(spans[at][1] < spans[at + 1][0] for at in range(4))
    text = made[0].edits[0].blocks[0].text
    assert text.startswith(f"[summarized: messages r{spans[0][0]}-r{spans[0][1]}. This is not a request.")
    assert "## User messages, verbatim\n(r1.0) begin with src/a.py" in text
    assert "## Local summary\nCommands with their last results:\n- make part9" in text


def test_the_protected_tail_and_short_stretches_are_not_folded():
    _, made = folded(collapse_segment_tokens=1_000_000)
    assert made == ()
    world, made = folded(protected_tail_tokens=30_000)
    last = made[-1].edits[0].last
    view = world.folded.view
    assert view.tokens - view.tokens_before(view.index_of(last) + 1) >= 30_000


def test_a_digest_has_the_last_words_of_the_model():
    world = World(CompactSettings(collapse=True, trigger=20_000, protected_tail_tokens=1), judged=False)
    world.user("begin")
    for at in range(30):
        world.reply(f"thought {at}: ", "word " * 900)
    first, *_ = COLLAPSE_LAYER.plan(world.situation)
    said = summary_text(narrow(first, Proposal)).partition("## Last reply\n")[2]
    assert said.startswith("thought 8: word") and len(said) == 600


def test_plan_and_list_that_are_folded_away_are_in_what_is_shown_instead():
    live = ("permission mode: manual", "plan (r4): # Do it\n1. now", "to-do list (r9999):\n  [pending] x")
    world, (first, *_) = folded()
    (digest, *others) = COLLAPSE_LAYER.plan(replace(world.situation, live=live))
    text = summary_text(narrow(digest, Proposal))
    assert text.endswith("\n\n## Current state\n- plan (r4): # Do it\n1. now")
    assert "## Current state" not in str((first, others))
    (made,) = SNIP_LAYER.plan(replace(talk(40).situation, live=("plan (r12): go",)))
    fold = narrow(made.edits[0], Fold)
    assert block_text(fold.blocks[-1]) == "## Current state\n- plan (r12): go"


def test_while_collapse_is_on_no_summary_is_made_unasked():
    world, _ = folded(calls=100)
    world.compact()
    assert "summary" not in {made.layer for made in world.folded.compactions} and world.questions == []
    assert folded(calls=100)[0].plan("manual").proposals[0].layer == "summary"


def full(**settings):
    """A conversation without tools that is over the trigger."""
    world = World(CompactSettings(**settings), window=40_000, judged=False)
    world.user("begin")
    for _ in range(36):
        world.reply("words " * 500)
        world.user("go on", source="harness")
    return world


def due(world, *answers):
    return [proposal.layer for proposal in world.plan("auto", *answers).proposals]


def test_a_summary_is_due_at_the_trigger_and_not_below_the_smallest_size():
    world = full(trigger=1_000_000)
    tokens = world.situation.tokens
    for trigger, layers in ((tokens, ["summary"]), (tokens + 1, [])):
        world.with_settings(trigger=trigger)
        assert due(world) == layers
    world.window = ContextWindow(200_000)  # of which the smallest size is less than a quarter
    world.with_settings(trigger=1_000, min_compact_size=tokens + 1)
    assert due(world) == [] and world.plan("manual").note.startswith(
        f"not summarized: the context has only {tokens:,} tokens"
    )
    world.with_settings(min_compact_size=tokens)
    assert due(world) == ["summary"] and world.plan("manual").proposals


def test_after_so_many_failures_in_a_row_none_is_asked_for_until_compact():
    world = full()
    for _ in range(2):
        world.compact("auto", failed("overloaded"))
    assert due(world) == ["summary"]
    world.compact("auto", failed("overloaded"))
    plan = world.plan()
    assert [each.layer for each in plan.proposals] == ["ledger"]
    assert plan.note == "the last 3 model summaries failed. /compact asks the model again"
    world.with_settings(breaker_failures=4)
    assert due(world) == ["summary"]
    world.with_settings(breaker_failures=3)
    world.add(Failed, "request", "x")
    world.add(Compacted, "ledger", "manual", (), report={})
    assert due(world) == ["summary"]


def thrash(calls, **settings):
    """Three summaries, so many replies from the first to the last."""
    world = full(**settings)
    world.add(Compacted, "summary", "auto", (), report={})
    for at in range(calls):
        world.reply("word")
        if at == 0:
            world.add(Compacted, "summary", "auto", (), report={})
    world.add(Compacted, "summary", "auto", (), report={})
    for _ in range(3):
        world.reply("word")
    return world


@pytest.mark.parametrize(("calls", "layer"), [(10, "ledger"), (11, "summary")])
def test_three_summaries_within_ten_calls_are_followed_by_the_local_summary(calls, layer):
    assert due(thrash(calls)) == [layer]
    assert due(thrash(calls, thrash_summaries=4)) == ["summary"]
    assert due(thrash(calls, thrash_window_calls=11)) == ["ledger"]


@pytest.mark.parametrize(("window", "layer"), [(32_000, "ledger"), (48_000, "summary")])
def test_in_a_small_window_no_model_is_asked_because_that_costs_more_than_it_saves(window, layer):
    world = World(window=window, judged=False)
    world.with_settings(ledger_only_max_window=CompactSettings().ledger_only_max_window)
    world.user("begin")
    for at in range(14):
        world.reply(f"{at} " * (window // 10))
        world.user("go on")
    assert [proposal.layer for proposal in world.plan().proposals] == [layer]
    assert bool(world.questions) is (layer == "summary")


@each_row(("window", "page", "most"), [(8_000, 1_200, 20), (8_000, 3_500, 9), (16_000, 2_500, 22)])
def test_reading_file_after_file_in_a_small_window_fits_each_time_and_is_seldom_compacted(window, page, most):
    world = World(window=window, overhead=3_200, judged=False)
    world.with_settings(ledger_only_max_window=CompactSettings().ledger_only_max_window)
    world.user("read every file")
    layers = []
    for at in range(40):
        world.call("read", f"line of file {at} " * (page // 4), file_path=f"src/f{at}.py")
        layers += [proposal.layer for proposal in world.compact().proposals]
        assert world.situation.tokens <= window - world.window.max_output
    assert sum(layer in ("micro", "ledger") for layer in layers) <= most and not world.questions


def test_the_next_message_of_the_user_ends_that():
    world = thrash(5)
    world.user("go on", source="harness")
    assert due(world) == ["ledger"]
    world.user("another matter")
    assert due(world) == ["summary"]


def test_a_failed_answer_leaves_the_history_and_too_little_is_not_asked_for():
    world = full()
    plan = world.plan("auto", failed("overloaded"))
    assert plan == CompactionPlan(
        (), (("summary", "overloaded"),), "the conversation is unchanged: overloaded"
    )
    world = World(window=200_000, overhead=170_000, judged=False)
    world.user("word " * 1_500)
    for at in range(8):
        world.reply(f"words of the model {at} " * 190)

    assert world.plan("auto") == CompactionPlan()
    assert world.plan("manual").note == TOO_LITTLE
    assert world.questions == []


def test_what_is_a_record_already_is_not_summarised_again_on_request():
    world = World(window=100_000, overhead=4_000, judged=False)
    for at in range(8):
        world.user(f"go on with {at}")
        world.call("read", f"line {at} of it\n" * 700, file_path=f"src/f{at}.py")
        world.reply("done " * 100)
    assert world.compact("manual").proposals and len(world.questions) == 1
    world.user("and now?")
    world.reply("words " * 30)
    assert world.plan("manual").note == ALL_SUMMARIZED
    assert world.plan("tool").proposals == () and len(world.questions) == 1
    for _ in range(4):
        world.reply("words " * 900)
    assert world.plan("manual").proposals and len(world.questions) == 2


def test_a_summary_that_is_far_too_long_is_shown_by_its_ends():
    world = World(window=40_000, overhead=4_000, judged=False)
    world.user("begin")
    for _ in range(12):
        world.reply("words " * 500)
    long = " ".join(f"step{number}" for number in range(4_000))
    before = world.situation.tokens
    world.compact("manual", answered(f"<summary>{long}</summary>"))
    assert len(world.questions) == 1 and world.situation.tokens < 0.7 * before
    text = world.shown[0]
    assert "step0 step1 " in text and "step3998 step3999" in text and "step2000" not in text


def test_the_report_of_a_summary_reports_what_it_covers_and_its_tokens():
    world = full()
    (made,) = world.plan("manual", answered("<summary>four words of text</summary>")).proposals
    assert made.report["why"] == "summary" and made.report["summary_tokens"] == 5
    assert set(made.report["coverage"]) == {"paths", "identifiers", "numbers"}
    assert "four words of text" in summary_text(made)


def test_a_summary_may_be_planned_alone():
    flow = SUMMARY_LAYER.plan(full().situation)
    assert not isinstance(flow, tuple)
    assert next(flow).leave_out == 0
