"""A menu takes the place of the input: keys move in it, search it, and never touch the draft."""

import asyncio
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wcwidth import wcswidth

from agent.menus import Menu, MenuRow, question_menu
from agent.ui.picker import Picker, draw_picker, move_mark, search_menu
from agent.ui.terminal_text import RenderContext, Theme
from tests.narrowing import present
from tests.sampling import sampled
from tests.tables import each_row

from .text_samples import CHARACTERS, SAMPLES, WIDTHS, too_wide, without_sgr

CHOICES = (
    ("\r", "apple"),
    ("\x1b[B\r", "banana"),
    ("\x1b[B\x1b[B\x1b[A\r", "banana"),
    ("\x0e\x10\x0e\r", "banana"),
    ("\x1b[F\x1b[A\r", "grape"),
    ("\x1b[F\x1b[H\r", "apple"),
    ("AN\r", "banana"),
    ("zzz\x15gr\r", "grape"),
    ("zzz\x7f\x7f\x7f\r", "apple"),
    ("👩‍👩‍👧\x7f\r", "apple"),
    ("no. 4\r", "elder"),
    ("\x1b[200~che\x1b[201~\r", "cherry"),
    ("日本\r", "日本の梨"),
    ("\x1b", "nothing"),
    ("\x03", "nothing"),
    ("\x04", "nothing"),
    ("zzz\r\x03", "nothing"),
)


def pick(terminal, what, title):
    return terminal.type(f"pick {what}\r").sees(title, "Esc to cancel")


def test_a_digit_that_is_pressed_again_and_again_answers_after_the_pause_and_is_no_text():
    async def answered() -> tuple[str, list[str]]:
        now = 1.0
        given: list[str] = []
        picker = Picker(lambda: None, lambda: now)
        picker.give_back = given.append
        asked = asyncio.ensure_future(picker.choose(question_menu("Sure?", yes="Yes", no="No")))
        await asyncio.sleep(0)
        while not asked.done():
            assert now < 2.0
            picker.type("2")
            now += 0.1
            await asyncio.sleep(0)
        return present(await asked).value, given

    assert asyncio.run(answered()) == ("no", [])


@each_row(
    ("keys", "value", "given"),
    [("2", "no", []), ("22", "no", []), ("2\r", "no", []), ("22 bugs", "no", ["22 bugs"])],
)
def test_before_a_session_a_digit_that_begins_a_text_is_not_an_answer(keys, value, given):
    async def answered() -> tuple[str, list[str]]:
        now = 1.0
        texts: list[str] = []
        picker = Picker(lambda: None, lambda: now)
        picker.digit_pause_s = 0.02
        picker.give_back = texts.append
        asked = asyncio.ensure_future(picker.choose(question_menu("Sure?", yes="Yes", no="No")))
        await asyncio.sleep(0)
        now += 1.0
        for key in keys:
            picker.enter() if key == "\r" else picker.type(key)
        if given:
            await asyncio.sleep(0)
            assert not asked.done()
            now += 1.0
            picker.type("2")
        return present(await asked).value, texts

    assert asyncio.run(answered()) == (value, given)


def test_the_keys_of_a_prompt_do_not_answer_a_question_that_appears_meanwhile():
    async def answered() -> str:
        now = 1.0
        picker = Picker(lambda: None, lambda: now)
        asked = asyncio.ensure_future(picker.choose(question_menu("Sure?", yes="Yes", no="No")))
        await asyncio.sleep(0)
        now += 1.0
        for key in "fix 2 bugs":
            picker.type(key)
        picker.enter()
        await asyncio.sleep(0)
        assert not asked.done()
        now += 1.0
        picker.type("2")
        return present(await asked).value

    assert asyncio.run(answered()) == "no"


SURE = question_menu("Sure?", yes="Yes", no="No")
ENABLE = Menu("Enable?", (MenuRow("a", "All"),), appears_unasked=True)
TYPED_AT_MENUS = (
    (SURE, "fix 2 bugs", "fix 2 bugs"),
    (SURE, "fix\n2 bugz\x7fs", "fix\n2 bugs"),
    (SURE, "fix\x15 ", ""),
    (ENABLE, "fix", "fix"),
    (ENABLE, "fix\x15it", "fixit"),
    (ENABLE, "fix\x7f\x7f\x7fal", ""),
    (Menu("Which model?", (MenuRow("a", "All"),)), "fix\x15it", ""),
)


@each_row(("menu", "typed", "given"), TYPED_AT_MENUS)
def test_text_that_was_typed_for_the_input_is_given_back_when_the_menu_closes(
    menu: Menu, typed: str, given: str
) -> None:
    async def given_back() -> str:
        texts = list[str]()
        picker = Picker(lambda: None)
        picker.give_back = texts.append
        asked = asyncio.ensure_future(picker.choose(menu))
        await asyncio.sleep(0)
        for key in typed:
            if key == "\x7f":
                picker.erase(lambda words: words[:-1])
            elif key == "\x15":
                picker.clear()
            else:
                picker.type(key)
        picker.end()
        await asked
        return "".join(texts)

    assert asyncio.run(given_back()) == given


