"""Where history is cut, the text that replaces it, the files that are restored, and shrinking."""

from msgspec.structs import replace

from compact.folding import (
    MAX_FILLED_TOKENS,
    RESTORED_HEADING,
    entry_tokens,
    fold_before,
    fold_history,
    message_count,
    unseen_entries,
)
from compact.layers.summary import fallback_summary, local_summary_first, target_tokens
from compact.pipeline import dry_run
from compact.replacement import replacement_text, summary_in
from compact.settings import CompactSettings, ContextWindow
from compact.shrinking import Shrink, shrink_blocks
from compact.situation import FoldLimits
from tests.narrowing import block_text, narrow, present
from transcripts.facts import Clear, Compacted, Fold
from transcripts.messages import TextBlock, ToolUseBlock

from .worlds import World, summary_text

AUTO = FoldLimits("auto")


def session(calls=20, size=1_000, name="bash", window=200_000, **settings):
    """A prompt, then exchanges whose results have `size` tokens each, and the model's last words."""
    world = World(CompactSettings(**settings), window=window, judged=False)
    world.user("begin")
    for at in range(calls):
        argument = {"command": f"make part{at}"} if name == "bash" else {"file_path": f"src/f{at}.py"}
        world.call(name, f"{at:04}" * size, **argument)
    world.reply("done")
    return world


def kept(world, limits=AUTO):
    """Return the number of entries in the tail."""
    folding = fold_history(world.situation, limits)
    return len(folding.tail) if folding is not None else None


def test_the_tail_has_the_newest_entries_that_fit():
    assert kept(session()) == 6 + 1  # of 1,020 tokens each within 7,000, and the last words
    assert kept(session(tail_max_tokens=5_000)) == 4 + 1
    assert kept(session(tail_max_tokens=500, keep_recent_messages=1)) == 1
    assert kept(session(tail_max_tokens=500, keep_recent_messages=5)) == 3
    assert kept(session(tail_max_tokens=500, keep_recent_messages=5), FoldLimits("auto", tail=0)) == 0


def test_record_and_tail_share_their_limit():
    assert kept(session(max_record_tokens=6_000)) == 4 + 1
    world = session(max_record_tokens=6_000, size=300)
    assert kept(world) == 15 + 1  # an eighth is kept for a summary
    world.user("word " * 6_000)
    world.call("bash", "x" * 1_200, command="ls")
    world.reply("ok")
    assert kept(world) == 2  # the user's messages come first, except the least of a tail


def test_there_is_nothing_to_fold_where_all_is_recent_or_unseen():
    assert kept(session(calls=2)) is None
    world = World(judged=False)
    world.user("word " * 90_000)
    assert kept(world) is None


def test_what_the_model_has_not_seen_stays():
    world = World(judged=False)
    world.user("begin")
    assert unseen_entries(world.folded) == 1
    world.reply("ok")
    assert unseen_entries(world.folded) == 0
    reply = world.reply(*(ToolUseBlock(f"t{n}", "bash", {"command": "ls"}) for n in range(2)))
    assert unseen_entries(world.folded) == 1
    world.result(reply, 0, "a")
    world.result(reply, 1, "b")
    assert unseen_entries(world.folded) == 1
    world.user("more")
    assert unseen_entries(world.folded) == 2
    world.reply("seen")
    assert unseen_entries(world.folded) == 0


def test_a_call_without_its_result_stays_although_a_reply_came_after_it():
    world = World(judged=False)
    world.user("begin")
    world.reply(ToolUseBlock("t", "bash", {"command": "ls"}))
    world.reply("hm", complete=False)
    assert unseen_entries(world.folded) == 2


def test_a_cut_is_never_within_an_older_fold():
    world = session(calls=12)
    entries = world.folded.entries
    fold = Fold(entries[0].seq, entries[9].last, (TextBlock("record"),), 2)
    world.add(Compacted, "summary", "auto", (fold,), report={})
    for at in (3, 8):
        made = fold_history(world.situation, FoldLimits("auto", tail=1_100 * at))
        assert present(made).fold.last >= fold.last


def test_an_entry_is_counted_as_shown():
    world = session(calls=1)
    entry = world.folded.entries[1]
    whole = entry_tokens(world.folded, entry)
    assert whole == sum(entry.fact.tokens) + 1_000
    clears = (Clear(entry.last, 0, "content", "x", 900), Clear(entry.seq, 0, "command", "x", 2))
    world.add(Compacted, "micro", "auto", clears, report={})
    assert entry_tokens(world.folded, entry) == whole - 902
    assert [message_count(each) for each in world.folded.entries] == [1, 2, 1]


