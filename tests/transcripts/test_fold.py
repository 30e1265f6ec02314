import json
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from transcripts.facts import (
    Clear,
    Compacted,
    Fact,
    Failed,
    Fold,
    Instructed,
    Metadata,
    Opened,
    Reply,
    RequestSent,
    Result,
    Rewound,
    Started,
    Undone,
    UnknownFact,
    User,
)
from transcripts.folding import MAX_SIZES, Charge, Folded, RequestSize, fold, replace_facts
from transcripts.messages import TextBlock, ThinkingBlock, ToolUseBlock, Usage
from transcripts.view import Message, ids_in
from transcripts.view_renderer import each_message

from .api_rules import as_sent, bytes_sent, violations
from .random_histories import RandomParts, histories, lossy_histories, seeds

quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def shown(folded: Folded) -> list[bytes]:
    return [bytes_sent(message) for message in folded.view]


def grounds(folded: Folded) -> list[tuple[object, ...]]:
    """All of a view: the bytes, what each part stands for, the counts."""
    return [
        (
            bytes_sent(message),
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
def test_every_prefix_of_every_history_is_accepted_once_a_prompt_follows(facts: list[Fact]) -> None:
    for length in range(len(facts) + 1):
        assert violations(continued(facts[:length])) == []


@given(lossy_histories, seeds)
@quick
def test_edits_that_make_no_sense_still_give_an_accepted_view(facts: list[Fact], seed: int) -> None:
    parts = RandomParts(Random(seed))
    seq = facts[-1].seq if facts else 0
    for _ in range(3):
        seq += 1
        facts = [*facts, Compacted(seq, 0.0, "wild", "auto", parts.edits(seq))]
        assert violations(continued(facts)) == []


@given(lossy_histories, st.randoms(use_true_random=False))
@quick
def test_histories_with_facts_missing_give_an_accepted_view(facts: list[Fact], random: Random) -> None:
    assert violations(continued([fact for fact in facts if random.random() < 0.7])) == []


@given(lossy_histories)
@quick
def test_the_view_after_each_fact_is_the_one_folded_from_the_beginning(facts: list[Fact]) -> None:
    folded = Folded()
    for length, fact in enumerate(facts, 1):
        folded.apply(fact)
        again = fold(facts[:length])
        assert grounds(folded) == grounds(again)
        assert folded.edits.clears == again.edits.clears


@given(lossy_histories)
@quick
def test_the_messages_one_by_one_are_those_of_the_view(facts: list[Fact]) -> None:
    folded = fold(facts)
    assert list(each_message(folded.entries, folded.edits)) == list(folded.view)


@given(histories)
@quick
def test_the_tally_of_a_view_is_the_sum_of_its_parts(facts: list[Fact]) -> None:
    view = fold(facts).view
    parts = [part for message in view for part in message.parts]
    ids = ids_in(parts) * Message.CALL_ID_TOKENS
    assert view.tokens == sum(part.tokens for part in parts) + len(view) * Message.FRAME_TOKENS + ids
    assert view.tokens == sum(message.tokens for message in view)


@given(histories)
@quick
def test_undoing_every_compaction_restores_the_conversation(facts: list[Fact]) -> None:
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
def test_rewinding_restores_the_view_that_was_there(facts: list[Fact], data: st.DataObject) -> None:
    last = facts[-1].seq if facts else 0
    to = data.draw(st.integers(1, last + 1))
    if any(isinstance(fact, Rewound) and fact.to < to <= fact.seq for fact in facts):
        return  # that place is no longer part of the conversation
    before = fold(facts[: to - 1])
    whole = fold([*facts, Rewound(last + 1, 0.0, to)])
    assert shown(whole) == shown(before)
    prepared = fold(facts)
    prepared.prepare_rewind(to)
    prepared.apply(Rewound(last + 1, 0.0, to))
    assert (prepared.facts, prepared.gaps, shown(prepared)) == (whole.facts, whole.gaps, shown(whole))
    outdated = fold(facts)
    outdated.prepare_rewind(to)
    outdated.apply(User(last + 1, 0.0, (TextBlock("another"),)))
    outdated.apply(Rewound(last + 2, 0.0, last + 1))
    assert shown(outdated) == shown(fold(facts))


@given(histories, st.booleans(), st.booleans())
@quick
def test_a_prompt_without_an_answer_is_removed_as_if_all_was_folded_again(
    facts: list[Fact], thought: bool, rendered: bool
) -> None:
    seq = facts[-1].seq + 2 if facts else 2
    answer = Reply(seq, 0.0, (TextBlock("hi"),), (1,), Usage(60, 3), asked=seq - 1)
    facts = [*facts, RequestSent(seq - 1, 0.0, "turn", tokens=80, raw=70), answer]
    added: list[Fact] = [User(seq + 1, 0.0, (TextBlock("forget this"),))]
    added.append(RequestSent(seq + 2, 0.0, "turn", tokens=90, raw=80))
    added.append(Metadata(seq + 3, 0.0, "note", {"usage": {"input": 5}}))
    if thought:
        thinking = (ThinkingBlock("hm", ""),)
        added.append(Reply(seq + 4, 0.0, thinking, (1,), Usage(70, 3), complete=False, asked=seq + 2))
    folded = fold([*facts, *added])
    if rendered:
        assert folded.view
    last = folded.last_seq
    folded.apply(Rewound(last + 1, 0.0, seq + 1))
    whole = fold([*facts, *added])
    unknown = UnknownFact(last + 1, 0.0, "odd", {})  # with which all facts are folded again
    whole.apply(unknown)
    whole.apply(Rewound(last + 1, 0.0, seq + 1))
    assert grounds(folded) == grounds(whole)
    for name in ("facts", "edits", "opened", "last_request", "last_reply", "usage", "charges", "metadata"):
        assert getattr(folded, name) == getattr(whole, name), name
    for name in ("requests", "edited"):
        assert getattr(folded.sizes, name) == getattr(whole.sizes, name), name
    for name in ("entries", "reply_count", "orphans", "asked", "groups", "tools_called", "_indexes"):
        assert getattr(folded.conversation, name) == getattr(whole.conversation, name), name


def test_a_prompt_without_an_answer_is_removed_without_folding_again() -> None:
    folded = fold([HELLO, RequestSent(2, 0.0, "turn"), exchange(3, TextBlock("hi"))])
    conversation = folded.conversation
    folded.apply(User(4, 0.0, (TextBlock("forget this"),)))
    folded.apply(Rewound(5, 0.0, 4))
    assert folded.conversation is conversation and len(folded.entries) == 2


def test_a_prompt_that_was_followed_by_a_compaction_is_removed_with_it() -> None:
    facts = [HELLO, exchange(2, TextBlock("hi"))]
    micro = Compacted(4, 0.0, "micro", "auto", (Clear(1, 0, "text", "GONE"),))
    folded = fold([*facts, User(3, 0.0, (TextBlock("forget this"),)), micro, Rewound(5, 0.0, 3)])
    assert shown(folded) == shown(fold(facts))


def exchange(seq: int, *blocks: object) -> Reply:
    return Reply(seq, 0.0, tuple(blocks))  # type: ignore[arg-type]


HELLO = User(1, 0.0, (TextBlock("hello"),))
CALL = ToolUseBlock("t1", "bash", {"command": "ls"})


def last_result(facts: list[Fact]) -> str:
    block = as_sent(fold(facts).view[-1])["content"][-1]
    return str(block["content"][0]["text"])


def test_a_call_that_was_never_started_is_answered_as_not_run() -> None:
    assert "not run" in last_result([HELLO, exchange(2, CALL)])


def test_a_call_that_had_started_is_answered_as_possibly_run() -> None:
    assert "may have run" in last_result([HELLO, exchange(2, CALL), Started(3, 0.0, 2, 0)])


def test_results_are_shown_in_call_order_however_they_came() -> None:
    facts = [
        HELLO,
        exchange(2, CALL, ToolUseBlock("t2", "read", {})),
        Result(3, 0.0, 2, 1, (TextBlock("second"),)),
        Result(4, 0.0, 2, 0, (TextBlock("first"),)),
    ]
    blocks = as_sent(fold(facts).view[-1])["content"]
    assert [block["tool_use_id"] for block in blocks] == ["t1", "t2"]
    assert [block["content"][0]["text"] for block in blocks] == ["first", "second"]


def test_an_exchange_ends_with_its_newest_result_and_is_open_until_it_has_all() -> None:
    facts: list[Fact] = [HELLO, exchange(2, CALL, ToolUseBlock("t2", "read", {}))]
    seen = []
    for fact in (Result(3, 0.0, 2, 1, (TextBlock("b"),)), Result(4, 0.0, 2, 0, (TextBlock("a"),))):
        entry = fold(facts).conversation.last_exchange
        assert entry is not None
        seen.append((entry.last, entry.open))
        facts.append(fact)
    whole = fold(facts)
    entry = whole.conversation.last_exchange
    assert entry is not None
    assert [*seen, (entry.last, entry.open)] == [(2, True), (3, True), (4, False)]
    assert (whole.view[-1].first, whole.view[-1].last) == (2, 4)
    entry = fold([HELLO, exchange(2, TextBlock("no call"))]).conversation.last_exchange
    assert entry is not None and not entry.open


def test_ids_and_names_that_the_api_refuses_are_the_same_valid_ones_each_time() -> None:
    uses = (ToolUseBlock("bad id!", "a b", {}), ToolUseBlock("", "", {}), ToolUseBlock("t", "n" * 200, {}))
    shown = as_sent(fold([HELLO, exchange(2, *uses)]).view[1])["content"]
    assert [(block["id"], block["name"]) for block in shown] == [
        ("bad_id_", "a_b"),
        ("_2_1", "unnamed"),
        ("t", "n" * 128),
    ]


def test_each_gap_is_noted_one_at_the_very_beginning_too_and_a_rewind_behind_it_closes_it() -> None:
    assert list(fold([User(2, 0.0, (TextBlock("b"),))]).gaps) == [2]
    assert list(fold([HELLO, User(2, 0.0, ()), User(5, 0.0, ()), User(6, 0.0, ())]).gaps) == [5]
    for to, gaps in ((3, []), (4, [7]), (5, [7]), (6, [5])):
        facts = [HELLO, User(2, 0.0, ()), User(5, 0.0, ()), User(6, 0.0, ()), Rewound(7, 0.0, to)]
        assert list(fold(facts).gaps) == gaps, to


def test_what_the_replies_cost_is_summed_and_the_newest_opening_counts() -> None:
    used = [Reply(seq, 0.0, (), usage=Usage(seq, 10, cache_read=seq)) for seq in (2, 3)]
    folded = fold([HELLO, *used])
    assert folded.usage == Usage(5, 20, cache_read=5) and folded.opened is None
    first, second = (Opened(seq, 0.0, ("s",), (), model, 1, "/") for seq, model in ((1, "a"), (2, "b")))
    assert fold([first, second]).opened == second


def test_an_opening_continues_with_the_instructions_before_it_until_others_come() -> None:
    first, again = (Opened(seq, 0.0, (), (), model, 1, "/") for seq, model in ((1, "a"), (4, "b")))
    read, bash = {"name": "read", "kind": "reads"}, {"name": "bash", "kind": "runs"}
    facts = [first, Instructed(2, 0.0, ("s",), (read,)), User(3, 0.0, ()), again]
    opened = fold(facts).opened
    assert opened is not None
    assert (opened.seq, opened.model, opened.system, opened.tools) == (4, "b", ("s",), (read,))
    folded = fold([*facts, Instructed(5, 0.0, ("t",), (bash,))])
    assert folded.opened == replace(again, system=("t",), tools=(bash,))


def test_a_line_of_an_earlier_version_has_the_instructions_itself() -> None:
    old = Opened(1, 0.0, ("s",), ({"name": "read"},), "a", 1, "/")
    new = Opened(2, 0.0, ("t",), (), "b", 1, "/")
    assert fold([old]).opened == old and fold([old, new]).opened == new


def test_an_unfinished_reply_is_superseded_by_the_next_attempt() -> None:
    facts = [HELLO, Reply(2, 0.0, (TextBlock("half"),), complete=False), exchange(3, TextBlock("whole"))]
    assert b"half" not in bytes_sent(fold(facts).view[-1])


def test_an_unfinished_reply_without_another_attempt_is_shown() -> None:
    facts = [HELLO, Reply(2, 0.0, (TextBlock("half"),), complete=False), User(3, 0.0, (TextBlock("go on"),))]
    assert b"half" in bytes_sent(fold(facts).view[1])


def test_thinking_behind_a_missing_record_is_left_out() -> None:
    thought = ThinkingBlock("hm", "sig")
    facts = [
        HELLO,
        exchange(2, thought, TextBlock("a")),
        User(4, 0.0, (TextBlock("b"),)),
        exchange(5, thought, TextBlock("c")),
    ]
    view = fold(facts).view
    assert b"thinking" in bytes_sent(view[1])
    assert b"thinking" not in bytes_sent(view[3])


def test_thinking_is_left_out_when_the_very_beginning_is_missing() -> None:
    facts = [User(3, 0.0, (TextBlock("b"),)), exchange(4, ThinkingBlock("hm", "sig"), TextBlock("c"))]
    assert b"thinking" not in bytes_sent(fold(facts).view[1])


def test_after_a_rewind_thinking_behind_an_earlier_gap_is_still_left_out() -> None:
    thought = ThinkingBlock("hm", "sig")
    facts: list[Fact] = [HELLO, User(3, 0.0, (TextBlock("b"),)), exchange(4, thought, TextBlock("c"))]
    facts += [User(6, 0.0, (TextBlock("d"),)), exchange(7, TextBlock("e")), Rewound(8, 0.0, 7)]
    assert all(b"thinking" not in bytes_sent(message) for message in fold(facts).view)


def test_the_widest_fold_counts_and_an_inner_one_returns_when_it_is_undone() -> None:
    facts: list[Fact] = [HELLO]
    for seq in range(2, 10):
        facts.append(
            exchange(seq, TextBlock(f"r{seq}")) if seq % 2 == 0 else User(seq, 0.0, (TextBlock(f"u{seq}"),))
        )
    facts.append(Compacted(10, 0.0, "collapse", "auto", (Fold(3, 6, (TextBlock("INNER"),)),)))
    facts.append(Compacted(11, 0.0, "summary", "auto", (Fold(1, 8, (TextBlock("OUTER"),)),)))
    wide = b"".join(bytes_sent(message) for message in fold(facts).view)
    assert b"OUTER" in wide and b"INNER" not in wide and b"r4" not in wide
    narrow = b"".join(bytes_sent(message) for message in fold([*facts, Undone(12, 0.0, "c11")]).view)
    assert b"INNER" in narrow and b"OUTER" not in narrow and b"r2" in narrow and b"r4" not in narrow


def test_folds_that_overlap_are_both_shown() -> None:
    facts: list[Fact] = [HELLO]
    for seq in range(2, 10):
        facts.append(
            exchange(seq, TextBlock(f"r{seq}")) if seq % 2 == 0 else User(seq, 0.0, (TextBlock(f"u{seq}"),))
        )
    folds = (Fold(1, 4, (TextBlock("FIRST"),)), Fold(3, 6, (TextBlock("SECOND"),)))
    folded = fold([*facts, Compacted(10, 0.0, "collapse", "auto", folds)])
    texts = b"".join(bytes_sent(message) for message in folded.view)
    assert [word in texts for word in (b"FIRST", b"SECOND", b"u5", b"r6", b"u7")] == [
        True,
        True,
        False,
        False,
        True,
    ]


def test_the_latest_clear_counts_and_an_earlier_one_returns_when_it_is_undone() -> None:
    facts: list[Fact] = [HELLO, exchange(2, CALL), Result(3, 0.0, 2, 0, (TextBlock("long output"),))]
    facts.append(Compacted(4, 0.0, "budget", "auto", (Clear(3, 0, "content", "PREVIEW"),)))
    facts.append(Compacted(5, 0.0, "micro", "auto", (Clear(3, 0, "content", "GONE"),)))
    assert last_result(facts) == "GONE"
    assert last_result([*facts, Undone(6, 0.0, "c5")]) == "PREVIEW"
    assert last_result([*facts, Undone(6, 0.0, "c4")]) == "GONE"
    assert last_result([*facts, Undone(6, 0.0, "c5"), Undone(7, 0.0, "c4")]) == "long output"


@given(histories)
@quick
def test_with_edits_shows_what_the_compaction_will_show(facts: list[Fact]) -> None:
    folded = fold(facts)
    if not folded.entries:
        return
    entry = folded.entries[0]
    edits = (Fold(entry.seq, entry.last, (TextBlock("SUMMARY"),), 5),)
    if folded.edits.covering(entry.seq) is not None:
        return
    before = shown(folded)
    preview = [bytes_sent(message) for message in folded.with_edits(edits).view]
    assert shown(folded) == before
    folded.apply(Compacted(folded.last_seq + 1, 0.0, "summary", "manual", edits))
    assert preview == shown(folded)


def test_calls_of_an_unfinished_reply_are_not_calls() -> None:
    folded = fold([HELLO, Reply(2, 0.0, (TextBlock("I will"), CALL), complete=False)])
    assert [len(message.parts) for message in folded.view] == [1, 1]
    assert folded.last_reply is None and folded.last_reply_seq == 0 and folded.conversation.reply_count == 1


def test_of_two_results_for_one_call_the_first_counts() -> None:
    first, second = (Result(seq, 0.0, 2, 0, (TextBlock(f"result {seq}"),)) for seq in (3, 4))
    assert last_result([HELLO, exchange(2, CALL), first, second]) == "result 3"


def test_a_result_for_no_known_call_is_counted_and_not_shown() -> None:
    text = TextBlock("lost")
    folded = fold([HELLO, exchange(2, CALL), Result(3, 0.0, 2, 7, (text,)), Result(4, 0.0, 9, 0, (text,))])
    assert folded.conversation.orphans == 2
    assert all(b"lost" not in line for line in shown(folded))


def test_a_late_result_is_shown_and_cleared_in_the_exchange_of_its_call() -> None:
    folded = fold(
        [HELLO, exchange(2, CALL), User(3, 0.0, (TextBlock("go on"),)), exchange(4, TextBlock("ok"))]
    )
    assert b"not run" in shown(folded)[2]
    folded.apply(Result(5, 0.0, 2, 0, (TextBlock("late"),)))
    assert b"late" in shown(folded)[2] and b"not run" not in shown(folded)[2]
    folded.apply(Compacted(6, 0.0, "micro", "auto", (Clear(5, 0, "content", "GONE"),)))
    assert b"GONE" in shown(folded)[2]


def test_changes_between_two_views_are_all_shown() -> None:
    folded = fold([HELLO, exchange(2, CALL), Result(3, 0.0, 2, 0, (TextBlock("output"),))])
    folded.apply(User(4, 0.0, (TextBlock("thanks"),)))
    assert len(folded.view) == 3
    for seq, edit in ((5, Clear(1, 0, "text", "EARLY")), (6, Clear(4, 0, "text", "LATE"))):
        folded.apply(Compacted(seq, 0.0, "micro", "auto", (edit,)))
    assert b"EARLY" in shown(folded)[0] and b"LATE" in shown(folded)[2]


def test_a_new_fact_leaves_the_messages_before_it_unchanged() -> None:
    folded = fold([HELLO, exchange(2, TextBlock("hi"))])
    before = list(folded.view)
    folded.apply(User(3, 0.0, (TextBlock("go on"),)))
    assert all(old is new for old, new in zip(before, folded.view, strict=False)), "nothing is rendered again"
    assert folded.with_edits((Clear(3, 0, "text", "x"),)).view[0] is folded.view[0]


def test_with_edits_leaves_the_conversation_itself_unchanged() -> None:
    folded = fold([HELLO, exchange(2, TextBlock("hi"))])
    changed = folded.with_edits((Fold(1, 2, (TextBlock("SUMMARY"),)), Clear(1, 0, "text", "x")))
    assert len(changed.view) == 1 and changed.last_seq == 3
    folded.apply(User(3, 0.0, (TextBlock("go on"),)))
    assert len(folded.view) == 3 and folded.edits.folds == [] and folded.edits.clears == {}


def test_with_edits_can_leave_out_those_of_one_fact() -> None:
    folded = fold([HELLO, exchange(2, TextBlock("hi"))])
    folded.apply(Compacted(3, 0.0, "micro", "auto", (Clear(1, 0, "text", "GONE"),)))
    assert b"GONE" in shown(folded)[0]
    assert b"hello" in shown(folded.with_edits((), without=3))[0]
    assert b"GONE" in shown(folded)[0]


def test_facts_can_be_replaced_and_gaps_stay_gaps() -> None:
    thinking = exchange(5, ThinkingBlock("hm", "sig"), TextBlock("hi"))
    again = [User(6, 0.0, (TextBlock("c"),)), *counted(7, 100, 110)]
    folded = fold([HELLO, User(4, 0.0, (TextBlock("b"),)), thinking, *again, Rewound(9, 0.0, 6)])
    made = replace_facts(folded, {1: User(1, 0.0, (TextBlock("other"),))})
    assert b"other" in shown(made)[0] and b"thinking" not in shown(made)[1]
    assert (made.gaps, made.last_seq) == (folded.gaps, folded.last_seq) == ({4: 2}, 9)
    assert [each.usage.input for each in made.charges] == [0, 110]


def test_facts_beside_the_conversation_are_kept_in_order() -> None:
    beside = [Metadata(1, 0.0, "name"), Failed(2, 0.0, "hook", "no"), Metadata(3, 0.0, "pin")]
    folded = fold(beside)
    assert folded.metadata == [beside[0], beside[2]] and folded.failures == [beside[1]]
    assert folded.facts == beside and folded.last_reply_seq == 0


def counted(seq: int, raw: int, tokens: int, calls: int = 0) -> list[Fact]:
    """Return a request of `raw` tokens by our count and the reply to it, with calls and their results."""
    uses = tuple(ToolUseBlock(f"t{seq}_{at}", "read", {}) for at in range(calls))
    reply = Reply(seq + 1, 0.0, (TextBlock("x"), *uses), usage=Usage(input=tokens), asked=seq)
    results = [Result(seq + 2 + at, 0.0, seq + 1, at + 1, (TextBlock("found"),), (5,)) for at in range(calls)]
    return [RequestSent(seq, 0.0, "turn", raw=raw), reply, *results]


def test_each_measured_prompt_says_how_it_grew_since_the_one_before() -> None:
    opened = Opened(1, 0.0, model="one")
    folded = fold(
        [
            opened,
            replace(HELLO, seq=2),
            *counted(3, 100, 110, calls=2),
            *counted(7, 200, 220, calls=1),
            *counted(10, 300, 330),
            Compacted(12, 0.0, "micro", "auto", (Clear(8, block=1, field="input", text="[cleared]"),)),
            *counted(13, 250, 275),
            *counted(15, 260, 286),
        ]
    )
    assert folded.sizes.requests == [
        RequestSize(3, "one", raw=100, tokens=110, ids=0, grown=False),
        RequestSize(7, "one", raw=200, tokens=220, ids=4, grown=True),
        RequestSize(10, "one", raw=300, tokens=330, ids=2, grown=True),
        RequestSize(13, "one", raw=250, tokens=275, ids=0, grown=False),
        RequestSize(15, "one", raw=260, tokens=286, ids=0, grown=True),
    ]
    for fact in (Undone(17, 0.0, "c12"), Opened(17, 0.0, model="two")):
        again = fold([*folded.facts, fact, *counted(18, 300, 330)])
        assert again.sizes.requests[-1].grown is False and again.sizes.requests[-1].model in ("one", "two")


def test_the_sizes_of_the_first_prompt_and_of_thousands_of_the_newest_are_kept() -> None:
    folded = fold([HELLO])
    for seq in range(2, 4 * MAX_SIZES, 2):
        folded.apply(RequestSent(seq, 0.0, "turn", raw=seq))
        folded.apply(Reply(seq + 1, 0.0, (TextBlock("x"),), usage=Usage(input=seq + 5), asked=seq))
    seqs = [size.seq for size in folded.sizes.requests]
    assert seqs[0] == 2 and MAX_SIZES < len(seqs) <= 2 * MAX_SIZES
    assert seqs[1:] == list(range(seqs[1], 4 * MAX_SIZES, 2))


def test_the_usage_is_that_of_the_replies_that_are_left() -> None:
    folded = fold([HELLO, *counted(2, 100, 110)])
    assert folded.usage == Usage(input=110)
    for fact in counted(4, 200, 220):
        folded.apply(fact)
    assert folded.usage == Usage(input=330)
    folded.apply(Rewound(6, 0.0, 4))
    assert folded.usage == Usage(input=110)


def test_a_model_that_counts_differently_scales_the_earlier_measurements() -> None:
    facts = [Opened(1, 0.0, model="one"), replace(HELLO, seq=2), *counted(3, 100, 100), *counted(5, 200, 200)]
    same = fold([*facts, Opened(7, 0.0, model="two"), *counted(8, 300, 309)])
    assert [size.tokens for size in same.sizes.requests] == [100, 200, 309], "a few percent are no difference"
    other = fold([*facts, Opened(7, 0.0, model="two"), *counted(8, 300, 390)])
    assert [(size.tokens, size.model) for size in other.sizes.requests] == [
        (130, "one"),
        (260, "one"),
        (390, "two"),
    ]


def test_prompts_that_an_older_version_did_not_count_are_no_sizes() -> None:
    folded = fold([HELLO, *counted(2, 0, 50), *counted(4, 0, 60), *counted(6, 40, 50), *counted(8, 0, 70)])
    assert [size.seq for size in folded.sizes.requests] == [6]


def test_what_nested_sessions_cost_is_charged_to_their_model() -> None:
    note = Metadata(2, 0.0, "spent", {"usage": {"output": 7}, "model": "small", "dollars": 0.5})
    folded = fold([HELLO, note, Metadata(3, 0.0, "spent", {"usage": {"output": 1}}), Metadata(4, 0.0, "x")])
    assert folded.charges == [Charge("small", Usage(output=7), 0.5), Charge("", Usage(output=1))]


def test_what_was_not_counted_by_the_api_is_not_a_measurement() -> None:
    request, text = RequestSent(2, 0.0, "turn", raw=100), (TextBlock("x"),)
    for after in (
        Reply(3, 0.0, text, usage=Usage(output=5), asked=2),
        Reply(3, 0.0, text, usage=Usage(input=5), asked=1),
        Failed(3, 0.0, "request", "too long", {"raw": 100}),
        Failed(3, 0.0, "request", "too long", {"raw": 100, "actual": "many"}),
    ):
        assert fold([HELLO, request, after]).sizes.requests == []
    (size,) = fold([HELLO, request, Failed(3, 0.0, "x", "y", {"raw": 1, "actual": 2})]).sizes.requests
    assert (size.raw, size.tokens) == (1, 2)


def test_a_fact_out_of_order_does_not_lower_the_last_seq() -> None:
    assert fold([HELLO, exchange(2, TextBlock("a")), User(1, 0.0, (TextBlock("again"),))]).last_seq == 2
