from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from transcripts.edits import ActiveEdits
from transcripts.facts import Clear, Compacted, Edit, Fact, Fold, Undone, Unthink
from transcripts.messages import TextBlock

from .random_histories import lossy_histories

quick = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@given(lossy_histories, st.randoms(use_true_random=False))
@quick
def test_edits_added_and_removed_in_any_order_give_the_same_result(facts: list[Fact], random: Random) -> None:
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


def test_of_nested_folds_only_the_widest_is_in_force_wherever_they_begin_and_end() -> None:
    wide, same_start, same_end = (Fold(*ends, (TextBlock("x"),)) for ends in ((3, 9), (3, 5), (7, 9)))
    for order in ((wide, same_start, same_end), (same_end, same_start, wide)):
        edits = ActiveEdits()
        edits.add(20, order)
        assert edits.folds == [wide]
        assert all(edits.covering(seq) is wide for seq in (3, 5, 8, 9))
        assert edits.covering(2) is None and edits.covering(10) is None


def test_thinking_is_left_out_from_a_gap_on_until_the_session_is_opened_again() -> None:
    edits = ActiveEdits()
    edits.open_gap(5)
    edits.open_gap(7)
    assert [edits.unthinks(seq) for seq in (4, 5, 99)] == [False, True, True], "the first gap counts"
    edits.close_gap(9)
    assert [edits.unthinks(seq) for seq in (4, 5, 9, 10)] == [False, True, True, False]
    edits.open_gap(12)
    assert [edits.unthinks(seq) for seq in (9, 11, 12)] == [True, False, True]


def test_a_copy_is_independent() -> None:
    edits = ActiveEdits()
    edits.add(9, (Clear(3, 0, "content", "old"), Unthink(4, 5), Fold(6, 7, (TextBlock("x"),))))
    copy = edits.copy()
    copy.add(10, (Clear(3, 0, "content", "new"), Unthink(1, 2), Fold(1, 2, (TextBlock("y"),))))
    assert edits.clears[3, 0]["content"].text == "old"
    assert not edits.unthinks(1) and len(edits.folds) == 1 and list(edits.origins) == [9]
    copy.remove(9)
    assert edits.unthinks(4) and edits.covering(6) is not None


def test_adding_newer_edits_keeps_what_is_in_force() -> None:
    edits = ActiveEdits()
    edits.add(9, (Clear(3, 0, "content", "x"),))
    before = edits.clears
    edits.add(10, (Clear(4, 0, "content", "y"),))
    assert edits.clears is before, "nothing is worked out anew"


def compacted(seq: int, *edits: Edit) -> Compacted:
    return Compacted(seq, 0.0, "micro", "auto", edits)


def test_a_compaction_is_undone_once_and_an_unknown_one_never() -> None:
    edits = ActiveEdits()
    edits.apply(compacted(9, Clear(3, 0, "content", "x")))
    assert edits.apply(Undone(10, 0.0, "c8", (Unthink(1, 2),))) is None
    assert edits.apply(Undone(11, 0.0, "c9", (Unthink(4, 5),))) == 3
    assert edits.clears == {} and edits.unthinks(4) and not edits.unthinks(1)
    assert edits.apply(Undone(12, 0.0, "c9", (Unthink(1, 2),))) is None
    assert edits.undone == {"c9": 11} and not edits.unthinks(1)


def test_an_undone_compaction_changes_what_is_shown_from_the_earliest_of_its_own_and_the_new_edits() -> None:
    for cleared, unthought in ((3, 7), (7, 3)):
        edits = ActiveEdits()
        edits.apply(compacted(9, Clear(cleared, 0, "content", "x")))
        assert edits.apply(Undone(11, 0.0, "c9", (Unthink(unthought, 8),))) == 3