def test_keys_choose_or_cancel_without_a_trace(terminal):
    for count, (keys, expected) in enumerate(CHOICES, 1):
        pick(terminal, "fruits", "Which fruit?").type(keys)
        terminal.until(lambda count=count: terminal.log.count("picked") == count, repr(keys))
        assert terminal.log.rstrip().rpartition("picked ")[2].startswith(f"'{expected}"), keys
        terminal.misses("Which fruit?")
    assert "interrupted" not in terminal.log and "Interrupted" not in terminal.everything
    assert b"\x1b[31m\r" not in terminal.raw and "␛[31m" in terminal.raw.decode()


def test_space_switches_in_a_list_to_switch_and_its_foot_says_so():
    async def switched(text):
        picker = Picker(lambda: None)
        menu = Menu("Which may act?", (MenuRow("1", "a hook"), MenuRow("0", "Done")), switches=True)
        choosing = asyncio.ensure_future(picker.choose(menu))
        await asyncio.sleep(0)
        picker.compose(RenderContext(80, Theme(False)), 20)
        foot = picker.drawn.lines[-1]
        picker.type(text)
        words = present(picker.state).words
        picker.enter()
        return foot, words, present(await choosing).value

    foot, words, value = asyncio.run(switched(" "))
    assert "Enter or Space to toggle · Esc to cancel" in foot and (words, value) == ("", "1")
    assert asyncio.run(switched("Do"))[1:] == ("Do", "0")


def test_pages_move_by_what_is_shown(terminal):
    pick(terminal, "many", "Which number?").type("\x1b[6~").misses("❯ number 0")
    shown = terminal.text
    terminal.type("\x1b[5~").sees("❯ number 0").type("\x1b[6~\r").logged("picked")
    assert f"❯ number {terminal.log.rpartition('picked ')[2].strip()[1:-1]}\n" in shown


def test_a_draft_stays_unchanged_and_words_go_into_the_search(terminal):
    terminal.type("wait gate;say ready\r").sees("Ctrl-C to interrupt").type("pick fruits\r").sees("1 queued")
    terminal.type("draft ").sees("❯ draft").open_gate().sees("Which fruit?")
    terminal.type("one fig\x17\x0b\x01 \x1b[200~a\nb\x1b[201~").sees("search: one a ⏎ b").type("\x1b")
    terminal.logged("picked 'nothing'").type("goes on").sees("❯ draft goes on")


def test_a_question_is_answered_by_its_digit_but_not_by_a_key_meant_for_something_else(terminal):
    pick(terminal, "question", "Sure?").again("2", lambda: "picked 'no'" in terminal.log).misses("Sure?")
    terminal.type("\x15pick question\r\r").sees("Sure?").again("\r", lambda: "picked 'yes'" in terminal.log)
    terminal.misses("Sure?")
    pick(terminal, "question", "Sure?").type("fix \x1b[200~a\nb\x1b[201~").sees("for the input: fix a ⏎ b")
    terminal.type("\x1b").sees("❯ fix a\n  b")


def test_any_screen_shows_the_marked_row_also_after_a_resize(terminal):
    pick(terminal, "fruits", "Which fruit?")
    for size in ((30, 12), (40, 24), (120, 30), (80, 5)):
        terminal.resize(*size).type("\x1b[B").sees("❯ banana").type("\x1b[A").sees("❯ apple")


def test_a_prompt_that_was_taken_back_is_in_the_input_before_the_draft(terminal):
    terminal.type("wait gate\r").sees("Ctrl-C to interrupt").type("back\r").sees("1 queued").type("draft")
    terminal.open_gate().sees("❯ taken back\n  draft")


FACTS = ("yesterday 14:02", "12 prompts", "13.2 MB", "20261121-093012-4f2a")
SESSIONS = Menu(
    "Which?", tuple(MenuRow(f"id{at}", f"session {at}", FACTS, more=f"Über {at}") for at in range(40))
)


def bare_lines(drawn):
    return [without_sgr(line) for line in drawn.lines]


@pytest.mark.parametrize("columns", sampled(WIDTHS, 4))
@pytest.mark.parametrize("filters", [True, False])
def test_nothing_is_wider_than_the_screen_and_nothing_steers_it(columns, filters):
    menu = Menu(SAMPLES[9], tuple(MenuRow("v", sample, (sample, sample)) for sample in SAMPLES), filters)
    for at in range(len(SAMPLES)):
        for words in ("", SAMPLES[at]):
            state = move_mark(search_menu(menu, words), at)
            drawn = draw_picker(state, RenderContext(columns, Theme()), 20)
            text = "\n".join(drawn.lines)
            assert too_wide(text, columns) == []
            assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\u200b]", without_sgr(text))


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.text(CHARACTERS, max_size=60), max_size=9),
    st.integers(-3, 9),
    st.integers(2, 30),
    st.integers(4, 90),
)
def test_the_marked_row_is_on_any_screen(titles, by, rows, columns):
    state = move_mark(search_menu(Menu("Which?", tuple(MenuRow(text, text, FACTS) for text in titles))), by)
    drawn = draw_picker(state, RenderContext(columns, Theme(False)), rows)
    assert len(drawn.lines) <= rows
    line, at = drawn.cursor
    assert line < len(drawn.lines) and at <= len(bare_lines(drawn)[line])
    assert len([text for text in drawn.lines if text.startswith("❯")]) == bool(titles)


