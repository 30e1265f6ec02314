"""A diff says exactly what changed; a snippet shows the place and no more."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tables import each_row
from tools.patch import NotRepresentable, any_overlap, find_all, snippet, source_text, splice
from tools.text.encoding import TextForm, decode_text
from tools.unified_diff import unified_diff

TEXTS = st.lists(st.sampled_from("abcde"), max_size=30).map(
    lambda lines: "".join(f"{line}\n" for line in lines)
)


def applied(old: str, diff: str) -> str:
    """The text that the diff makes of `old`, after a check of its ranges and its context. Lines have ends."""
    before, after, at = old.splitlines(), [], 0
    for line in diff.splitlines()[2:]:
        if found := re.fullmatch(r"@@ -(\d+)(,0|,\d+)? \+(\d+)(,0|,\d+)? @@", line):
            start = int(found[1]) - (found[2] != ",0")
            after += before[at:start]
            at = start
            assert int(found[3]) == len(after) + (found[4] != ",0")
            continue
        if line[0] in " -":
            assert before[at] == line[1:]
            at += 1
        if line[0] in " +":
            after.append(line[1:])
    return "".join(f"{line}\n" for line in [*after, *before[at:]])


@given(TEXTS, TEXTS)
def test_a_diff_makes_the_new_text_of_the_old_one(old: str, new: str):
    made = unified_diff(old, new, "f")
    if old == new:
        assert (made.text, made.note) == ("", "+0 -0")
        return
    assert applied(old, made.text) == new
    assert made.text.startswith("--- a/f\n+++ b/f\n@@ -")
    body = made.text.split("\n")[2:-1]
    assert made.added == sum(line.startswith("+") for line in body)
    assert made.removed == sum(line.startswith("-") for line in body)
    runs = re.findall(r"(?:^ .*\n)+", made.text, re.MULTILINE)
    assert all(run.count("\n") <= 6 for run in runs)


def test_at_most_three_lines_stand_around_a_change():
    lines = [f"line {n}\n" for n in range(20)]
    made = unified_diff("".join(lines), "".join(lines).replace("line 9\n", "nine\n"), "f")
    assert made.text.split("\n")[2] == "@@ -7,7 +7,7 @@"
    assert made.text.count("\n ") == 6
    made = unified_diff("a\n", "b\n", "f")
    assert made.text.split("\n")[2] == "@@ -1 +1 @@"
    assert unified_diff("", "a\n", "f").text.split("\n")[2] == "@@ -0,0 +1 @@"


def test_each_hunk_says_where_it_is_and_how_long():
    lines = [f"line {n}\n" for n in range(1, 61)]
    new = [line for line in lines if line != "line 10\n"]
    new[new.index("line 40\n")] = "forty\nand more\n"
    made = unified_diff("".join(lines), "".join(new), "f")
    heads = [line for line in made.text.split("\n") if line.startswith("@@")]
    assert heads == ["@@ -7,7 +7,6 @@", "@@ -37,7 +36,8 @@"]


@pytest.mark.parametrize("at", [10, 4_990])
def test_a_small_change_of_a_long_file_is_shown_as_small(at: int):
    lines = [f"line {n}\n" for n in range(5_000)]
    made = unified_diff("".join(lines), "".join(lines).replace(f"line {at}\n", "changed\n"), "f")
    assert made.note == "+1 -1"
    assert made.text.count("\n") == 2 + 1 + 3 + 2 + 3


def test_a_last_line_without_an_end_is_marked():
    made = unified_diff("a\nb", "a\nb\n", "f")
    assert made.text == "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n"


def test_very_long_changes_are_shown_as_one():
    old = "".join(f"{n}\n" for n in range(1_000))
    new = "".join(f"{n if n % 2 else -n}\n" for n in range(1_000))
    made = unified_diff(old, new, "f")
    assert made.text.count("@@ -") == 1
    assert made.added == made.removed == 997  # from line 2 to line 998, those between that stay too
    assert applied(old, made.text) == new


def test_a_snippet_has_a_line_before_and_after_and_leaves_out_the_middle_of_many():
    flat = "".join(f"line {n}\n" for n in range(1, 101))
    at = flat.index("line 50\n")
    assert snippet(flat, at, at + 8).split("\n") == [f"{n}\tline {n}" for n in (49, 50, 51)] + ["52\tline 52"]
    shown = snippet(flat, 0, len(flat)).split("\n")
    assert len(shown) == 25 and shown[12] == "…"
    assert (shown[0], shown[11], shown[13], shown[-1]) == (
        "1\tline 1",
        "12\tline 12",
        "89\tline 89",
        "100\tline 100",
    )


def test_a_snippet_of_a_very_long_line_shows_the_change():
    assert snippet("x" * 3_000, 0, 1) == f"1\t{'x' * 2_000}…"
    begin = "short\n" + "x" * 9_000
    middle = snippet(f"{begin}HERE{'y' * 9_000}\n", len(begin), len(begin) + 4)
    assert middle == f"1\tshort\n2\t…{'x' * 1_000}HERE{'y' * 996}…"
    assert snippet(f"{begin}HERE", len(begin), len(begin) + 4) == f"1\tshort\n2\t…{'x' * 1_996}HERE"


def test_a_snippet_of_as_many_lines_as_are_shown_is_whole_and_ends_behind_its_last_line():
    flat = "\n" + "".join(f"line {n}\n" for n in range(2, 101))
    at = flat.index("line 50\n")
    assert snippet(flat, at, at + 4 * 8 + 1).split("\n") == [f"{n}\tline {n}" for n in range(49, 56)]
    whole = snippet(flat, flat.index("line 10\n"), flat.index("line 32\n")).split("\n")
    assert whole == [f"{n}\tline {n}" for n in range(9, 33)]


def test_many_equal_lines_between_two_changes_stay_unchanged():
    made = unified_diff("a\n" + "x\n" * 300 + "b\n", "c\n" + "x\n" * 300 + "d\n", "f")
    assert made.note == "+2 -2"


def test_a_very_long_change_far_below_the_beginning_is_placed_where_it_is():
    begin = "".join(f"begin {n}\n" for n in range(50))
    old = begin + "".join(f"{n}\n" for n in range(1_000))
    new = begin + "".join(f"{-n}\n" for n in range(1_000))
    made = unified_diff(old, new, "f")
    assert made.text.split("\n")[2].startswith("@@ -49,")
    assert applied(old, made.text) == new


def spliced(data: bytes, old: str, new: str) -> bytes:
    text, form = decode_text(data) or pytest.fail("binary")
    source = source_text(data, text, form)
    return splice(source, find_all(source.flat, old), old, new)


def test_lines_that_stay_keep_their_ends_among_hundreds_alike():
    lines = b"same\r\n" * 150 + b"same\n" * 151
    old, new = ("".join((end, "same\n" * 301, end)) for end in ("a\n", "b\n"))
    assert spliced(b"a\n" + lines + b"a\n", old, new) == b"b\n" + lines + b"b\n"


def test_where_two_line_ends_would_become_one_all_of_the_new_lines_have_the_common_end():
    assert spliced(b"a\rx\n\nb\rc\r", "a\nx\n\n", "a\n\n") == b"a\r\rb\rc\r"


@pytest.mark.parametrize(
    ("data", "text", "form"),
    [
        (b"abc", "abd", TextForm(newline="")),
        ("あx".encode("cp932"), "dあ", TextForm("cp932", "strict")),
    ],
)
def test_bytes_that_do_not_have_the_text_are_left_alone(data: bytes, text: str, form: TextForm):
    with pytest.raises(NotRepresentable):
        splice(source_text(data, text, form), [text.index("d")], "d", "x")


@each_row(
    ("flat", "piece", "places", "overlapping"),
    [
        ("abab", "ab", [0, 2], False),
        ("aaa", "aa", [0, 1], True),
        ("ab", "x", [], False),
        ("aXa", "a", [0, 2], False),
    ],
)
def test_every_place_is_found_and_neighbours_do_not_overlap(
    flat: str, piece: str, places: list[int], overlapping: bool
):
    assert find_all(flat, piece) == places
    assert any_overlap(places, len(piece)) is overlapping


def test_new_lines_take_the_line_end_of_their_neighbours() -> None:
    """Runs of lines with each line end; edits within a run, whose neighbours agree."""
    rng = random.Random(5)
    checked = 0
    for _ in range(105):
        ends = [end for _ in range(6) for end in [rng.choice(("\n", "\r\n"))] * rng.randrange(3, 6)]
        names = [f"line {number}" for number in range(len(ends))]
        data = "".join(f"{name}{end}" for name, end in zip(names, ends, strict=True)).encode()
        decoded = decode_text(data)
        assert decoded is not None
        source = source_text(data, *decoded)
        at = next(
            at
            for at in rng.sample(range(1, len(ends) - 1), len(ends) - 2)
            if len({*ends[at - 1 : at + 2]}) == 1
        )
        one, two = names[at], names[at + 1]
        for old, new in (
            (f"{one}\n{two}", f"{one}\nnew 1\nnew 2\n{two}"),
            (one, "new 1\nnew 2"),
            (f"{one}\n", f"new 1\n{one}\n"),
        ):
            places = [source.flat.index(f"{old}\n" if old == one else old)]
            spliced = splice(source, places, old, new).decode()
            added = re.findall(r"new \d(\r\n|\n)", spliced)
            assert {*added} == {ends[at]} and len(added) == new.count("new"), (old, spliced)
            checked += 1
    assert checked == 315
