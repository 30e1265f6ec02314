"""Dropping a block at the user's request: the edit that does it, or why it cannot be done."""

from msgspec.structs import replace

from compact.layers.summary import FREED_TOO_LITTLE, finish_background
from compact.pipeline import plan
from compact.settings import CompactSettings
from compact.situation import BackgroundSummary, CannotChange, CompactionPlan, Proposal, finish_plan
from compact.summary_prompt import INSTRUCTION_TOKENS, USUAL_SUMMARY_TOKENS, summary_usage
from compact.uncompact import plan_drop
from tests.narrowing import narrow
from transcripts.facts import Clear, Compacted, Failed, Fold
from transcripts.messages import TextBlock, Usage

from .worlds import SUMMARY, World, answered, failed


def session():
    """A prompt with a long text, and calls with a long result (r4) and a long input (r6)."""
    world = World(judged=False)
    world.user("p" * 4_000, "go")
    world.call("bash", "x" * 4_000, thinks="hm " * 400, command="make")
    world.call("write", "done", file_path="a.py", content="y" * 4_000)
    return world


def dropped(world, name):
    return narrow(plan_drop(world.situation, name), Proposal)


def reason(world, name):
    return narrow(plan_drop(world.situation, name), CannotChange).reason


def test_a_result_a_text_and_the_long_fields_of_a_call_are_dropped_by_id():
    world = session()
    for name, seq, block, field, label in (
        ("r4", 4, 0, "content", "r4 (bash make)"),
        ("r1.0", 1, 0, "text", "r1.0 (user)"),
        ("r6.0", 6, 0, "content", "r6.0 (call of write a.py)"),
    ):
        proposal = dropped(world, name)
        [edit] = [edit for edit in proposal.edits if isinstance(edit, Clear)]
        assert (edit.seq, edit.block, edit.field) == (seq, block, field) and edit.saves > 900
        assert (proposal.layer, proposal.trigger) == ("drop", "manual")
        assert proposal.report["dropped"] == label
        assert proposal.report["freed"] > 900


def test_a_block_that_cannot_be_dropped_has_a_reason_and_a_remedy():
    world = session()
    assert reason(world, "r99") == "cannot drop r99: no block in the context has this id (see /context)"
    assert reason(world, "r1.1") == "cannot drop r1.1: it is shorter than a placeholder would be"
    assert reason(world, "r3.0") == "cannot drop r3.0: thinking cannot be dropped by itself"
    for name in ("r4", "r6.0"):
        proposal = dropped(world, name)
        world.add(Compacted, "drop", "manual", proposal.edits, report=proposal.report)
        assert reason(world, name) == f"cannot drop {name}: it is no longer shown. /recall shows it"
    fold = Fold(1, 4, (TextBlock("summary of it all " * 9),), 40)
    made = world.add(Compacted, "summary", "auto", (fold,), report={})
    assert reason(world, "r1") == (
        f"cannot drop r1.0: it (placeholder) replaces messages that {made.id} summarized."
        f" /uncompact {made.id} shows these messages again"
    )


def full():
    """A session that fills most of its window, whose first half a summary in the background covers."""
    world = World(CompactSettings(), window=40_000, judged=False)
    world.user("begin")
    for at in range(6):
        world.call("bash", "x" * 4_000, command=f"make part{at}")
    return world


def in_background(world, reply, until=4):
    return replace(world.situation, background=BackgroundSummary("auto", until, reply))


def test_a_summary_in_the_background_is_pending_then_used_for_what_it_covers():
    situation = in_background(full(), None)
    assert finish_background(situation, situation.background) == CompactionPlan(pending=True)
    situation = in_background(full(), answered())
    planned = finish_background(situation, situation.background)
    [proposal] = planned.proposals
    [fold] = [edit for edit in proposal.edits if isinstance(edit, Fold)]
    assert fold.last == 4 and not planned.failures and proposal.trigger == "auto"
    through_plan = finish_plan(plan(situation, "auto"), lambda request: failed())
    assert [edit for made in through_plan.proposals for edit in made.edits if isinstance(edit, Fold)] == [
        fold
    ]


def test_a_summary_in_the_background_that_fails_or_frees_too_little_is_not_used():
    for reply, why in (
        (failed(), "overloaded"),
        (answered("<summary></summary>"), "the answer was empty"),
        (answered(SUMMARY.replace("as told", "word " * 560)), FREED_TOO_LITTLE),
        (
            answered(SUMMARY.replace("as told", "word " * 9_000)),
            "the summary is larger than what it replaces",
        ),
    ):
        situation = in_background(full(), reply)
        planned = finish_background(situation, situation.background)
        assert planned.failures == (("summary", why),) and not planned.proposals
        assert planned.note == f"the conversation is unchanged: {why}"


def test_the_second_useless_answer_in_the_background_is_replaced_by_a_local_summary():
    world = full()
    world.add(Failed, "summary", "the answer was empty")
    situation = in_background(world, answered("<summary></summary>"))
    planned = finish_background(situation, situation.background)
    [proposal] = planned.proposals
    assert (proposal.layer, proposal.report["failure"]) == ("ledger", "the answer was empty")
    assert planned.failures == (("summary", "the answer was empty"),)
    situation = in_background(world, failed())
    assert not finish_background(situation, situation.background).proposals


def test_what_a_request_for_a_summary_uses_depends_on_the_cache():
    world = full()
    prompt = world.situation.tokens + INSTRUCTION_TOKENS
    both = 2 * USUAL_SUMMARY_TOKENS  # an analysis or thinking, and the summary
    assert summary_usage(world.situation, cached=False) == Usage(input=prompt, output=both)
    warm = summary_usage(world.situation, cached=True)
    assert warm.cache_read > 4_000 and warm.cache_read + warm.cache_written == prompt
    assert warm.cache_written < 2_000 + INSTRUCTION_TOKENS and warm.output == both
    world.now += world.settings.cache_ttl_s + 1
    assert summary_usage(world.situation, cached=True) == Usage(cache_written=prompt, output=both)


def test_a_request_for_a_summary_uses_at_most_the_window():
    world = World(window=4_000, judged=False)
    world.user("begin " + "words " * 3_000)
    usage = summary_usage(world.situation, cached=False)
    assert usage.output == world.window.max_output < 2 * USUAL_SUMMARY_TOKENS
    assert usage.input == 4_000 - usage.output
