"""Questions of the model at the screen: options, several answers, own words, back and on, declined."""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from agent.ui.plain_repl import chosen_labels
from agent.ui.question_form import SURE_HINT, WAITS_HINT, QuestionForm, draw_form
from agent.ui.terminal_text import RenderContext, Theme, painted_width
from tests.tables import each_row
from tools.user_questions import QuestionOption, UserQuestion

from .pty_terminal import PtyTerminal

OPTIONS = (QuestionOption(label="arrow", description="small and known"), QuestionOption(label="pendulum"))
ONE = UserQuestion(question="Which library?", header="Library", options=OPTIONS)
SEVERAL = UserQuestion(question="Which parts?", header="Parts", options=OPTIONS, multiSelect=True)


def answered(
    *questions: UserQuestion, keys: Callable[[QuestionForm], None], waited: float = 1.0
) -> dict[str, Any] | None:
    """Return the outcome of some keys, pressed so many seconds after each question appeared."""
    now = [0.0]

    async def ask() -> dict[str, Any] | None:
        form = QuestionForm(lambda: None, lambda: now[0])
        task = asyncio.ensure_future(form.ask(questions))
        await asyncio.sleep(0)
        now[0] += waited
        keys(form)
        if not task.done():
            await asyncio.sleep(0)
        form.decline()
        return await task

    return asyncio.run(ask())


def typed(*keys: str) -> Callable[[QuestionForm], None]:
    def press(form: QuestionForm) -> None:
        for key in keys:
            act = {"down": lambda: form.move(1), "up": lambda: form.move(-1), "left": lambda: form.turn(-1)}
            act |= {
                "right": lambda: form.turn(1),
                "enter": form.enter,
                "esc": form.escape,
                "c-d": form.delete,
            }
            if form.hears():
                act.get(key, lambda key=key: form.type(key))()

    return press


@each_row(
    ("keys", "answer"),
    [
        (("enter",), "arrow"),
        (("2",), "pendulum"),
        (("down", "enter"), "pendulum"),
        (("up", "d", "a", "t", "e", "enter"), "date"),
        (("n", "o", "2", "enter"), "no2"),
        (("3", "2", "enter"), "2"),
        (("up", "enter", "x", "enter"), "x"),
        (("x", "up", "enter"), "pendulum"),
        (("a", "c", "left", "b", "right", "d", "enter"), "abcd"),
        (("a", "x", "left", "c-d", "b", "enter"), "ab"),
        (("3", "left", "x", "enter"), "x"),
        (("w", "esc", "x", "enter"), "wx"),
    ],
)
def test_one_answer_is_an_option_or_ones_own_words(keys: tuple[str, ...], answer: str) -> None:
    assert answered(ONE, keys=typed(*keys)) == {"Which library?": answer}


@each_row(
    ("keys", "answer"),
    [
        (("1", "2", "enter"), "arrow, pendulum"),
        ((" ", "down", " ", " ", "enter"), "arrow"),
        (("2", "m", "e", "enter"), "pendulum, me"),
        (("down", "enter"), "pendulum"),
    ],
)
def test_several_answers_are_marked_and_then_taken(keys: tuple[str, ...], answer: str) -> None:
    assert answered(SEVERAL, keys=typed(*keys)) == {"Which parts?": answer}


def test_esc_declines_and_so_do_keys_that_were_typed_for_something_else_answer_nothing() -> None:
    assert answered(ONE, keys=typed("esc")) is None
    assert answered(ONE, keys=typed("w", "esc", "esc")) is None
    assert answered(ONE, keys=typed("1", "enter"), waited=0.1) is None
    assert answered(ONE, keys=typed("esc"), waited=0.5) is None


def test_keys_before_a_question_could_be_read_are_dropped_and_that_is_said() -> None:
    said: list[str] = []
    now = [0.0]

    async def ask() -> dict[str, Any] | None:
        form = QuestionForm(lambda: None, lambda: now[0])
        form.say = said.append
        task = asyncio.ensure_future(form.ask([ONE, ONE]))
        await asyncio.sleep(0)
        for at, key in ((0.5, "esc"), (1.0, "enter"), (1.7, "2"), (1.8, "1"), (2.5, "w"), (2.6, "esc")):
            now[0] = at
            typed(key)(form)
        assert form.state is not None and form.state.at == 1 and form.state.own.text == "w"
        typed("esc")(form)
        return await task

    assert asyncio.run(ask()) is None
    assert said == [WAITS_HINT, WAITS_HINT, WAITS_HINT, SURE_HINT]


def test_one_can_go_back_to_a_question_and_change_the_answer() -> None:
    now = [1.0]

    async def ask() -> dict[str, Any] | None:
        form = QuestionForm(lambda: None, lambda: now[0])
        task = asyncio.ensure_future(form.ask([ONE, SEVERAL]))
        await asyncio.sleep(0)
        for key in ("2", "left", "1", "1", "2", "enter"):
            assert form.state is not None
            labels.append(draw_form(form.state, RenderContext(80, Theme(False, False)), 20)[0][1])
            now[0] += 1.0
            typed(key)(form)
        return await task

    labels: list[str] = []
    assert asyncio.run(ask()) == {"Which library?": "arrow", "Which parts?": "arrow, pendulum"}
    first, second = "Library · 1 of 2", "Parts · 2 of 2"
    assert labels == [first, second, first, second, second, second]


