"""Rows of the input: where a line is broken, and that no row is wider than the screen."""

from hypothesis import given
from hypothesis import strategies as st

from agent.ui.input_drawing import row_spans
from agent.ui.terminal_text import cell_width
from tests.tables import each_row

ROWS = [
    ("", [""]),
    ("one two three", ["one two ", "three"]),
    ("one two  three", ["one two  ", "three"]),
    ("abcdefghijklmnop q", ["abcdefghij", "klmnop q"]),
    ("a bcdefghijklmnop", ["a ", "bcdefghijk", "lmnop"]),
    ("one 日本日本日本", ["one 日本日", "本日本"]),
    ("één twee drie", ["één twee ", "drie"]),
    ("日本 abcdefg", ["日本 ", "abcdefg"]),
]


@each_row("line, rows", ROWS)
def test_a_full_row_ends_after_its_last_space_or_wide_character(line, rows):
    assert [line[begin:end] for begin, end in row_spans(line, 10)] == rows


@given(st.lists(st.sampled_from(["a", " ", "é", "e\u0301", "日", "👍🏽"]), max_size=80), st.integers(4, 20))
def test_the_rows_hold_the_whole_line_and_fit(letters, room):
    line = "".join(letters)
    spans = row_spans(line, room)
    rows = [line[begin:end] for begin, end in spans]
    assert "".join(rows) == line
    assert all(cell_width(row) <= room for row in rows)
