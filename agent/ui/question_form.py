"""Questions of the model, which replace the input: options, and a row for an answer in the user's own words.

Several questions are asked one after another; Left and Right go to the previous and the next one, unless
they move the cursor in an answer. Keys are dropped, with a hint, until a question has been visible for
LISTEN_DELAY_S.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import FilterOrBool
from prompt_toolkit.key_binding import KeyBindings

from tools.user_questions import QuestionOption, UserQuestion

from .input_drawing import draw_one_row
from .input_editor import delete_grapheme, move_by_grapheme
from .picker import ANSWER_DELAY_S, MARKER, bind_dialog_keys
from .terminal_text import RenderContext, cell_width, clip, clip_painted, hang, one_line, prose_line, wrap

LISTEN_DELAY_S = 0.6  # without a key, before keys count as answers; longer than pauses in typing
SURE_S = 2.0  # within which a second Esc discards the answers

WAITS_HINT = "A new question appeared: press the key again to answer it"
SURE_HINT = "Press Esc again to decline and discard your answers"
MIN_ROWS_WITH_MORE = 6  # for the keys and the topic of the question


class FormState(Struct):
    """The questions, the index of the one shown, its selected row, and the answers to each."""

    questions: Sequence[UserQuestion]
    chosen: list[set[int]]
    words: list[Buffer]
    asker: str = ""
    at: int = 0
    marked: int = 0
    scroll: int = 0  # index of the first row of the question on the screen, if it does not fit
    page: int = 1  # number of its rows on the screen then

    @property
    def asked(self) -> UserQuestion:
        """The question on the screen."""
        return self.questions[self.at]

    @property
    def options(self) -> Sequence[QuestionOption]:
        """The options of the question on the screen."""
        return self.asked.options

    @property
    def writing(self) -> bool:
        """Return whether the row for the user's own words is selected."""
        return self.marked == len(self.options)

    def answers(self) -> dict[str, str]:
        """Return the answers by question: labels, then own words."""
        found = {}
        for asked, chosen, words in zip(self.questions, self.chosen, self.words, strict=True):
            labels = [asked.options[at].label for at in sorted(chosen)]
            found[asked.question] = ", ".join([*labels, *filter(None, [words.text.strip()])])
        return found

    @property
    def own(self) -> Buffer:
        """Return the buffer of the user's own words on the question on the screen."""
        return self.words[self.at]

    @property
    def begun(self) -> bool:
        """Return whether the user chose or wrote anything."""
        return any(self.chosen) or any(words.text.strip() for words in self.words)