@each_row(("columns", "rows"), [(100, 30), (80, 24), (40, 15), (20, 8), (12, 5), (5, 3)])
def test_a_question_fits_its_room_and_its_cursor_follows_the_own_words(columns: int, rows: int) -> None:
    ctx = RenderContext(columns, Theme(False, False))

    def keys(form: QuestionForm) -> None:
        state = form.state
        assert state is not None
        form.type("漢字 \x1b[2J" * 20)
        lines, (row, column) = draw_form(state, ctx, rows)
        assert len(lines) <= rows and max(map(painted_width, lines)) <= columns
        assert "\x1b[2J" not in "".join(lines)
        assert 0 <= row < len(lines)
        if columns >= 20:
            assert "Other: " in lines[row] and column <= columns and "1 [ ] arrow" in "\n".join(lines)
        if columns >= 40:
            assert lines[-1].startswith("Space to select · Enter to continue")
            assert lines[-1].endswith("Esc to decline") == (columns >= 80)
            assert "Parts" in lines

    answered(SEVERAL, keys=keys)


@each_row(("columns", "rows"), [(80, 12), (30, 9), (20, 7), (20, 3)])
def test_a_question_that_is_too_long_shows_its_beginning_and_can_be_scrolled_to_its_end(
    columns: int, rows: int
) -> None:
    ctx = RenderContext(columns, Theme(False, False))
    asked = replace(ONE, question=" ".join(f"word{at}" for at in range(100)))

    def keys(form: QuestionForm) -> None:
        state = form.state
        assert state is not None
        lines, (row, _) = draw_form(state, ctx, rows)
        seen = " ".join(lines)
        assert "word0 " in seen and "❯ 1 arrow" in lines[row] + seen and "word99" not in seen
        for _ in range(100):
            form.page(1)
            lines, (row, _) = draw_form(state, ctx, rows)
            seen += " ".join(lines)
            assert len(lines) <= rows
        assert set(re.findall(r"word\d+", seen)) == {f"word{at}" for at in range(100)}
        for marked, label in ((1, "❯ 2 pendulum"), (2, "❯ 3 Other: "), (0, "❯ 1 arrow")):
            form.move(1)
            lines, (row, _) = draw_form(state, ctx, rows)
            assert state.marked == marked and any(line.startswith(label) for line in lines)
            assert lines[row].startswith(label) or not state.writing

    answered(asked, keys=keys)


def test_what_is_written_is_edited_as_the_input_is_and_a_paste_is_one_line(tmp_path: Path) -> None:
    with PtyTerminal(tmp_path) as terminal:
        terminal.ready().type("form\r").sees("Which one?")
        terminal.type("mine\x1b[D\x1b[DX\x01Y\x05 \x1b[200~a\rb\r\nc\n\x1b[201~").sees("Other: YmiXne a b c")
        terminal.type("\x17\x7f").sees("Other: YmiXne a b\n").type("\x1b").sees(
            "Press Esc again to decline", "YmiXne"
        )
        terminal.type("\r").logged("{'Which one?': 'YmiXne a b'}")


def test_without_a_screen_numbers_are_labels_and_anything_else_is_taken_literally() -> None:
    labels = ["arrow", "pendulum"]
    assert chosen_labels("2", labels) == "pendulum"
    assert chosen_labels(" 2, 1", labels) == "pendulum, arrow"
    assert chosen_labels("3", labels) == "3" and chosen_labels("1 of them ", labels) == "1 of them"


def test_at_the_screen_questions_and_plans_leave_the_draft_alone_and_ctrl_b_moves_a_command(
    tmp_path: Path,
) -> None:
    with PtyTerminal(tmp_path) as terminal:
        terminal.ready().type("wait;form;run later\r").sees("Ctrl-C to interrupt").type("draft").sees(
            "❯ draft"
        )
        terminal.open_gate().sees("Which one?", "type your own answer").misses("❯ draft")
        terminal.again("\x1b[A", lambda: "❯ 3 Other" in terminal.text)
        terminal.type("mine").sees("Other: mine").type("\r")
        terminal.logged("'answers': {'Which one?': 'mine'}").sees("Carry out this plan?", "1. Do it")
        terminal.again("\x1b[B", lambda: "❯ 2 Yes, and accept all edits" in terminal.text).type("\r")
        terminal.logged("mode='acceptEdits'").sees("● bash  make", "❯ draft").type("\x02\x02\x15/help\r")
        terminal.logged("command '/help'")
        assert terminal.log.count("command '/background'") == 1  # the second press is a habit from tmux
