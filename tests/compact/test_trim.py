"""A page of a file does not repeat what a page in view shows; what is gone from the view comes again."""

import sys
from contextlib import contextmanager

import pytest

from compact.block_tracker import tracker_of
from compact.hazards import Cell
from compact.page_references import pages_referred_to
from compact.trim import trim_page
from tests.narrowing import block_text
from tests.tables import each_row
from transcripts.facts import Clear, Compacted
from transcripts.messages import TextBlock, ToolUseBlock

from .worlds import World

LINES = [f"\tdef function_{number}(first, second): return {number} + first" for number in range(1, 201)]


def page(lines, first=1, note=""):
    return "\n".join(f"{number}\t{line}" for number, line in enumerate(lines, first)) + note


def session(*pages):
    """A session that read src/a.py; each page is (text, inputs)."""
    world = World(judged=False)
    world.user("begin")
    for text, arguments in pages:
        world.call("read", text, **{"file_path": "src/a.py", **arguments})
    return world


def trimmed(world, text, name="read", path="", **arguments):
    use = ToolUseBlock("t", name, {"file_path": "src/a.py", **arguments})
    (block,) = trim_page(world.folded, use, (TextBlock(text),), path)
    return block_text(block)


def test_lines_of_a_page_in_view_are_named_by_their_place_and_the_new_ones_shown():
    world = session((page(LINES[:150]), {}))
    note = "\n[lines 101-200 of 200]"
    text = page(LINES[120:], 121, note)
    assert trimmed(world, text) == text, "most of it is new"
    text = page(LINES[60:], 61, note)
    told = "[lines 61-150 are unchanged since r4 above]"
    assert trimmed(world, text) == f"{told}\n{page(LINES[150:], 151, note)}"


def test_around_an_edit_the_new_lines_are_shown_with_the_numbers_that_they_have_now():
    world = session((page(LINES), {}))
    changed = [*LINES[:100], "\tadded = 1", "\tadded = 2", *LINES[100:]]
    assert trimmed(world, page(changed)).split("\n") == [
        "[lines 1-100 are unchanged since r4 above]",
        "101\t\tadded = 1",
        "102\t\tadded = 2",
        "[lines 103-202 are unchanged since r4 above, where they are lines 101-200]",
    ]


def test_pages_of_one_reply_are_trimmed_by_those_above_them():
    world = World(judged=False)
    world.user("begin")
    uses = [ToolUseBlock(ident, "read", {"file_path": "src/a.py"}) for ident in ("one", "two", "three")]
    reply, shown = world.reply(*uses), []
    for index in (1, 0, 2):
        (block,) = trim_page(world.folded, uses[index], (TextBlock(page(LINES)),), "")
        text = block_text(block)
        world.result(reply, index, text)
        shown.append(text)
    told = "[lines 1-200 are unchanged since r4 above]"
    assert shown == [page(LINES), page(LINES), told], "the first one finished later than the second"
    assert not {block.cell for block in tracker_of(world.folded).blocks if block.seq == 4} - {Cell.READ}


def test_lines_that_differ_in_indentation_alone_are_new():
    world = session((page(LINES), {}))
    text = page([line.replace("\t", "\t\t") for line in LINES])
    assert trimmed(world, text) == text


def test_what_is_cleared_folded_or_of_another_file_is_shown_again():
    world, text = session((page(LINES), {})), page(LINES)
    assert trimmed(world, text, file_path="src/b/a.py") == text
    assert trimmed(world, text, path="/p/src/a.py") == text, "results that tell their path are compared by it"
    assert trimmed(world, text, name="grep") == text
    assert trimmed(world, text) != text
    world.add(Compacted, "micro", "auto", (Clear(world.folded.facts[-1].seq, 0, "content", "[cleared: it]"),))
    assert trimmed(world, text) == text


def test_little_that_repeats_stays():
    world = session((page(LINES), {}))
    assert trimmed(world, page(LINES[:7])) == page(LINES[:7])
    apart = [line for number, line in enumerate(LINES) if number % 8]
    assert trimmed(world, page(apart)) == page(apart), "runs of seven lines"


def test_pages_of_very_many_lines_stay():
    text = page([str(number) for number in range(5_000)])
    assert trimmed(session((text, {})), text) == text


def test_the_page_that_a_trimmed_one_refers_to_is_as_likely_to_be_needed_as_if_it_were_read_again():
    world = session((page(LINES), {}))
    world.call("edit", "done", file_path="src/a.py", old_string="x" * 400, new_string="y" * 400)
    text = trimmed(world, page(LINES))
    assert pages_referred_to((TextBlock(text),)) == {4}
    world.call("read", text, file_path="src/a.py")
    first = next(block for block in tracker_of(world.folded).blocks if block.seq == 4)
    assert (first.cell, first.touched) == (Cell.READ, 3)
    again = session((page(LINES), {}), (page(LINES), {}))
    assert tracker_of(again.folded).blocks[0].cell is Cell.READ_AGAIN


@contextmanager
def at_most(steps):
    """Fails as soon as more lines of Python than `steps` have been run within."""

    def counted(frame, event, argument):
        nonlocal steps
        steps -= event == "line"
        if steps < 0:
            sys.settrace(None)
            pytest.fail("it takes too many steps")
        return counted

    before = sys.gettrace()
    sys.settrace(counted)
    try:
        yield
    finally:
        sys.settrace(before)


@each_row(
    "record",
    [
        ["x = 1"],
        ["{", '"id": %d,', '"name": "user%d",', '"enabled": true,', '"role": "user"', "},"],
        ["a = 1", "b = 2"],
        [*["x = 1"] * 8, "y = 2"],
    ],
)
def test_pages_that_repeat_themselves_take_steps_by_the_line(record):
    lines = [line % at if "%d" in line else line for at in range(4_000) for line in record]
    text = page(lines[2_001:4_000], 2_002)
    world = session((page(lines[:2_001]), {}))
    with at_most(40 * 2_000):
        shown = trimmed(world, text)
    assert (shown == text) == ("{" in record), "four lines that repeat are too few"


def test_of_equal_runs_the_one_with_the_same_number_is_reported():
    head = [f"# line {number} of the licence, which this file carries twice" for number in range(30)]
    world = session((page([*head, *LINES[:50], *head]), {}))
    changed = [*head, *LINES[:50], "added = 1", *head]
    assert trimmed(world, page(changed)).split("\n") == [
        "[lines 1-80 are unchanged since r4 above]",
        "81\tadded = 1",
        "[lines 82-111 are unchanged since r4 above, where they are lines 81-110]",
    ]
