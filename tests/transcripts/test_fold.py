import json
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from transcripts.edits import ActiveEdits
from transcripts.facts import Clear, Compacted, Fact, Fold, Reply, Result, Rewound, Started, Undone, User
from transcripts.fold import Folded, fold
from transcripts.messages import TextBlock, ThinkingBlock, ToolUseBlock
from transcripts.view import MESSAGE_TOKENS

from .api_rules import complaints
from .random_histories import Dice, histories, lossy_histories, seeds

quick = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def shown(folded: Folded) -> list[bytes]:
    return [message.json for message in folded.view]


def grounds(folded: Folded) -> list[tuple[object, ...]]:
    """All of a view: the bytes, what each part stands for, the counts."""
    return [
        (
            message.json,
            message.first,
            message.last,
            tuple((p.seq, p.index, p.kind, p.tokens) for p in message.parts),
        )
        for message in folded.view
    ]


def continued(facts: list[Fact]) -> list[dict[str, object]]:
    seq = facts[-1].seq + 1 if facts else 1
    return [json.loads(line) for line in shown(fold([*facts, User(seq, 0.0, (TextBlock("continue"),))]))]


@given(lossy_histories)
@quick
def test_every_prefix_of_every_history_is_accepted_with_one_more_word(facts: list[Fact]) -> None:
    for length in range(len(facts) + 1):
        assert complaints(continued(facts[:length])) == []


@given(lossy_histories, seeds)
@quick
def test_edits_that_make_no_sense_still_give_a_view_that_is_accepted(facts: list[Fact], seed: int) -> None:
    dice = Dice(Random(seed))
    seq = facts[-1].seq if facts else 0
    for _ in range(3):
        seq += 1
        facts = [*facts, Compacted(seq, 0.0, "wild", "auto", dice.edits(seq))]
        assert complaints(continued(facts)) == []


@given(lossy_histories, st.randoms(use_true_random=False))
@quick
def test_histories_with_facts_missing_are_accepted_too(facts: list[Fact], random: Random) -> None:
    assert complaints(continued([fact for fact in facts if random.random() < 0.7])) == []


@given(lossy_histories)
@quick
def test_the_view_after_each_fact_is_the_one_made_from_the_beginning(facts: list[Fact]) -> None:
    folded = Folded()
    for length, fact in enumerate(facts, 1):
        folded.apply(fact)
        assert grounds(folded) == grounds(fold(facts[:length]))
        assert folded.edits.clears == fold(facts[:length]).edits.clears


@given(histories)
@quick
def test_the_tally_of_a_view_is_the_sum_of_its_parts(facts: list[Fact]) -> None:
    view = fold(facts).view
    parts = [part for message in view for part in message.parts]
    assert view.tokens == sum(part.tokens for part in parts) + len(view) * MESSAGE_TOKENS
    assert view.tokens == sum(message.tokens for message in view)


@given(lossy_histories, st.randoms(use_true_random=False))
@quick
def test_edits_come_and_go_in_any_order(facts: list[Fact], random: Random) -> None:
    made = {fact.seq: fact.edits for fact in facts if isinstance(fact, Compacted) and fact.edits}
    edits = ActiveEdits()
    moves = [seq for seq in made for _ in range(3)]
    random.shuffle(moves)
    for seq in moves:
        if seq in edits.origins:
            edits.remove(seq)
        else:
            edits.add(seq, made[seq])
    fresh = ActiveEdits()
    for seq in sorted(edits.origins):
        fresh.add(seq, made[seq])
    assert edits.clears == fresh.clears
    assert [(one.first, one.last) for one in edits.folds] == [(one.first, one.last) for one in fresh.folds]
    assert edits.folds == fresh.folds
    for seq in range(60):
        assert edits.unthinks(seq) == fresh.unthinks(seq)


