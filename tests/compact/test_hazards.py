"""The tracker knows of each block its kind and its age, and how often the session refers back."""

import pytest

from agent.replay.policies import PRICE_TIERS
from compact.block_tracker import tracker_of
from compact.hazards import (
    EDIT_RATES,
    EDIT_WEIGHT,
    MAX_SCALE,
    MIN_SCALE,
    OLDEST_AGE,
    REFERENCE_RATES,
    Cell,
    Evidence,
    Group,
    hazard_curves,
)
from tests.tables import each_row
from transcripts.facts import Clear, Compacted, Fold, Rewound, Undone
from transcripts.folding import fold
from transcripts.messages import TextBlock, ToolUseBlock

from .worlds import World

LINE = "a plain line of output with nothing to look up "
CURVES = hazard_curves(0.1, 36)


def session(*calls):
    """A session of calls: (tool, text of the result, arguments)."""
    world = World(judged=False)
    world.user("begin")
    for name, text, arguments in calls:
        world.call(name, text, **arguments)
    return world


def read(path, text=LINE * 40):
    return ("read", text, {"file_path": path})


def edit(path, error=False):
    return ("edit", "ok", {"file_path": path, "old_string": "a", "new_string": "b", "error": error})


def bash(text=LINE * 40, command="make"):
    return ("bash", text, {"command": command})


def cells(world):
    return [block.cell for block in tracker_of(world.folded).blocks]


def ages(world):
    tracker = tracker_of(world.folded)
    return [tracker.calls - block.touched for block in tracker.blocks]


def expecting(world):
    tracker = tracker_of(world.folded)
    tracker.expect(world.folded, CURVES)
    return tracker


@each_row("cell", Cell)
def test_the_table_has_a_rate_for_every_cell_and_age(cell):
    assert len(REFERENCE_RATES[cell]) == len(EDIT_RATES[cell]) == 6
    for curves in (CURVES.following, CURVES.mean):
        assert len(curves.references[cell]) == len(curves.edits[cell]) == OLDEST_AGE + 1


@each_row("tier", PRICE_TIERS.values())
def test_the_mean_over_a_longer_interval_is_lower_as_hazards_fall_with_age(tier):
    short, long = hazard_curves(tier.read, 10), hazard_curves(tier.read, 60)
    for cell in (Cell.READ, Cell.OUTPUT, Cell.OWN):
        assert long.mean.edits[cell][0] < short.mean.edits[cell][0]


def test_reads_outputs_and_own_text_are_distinguished_and_small_results_left_out():
    text = LINE * 40
    world = session(
        read("a.py"),
        bash(),
        bash("ok"),
        ("write", "ok", {"file_path": "b.py", "content": text}),
        ("edit", "ok", {"file_path": "b.py", "old_string": text, "new_string": "b = 2"}),
        bash("ok", f"echo {text}"),
    )
    own = [Cell.OWN, Cell.ARGUMENT, Cell.OWN, Cell.ARGUMENT]
    assert cells(world) == [Cell.READ, Cell.OUTPUT, *own]
    blocks = tracker_of(world.folded).blocks
    assert [block.field for block in blocks if block.small] == ["new_string"]


@each_row(
    ("then", "cell"),
    [
        ([edit("src/a.py")], Cell.READ_EDITED),
        ([edit("src/a.py", error=True)], Cell.READ),
        ([read("src/a.py", "ok")], Cell.READ_AGAIN),
        ([bash("ok", "wc src/a.py"), bash("ok", "ls src/a.py")], Cell.READ),
        ([edit("src/b.py")], Cell.READ),
    ],
)
def test_a_read_changes_its_cell_with_what_is_done_to_its_file(then, cell):
    assert cells(session(read("src/a.py"), *then))[0] is cell


def page(first, last):
    rows = "\n".join(f"{number}\t{LINE}" for number in range(first, last + 1))
    return ("read", rows, {"file_path": "src/a.py", "offset": first, "limit": last + 1 - first})


