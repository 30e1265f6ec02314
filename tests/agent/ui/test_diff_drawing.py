"""Diffs on the screen: numbers, words that changed, backgrounds, colours of the language."""

import re

import pyte
from wcwidth import strip_sequences

from agent.ui.palettes import ANSI, ROLES, choose_palette
from agent.ui.render import render_diff, render_markdown
from agent.ui.terminal_text import RenderContext, Theme, painted_width
from tests.narrowing import present
from transcripts.export.unified_diff import changed_words, read_diff

DIFF = """--- a/src/calc.py
+++ b/src/calc.py
@@ -8,4 +8,4 @@
 def total(items):
-    return sum(item.price for item in items)  # net
+    return sum(item.gross for item in items)  # net
 # 合計
@@ -40 +40,2 @@
+TAX = 19
"""
DARK = Theme(palette=choose_palette("dark", {"COLORTERM": "truecolor"}))


def cells_of(lines, columns):
    screen = pyte.Screen(columns, len(lines))
    pyte.Stream(screen).feed("\r\n".join(lines))
    return screen


def test_rows_have_the_numbers_of_their_file_and_signs() -> None:
    assert [
        strip_sequences(line).rstrip() for line in render_diff(DIFF, RenderContext(80, Theme(False)))
    ] == [
        " 8   def total(items):",
        " 9 -     return sum(item.price for item in items)  # net",
        " 9 +     return sum(item.gross for item in items)  # net",
        "10   # 合計",
        " ⋯",
        "40 + TAX = 19",
    ]


def test_a_changed_line_has_a_background_to_its_end_and_a_stronger_one_behind_words_that_changed() -> None:
    screen = cells_of(render_diff(DIFF, RenderContext(80, DARK)), 80)
    removed, word = [screen.buffer[1][screen.display[1].index(text)] for text in ("return", "price")]
    assert removed.bg == screen.buffer[1][79].bg == "3c161c"
    assert word.bg == "7a2533"
    assert screen.buffer[2][screen.display[2].index("gross")].bg == "1f6135"
    assert screen.buffer[0][10].bg == "default"


def test_the_mark_of_the_last_word_ends_with_it() -> None:
    screen = cells_of(render_diff("@@ -1 +1 @@\n-a = one\n+a = two\n", RenderContext(40, DARK)), 40)
    assert screen.buffer[0][screen.display[0].index("one")].bg == "7a2533"
    assert screen.buffer[0][20].bg == screen.buffer[0][39].bg == "3c161c"


def test_code_has_the_colours_of_its_language_on_both_sides() -> None:
    screen = cells_of(render_diff(DIFF, RenderContext(80, DARK)), 80)
    keyword, plain = [screen.buffer[1][screen.display[1].index(text)].fg for text in ("return", "price")]
    assert keyword != plain == "dcdcdc"
    assert screen.buffer[2][screen.display[2].index("return")].fg == keyword


def test_the_words_that_changed_are_in_the_colour_of_text() -> None:
    lines = render_diff(
        "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a = 10 + 3\n+a = 20 + 3\n", RenderContext(40, DARK)
    )
    screen = cells_of(lines, 40)
    changed, same = [screen.buffer[1][screen.display[1].index(text)].fg for text in ("20", "3")]
    assert changed == "dcdcdc" != same


def test_on_a_light_background_nothing_is_yellow() -> None:
    colours = {"TERM": "xterm-256color"}
    for name in ("light", "colour-blind-light"):
        theme = Theme(palette=choose_palette(name, colours))
        assert not any(re.search(r"\x1b\[(?:\d+;)*(?:33|93)m", theme.paint(role, "x")) for role in ROLES)
        code = render_markdown("```python\nname = 'text'  # why\n```", RenderContext(40, theme))
        assert not re.search(r"\x1b\[(?:\d+;)*(?:33|93)m", code)
    assert "33m" in Theme(palette=choose_palette("dark", colours)).paint("warning", "x")


def test_without_backgrounds_the_text_shows_changes_and_without_colours_the_sign_and_an_underline() -> None:
    screen = cells_of(render_diff(DIFF, RenderContext(80, Theme(palette=ANSI))), 80)
    assert screen.buffer[1][5].fg == "red"
    assert screen.buffer[1][screen.display[1].index("price")].reverse
    bare = cells_of(render_diff(DIFF, RenderContext(80, Theme(False))), 80)
    assert bare.buffer[1][bare.display[1].index("price")].underscore
    assert "\x1b" not in "".join(render_diff(DIFF, RenderContext(80, Theme(False, False))))


def test_no_row_is_wider_than_the_screen_and_no_character_is_lost() -> None:
    for columns in (2, 7, 12, 30):
        lines = render_diff(DIFF, RenderContext(columns, DARK))
        assert max(map(painted_width, lines)) <= max(columns, 2)
        shown = "".join(strip_sequences(line) for line in lines).replace(" ", "")
        assert "sum(item.gross" in shown or columns < 30


def test_lines_that_have_little_in_common_are_not_marked() -> None:
    assert changed_words("return a + b", "raise ValueError(x)") == ((), ())
    rows = read_diff(["@@ -1,2 +1,2 @@", "-a = 1", "-b = 2", "+a = 3", "+b = 2 + c"]).marked().rows
    assert [row.marks for row in rows] == [((4, 5),), (), ((4, 5),), ((5, 9),)]


def test_a_line_is_compared_with_the_one_that_it_became() -> None:
    lines = [
        "@@ -1,2 +1,3 @@",
        "-def f(x):",
        "-    return x + 2",
        "+def f(x, y):",
        "+    # why",
        "+    return x * y + 2",
    ]
    marked = {
        row.text: [row.text[low:high] for low, high in row.marks] for row in read_diff(lines).marked().rows
    }
    assert marked["def f(x, y):"] == [", y"]
    assert marked["    # why"] == [] and marked["    return x * y + 2"] == ["* y "]


def test_a_theme_is_as_rich_as_the_terminal() -> None:
    assert choose_palette("auto", {"TERM": "vt100"}) is ANSI
    assert choose_palette("ansi", {"COLORTERM": "truecolor"}) is ANSI
    assert choose_palette("auto", {"TERM": "xterm-256color", "COLORFGBG": "0;15"}).name == "light"
    assert choose_palette("auto", {"TERM": "xterm-256color"}, is_light=True).name == "light"
    assert present(choose_palette("dark", {"TERM": "xterm-256color"}).added).line == "color(22)"
