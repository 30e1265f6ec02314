from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from transcripts.edits import ActiveEdits
from transcripts.facts import Clear, Compacted, Fact, Fold
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