@each_row(
    ("then", "cell"),
    [
        ([page(101, 200)], Cell.READ_PART),
        ([page(51, 150)], Cell.READ_AGAIN),
        ([page(60, 150)], Cell.READ_PART),
        ([page(101, 200), page(1, 100)], Cell.READ_AGAIN),
        ([page(101, 200), edit("src/a.py")], Cell.READ_EDITED),
        ([edit("src/a.py"), page(101, 200)], Cell.READ_AGAIN),
        ([("read", "no such line", {"file_path": "src/a.py", "error": True})], Cell.READ),
    ],
)
def test_a_page_is_read_again_only_where_most_of_its_lines_are_shown(then, cell):
    assert cells(session(page(1, 100), *then))[0] is cell


def refer(world, page):
    """A read whose result sends the model to an earlier one."""
    reply = world.reply(ToolUseBlock("again", "read", {"file_path": "src/a.py"}))
    return world.result(reply, 0, "as before", about={"unchanged": page, "first": 1, "last": 100})


def test_a_page_that_a_read_refers_to_is_as_good_as_read_again():
    world = session(page(1, 100))
    first = world.folded.facts[-1].seq
    world.call("edit", "ok", file_path="src/a.py", old_string="a", new_string="b")
    refer(world, first)
    block, _ = tracker_of(world.folded).blocks
    assert (block.seq, block.cell) == (first, Cell.READ)
    refer(world, True)  # as older records have it
    assert cells(world) == [Cell.READ_AGAIN, Cell.OWN]


def patch(path):
    rows = f"*** Begin Patch\n*** Update File: {path}\n@@\n-old\n+{LINE * 40}\n*** End Patch"
    return ("apply_patch", "ok", {"input": rows})


@each_row(
    ("command", "cell"),
    [
        ("sed -n '1,80p' src/a.py", Cell.READ_EDITED),
        ("cd /p && cat src/a.py", Cell.READ_EDITED),
        ("nl -ba src/a.py | head -50", Cell.READ_EDITED),
        ("cat src/a.py src/b.py", Cell.OUTPUT),
        ("pytest src/a.py", Cell.OUTPUT),
    ],
)
def test_a_command_that_prints_one_file_reads_it_and_a_patch_edits_it(command, cell):
    world = session(bash(command=command), patch("src/a.py"))
    assert cells(world) == [cell, Cell.OWN]
    newest = tracker_of(world.folded).of_file("a.py")[-1]
    assert newest.cell is Cell.OWN


def test_a_command_that_prints_a_whole_file_again_shows_each_page_of_it():
    world = session(page(1, 100), bash(LINE + "\n" + f"{LINE}\n" * 199, "cat src/a.py"))
    assert cells(world) == [Cell.READ_AGAIN, Cell.READ]
    world = session(page(1, 100), bash(command="sed -n '101,200p' src/a.py"))
    assert cells(world) == [Cell.READ_PART, Cell.READ]


def test_a_patch_in_a_command_edits_its_files():
    _, _, arguments = patch("src/a.py")
    world = session(read("src/a.py"), bash(command=f"apply_patch <<'EOF'\n{arguments['input']}\nEOF"))
    assert cells(world)[0] is Cell.READ_EDITED


def test_age_counts_calls_since_a_block_was_touched():
    assert ages(session(read("src/a.py"), bash("ok"), bash("ok"))) == [2]
    assert ages(session(read("src/a.py"), bash("ok"), bash("ok", "ls src/a.py"))) == [0]
    assert ages(session(bash("def some_name(): " + LINE * 40), bash("ok"), bash("ok", "grep some_name"))) == [
        0
    ]


def test_a_name_touches_only_the_newest_result_that_mentioned_it_and_only_once():
    told = "some_name " + LINE * 40
    world = session(bash(told), bash(told), bash("ok"), bash("ok", "grep some_name"), bash("ok", "some_name"))
    assert ages(world) == [4, 1]
    assert tracker_of(world.folded).references[Group.OUTPUTS].seen == 1


