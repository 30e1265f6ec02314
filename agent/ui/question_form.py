"""Questions of the model in the place of the input: options, and a row for an answer in one's own words.

Several questions come one after the other; the arrows to the left and right go back and on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from prompt_toolkit.filters import FilterOrBool
from prompt_toolkit.key_binding import KeyBindings

from .picker import ANSWER_DELAY_S, ERASING_KEYS, MARKER, bind_dialog_keys
from .terminal_text import (
    RenderContext,
    cell_width,
    clip,
    clip_painted,
    hang,
    longest_end,
    one_line,
    prose_line,
    typed_line,
    wrap,
)

OTHER_LABEL = "Other: "
OTHER_HINT = "type your own answer"
MAX_SHOWN_HEADER_CHARS = 20
ONE_ANSWER_KEYS = "Enter or a digit chooses · type your own answer · Esc declines"
SEVERAL_ANSWERS_KEYS = "Space or a digit marks · Enter goes on · type your own answer · Esc declines"
SHORT_KEYS = "digit or Enter · Esc declines"
SEVERAL_QUESTIONS_KEYS = " · ← → other questions"


@dataclass(slots=True)
class FormState:
    """The questions, which one is shown, its marked row, and what was chosen and written for each."""

    questions: Sequence[Mapping[str, Any]]
    chosen: list[set[int]]
    words: list[str]
    asker: str = ""
    at: int = 0
    marked: int = 0

    @property
    def options(self) -> Sequence[Mapping[str, Any]]:
        """Those of the question that is shown."""
        found: Sequence[Mapping[str, Any]] = self.questions[self.at]["options"]
        return found

    @property
    def several(self) -> bool:
        """Whether more than one option may be chosen."""
        return bool(self.questions[self.at].get("multiSelect"))

    @property
    def writing(self) -> bool:
        """Whether the row for one's own words is marked."""
        return self.marked == len(self.options)

    def answers(self) -> dict[str, str]:
        """What was answered, by question: labels, then own words."""
        found = {}
        for asked, chosen, words in zip(self.questions, self.chosen, self.words, strict=True):
            labels = [str(asked["options"][at]["label"]) for at in sorted(chosen)]
            found[str(asked["question"])] = ", ".join([*labels, *filter(None, [words.strip()])])
        return found


