"""The old entries between those that are likely to be needed are found, and summarized with a batch."""

from compact.policy import choose_batch
from compact.settled_runs import settled_runs
from transcripts.facts import Fold
from transcripts.messages import ToolUseBlock

from .worlds import World

LINE = "a plain line of output with nothing to look up "


def outputs(count):
    """A session of so many outputs of about 1,100 tokens, and the seqs of their results."""
    world = World()
    world.user("begin, and never push")
    return world, [
        world.call("bash", f"{at:03} " + LINE * 100, command=f"make {at}").seq for at in range(count)
    ]


def spans(world, *kept):
    return [(run.first, run.last) for run in settled_runs(world.situation, kept).runs]


def test_the_runs_end_before_what_stays_and_before_what_is_recent():
    world, results = outputs(12)
    whole = settled_runs(world.situation, ())
    [(first, last)] = spans(world)
    assert first == 1 and results[5] < last < results[-3]
    assert spans(world, results[2]) == [(1, results[1]), (results[3] - 1, last)]
    assert spans(world, results[2], results[3]) == [(1, results[1]), (results[4] - 1, last)]
    assert whole.tokens > settled_runs(world.situation, results[2:4]).tokens > 0
    assert [whole.contain(seq) for seq in (1, last, last + 1)] == [True, True, False]


def test_there_is_no_run_without_the_beginning():
    world, results = outputs(12)
    assert spans(world, 1) == []
    assert spans(world, results[0])[0] == (1, 1)


def test_a_message_that_came_while_a_call_ran_is_not_parted_from_it():
    world, _ = outputs(3)
    reply = world.reply(
        ToolUseBlock("a", "bash", {"command": "a"}), ToolUseBlock("b", "bash", {"command": "b"})
    )
    first = world.result(reply, 0, LINE * 100)
    joined = world.user("hurry", joined=True)
    world.result(reply, 1, LINE * 100)
    for at in range(8):
        world.call("bash", LINE * 100, command=f"make more{at}")
    for kept in (first.seq, joined.seq):
        before, after = spans(world, kept)
        assert before[1] < reply.seq - 1 < joined.seq + 1 < after[0]


def test_what_is_likely_to_be_needed_stays_word_for_word_between_two_summaries():
    world, _ = outputs(6)
    wanted = world.call("write", "ok", file_path="src/a.py", content=f"the text to edit {LINE * 60}")
    for at in range(60):
        world.call("bash", f"{at:03} " + LINE * 100, command=f"make later{at}")
        if at % 4 == 0:
            world.call("bash", "ok", command="wc src/a.py")  # the file stays in use
        made = world.compact().proposals
        if made and at > 12:
            break
    [proposal] = made
    folds = [edit for edit in proposal.edits if isinstance(edit, Fold)]
    assert len(folds) == 2 and folds[0].last < wanted.of < folds[1].first
    assert any("the text to edit" in text for text in world.shown)
    assert "never push" in world.shown[0]
    named = f"[summarized: r{folds[1].first}-r{folds[1].last}."
    assert sum(text.startswith(named) for text in world.shown) == 1


def test_a_batch_summarizes_nothing_that_the_user_restored():
    world, _ = outputs(12)
    world.now += 1_000
    assert any(isinstance(edit, Fold) for edit in world.compact().proposals[0].edits)
    world.undo()
    for at in range(12):
        world.call("bash", LINE * 100, command=f"make more{at}")
    world.now += 1_000
    batch = choose_batch(world.situation)
    assert batch is not None and batch.settled.runs == ()