def test_references_are_expected_once_for_each_call():
    world = session(edit("x.py"), bash(), *[bash("ok")] * 30)
    first = expecting(world).references[Group.OUTPUTS].expected
    assert first > 0
    assert expecting(world).references[Group.OUTPUTS].expected == first
    world.call("bash", "ok", command="make")
    assert expecting(world).references[Group.OUTPUTS].expected > first


def test_rates_go_down_in_a_session_that_refers_back_less_than_the_table_expects():
    world = session(edit("x.py"), *[read(f"src/f{at}.py", LINE * 400) for at in range(3)])
    assert expecting(world).references[Group.READS].scale < 1.0
    for at in range(30):
        world.call("read", LINE * 400, file_path=f"src/g{at}.py")
        tracker = expecting(world)
    assert tracker.references[Group.READS].scale == MIN_SCALE
    assert tracker.references[Group.OUTPUTS].scale == 1.0, "each group has its own scale"
    table = (
        CURVES.mean.references[Cell.READ][OLDEST_AGE] + EDIT_WEIGHT * CURVES.mean.edits[Cell.READ][OLDEST_AGE]
    )
    assert tracker.rates(CURVES.mean, Cell.READ)[OLDEST_AGE] < table


def test_edits_that_are_not_made_count_less_before_the_first_one():
    reads = [read(f"src/f{at}.py", LINE * 400) for at in range(30)]
    exploring = expecting(session(*reads)).edits[Group.READS]
    working = expecting(session(edit("x.py"), *reads)).edits[Group.READS]
    assert 0 < exploring.expected < working.expected / 2
    assert exploring.scale > 2 * working.scale


def test_rates_go_up_in_a_session_that_edits_its_own_text_more_than_the_table_expects():
    old, text = "", "\n".join(f"line_{number} = {number}" for number in range(100))
    calls = []
    for at in range(20):
        calls.append(
            ("edit", "ok", {"file_path": "src/a.py", "old_string": old, "new_string": f"at = {at}\n{text}"})
        )
        old = f"at = {at}\nline_0 = 0"
    own = expecting(session(*calls)).edits[Group.OWN]
    assert own.seen == 19
    assert own.scale > 1.5
    assert expecting(session(*calls)).edits[Group.READS].seen == 0


@each_row(
    ("seen", "expected", "scale"),
    [(0, 0, 1.0), (3, 0, 2.0), (0, 3, 0.5), (100, 0, MAX_SCALE), (0, 100, MIN_SCALE)],
)
def test_a_scale_is_held_near_the_table_while_little_was_seen_and_within_its_bounds(seen, expected, scale):
    assert Evidence(seen, expected).scale == scale


@pytest.mark.parametrize("tool", ["edit", "apply_patch"])
def test_an_edit_counts_for_the_newest_block_that_shows_its_text(tool):
    text = "\n".join(f"line_{number} = {number}" for number in range(100))
    patch = "*** Begin Patch\n*** Update File: src/a.py\n@@\n-line_7 = 7\n+line_7 = 8\n*** End Patch"
    change = {"edit": {"file_path": "src/a.py", "old_string": "line_7 = 7"}, "apply_patch": {"input": patch}}
    world = session(("write", "ok", {"file_path": "src/a.py", "content": text}), read("src/a.py", text))
    world.call(tool, "ok", **change[tool])
    counted = tracker_of(world.folded).edits
    assert {group: evidence.seen for group, evidence in counted.items() if evidence.seen} == {Group.READS: 1}


def test_what_an_edit_shows_otherwise_is_not_shown_and_comes_back_with_the_undoing():
    world = session(bash(), bash(), bash("ok"))
    first, second = tracker_of(world.folded).blocks
    made = world.add(Compacted, "micro", "auto", (Clear(first.seq, 0, "content", "[cleared]", 9),))
    assert list(tracker_of(world.folded).shown(world.folded)) == [second]
    world.add(Undone, made.id)
    assert list(tracker_of(world.folded).shown(world.folded)) == [first, second]
    fold = Fold(1, second.seq, (TextBlock("folded"),), 3)
    world.add(Compacted, "ledger", "auto", (fold,))
    assert list(tracker_of(world.folded).shown(world.folded)) == []