def test_a_superseded_reply_is_not_a_message():
    world = World(judged=False)
    world.user("begin")
    world.reply("hm", complete=False)
    world.reply("again")
    assert [message_count(each) for each in world.folded.entries] == [1, 0, 1]


def test_a_fold_ends_where_its_tail_begins_and_counts_its_text():
    world = session()
    made = fold_before(world.situation, AUTO, 5)
    assert (made.fold.first, made.fold.last) == (1, world.folded.entries[4].last)
    assert len(made.tail) == len(world.folded.entries) - 5
    assert made.fold.tokens == sum(world.situation.counter.blocks(made.fold.blocks))
    whole = fold_before(world.situation, AUTO, len(world.folded.entries))
    assert whole.fold.last == world.folded.last_seq and whole.tail == ()


def test_a_late_result_does_not_stretch_a_fold_over_its_tail():
    world = World(judged=False)
    world.user("begin")
    reply = world.reply(ToolUseBlock("t", "bash", {"command": "ls"}))
    world.user("more")
    world.reply("ok")
    world.result(reply, 0, "late")
    made = fold_before(world.situation, AUTO, 2)
    assert made.fold.last == made.tail[0].seq - 1


def restored(world, at, **settings):
    situation = replace(world.situation, settings=replace(world.settings, **settings))
    return fold_before(situation, AUTO, at).restored


def test_files_read_last_are_shown_again_within_their_limits():
    world = session(calls=9, name="read", policy="classic")
    results = [fact.seq for fact in world.facts if hasattr(fact, "of")]
    assert restored(world, 10) == results[:3:-1]
    assert restored(world, 10, restore_max_files=2) == results[:-3:-1]
    assert restored(world, 10, restore_max_tokens=2_500) == results[:-3:-1]
    assert restored(world, 10, restore_max_share=0.0126) == results[:-3:-1]
    assert restored(world, 10, restore_file_max_tokens=1_000) == []
    assert restored(world, 4) == results[2::-1]
    assert fold_before(world.situation, FoldLimits("auto", restoring=False), 10).restored == []
    texts = [block_text(block) for block in fold_before(world.situation, AUTO, 10).fold.blocks]
    assert len(texts) == 2
    assert texts[1].startswith(f"{RESTORED_HEADING}\n\n")
    assert f"### src/f8.py (as read in r{results[-1]})\n0008" in texts[1]


def test_files_that_are_shown_again_take_back_a_fifth_at_most_of_what_is_folded():
    world = session(calls=9, name="read")
    folded = sum(message.tokens for message in world.folded.view)
    made = fold_before(world.situation, AUTO, 10)
    assert 0 < world.situation.counter.text(block_text(made.fold.blocks[1])) <= folded / 5
    classic = restored(world, 10, policy="classic")
    assert made.restored == classic[: len(made.restored)] != classic


def test_files_that_are_shown_again_fill_only_what_replacement_and_tail_leave():
    world = World(judged=False)
    world.user("read them all")
    for number in range(30):
        world.call("read", f"row {number}\n" * 1_900, file_path=f"src/f{number}.py")
    world.reply("read")
    made = fold_history(world.situation, AUTO)
    assert made is not None and made.restored
    after = world.folded.with_edits((made.fold,)).view.tokens
    assert 8_000 < after <= MAX_FILLED_TOKENS


def test_a_file_that_was_changed_or_is_in_the_tail_is_not_restored():
    world = World(judged=False)
    world.user("begin")
    for path in ("changed.py", "tail.py", "failed.py", "twice.py", "twice.py"):
        world.call("read", f"text of {path} " * 5, error=path == "failed.py", file_path=path)
    world.call("edit", "ok", file_path="changed.py")
    world.call("view", "", file_path="empty.py")
    world.call("bash", "ok", command="cat tail.py", file_path="tail.py")
    results = [fact.seq for fact in world.facts if hasattr(fact, "of")]
    assert restored(world, 8) == [results[4]]
    assert restored(world, 9) == [results[4], results[1]]


def shrunk(world, first, room, how=Shrink.PREVIEWS):
    edits, files = shrink_blocks(world.situation, first, room, how)
    return {(edit.seq, edit.field): edit.text for edit in edits}, dict(files)


