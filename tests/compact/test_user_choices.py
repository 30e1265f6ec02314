"""The user's settings, undos and denials are respected, whatever the layers would do on their own."""

import re

import pytest
from msgspec.structs import replace

from agent.model.anthropic.messages import encode_message
from agent.replay.policies import PRICE_TIERS
from compact.pipeline import dry_run, plan
from compact.settings import CompactSettings
from compact.uncompact import exemptions
from tests.narrowing import narrow
from tests.tables import each_row
from transcripts.facts import Clear, Compacted, Failed, Fold
from transcripts.messages import ToolUseBlock

from .worlds import World, answered

CLASSIC = CompactSettings(policy="classic")


def grown(settings, window, until, step=3_000):
    """A conversation without tools that has grown to a layer's first act, or to `until` tokens."""
    world = World(settings, window=window, judged=False)
    world.user("begin")
    while world.situation.tokens < until and not world.folded.compactions:
        world.reply("words " * (step // 6))
        world.user("go on", source="harness")
        world.compact()
    return world


@pytest.mark.parametrize("policy", ["thrifty", "classic"])
def test_a_summary_that_was_undone_is_not_made_again_until_the_window_forces_it(policy):
    world = grown(CompactSettings(policy=policy, snip_max_messages=10_000), 40_000, 40_000)
    assert [made.layer for made in world.folded.compactions] == ["summary"]
    world.undo()
    while world.situation.tokens < 0.94 * 40_000:
        assert world.situation.tokens >= world.situation.trigger_tokens and world.compact().proposals == ()
        world.user("more " * 250)
    world.user("more " * 600)
    assert [proposal.layer for proposal in world.compact().proposals] == ["summary"]


def test_a_compaction_that_is_asked_for_ends_the_exemption_of_what_it_folds():
    world = grown(CompactSettings(), 40_000, 40_000)
    world.undo()
    world.compact("manual")
    while world.situation.tokens < world.situation.trigger_tokens:
        world.reply("words " * 500)
        world.user("go on", source="harness")
    assert [proposal.layer for proposal in world.plan().proposals] == ["summary"]


def talk(world, tokens):
    """Let the conversation grow by words of the model."""
    while world.situation.tokens < tokens:
        world.reply("words " * 500)
        world.user("go on", source="harness")


@pytest.mark.parametrize("undone", [True, False])
def test_what_an_undone_batch_gave_back_is_not_taken_by_the_local_summary(undone):
    world = World(window=60_000, judged=False)
    world.user("begin")
    talk(world, 18_000)
    results = [world.call("bash", f"{at:05}" * 2_400, command=f"make {at}") for at in range(5)]
    batch = tuple(Clear(each.seq, 0, "content", "[cleared: x]", 2_900) for each in results[:3])
    world.add(Compacted, "micro", "auto", batch, report={})
    if undone:
        world.undo()
    talk(world, 43_000)
    for _ in range(3):
        world.compact()
        shown = "\n".join(world.shown)
        assert all((f"{at:05}" * 2_400 in shown) is undone for at in range(3))
        world.user("go on")
        world.reply("ok")
    assert bool(world.folded.compactions[1:]) is not undone


def reading(files):
    """A session in a small window that reads file after file, and the layers of what was done meanwhile."""
    world = World(window=60_000, overhead=3_000, judged=False)
    world.prices = PRICE_TIERS["cheap"]
    world.vetoed = True
    world.user("read them all")
    for at in range(files):
        text = "".join(f"def func_{at}_{n}(a):\n    return a\n" for n in range(400))
        world.call("read", text, path=f"m{at}.py")
        world.compact()
    return world


def test_the_newest_read_does_not_go_because_the_older_ones_were_given_back():
    world = reading(11)
    assert [made.layer for made in world.folded.compactions] == ["micro"]
    world.undo()
    world.reply("Done.")
    world.user("hi")
    assert world.situation.tokens > world.situation.trigger_tokens and world.compact().proposals == ()


def test_a_compaction_that_the_model_asks_for_right_after_another_is_refused():
    world = reading(8)
    world.reply("Done.")
    world.user("make room")
    asked = len(world.questions)
    [proposal] = world.compact("tool").proposals
    assert proposal.report["pays_back_calls"] < 40 and len(world.questions) == asked + 1
    for name in ("one.py", "two.py"):
        world.call("read", "".join(f"def {name[:3]}_{n}(a):\n    return a\n" for n in range(200)), path=name)
    world.reply("So.")
    world.user("make room again")
    again = world.compact("tool")
    freed, before, calls = (int(n.replace(",", "")) for n in re.findall(r"\d[\d,]*", again.note))
    assert not again.proposals and len(world.questions) == asked + 1, "the model is not asked either"
    assert before == world.situation.tokens and freed < before / 4 and calls > 50
    assert [each.layer for each in world.plan("manual").proposals] == ["summary"], "a person may"
    for at in range(6):
        world.call("bash", f"row {at}\n" * 200, command=f"make {at}")
    assert [each.layer for each in world.plan("tool").proposals] == ["summary"], "and later the model too"


def test_what_the_window_took_back_is_exempt_no_more():
    world = reading(11)
    world.undo()
    while world.situation.tokens < 0.95 * 60_000:
        world.user("more " * 500)
    world.compact()
    assert world.situation.tokens < world.situation.trigger_tokens and not exemptions(world.situation)


def test_micro_leaves_alone_what_an_undone_fold_gave_back():
    world = World(CLASSIC, window=100_000)
    world.user("begin")
    for at in range(9):
        world.call("bash", "line " * 1_000, command=f"make part{at}")
    given_back = [fact.seq for fact in world.facts if hasattr(fact, "of")]
    world.compact("manual")
    world.undo()
    for at in range(4):
        world.call("bash", "line " * 100, command=f"ls part{at}")
        world.compact()
    edits = [
        e for c in world.folded.compactions if c.layer == "micro" for e in c.edits if isinstance(e, Clear)
    ]
    (fold,) = [edit for edit in world.folded.compactions[0].edits if isinstance(edit, Fold)]
    assert edits and not [edit for edit in edits if fold.first <= edit.seq <= fold.last]
    assert any(fold.first <= seq <= fold.last for seq in given_back)


def test_the_newest_messages_stay_as_many_as_are_set_while_they_fit():
    shown = {}
    for kept in (1, 5, 9):
        world = World(CompactSettings(keep_recent_messages=kept, tail_max_tokens=500), window=100_000)
        world.user("begin")
        for at in range(30):
            world.call("bash", f"result {at} " + "line " * 1_000, command=f"make part{at}")
        world.reply("done")
        world.compact("manual")
        shown[kept] = sum("result " in text[:9] for text in world.shown)
    assert shown == {1: 0, 5: 2, 9: 4}


def test_the_last_rung_shrinks_as_many_messages_as_are_set():
    for kept in (2, 8):
        world = World(CompactSettings(keep_recent_messages=kept), window=6_500)
        world.user("begin")
        for at in range(6):
            world.reply(f"words {at} " * 30)
            world.user(f"look at {at}: " + "paste " * 700)
        (made,) = world.plan("reactive", rung=3).proposals
        assert len(made.edits) == kept // 2


def test_classic_asks_for_a_summary_over_its_threshold_and_not_below_it():
    world = World(CLASSIC, window=200_000)
    world.user("word " * 37_000)
    for at in range(4):
        world.call("bash", f"{at} " * (6_800 if at == 0 else 200), command=f"make part{at}")
    world.reply("looked")
    world.user("and now?")
    assert world.situation.tokens > 50_000
    (cleared,) = world.plan().proposals
    assert cleared.layer == "micro" and 45_000 < cleared.report["after"] < 50_000
    world.user("word " * 3_000)
    assert [proposal.layer for proposal in world.plan().proposals] == ["summary"]


def test_classic_makes_a_line_of_a_preview_that_is_not_among_the_newest_three():
    world = World(CLASSIC, window=200_000)
    world.user("begin")
    stored = world.call("bash", "line " * 50_000, command="cat big")
    world.compact()
    assert "<persisted-output" in world.texts
    for at in range(4):
        world.call("bash", "line " * 100, command=f"ls {at}")
        world.compact()
    assert "<persisted-output" not in world.texts
    assert f'recall("r{stored.seq}") shows it' in "\n".join(world.shown)
    assert list(world.files.values()) == ["line " * 50_000]


def test_a_summary_is_asked_on_the_previews_of_what_was_never_sent():
    world = World(CompactSettings(summary_max_output_tokens=10_000), window=100_000)
    world.user("begin")
    while world.situation.tokens < 61_000:
        world.reply("words " * 2_000)
        world.user("go on", source="harness")
    reply = world.reply(*(ToolUseBlock(f"t{n}", "bash", {"command": f"cat {n}"}) for n in range(3)))
    for n in range(3):
        world.result(reply, n, f"{n} " * 30_000)
    before = [encode_message(message) for message in world.folded.view]
    made = world.plan()
    assert [proposal.layer for proposal in made.proposals] == ["budget", "summary"]
    (asked,) = world.questions
    sent = [encode_message(message) for message in world.folded.with_edits(asked.edits).view]
    assert sent[:-1] == before[:-1] and len(sent[-1]) < 0.5 * len(before[-1])
    assert asked.leave_out == 0


def test_a_cleared_input_is_counted_as_sent():
    world = World(CompactSettings(batch_min_tokens=1_000))
    world.vetoed = True
    world.user("begin")
    for at in range(50):
        world.call("write", "ok", file_path=f"f{at}.py", content='\tprint("x")\n' * 200)
        world.compact()
    cleared = [m for m in world.folded.view if "[cleared:" in encode_message(m).decode()]
    assert cleared
    for message in cleared:
        afresh = sum(world.situation.counter.blocks(tuple(part.block for part in message.parts)))
        assert abs(sum(part.tokens for part in message.parts) - afresh) <= 2 * len(message.parts)


def test_a_summary_that_is_held_holds_the_local_summary_too_and_a_focus_reaches_the_question():
    world = grown(CompactSettings(), 40_000, 23_000)
    world.user("go on " * 1_000)
    assert world.situation.tokens > world.situation.trigger_tokens
    flow = plan(replace(world.situation, focus="mind the zebra"), "auto")
    assert "mind the zebra" in next(flow).instructions
    for _ in range(3):
        world.add(Failed, "summary", "overloaded")  # from now on the floor takes over
    assert [proposal.layer for proposal in world.plan().proposals] == ["ledger"]
    with pytest.raises(StopIteration) as over:
        next(plan(replace(world.situation, vetoed=True), "auto"))
    assert over.value.value.proposals == ()


@each_row("most", [4_000, 9_000, None])
def test_what_a_preview_cuts_is_cut_also_where_the_summary_is_shorter(most):
    world = World(CompactSettings(max_compact_size=most), window=200_000)
    world.user("Mend it. Never push.")
    for at in range(40):
        world.call("read", f"def name_{at}(): " + "line " * 1_500, file_path=f"src/f{at}.py")
    previewed = dry_run(world.situation, "manual").proposals[0]
    made = world.compact("manual", answered("<summary>f1.py is read</summary>")).proposals[0]
    folds = [narrow(edit, Fold) for edit in made.edits]
    previewed_folds = [narrow(edit, Fold) for edit in previewed.edits]
    assert [(each.first, each.last) for each in folds] == [
        (each.first, each.last) for each in previewed_folds
    ]
    assert made.report["restored"] == previewed.report["restored"]
    assert most is None or made.report["after"] <= most