def test_going_back_forgets_what_came_later():
    world = session(bash(), bash())
    assert len(tracker_of(world.folded).blocks) == 2
    world.add(Rewound, tracker_of(world.folded).blocks[1].seq - 1)
    assert len(tracker_of(world.folded).blocks) == 1


def test_a_call_that_still_runs_is_taken_in_when_its_result_is_there():
    world = session(bash())
    reply = world.reply(ToolUseBlock("t9", "bash", {"command": "make"}))
    assert len(tracker_of(world.folded).blocks) == 1
    world.result(reply, 0, LINE * 40)
    assert len(tracker_of(world.folded).blocks) == 2


def summarize(world):
    """Replace everything so far by a summary, and return the session as it is resumed."""
    world.add(Compacted, "summary", "auto", (Fold(1, world.folded.last_seq, (TextBlock("so far"),), 9),))
    return fold(world.folded.facts)


def test_in_a_resumed_session_what_a_summary_covers_is_known_by_its_files_alone():
    world = session(page(1, 100), read("src/b.py"), bash(), edit("src/b.py"), page(60, 150))
    folded = summarize(world)
    tracker = tracker_of(folded)
    assert (tracker.calls, tracker.edited, tracker.blocks) == (5, True, [])
    known = {name: [each.cell for each in tracker.of_file(name)] for name in ("a.py", "b.py")}
    assert known == {"a.py": [Cell.READ_AGAIN, Cell.READ], "b.py": [Cell.READ_EDITED, Cell.OWN]}


def test_each_call_of_a_resumed_session_takes_the_same_time_however_many_there_were():
    """Of the earlier reads of a file, only those that a later one may supersede are looked at."""
    world = session(*[page(1 + number, 60 + number) for number in range(50)])
    folded = summarize(world)
    tracker = tracker_of(folded)
    assert len(tracker.of_file("a.py")) == 50
    assert sum(map(len, tracker._current.values())) == 1


def test_calls_that_summaries_left_out_count_in_a_resumed_session_as_all_others():
    """And covered calls behind them are known by their files, and supersede what these show."""
    world = session(page(1, 100), bash(), read("src/b.py"), page(60, 150), edit("src/b.py"), bash())
    entries = world.folded.entries
    before = len(cells(world))
    folds = [
        Fold(entries[first].seq, entries[last].last, (TextBlock("so far"),), 9)
        for first, last in ((0, 2), (4, 5))
    ]
    world.add(Compacted, "micro", "auto", tuple(folds))
    tracker = tracker_of(fold(world.folded.facts))
    kept = entries[3].results[0].seq  # of src/b.py
    assert [(each.seq, each.cell) for each in tracker.blocks if each.field == "content"][:1] == [
        (kept, Cell.READ_EDITED)
    ]
    assert len(tracker.blocks) == 2 and tracker.calls == 6
    assert [each.cell for each in tracker.of_file("a.py")] == [Cell.READ_AGAIN, Cell.READ]
    folded = fold(world.folded.facts)
    tracker_of(folded)
    folded.apply(Undone(folded.last_seq + 1, 0.0, folded.compactions[-1].id))
    assert len(tracker_of(folded).blocks) == before


def test_after_a_summary_was_undone_all_blocks_of_a_resumed_session_count():
    world = session(page(1, 100), bash(), read("src/b.py"))
    before = cells(world)
    folded = summarize(world)
    assert tracker_of(folded).blocks == []
    folded.apply(Undone(folded.last_seq + 1, 0.0, folded.compactions[-1].id))
    assert [each.cell for each in tracker_of(folded).blocks] == before
