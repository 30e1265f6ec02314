"""Output to a terminal: in the charset of its locale, with links only where they are known to work."""

import re
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import Any

import pytest
from wcwidth import strip_sequences

from agent.ui.file_links import shows_links
from agent.ui.markdown import draw_markdown
from agent.ui.render import call_title, render_plainly
from agent.ui.standard_streams import encode_for_terminal, locale_charset, stdin_lines
from agent.ui.terminal_text import RenderContext, Theme, cell_width, wrap_painted
from tests.agent.ui.pty_terminal import PtyTerminal
from tests.tables import each_row


@each_row(
    ("environ", "charset"),
    [
        ({}, "utf-8"),
        ({"LANG": "de_DE.UTF-8"}, "utf-8"),
        ({"LC_ALL": "C", "LANG": "de_DE.UTF-8"}, "ascii"),
        ({"LANG": "de_DE.ISO-8859-1@euro"}, "iso8859-1"),
        ({"LC_CTYPE": "POSIX"}, "ascii"),
        ({"LANG": "xx_XX.nothing"}, "ascii"),
    ],
)
def test_the_charset_is_that_of_the_locale(environ, charset) -> None:
    assert locale_charset(environ) == charset


def test_symbols_have_a_sign_of_one_cell_in_other_charsets_and_letters_stay() -> None:
    assert (
        encode_for_terminal("❯ ● ⎿ … ─ ⠙ Größe 日", {"LANG": "de_DE.ISO-8859-1"})
        == b"> * | ~ - / Gr\xf6\xdfe ??"
    )
    told = "“so” – it’s naïve cafe\u0301, 日本 👩\u200d👧 ﬁn"
    shown = encode_for_terminal(told, {"LC_ALL": "C"})
    assert shown == b'"so" - it\'s naive cafe, ???? ???? ?n' and len(shown) == cell_width(told)
    assert encode_for_terminal("❯ Größe", {}) == "❯ Größe".encode()


def test_the_whole_screen_is_drawn_in_ascii_where_the_locale_is_c(tmp_path: Path) -> None:
    with PtyTerminal(tmp_path, LC_ALL="C") as terminal:
        terminal.sees("\n>", "claude-sonnet").type("bash make\r").sees("* bash  make", "12 passed")
        assert bytes(terminal.raw).isascii()


def test_links_are_shown_as_links_where_the_terminal_is_known_to_open_them() -> None:
    assert shows_links({"TERM_PROGRAM": "iTerm.app"}) and shows_links({"VTE_VERSION": "7006"})
    assert not shows_links({"TERM": "xterm-256color"}) and not shows_links({"VTE_VERSION": "4205"})
    assert not shows_links({"TERM_PROGRAM": "iTerm.app", "TMUX": "/tmp/x"})
    assert shows_links({"FORCE_HYPERLINK": "1"}) and not shows_links(
        {"FORCE_HYPERLINK": "0", "WT_SESSION": "x"}
    )
    text = (
        "see [the docs](https://example.org/a b) and [here](https://example.org/x) [bad](javascript:alert(1))"
    )
    drawn = draw_markdown(text, 60, Theme(links=True))
    assert "\x1b]8;;https://example.org/x\x1b\\here\x1b]8;;\x1b\\" in drawn
    assert "]8;;javascript" not in drawn
    bare = draw_markdown(
        "(see https://example.org/a_(b), https://example.org/c). Not http://.", 80, Theme(links=True)
    )
    assert re.findall(r"\x1b\]8;;([^\x1b]+)", bare) == ["https://example.org/a_(b)", "https://example.org/c"]
    assert strip_sequences(bare) == "(see https://example.org/a_(b), https://example.org/c). Not http://."
    ctx = RenderContext(80, Theme(links=True), folder="/w")
    assert strip_sequences(call_title("read", "a.py  3 lines", ctx, role="good")) == "● read  a.py  3 lines"
    assert "\x1b\\a.py\x1b]8;;\x1b\\  3 lines" in call_title("read", "a.py  3 lines", ctx, role="good")
    assert "https://example.org/x" in strip_sequences(draw_markdown(text, 200, Theme()))


def test_a_link_that_is_wrapped_is_one_on_each_row() -> None:
    rows = wrap_painted("\x1b]8;;https://a.b/\x1b\\one two\x1b]8;;\x1b\\ three", 5)
    assert [strip_sequences(row) for row in rows] == ["one", "two", "three"]
    assert [row.count("\x1b]8;;") for row in rows] == [2, 2, 0]


def test_the_file_of_a_call_is_a_link_below_the_directory_of_the_session() -> None:
    ctx = RenderContext(80, Theme(links=True), folder="/home/me/shop")
    assert "/home/me/shop/src/a%20b.py\x1b\\src/a b.py\x1b]8;;\x1b\\  3 lines" in call_title(
        "read", "src/a b.py  3 lines", ctx, role="good"
    )
    assert "]8;" not in call_title("bash", "make", ctx, role="good")


def test_a_line_of_a_list_continues_below_its_second_column_or_its_start() -> None:
    text = "  /help   Show the commands and keys of this\n  Esc Esc on an empty line goes back"
    rows = render_plainly(text, RenderContext(24, Theme())).split("\n")
    assert rows[:3] == ["  /help   Show the", "          commands and", "          keys of this"]
    assert rows[3:] == ["  Esc Esc on an empty", "  line goes back"]
    assert all(cell_width(row) <= 24 for row in rows)


@each_row(
    ("codec", "told"),
    [
        ("cp1252", "warning: reading standard input as cp1252, a guess\n"),
        ("utf-16", ""),
        ("utf-8-sig", ""),
    ],
)
def test_the_lines_of_a_pipe_are_read_in_its_encoding_which_is_reported_once(
    codec: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "say na\u00efve caf\u00e9\nplain\nsay d\u00e9j\u00e0 vu\n"
    pipe: BufferedReader[Any] = BufferedReader(BytesIO(text.encode(codec)))
    assert "".join(stdin_lines(pipe)) == text
    assert capsys.readouterr().err == told