@each_row("columns", [30, 40, 80, 120])
def test_each_row_reports_when_and_the_marked_one_all_of_its_facts(columns):
    lines = bare_lines(draw_picker(search_menu(SESSIONS), RenderContext(columns, Theme()), 20))
    text = "\n".join(lines)
    assert all(fact in text for fact in FACTS)
    assert text.count("yesterday 14:02") == len([line for line in lines if "session " in line]) >= 4


def test_of_the_marked_row_nothing_is_cut_and_there_is_air_where_there_is_room():
    fact = "a fact that is much longer than the screen is wide, as an explanation may be"
    menu = Menu("A title that is longer than the screen is", (MenuRow("a", "first", (fact,)),) * 2)
    lines = bare_lines(draw_picker(search_menu(menu), RenderContext(36, Theme()), 30))
    assert " ".join(" ".join(lines).split()).count(fact) == 1 and lines[0] == lines[-2] == ""
    assert lines[-3] == "    a fact that is much longer than…"
    assert lines[1:3] == ["A title that is longer than the", "screen is"]
    assert "" not in bare_lines(draw_picker(search_menu(menu), RenderContext(36, Theme()), 12))


def test_a_short_screen_shows_titles_alone_and_the_smallest_one_the_marked_row():
    state = move_mark(search_menu(SESSIONS), 7)
    assert "  session 6\n❯ session 7\n  session 8" in "\n".join(
        bare_lines(draw_picker(state, RenderContext(40, Theme()), 6))
    )
    assert bare_lines(draw_picker(state, RenderContext(40, Theme()), 1)) == ["❯ session 7"]


def test_moving_stops_at_the_ends():
    state = search_menu(SESSIONS)
    assert move_mark(state, -1).at == 0
    assert present(move_mark(state, 1 << 30).marked).value == "id39"
    assert move_mark(move_mark(state, 1 << 30), 1).at == 39
    assert move_mark(search_menu(SESSIONS, "nowhere"), 5).marked is None


def test_the_search_takes_all_words_in_any_case_and_marks_the_first():
    state = search_menu(SESSIONS, "SESSION über id3 ")
    assert present(state.marked).value == "id3" and len(state.found) == 11
    assert present(search_menu(SESSIONS, "id17").marked).value == "id17"
    assert search_menu(SESSIONS, "").found == search_menu(SESSIONS).found


def test_a_page_is_what_was_shown():
    drawn = draw_picker(search_menu(SESSIONS), RenderContext(80, Theme()), 23)
    assert drawn.page == len([line for line in bare_lines(drawn) if "session" in line]) == 10


def test_a_question_shows_its_keys_and_all_of_its_words():
    menu = question_menu("Are you quite sure about it?", yes="Yes, with some more words than fit", no="No")
    lines = bare_lines(draw_picker(search_menu(menu), RenderContext(20, Theme()), 20))
    assert lines[:7] == [
        "",
        "Are you quite sure",
        "about it?",
        "",
        "❯ 1 Yes, with some",
        "  more words than",
        "  fit",
    ]
    assert bare_lines(draw_picker(search_menu(menu), RenderContext(20, Theme()), 2))[1].startswith("❯ 1 Yes")
    assert present(menu.row_for_key("2")).value == "no" and menu.row_for_key("3") is None


def test_a_menu_line_by_line_has_keys_that_are_understood():
    menu = Menu("Which?", (MenuRow("b", "second", ("now",), key="7"), MenuRow("a", "first")))
    assert menu.keyed_lines() == ["  7  second  (now)", "  2  first"]
    assert present(menu.row_for_key("7")).value == "b" and menu.row_for_key("1") is None


def test_a_row_that_is_known_by_a_number_shows_it_and_is_found_by_it():
    menu = Menu("Which?", (MenuRow("b", "second", key="12"), MenuRow("a", "first", key="3")))
    assert bare_lines(draw_picker(search_menu(menu), RenderContext(40, Theme()), 6))[2:4] == [
        "❯ #12  second",
        "  #3  first",
    ]
    assert present(search_menu(menu, "#3").marked).value == "a"


def test_the_cursor_follows_the_words():
    drawn = draw_picker(search_menu(SESSIONS, "sess "), RenderContext(40, Theme()), 20)
    line, at = drawn.cursor
    assert bare_lines(drawn)[line][:at] == "search: sess "
    lost = draw_picker(search_menu(SESSIONS, "nowhere"), RenderContext(80, Theme()), 20)
    assert bare_lines(lost)[lost.cursor[0]] == "search: nowhere   no match, Ctrl-U to clear"
    wide = draw_picker(search_menu(SESSIONS, "日本語" * 30), RenderContext(30, Theme()), 20)
    line, at = wide.cursor
    assert wcswidth(bare_lines(wide)[line]) <= 30 and bare_lines(wide)[line][:at].endswith("日本語")