@given(histories)
@quick
def test_undoing_everything_gives_the_conversation_back(facts: list[Fact]) -> None:
    folded = fold(facts)
    left = [fact for fact in folded.facts if not isinstance(fact, Compacted | Undone)]
    seq = folded.last_seq
    for one in folded.compactions:
        if one.id not in folded.undone:
            seq += 1
            folded.apply(Undone(seq, 0.0, one.id))
    without_edits = [fact for fact in left if not getattr(fact, "edits", ())]
    undone_edits = any(isinstance(fact, Undone) and fact.edits for fact in folded.facts)
    if not undone_edits and len(without_edits) == len(left):
        assert shown(folded) == shown(_numbered_without_holes(left))


def _numbered_without_holes(facts: list[Fact]) -> Folded:
    folded = Folded()
    for fact in facts:
        folded.last_seq = fact.seq - 1  # the facts between were left out on purpose: no hole
        folded.apply(fact)
    return folded


@given(histories, st.data())
@quick
def test_going_back_gives_the_view_that_was_there(facts: list[Fact], data: st.DataObject) -> None:
    last = facts[-1].seq if facts else 0
    to = data.draw(st.integers(1, last + 1))
    if any(isinstance(fact, Rewound) and fact.to < to <= fact.seq for fact in facts):
        return  # that place is no part of the conversation any more
    before = fold(facts[: to - 1])
    assert shown(fold([*facts, Rewound(last + 1, 0.0, to)])) == shown(before)


def exchange(seq: int, *blocks: object) -> Reply:
    return Reply(seq, 0.0, tuple(blocks))  # type: ignore[arg-type]


HELLO = User(1, 0.0, (TextBlock("hello"),))
CALL = ToolUseBlock("t1", "bash", {"command": "ls"})


def last_result(facts: list[Fact]) -> str:
    block = json.loads(fold(facts).view[-1].json)["content"][-1]
    return str(block["content"][0]["text"])


def test_a_call_that_was_never_started_is_answered_as_not_run() -> None:
    assert "not run" in last_result([HELLO, exchange(2, CALL)])


def test_a_call_that_had_started_is_answered_as_perhaps_run() -> None:
    assert "may have run" in last_result([HELLO, exchange(2, CALL), Started(3, 0.0, 2, 0)])


def test_results_stand_in_call_order_however_they_came() -> None:
    facts = [
        HELLO,
        exchange(2, CALL, ToolUseBlock("t2", "read", {})),
        Result(3, 0.0, 2, 1, (TextBlock("second"),)),
        Result(4, 0.0, 2, 0, (TextBlock("first"),)),
    ]
    blocks = json.loads(fold(facts).view[-1].json)["content"]
    assert [block["tool_use_id"] for block in blocks] == ["t1", "t2"]
    assert [block["content"][0]["text"] for block in blocks] == ["first", "second"]


def test_an_unfinished_reply_gives_way_to_the_next_try() -> None:
    facts = [HELLO, Reply(2, 0.0, (TextBlock("half"),), complete=False), exchange(3, TextBlock("whole"))]
    assert b"half" not in fold(facts).view[-1].json


def test_an_unfinished_reply_without_another_try_stays() -> None:
    facts = [HELLO, Reply(2, 0.0, (TextBlock("half"),), complete=False), User(3, 0.0, (TextBlock("go on"),))]
    assert b"half" in fold(facts).view[1].json


def test_thinking_behind_a_missing_record_is_left_out() -> None:
    thought = ThinkingBlock("hm", "sig")
    facts = [
        HELLO,
        exchange(2, thought, TextBlock("a")),
        User(4, 0.0, (TextBlock("b"),)),
        exchange(5, thought, TextBlock("c")),
    ]
    view = fold(facts).view
    assert b"thinking" in view[1].json
    assert b"thinking" not in view[3].json


def test_thinking_is_left_out_when_the_very_beginning_is_missing() -> None:
    facts = [User(3, 0.0, (TextBlock("b"),)), exchange(4, ThinkingBlock("hm", "sig"), TextBlock("c"))]
    assert b"thinking" not in fold(facts).view[1].json