def test_the_largest_results_are_shrunk_first_and_then_texts_by_what_is_too_much():
    world = World(judged=False)
    world.user("a" * 40_000)
    world.call("bash", "b" * 20_000, command="seen")
    world.call("bash", "c" * 8_000, command="unseen")
    total = world.folded.view.tokens
    assert shrunk(world, 0, total) == ({}, {})
    assert list(shrunk(world, 0, total - 1)[0]) == [(4, "content")]
    texts, files = shrunk(world, 0, total - 6_000)
    assert list(texts) == [(4, "content"), (7, "content")]
    assert texts[4, "content"].startswith("[cleared: bash seen")
    texts, files = shrunk(world, 0, total - 10_000)
    assert list(texts) == [(1, "text"), (4, "content"), (7, "content")]
    assert 6_000 * 4 < len(texts[1, "text"]) < 7_000 * 4
    assert list(files) == ["r7.txt"] and "(the first 2,000 of" in texts[7, "content"]
    assert "(the first 400 of" in shrunk(world, 0, 0)[0][7, "content"]
    assert list(shrunk(world, 4, 0)[0]) == [(4, "content"), (7, "content")]
    assert list(shrunk(world, 0, 0, how=Shrink.SEEN)[0]) == [(4, "content")]


def test_small_blocks_and_those_of_the_model_are_not_shrunk():
    world = World(judged=False)
    world.user("a" * 1_200)
    world.reply("b" * 40_000)
    assert shrunk(world, 0, 0) == ({}, {})


def test_what_a_compaction_should_leave():
    world = session()
    assert target_tokens(world.situation) == world.situation.trigger_tokens
    assert target_tokens(session(max_compact_size=9_000).situation) == 9_000
    assert target_tokens(session(trigger=300_000).situation) == 200_000


def test_the_local_summary_carries_an_earlier_summary_cut_to_a_third_of_the_record():
    for words, whole in ((1_000, True), (9_000, False)):
        world = session()
        # as an earlier version wrote it
        record = "[folded: x]\n\n## Summary\n" + "told " * words + "\n\n## Ledger (y)\nz"
        world.add(Compacted, "summary", "auto", (Fold(1, 4, (TextBlock(record),), 10),), report={})
        made = present(fallback_summary(world.situation, "manual", "test"))
        text = summary_text(made)
        told = summary_in(text)
        assert (told.count("told") == words) is whole and told.startswith("told told")
        assert 'recall("r1-r' in told or whole
        assert world.situation.counter.text(told) <= 6_000 + 30
        assert made.layer == "ledger" and made.report["why"] == "test"


def test_unseen_blocks_are_only_shrunk_where_room_was_asked_for():
    world = World(window=10_000, judged=False)
    world.user("begin")
    world.call("bash", "x" * 80_000, command="make")
    assert fallback_summary(world.situation, "auto", "test") is None
    made = fallback_summary(world.situation, "manual", "test")
    assert made is not None and made.report["after"] <= 10_000


def test_the_local_summary_is_taken_first_where_what_was_cleared_frees_enough():
    world = session(calls=60, window=90_000)
    clears = tuple(Clear(3 * at + 4, 0, "content", "[cleared]", 990) for at in range(50))
    cleared = world.situation.with_edits(clears, lasting=False)
    made = present(local_summary_first(world.situation, cleared))
    assert made.layer == "ledger" and made.report["why"] == "ledger first"
    assert narrow(made.edits[0], Fold).last == world.folded.entries[50].last
    assert made.report["after"] <= 0.6 * world.situation.trigger_tokens
    strict = replace(world.situation, settings=replace(world.settings, ledger_first_max_share=0.1))
    assert local_summary_first(strict, cleared) is None
    assert local_summary_first(world.situation, world.situation) is None
    assert local_summary_first(replace(world.situation, window=ContextWindow(1_000, 10)), cleared) is None


def test_a_dry_run_makes_the_record_of_a_cut_once_for_each_summary(monkeypatch):
    made = []

    def write(situation, limits, at, room, beside=""):
        made.append((limits, at))
        return replacement_text(situation, limits, at, room, beside)

    monkeypatch.setattr("compact.folding.replacement_text", write)
    world = World(judged=False)
    world.user("begin")
    for at in range(60):
        world.call("read", "x " * 2_000, file_path=f"src/part_{at}.py")
    assert dry_run(world.situation, "manual").proposals
    assert [limits.summary.split()[:1] for limits, _ in made] == [["summary"], []]
