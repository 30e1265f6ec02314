"""The menu as pure data: what is drawn fits, and the marked row is always there."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wcwidth import wcswidth

from agent.menus import Menu, MenuRow, question
from agent.ui.labels import RenderContext
from agent.ui.picker_state import draw, moved, opened, searched
from agent.ui.theme import Theme

from .test_widths import SAMPLES, SGR, WIDTHS, too_wide

FACTS = ("yesterday 14:02", "12 prompts", "13.2 MB", "20261121-093012-4f2a")
SESSIONS = Menu(
    "Which?", tuple(MenuRow(f"id{at}", f"session {at}", FACTS, more=f"Über {at}") for at in range(40))
)


def bare(drawn):
    return [SGR.sub("", line) for line in drawn.lines]


def marked(drawn):
    return [line for line in bare(drawn) if line.startswith("❯ ")]


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize("filters", [True, False])
def test_nothing_is_wider_than_the_screen_and_nothing_steers_it(columns, filters):
    menu = Menu(SAMPLES[9], tuple(MenuRow("v", sample, (sample, sample)) for sample in SAMPLES), filters)
    for at in range(len(SAMPLES)):
        for words in ("", SAMPLES[at]):
            state = moved(searched(opened(menu), words), at)
            drawn = draw(state, RenderContext(columns, Theme()), 20)
            text = "\n".join(drawn.lines)
            assert too_wide(text, columns) == []
            assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\u200b]", SGR.sub("", text))


@settings(max_examples=80, deadline=None)
@given(st.lists(st.text(max_size=60), max_size=9), st.integers(-3, 9), st.integers(2, 30), st.integers(4, 90))
def test_the_marked_row_is_on_any_screen(titles, by, rows, columns):
    state = moved(opened(Menu("Which?", tuple(MenuRow(text, text, FACTS) for text in titles))), by)
    drawn = draw(state, RenderContext(columns, Theme(False)), rows)
    assert len(drawn.lines) <= rows
    line, at = drawn.cursor
    assert line < len(drawn.lines) and at <= len(bare(drawn)[line])
    assert len([text for text in drawn.lines if text.startswith("❯")]) == bool(titles)


@pytest.mark.parametrize("columns", [30, 40, 80, 120])
def test_each_row_tells_when_and_the_marked_one_all_of_its_facts(columns):
    lines = bare(draw(opened(SESSIONS), RenderContext(columns, Theme()), 20))
    text = "\n".join(lines)
    assert all(fact in text for fact in FACTS)
    assert text.count("yesterday 14:02") == len([line for line in lines if "session " in line]) >= 4


def test_a_short_screen_shows_titles_alone_and_the_smallest_one_the_marked_row():
    state = moved(opened(SESSIONS), 7)
    assert "  session 6\n❯ session 7\n  session 8" in "\n".join(
        bare(draw(state, RenderContext(40, Theme()), 6))
    )
    assert bare(draw(state, RenderContext(40, Theme()), 1)) == ["❯ session 7"]


def test_moving_stops_at_the_ends():
    state = opened(SESSIONS)
    assert moved(state, -1).at == 0
    assert moved(state, 1 << 30).marked.value == "id39"
    assert moved(moved(state, 1 << 30), 1).at == 39
    assert moved(searched(state, "nowhere"), 5).marked is None


def test_the_search_takes_all_words_in_any_case_and_marks_the_first():
    state = searched(moved(opened(SESSIONS), 20), "SESSION über id3 ")
    assert state.marked.value == "id3" and len(state.places) == 11
    assert searched(state, "id17").marked.value == "id17"
    assert searched(state, "").places == opened(SESSIONS).places


def test_a_page_is_what_was_shown():
    drawn = draw(opened(SESSIONS), RenderContext(80, Theme()), 23)
    assert drawn.page == len([line for line in bare(drawn) if "session" in line]) == 10


def test_a_question_shows_its_keys_and_all_of_its_words():
    menu = question("Are you quite sure about it?", yes="Yes, with some more words than fit", no="No")
    lines = bare(draw(opened(menu), RenderContext(20, Theme()), 20))
    assert lines[:5] == [
        "Are you quite sure",
        "about it?",
        "❯ 1 Yes, with some",
        "  more words than",
        "  fit",
    ]
    assert bare(draw(opened(menu), RenderContext(20, Theme()), 2))[1].startswith("❯ 1 Yes")
    assert menu.keyed("2").value == "no" and menu.keyed("3") is None


def test_a_menu_line_by_line_has_keys_that_are_understood():
    menu = Menu("Which?", (MenuRow("b", "second", ("now",), key="7"), MenuRow("a", "first")))
    assert menu.lines() == ["  7  now  second", "  2  first"]
    assert menu.keyed("7").value == "b" and menu.keyed("1") is None


def test_a_row_that_is_known_by_a_number_shows_it_and_is_found_by_it():
    menu = Menu("Which?", (MenuRow("b", "second", key="12"), MenuRow("a", "first", key="3")))
    assert bare(draw(opened(menu), RenderContext(40, Theme()), 9))[2:4] == ["❯ #12  second", "  #3  first"]
    assert searched(opened(menu), "#3").marked.value == "a"


def test_the_cursor_stands_behind_the_words():
    drawn = draw(searched(opened(SESSIONS), "sess "), RenderContext(40, Theme()), 20)
    line, at = drawn.cursor
    assert bare(drawn)[line][:at] == "search: sess "
    wide = draw(searched(opened(SESSIONS), "日本語" * 30), RenderContext(30, Theme()), 20)
    line, at = wide.cursor
    assert wcswidth(bare(wide)[line]) <= 30 and bare(wide)[line][:at].endswith("日本語")