class QuestionForm:
    """The dialog for questions. `state` is on the screen, or None; `on_change` is called when that changes.

    `say` shows a hint about the last key.
    """

    def __init__(
        self, on_change: Callable[[], None], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.state: FormState | None = None
        self.on_change = on_change
        self.say: Callable[[str], None] = lambda hint: None
        self._monotonic = monotonic
        self._answer: asyncio.Future[dict[str, str] | None] | None = None
        self._listens_at = 0.0
        self._sure_until = 0.0  # a second Esc declines

    async def ask(self, questions: Sequence[UserQuestion], asker: str = "") -> dict[str, str] | None:
        """Return the answers by question, None if the user declines; cancelling removes the questions.

        `asker` is the agent that asks, "" for the session itself.
        """
        self._answer = asyncio.get_running_loop().create_future()
        words = [Buffer(multiline=False) for _ in questions]
        self.state = FormState(questions, chosen=[set() for _ in questions], words=words, asker=asker)
        self._listens_at = self._monotonic() + LISTEN_DELAY_S
        self._sure_until = 0.0
        self.on_change()
        try:
            return await self._answer
        finally:
            self.state = None
            self._answer = None
            self.on_change()

    def hears(self) -> bool:
        """Return whether a key is meant for the question. A key that is too early restarts the delay."""
        now = self._monotonic()
        if self.state is None or now >= self._listens_at:
            return self.state is not None
        self._listens_at = now + LISTEN_DELAY_S
        self.say(WAITS_HINT)
        return False

    def move(self, by: int) -> None:
        """Select another row; after the last comes the first."""
        if self.state is not None:
            self.state.marked = (self.state.marked + by) % (len(self.state.options) + 1)

    def go(self, by: int) -> None:
        """Show the question `by` places further, if there is one."""
        state = self.state
        if state is not None and 0 <= state.at + by < len(state.questions):
            state.at += by
            state.scroll = 0
            state.marked = min(state.chosen[state.at], default=len(state.options) if state.own.text else 0)

    def turn(self, by: Literal[-1, 1]) -> None:
        """Move the cursor in the user's own words, or go to another question (Left and Right)."""
        if self.state is not None and self.state.writing and self.state.own.text:
            move_by_grapheme(self.state.own, by)
        else:
            self.go(by)

    def page(self, by: int) -> None:
        """Scroll the question by pages."""
        if self.state is not None:
            self.state.scroll = max(self.state.scroll + by * self.state.page, 0)

    def type(self, text: str) -> None:
        """Choose with a digit or the space bar; other characters go into the user's own words."""
        state = self.state
        if state is None:
            return
        if not state.writing and text == " ":
            self._choose(state.marked)
        elif not state.writing and text.isdecimal() and 1 <= int(text) <= len(state.options) + 1:
            self._choose(int(text) - 1)
        else:
            state.marked = len(state.options)
            state.own.insert_text(" ".join(text.splitlines()))

    def enter(self) -> None:
        """Take the selected or written answer, and continue with the next question."""
        state = self.state
        if state is None:
            return
        answered = state.chosen[state.at] or state.own.text.strip()
        if state.writing and not answered:
            return
        if not state.writing and (not state.asked.multiSelect or not answered):
            state.chosen[state.at] = {state.marked}
        elif not state.asked.multiSelect:
            state.chosen[state.at].clear()
        if not state.asked.multiSelect and not state.writing:
            state.own.reset()
        self._continue()

    def escape(self) -> None:
        """Decline, at the second press if answers would be lost."""
        now = self._monotonic()
        if self.state is not None and self.state.begun and now >= self._sure_until:
            self._sure_until = now + SURE_S
            self.say(SURE_HINT)
        else:
            self.decline()

    def delete(self) -> None:
        """Delete forward in the user's own words, or decline (Ctrl-D)."""
        if self.state is not None and self.state.writing and self.state.own.text:
            delete_grapheme(self.state.own, 1)
        else:
            self.escape()

    def decline(self) -> None:
        """Answer nothing."""
        self._end(None)

    def _choose(self, row: int) -> None:
        state = self.state
        assert state is not None
        state.marked = row
        if state.writing:
            return
        if state.asked.multiSelect:
            state.chosen[state.at] ^= {row}
        else:
            self.enter()

    def _continue(self) -> None:
        """Show the next question, or end after the last one."""
        state = self.state
        assert state is not None
        if state.at + 1 < len(state.questions):
            self.go(1)
            self._listens_at = self._monotonic() + ANSWER_DELAY_S
        else:
            self._end(state.answers())

    def _end(self, answers: dict[str, str] | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(answers)


def draw_form(state: FormState, ctx: RenderContext, rows: int) -> tuple[list[str], tuple[int, int]]:
    """Draw the question in at most `rows` lines; return the cursor's (row, column) too.

    If it does not fit, the selected row is shown, and the question can be scrolled.
    """
    asked = [*(_label(state, ctx) if rows >= MIN_ROWS_WITH_MORE else ()), *_question(state, ctx)]
    foot = [_keys(state, ctx)]
    own, column = _own_words(state, ctx)
    for described in (range(len(state.options)), (state.marked,), ()):  # as much as fits
        answers = [_option(state, at, ctx, described=at in described) for at in range(len(state.options))]
        head = ["", *asked, ""]
        body = [*(row for answer in answers for row in answer), own]
        if len(head) + len(body) + 1 + len(foot) <= rows:
            lines = [*head, *body, "", *foot]
            return [clip_painted(line, ctx.columns) for line in lines], (len(head) + len(body) - 1, column)
    foot = foot if rows >= MIN_ROWS_WITH_MORE else []
    room = rows - len(foot)
    kept = max(room - min(len(asked), 3), 1)
    marked = sum(map(len, answers[: state.marked]))
    first = max(0, min(marked - (kept > 2), len(body) - kept))
    shown = body[first : first + kept]
    head = _scrolled(state, asked, ctx, rows=room - len(shown))
    cursor = (len(head) + marked - first, 0)
    if shown[-1] is own:
        cursor = (len(head) + len(shown) - 1, column)
    return [clip_painted(line, ctx.columns) for line in (*head, *shown, *foot)], cursor


def _label(state: FormState, ctx: RenderContext) -> list[str]:
    """Draw the agent that asks, the topic and the number of the question; [] without any of them."""
    header = one_line(state.asked.header)[:20]
    place = f"{state.at + 1} of {len(state.questions)}" if len(state.questions) > 1 else ""
    asker = f"[{one_line(state.asker)}]" if state.asker else ""
    label = " · ".join(filter(None, (asker, header, place)))
    return [ctx.clipped("dim", label)] if label else []


def _question(state: FormState, ctx: RenderContext) -> list[str]:
    return ctx.wrapped("bold", prose_line(state.asked.question))


def _scrolled(state: FormState, asked: list[str], ctx: RenderContext, rows: int) -> list[str]:
    """Return the rows of a question from its scroll position, with a note if it does not fit."""
    if len(asked) <= rows:
        return asked
    state.page = max(rows - 1, 1)
    first = state.scroll = min(state.scroll, len(asked) - state.page)
    last = first + state.page
    place = f"{first + 1}-{last} of {len(asked)}"
    return [*asked[first:last], ctx.hint(f"lines {place} · PgUp/PgDn to scroll", f"{place} PgDn")][:rows]


def _keys(state: FormState, ctx: RenderContext) -> str:
    choose = "Enter or a digit to choose"
    if state.asked.multiSelect:
        choose = "Space to select · Enter to continue"
    keys = f"{choose} · Esc to decline"
    arrows_move_cursor = state.writing and state.own.text
    if len(state.questions) > 1 and not arrows_move_cursor:
        keys += " · ← → for other questions"
    return ctx.hint(keys, choose)


def _option(state: FormState, at: int, ctx: RenderContext, *, described: bool) -> list[str]:
    option = state.options[at]
    marked = at == state.marked
    box = ""
    if state.asked.multiSelect:
        box = "[x] " if at in state.chosen[state.at] else "[ ] "
    margin = MARKER if marked else " " * len(MARKER)
    room = max(ctx.columns - len(MARKER) - 2, 1)
    label = wrap(f"{at + 1} {box}{prose_line(option.label)}", room)
    rows = hang(label, first=margin, others=" " * len(margin))
    rows = [ctx.paint("accent", row) for row in rows] if marked else rows
    about = prose_line(option.description) if described else ""
    indent = " " * (len(MARKER) + 2)
    return [*rows, *(ctx.paint("dim", indent + row) for row in (wrap(about, room) if about else ()))]


def _own_words(state: FormState, ctx: RenderContext) -> tuple[str, int]:
    """Draw the row for the user's own answer; return the column of its cursor too."""
    label = f"{MARKER if state.writing else ' ' * len(MARKER)}{len(state.options) + 1} Other: "
    room = max(ctx.columns - cell_width(label), 1)
    typed, column = draw_one_row(state.own, "", replace(ctx, columns=room))
    painted = ctx.paint("accent", label) if state.writing else label
    hint = "" if state.own.text else ctx.paint("dim", clip("type your own answer", room))
    return painted + typed + hint, cell_width(label) + column


def add_form_keys(bindings: KeyBindings, form: QuestionForm, active: FilterOrBool) -> None:
    """Bind the keys of a question. Other keys edit the user's own words; none changes the draft."""
    actions: dict[str, Callable[[], None]] = {
        **dict.fromkeys(("up", "c-p", "s-tab"), partial(form.move, -1)),
        **dict.fromkeys(("down", "c-n", "tab"), partial(form.move, 1)),
        "left": partial(form.turn, -1),
        "right": partial(form.turn, 1),
        "pageup": partial(form.page, -1),
        "pagedown": partial(form.page, 1),
        "enter": form.enter,
        "escape": form.escape,
        "c-d": form.delete,
    }

    def heard(act: Callable[..., None], *text: str) -> None:
        if form.hears():
            act(*text)

    acts = {key: partial(heard, act) for key, act in actions.items()}
    bind_dialog_keys(bindings, acts, partial(heard, form.type), active)