class QuestionForm:
    """Asks questions. `state` is what is on the screen, or None; `on_change` is called where that changes."""

    def __init__(
        self, on_change: Callable[[], None], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.state: FormState | None = None
        self.on_change = on_change
        self._monotonic = monotonic
        self._answer: asyncio.Future[dict[str, str] | None] | None = None
        self._shown_at = 0.0

    async def ask(self, questions: Sequence[Mapping[str, Any]], asker: str = "") -> dict[str, str] | None:
        """The answers by question, None where the person declines; cancelling takes it off the screen.

        `asker` names who asks, "" for the session itself.
        """
        self._answer = asyncio.get_running_loop().create_future()
        self.state = FormState(questions, [set() for _ in questions], ["" for _ in questions], asker)
        self._shown_at = self._monotonic()
        self.on_change()
        try:
            return await self._answer
        finally:
            self.state, self._answer = None, None
            self.on_change()

    def move(self, by: int) -> None:
        """Mark another row; behind the last comes the first."""
        if self.state is not None:
            self.state.marked = (self.state.marked + by) % (len(self.state.options) + 1)

    def go(self, by: int) -> None:
        """Show another question, if there is one there."""
        state = self.state
        if state is not None and 0 <= state.at + by < len(state.questions):
            state.at += by
            state.marked = min(
                state.chosen[state.at], default=len(state.options) if state.words[state.at] else 0
            )

    def type(self, text: str) -> None:
        """Choose by a digit or the space bar, else write one's own answer."""
        state = self.state
        if state is None or not self._settled:
            return
        if not state.writing and text == " ":
            self._choose(state.marked)
        elif not state.writing and text.isdecimal() and 1 <= int(text) <= len(state.options) + 1:
            self._choose(int(text) - 1)
        else:
            state.marked = len(state.options)
            state.words[state.at] += " ".join(text.split("\n"))

    def erase(self, kept: Callable[[str], str]) -> None:
        """Take something off one's own words."""
        if self.state is not None:
            self.state.words[self.state.at] = kept(self.state.words[self.state.at])

    def enter(self) -> None:
        """Take what is marked or written, and go on."""
        state = self.state
        if state is None or not self._settled:
            return
        answered = state.chosen[state.at] or state.words[state.at].strip()
        if state.writing and not answered:
            return
        if not state.writing and (not state.several or not answered):
            state.chosen[state.at] = {state.marked}
        elif not state.several:
            state.chosen[state.at].clear()
        if not state.several and not state.writing:
            state.words[state.at] = ""
        self._go_on()

    def decline(self) -> None:
        """Answer nothing."""
        self._end(None)

    @property
    def _settled(self) -> bool:
        """Whether keys are answers: those typed for what stood there before are not."""
        return self._monotonic() - self._shown_at >= ANSWER_DELAY_S

    def _choose(self, row: int) -> None:
        state = self.state
        assert state is not None
        state.marked = row
        if state.writing:
            return
        if state.several:
            state.chosen[state.at] ^= {row}
        else:
            self.enter()

    def _go_on(self) -> None:
        """Show the next question, or end where all are answered."""
        state = self.state
        assert state is not None
        if state.at + 1 < len(state.questions):
            self.go(1)
            self._shown_at = self._monotonic()
        else:
            self._end(state.answers())

    def _end(self, answers: dict[str, str] | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(answers)


def draw_form(state: FormState, ctx: RenderContext, rows: int) -> tuple[list[str], tuple[int, int]]:
    """The question in at most `rows` lines, and where the cursor is: (row, column)."""
    head = _head(state, ctx)
    keys = SEVERAL_ANSWERS_KEYS if state.several else ONE_ANSWER_KEYS
    keys += SEVERAL_QUESTIONS_KEYS if len(state.questions) > 1 else ""
    foot = ["", ctx.hint(keys, SHORT_KEYS)]
    for described in (range(len(state.options)), (state.marked,), ()):  # as much as fits
        body = [row for at in range(len(state.options)) for row in _option(state, at, at in described, ctx)]
        if len(head) + len(body) + 1 + len(foot) <= rows:
            break
    own, column = _own_words(state, ctx)
    lines = [*head, *body, own][-max(rows - 2, 1) :]
    cursor = (len(lines) - 1, column)
    lines += foot if rows >= len(lines) + 2 else []
    return [clip_painted(line, ctx.columns) for line in lines], cursor


def _head(state: FormState, ctx: RenderContext) -> list[str]:
    asked = state.questions[state.at]
    header = one_line(str(asked.get("header") or ""))[:MAX_SHOWN_HEADER_CHARS]
    place = f"{state.at + 1} of {len(state.questions)}" if len(state.questions) > 1 else ""
    asker = f"[{one_line(state.asker)}]" if state.asker else ""
    label = " · ".join(filter(None, (asker, header, place)))
    above = [ctx.clipped("dim", label)] if label else []
    return ["", *above, *ctx.wrapped("bold", prose_line(str(asked["question"]))), ""]


def _option(state: FormState, at: int, described: bool, ctx: RenderContext) -> list[str]:
    option, marked = state.options[at], at == state.marked
    box = f"[{'x' if at in state.chosen[state.at] else ' '}] " if state.several else ""
    margin = MARKER if marked else " " * len(MARKER)
    room = max(ctx.columns - len(MARKER) - 2, 1)
    rows = hang(wrap(f"{at + 1} {box}{prose_line(str(option['label']))}", room), margin, " " * len(margin))
    rows = [ctx.paint("accent", row) for row in rows] if marked else rows
    about = prose_line(str(option.get("description") or "")) if described else ""
    indent = " " * (len(MARKER) + 2)
    return [*rows, *(ctx.paint("dim", indent + row) for row in (wrap(about, room) if about else ()))]


def _own_words(state: FormState, ctx: RenderContext) -> tuple[str, int]:
    """The row for one's own answer, and the column behind it."""
    words = typed_line(state.words[state.at])
    label = f"{MARKER if state.writing else ' ' * len(MARKER)}{len(state.options) + 1} {OTHER_LABEL}"
    typed = longest_end(words, max(ctx.columns - cell_width(label) - 1, 1))
    painted = ctx.paint("accent", label) if state.writing else label
    hint = "" if words else ctx.paint("dim", clip(OTHER_HINT, max(ctx.columns - cell_width(label), 1)))
    return painted + typed + hint, cell_width(label) + cell_width(typed)


def add_form_keys(bindings: KeyBindings, form: QuestionForm, active: FilterOrBool) -> None:
    """The keys of a question; while it is there no other key may do anything to the draft."""
    actions: dict[str, Callable[[], None]] = {
        **dict.fromkeys(("up", "c-p", "s-tab"), partial(form.move, -1)),
        **dict.fromkeys(("down", "c-n", "tab"), partial(form.move, 1)),
        **dict.fromkeys(("escape", "c-d"), form.decline),
        "left": partial(form.go, -1),
        "right": partial(form.go, 1),
        "enter": form.enter,
        **{key: partial(form.erase, kept) for key, kept in ERASING_KEYS.items()},
    }
    bind_dialog_keys(bindings, actions, form.type, active)
