"""Ask for permission: a question takes the place of the input, whose draft is kept as it was.

Keys typed for something else must not answer it. They are dropped, with a hint, until the question has been
visible for a while without a key; from then on its keys answer at once. A key that is no answer begins that
while again. An answer that outlasts the call is only marked by its key, and taken by Enter.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from itertools import accumulate

from msgspec import Struct, field
from msgspec.structs import replace
from wcwidth import strip_sequences

from agent.formatting import with_keys
from agent.permissions import OUTSIDE, WRITES_A_FILE
from agent.ports import Allow, Deny, PermissionQuestion, PermissionUpdate
from tools.user_answer import ANSWERS
from transcripts.patterns import lazy_pattern

from .question_form import LISTEN_DELAY_S, QuestionForm
from .render import render_diff
from .terminal_text import (
    CODE_TAB_CELLS,
    RenderContext,
    clip,
    clip_painted,
    escape_output,
    escape_prose,
    escape_strict,
    hang,
    one_line,
    wrap,
)

MIN_BODY_ROWS = 3
_CHANGED_ROW = lazy_pattern(r" *\d+ [-+] ")


class ApprovalChoice(Struct, frozen=True):
    """One answer: its letter, what it says, what it means (None asks for a reason first), and its digit."""

    letter: str
    text: str
    answer: Allow | None
    digit: str = ""

    @property
    def lasting(self) -> bool:
        """Return whether it grants more than this call."""
        return self.answer is not None and self.answer.scope != "once"


class ApprovalPanel(Struct):
    """A question on the screen. Times are seconds of a monotonic clock."""

    question: PermissionQuestion
    choices: tuple[ApprovalChoice, ...]
    answer: asyncio.Future[Allow | Deny]
    listens_at: float = 0.0
    marked: int = 0  # index of the marked choice
    scroll: int = 0  # the line of the body that is shown first
    reasoning: bool = False  # whether the reason of a "no" is being written
    plan_above: bool = False  # whether the plan that is asked about is printed already
    body: list[str] = field(default_factory=list)
    columns: int = 0  # that the body was drawn for

    def choice_for(self, key: str) -> ApprovalChoice | None:
        return next((choice for choice in self.choices if key in (choice.letter, choice.digit)), None)


class ApprovalDialog:
    """The dialog for approval, a ports.Approver. `panel` is the question on the screen, or None.

    `on_change` is called when a question comes, goes or wants a reason; after a key it is drawn anyway.
    `form` asks the questions of the model; `show_plan` prints a plan above the question about it.
    """

    def __init__(
        self, on_change: Callable[[], None], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.panel: ApprovalPanel | None = None
        self.form = QuestionForm(lambda: self.on_change(), monotonic)
        self.on_change = on_change
        self.show_plan: Callable[[str], None] = lambda plan: None
        self._monotonic = monotonic
        self._one_at_a_time = asyncio.Lock()

    async def ask(self, question: PermissionQuestion) -> Allow | Deny:
        """Show the question and wait; cancelling takes it off the screen."""
        async with self._one_at_a_time:
            if questions := question.preview.get("questions"):
                answers = await self.form.ask(questions, question.asker)
                return (
                    Deny() if answers is None else Allow(updated_input={**question.input, ANSWERS: answers})
                )
            choices = approval_choices(question)
            panel = self.panel = ApprovalPanel(question, choices=choices, answer=asyncio.Future())
            if plan := question.preview.get("plan"):
                self.show_plan(str(plan))
                panel.plan_above = True
            panel.listens_at = self._monotonic() + LISTEN_DELAY_S
            self.on_change()
            try:
                return await panel.answer
            finally:
                self.panel = None
                self.on_change()

    @property
    def listening(self) -> bool:
        """Return whether keys are answers now."""
        panel = self.panel
        return panel is not None and not panel.reasoning and self._monotonic() >= panel.listens_at

    def note_typing(self) -> None:
        """Note a key that is no answer: it belongs to something else, as may those that follow at once."""
        if self.panel is not None:
            self.panel.listens_at = self._monotonic() + LISTEN_DELAY_S
            self.panel.marked = 0  # a letter before it may have marked another

    def press(self, key: str) -> bool:
        """Take a character typed while the question listens. False if it is no answer."""
        panel = self.panel
        chosen = panel.choice_for(key) if panel is not None else None
        if panel is None or chosen is None:
            self.note_typing()
            return False
        if chosen.lasting:
            panel.marked = panel.choices.index(chosen)
        else:
            self._choose(chosen)
        return True

    def enter(self) -> None:
        """Take the marked choice."""
        if self.panel is not None:
            self._choose(self.panel.choices[self.panel.marked])

    def move(self, by: int) -> None:
        """Mark another choice."""
        if self.panel is not None:
            self.panel.marked = (self.panel.marked + by) % len(self.panel.choices)

    def scroll(self, by: int) -> None:
        if self.panel is not None:
            self.panel.scroll = max(0, min(self.panel.scroll + by, len(self.panel.body) - 1))

    def refuse(self, reason: str = "", stop: bool = False) -> None:
        """Answer no; `stop` ends the turn too."""
        if self.panel is not None and not self.panel.answer.done():
            self.panel.answer.set_result(Deny(reason, stop))

    def ask_again(self) -> None:
        """Show the choices again instead of taking a reason."""
        if self.panel is not None:
            self.panel.reasoning = False
            self.note_typing()
            self.on_change()

    def _choose(self, choice: ApprovalChoice) -> None:
        panel = self.panel
        if panel is None or panel.answer.done():
            return
        if choice.answer is None:
            panel.reasoning = True
            self.on_change()
        else:
            panel.answer.set_result(choice.answer)


def approval_choices(question: PermissionQuestion) -> tuple[ApprovalChoice, ...]:
    """Return the answers to a question, numbered in their order: once, for longer, no, always."""
    if question.preview.get("plan"):
        offered = _plan_answers()
    elif question.refused:
        offered = _leaving_answers(question)
    else:
        offered = _call_answers(question)
    return tuple(replace(choice, digit=str(at)) for at, choice in enumerate(offered, 1))


def _plan_answers() -> Iterator[ApprovalChoice]:
    """Yield the answers to the question whether a plan is carried out."""
    accept_edits = Allow(updates=(PermissionUpdate(mode="acceptEdits"),))
    yield ApprovalChoice("y", text="Yes, and ask about each edit", answer=Allow())
    yield ApprovalChoice("a", text="Yes, and accept edits", answer=accept_edits)
    yield ApprovalChoice("n", text="No, go on planning, and tell why", answer=None)


def _call_answers(question: PermissionQuestion) -> Iterator[ApprovalChoice]:
    """Yield the answers to the question whether a call may be run."""
    rule = one_line(question.prefix or "")
    yield ApprovalChoice("y", text="Yes, this once", answer=Allow("once"))
    if question.prefix is not None:
        yield ApprovalChoice("a", text=f"Yes, for this session: {rule}", answer=Allow("session"))
    elif not any(access.kind == "run" for access in question.access):
        special = any(access.outside or access.protected for access in question.access)
        what = "this place" if special else f"all of {one_line(question.tool)}"
        yield ApprovalChoice("a", text=f"Yes, {what} in this session", answer=Allow("session"))
    yield ApprovalChoice("n", text="No, and tell why", answer=None)
    if question.prefix is not None:
        yield ApprovalChoice("p", text=f"Yes, always in this project: {rule}", answer=Allow("always"))


def _leaving_answers(question: PermissionQuestion) -> Iterator[ApprovalChoice]:
    """Yield the answers to the question whether a call may leave the sandbox."""
    yield ApprovalChoice("y", text="Yes, again outside the wall, this once", answer=Allow("once"))
    if question.through:
        text = f"Yes, from now on in this project: {one_line(question.through)}"
        yield ApprovalChoice("a", text=text, answer=Allow("through"))
    yield ApprovalChoice("n", text="No, and tell why", answer=None)
    if question.prefix is not None:
        text = f"Yes, always outside the wall: {one_line(question.prefix)}"
        yield ApprovalChoice("p", text=text, answer=Allow("always"))


def question_head(question: PermissionQuestion) -> str:
    """Return the question itself, in a few words."""
    tool = one_line(question.tool)
    asker = f"[{one_line(question.asker)}] " if question.asker else ""
    if question.preview.get("plan"):
        return f"{asker}Carry out this plan?"
    if questions := question.preview.get("questions"):
        return asker + one_line(str(questions[0]["question"]))
    return asker + (f"Let {tool} leave the wall?" if question.refused else f"Allow {tool}?")


def question_body(question: PermissionQuestion, ctx: RenderContext) -> list[str]:
    """Draw all of what is asked for: every character visible, long lines wrapped."""
    inner = RenderContext(max(ctx.columns - 2, 2), ctx.theme, full=True)
    if plan := question.preview.get("plan"):
        return [f"  {row}" for row in wrap(escape_prose(str(plan)), inner.columns)]
    if question.preview.get("diff"):
        rows = render_diff(str(question.preview["diff"]), inner)
    else:
        text = str(question.preview.get("text") or question.title)
        text = escape_output(text.replace("\r", "␍"), CODE_TAB_CELLS) if "\r" in text else escape_strict(text)
        rows = wrap(text, inner.columns)
    if question.refused:
        said = wrap(escape_strict(str(question.preview.get("said", ""))), inner.columns)
        dim = [ctx.paint("dim", row) for row in said if row.strip()]
        rows = [*inner.wrapped("warning", one_line(question.refused)), *rows, *dim]
    for access in question.access:
        if access.outside or access.protected:
            named = f"/{access.target}".endswith(f"/{question.title.removeprefix('/')}")
            rows = [] if named and rows == [question.title] else rows  # the place is told once
            where = f"{OUTSIDE}: " if access.outside else ""
            rows += inner.wrapped("warning", f"{access.kind}s {where}{one_line(access.target)}")
    return [f"  {row}" for row in rows]


def question_target(question: PermissionQuestion, ctx: RenderContext) -> list[str]:
    """Return the rows that name the target of a diff; [] for other questions, whose body names it."""
    title = one_line(question.title)
    return [f"  {row}" for row in wrap(title, ctx.columns - 2)] if question.preview.get("diff") else []


def full_question(question: PermissionQuestion, ctx: RenderContext) -> list[str]:
    """Draw a question for printing: all of what is asked for, and each answer with its rule in full."""
    choices = approval_choices(question)
    answers = [f"  {choice.digit} {choice.text}  {choice.letter}" for choice in choices]
    rows = [row for answer in answers for row in wrap(answer, ctx.columns)]
    return [*question_target(question, ctx), *question_body(question, ctx), *rows]


def draw_approval(panel: ApprovalPanel, ctx: RenderContext, rows: int) -> list[str]:
    """Draw the question in at most `rows` lines; the choices are always there."""
    question = panel.question
    is_new = panel.columns == 0
    if panel.columns != ctx.columns:  # new, or on a terminal that was resized
        before = panel.body
        panel.body = ["  It stands above."] if panel.plan_above else question_body(question, ctx)
        panel.scroll = _same_place(panel.scroll, before, panel.body)
        panel.columns = ctx.columns
    head = ctx.clipped("warning", question_head(question))
    title = one_line(question.title)
    if question.preview.get("diff") and title:
        head += "  " + clip(title, max(ctx.columns - len(question.tool) - 10, 1))
    air = 4 if rows >= 14 else 0  # blank lines around what is asked for
    foot = _foot(panel, ctx, rows - air - 1 - MIN_BODY_ROWS)
    room = max(rows - air - 1 - len(foot), MIN_BODY_ROWS)
    if room < len(panel.body) <= room + air:  # all of it is worth more than the air
        room += air
        air = 0
    if is_new and len(panel.body) > room:
        panel.scroll = _first_change(panel.body)
    last_page = len(panel.body) - room + 1 if len(panel.body) > room else 0  # a row tells its lines
    panel.scroll = min(panel.scroll, last_page)
    shown = panel.body[panel.scroll : panel.scroll + room]
    if len(panel.body) > room:
        shown = panel.body[panel.scroll : panel.scroll + room - 1]
        last = panel.scroll + len(shown)
        more = f"  lines {panel.scroll + 1}-{last} of {len(panel.body)} · PgUp PgDn"
        key = ctx.keys["outputs"]
        shown = [*shown, ctx.hint(f"{more} · {key} prints all" if key else more, more)]
    gap = [""] if air else []
    below = gap if not panel.reasoning else []
    lines = [*gap, head, *gap, *shown, *gap, *foot, *below]
    return [clip_painted(row, ctx.columns) for row in lines]


def _same_place(at: int, before: list[str], after: list[str]) -> int:
    """Return the row of a body drawn for other columns that contains what row `at` began with."""
    old = _row_starts(before)
    new = _row_starts(after)
    place = old[at] * new[-1] // max(old[-1], 1)
    return bisect_left(new, new[bisect_right(new, place) - 1])


def _row_starts(body: list[str]) -> list[int]:
    """Count the characters before each row, and all. Other columns break lines elsewhere but keep these."""
    return [0, *accumulate(len(strip_sequences(row).replace(" ", "")) for row in body)]


def _first_change(body: list[str]) -> int:
    """Return the row before the first that a diff adds or removes, 0 without one."""
    changed = (at for at, row in enumerate(body) if _CHANGED_ROW.match(strip_sequences(row)))
    return max(next(changed, 0) - 1, 0)


def _foot(panel: ApprovalPanel, ctx: RenderContext, max_rows: int) -> list[str]:
    """Draw the answers in at most `max_rows`: wrapped where there is room, else cut with a note."""
    told = panel.question.why
    if told == WRITES_A_FILE and panel.question.preview.get("diff"):
        told = ""  # it is seen
    if told == OUTSIDE and any(access.outside for access in panel.question.access):
        told = ""  # it stands in the body
    why = [ctx.clipped("dim", f"  {one_line(told)}")] if told else []
    if panel.reasoning:
        long = "Why not? Enter sends it (may be empty), Esc goes back"
        short = "Why not? Enter sends, Esc: back"
        return [*why, long if len(long) <= ctx.columns else clip(short, ctx.columns)]
    room = max(ctx.columns - 7, 4)
    texts = [wrap(f"{choice.digit} {choice.text}", room) for choice in panel.choices]
    cut = len(why) + sum(map(len, texts)) + 1 > max_rows
    if cut:
        texts = [[clip(f"{choice.digit} {choice.text}", room)] for choice in panel.choices]
    rows = [row for at, text in enumerate(texts) for row in _choice_rows(panel, at, text, ctx)]
    marking = " or ".join(choice.letter for choice in panel.choices if choice.lasting)
    last = "  Esc: no, and stop" + (f" · {marking} only marks, Enter takes it" if marking else "")
    short = "  Esc: no" + (f" · {marking} marks, Enter takes" if marking else "")
    if cut and any(len(wrap(choice.text, room - 2)) > 1 for choice in panel.choices):
        last = short = with_keys("  {outputs}: rules whole; Esc: no", ctx.keys)
    return [*why, *rows, ctx.hint(last, short)]


def _choice_rows(panel: ApprovalPanel, at: int, text: list[str], ctx: RenderContext) -> list[str]:
    """Draw one answer: marked when it is chosen, its letter behind the last row."""
    marked = at == panel.marked
    rows = hang(text, first="❯ " if marked else "  ", others="    ")
    rows = [ctx.paint("bold", row) for row in rows] if marked else rows
    return [*rows[:-1], rows[-1] + ctx.paint("dim", f"  {panel.choices[at].letter}")]