def test_going_back_keeps_thinking_behind_the_first_of_several_holes_out() -> None:
    thought = ThinkingBlock("hm", "sig")
    facts: list[Fact] = [HELLO, User(3, 0.0, (TextBlock("b"),)), exchange(4, thought, TextBlock("c"))]
    facts += [User(6, 0.0, (TextBlock("d"),)), exchange(7, TextBlock("e")), Rewound(8, 0.0, 7)]
    assert all(b"thinking" not in message.json for message in fold(facts).view)


def test_the_widest_fold_counts_and_an_inner_one_comes_back_when_it_is_undone() -> None:
    facts: list[Fact] = [HELLO]
    for seq in range(2, 10):
        facts.append(
            exchange(seq, TextBlock(f"r{seq}")) if seq % 2 == 0 else User(seq, 0.0, (TextBlock(f"u{seq}"),))
        )
    facts.append(Compacted(10, 0.0, "collapse", "auto", (Fold(3, 6, (TextBlock("INNER"),)),)))
    facts.append(Compacted(11, 0.0, "summary", "auto", (Fold(1, 8, (TextBlock("OUTER"),)),)))
    wide = b"".join(message.json for message in fold(facts).view)
    assert b"OUTER" in wide and b"INNER" not in wide and b"r4" not in wide
    narrow = b"".join(message.json for message in fold([*facts, Undone(12, 0.0, "c11")]).view)
    assert b"INNER" in narrow and b"OUTER" not in narrow and b"r2" in narrow and b"r4" not in narrow


def test_the_latest_clear_counts_and_the_one_before_comes_back() -> None:
    facts: list[Fact] = [HELLO, exchange(2, CALL), Result(3, 0.0, 2, 0, (TextBlock("long output"),))]
    facts.append(Compacted(4, 0.0, "budget", "auto", (Clear(3, 0, "content", "PREVIEW"),)))
    facts.append(Compacted(5, 0.0, "micro", "auto", (Clear(3, 0, "content", "GONE"),)))
    assert last_result(facts) == "GONE"
    assert last_result([*facts, Undone(6, 0.0, "c5")]) == "PREVIEW"
    assert last_result([*facts, Undone(6, 0.0, "c4")]) == "GONE"
    assert last_result([*facts, Undone(6, 0.0, "c5"), Undone(7, 0.0, "c4")]) == "long output"


@given(histories)
@quick
def test_a_preview_is_what_the_compaction_will_show(facts: list[Fact]) -> None:
    folded = fold(facts)
    if not folded.entries:
        return
    entry = folded.entries[0]
    edits = (Fold(entry.seq, entry.last, (TextBlock("SUMMARY"),), 5),)
    if folded.edits.covering(entry.seq) is not None:
        return
    before = shown(folded)
    preview = [message.json for message in folded.with_edits(edits).view]
    assert shown(folded) == before
    folded.apply(Compacted(folded.last_seq + 1, 0.0, "summary", "manual", edits))
    assert preview == shown(folded)


def test_of_two_folds_over_the_same_stretch_the_newer_counts_whenever_they_were_added() -> None:
    old, new = (Fold(1, 5, (TextBlock("old"),)),), (Fold(1, 5, (TextBlock("new"),)),)
    edits = ActiveEdits()
    for origin, made in ((9, new), (8, old)):
        edits.add(origin, made)
    assert edits.covering(3) == new[0]
    edits.remove(9)
    assert edits.covering(3) == old[0]


def test_of_two_clears_on_one_field_the_newer_counts_whenever_they_were_added() -> None:
    old, new = (Clear(3, 0, "content", "old"),), (Clear(3, 0, "content", "new"),)
    edits = ActiveEdits()
    for origin, made in ((9, new), (8, old)):
        edits.add(origin, made)
    assert edits.clears[3, 0] == {"content": new[0]}
    edits.remove(9)
    assert edits.clears[3, 0] == {"content": old[0]}
