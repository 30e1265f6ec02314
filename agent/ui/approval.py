"""Ask for permission: a question replaces the input, whose draft is kept unchanged.

Keys typed for something else must not answer the question. They are dropped, with a hint, until the question
has been visible for LISTEN_DELAY_S without a key press; after that its keys answer at once. A key that is not
an answer restarts the delay. The key of an answer that lasts longer than the call only selects it; Enter
confirms. A call that does not fit on the screen cannot be approved before its last line was shown.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from itertools import accumulate

from msgspec import Struct, field
from msgspec.structs import replace
from wcwidth import strip_sequences

from agent.keys import with_keys
from agent.ports import Allow, Deny, PermissionQuestion
from tools.user_questions import ANSWERS
from transcripts.patterns import lazy_pattern

from .approval_answers import ApprovalChoice, approval_choices
from .picker import MARKER
from .question_form import LISTEN_DELAY_S, QuestionForm
from .render import render_diff
from .script_drawing import draw_script
from .terminal_text import (
    RenderContext,
    clip,
    clip_painted,
    escape_prose,
    escape_strict,
    hang,
    one_line,
    wrap,
)

MIN_BODY_ROWS = 3
UNREAD_HINT = "Not approved yet: scroll to the end first (PgDn or End)"
_CHANGED_ROW = lazy_pattern(r" *\d+ [-+] ")


class ApprovalPanel(Struct):
    """A question on the screen. Times are seconds of a monotonic clock."""

    question: PermissionQuestion
    choices: tuple[ApprovalChoice, ...]
    answer: asyncio.Future[Allow | Deny]
    listens_at: float = 0.0
    marked: int = 0  # index of the selected choice
    scroll: int = 0  # index of the first row of the body on the screen
    commented: ApprovalChoice | None = None  # the answer that the user is writing words for
    body: list[str] = field(default_factory=list)
    columns: int = 0  # width that the body was drawn for
    fitted: bool = True  # whether all of the body was on the screen so far
    end_seen: bool = False  # whether the last row of the body was on the screen

    @property
    def writing(self) -> bool:
        """Return whether the user is writing a reason or a remark."""
        return self.commented is not None

    @property
    def unread(self) -> bool:
        """Return whether the last row of the call was not on the screen yet."""
        return bool(self.body) and not self.end_seen

    def choice_for(self, key: str) -> ApprovalChoice | None:
        """Return the choice with this letter or digit."""
        return next((choice for choice in self.choices if key in (choice.letter, choice.digit)), None)


class ApprovalDialog:
    """The approval dialog, a ports.Approver. `panel` is the question on the screen, or None.

    `on_change` is called when a question appears, disappears or asks for words; keys redraw it anyway.
    `form` asks the model's questions, `show_plan` prints a plan above the question about it, and `say` shows
    a hint about the last key.
    """

    def __init__(
        self, on_change: Callable[[], None], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.panel: ApprovalPanel | None = None
        self.form = QuestionForm(lambda: self.on_change(), monotonic)
        self.on_change = on_change
        self.show_plan: Callable[[str], None] = lambda plan: None
        self.say: Callable[[str], None] = lambda hint: None
        self._monotonic = monotonic
        self._one_at_a_time = asyncio.Lock()

    async def ask(self, question: PermissionQuestion) -> Allow | Deny:
        """Show the question and wait for the answer; cancelling removes it from the screen."""
        async with self._one_at_a_time:
            if question.preview.questions:
                answers = await self.form.ask(question.preview.questions, question.asker)
                return (
                    Deny() if answers is None else Allow(updated_input={**question.input, ANSWERS: answers})
                )
            choices = approval_choices(question)
            panel = self.panel = ApprovalPanel(question, choices=choices, answer=asyncio.Future())
            if question.preview.plan:
                self.show_plan(question.preview.plan)
            panel.listens_at = self._monotonic() + LISTEN_DELAY_S
            self.on_change()
            try:
                return await panel.answer
            finally:
                self.panel = None
                self.on_change()

    @property
    def listening(self) -> bool:
        """Return whether keys are taken as answers now."""
        panel = self.panel
        return panel is not None and not panel.writing and self._monotonic() >= panel.listens_at

    def note_typing(self) -> None:
        """Restart the delay after a key that is not an answer: the next keys may not be meant as answers."""
        if self.panel is not None:
            self.panel.listens_at = self._monotonic() + LISTEN_DELAY_S
            self.panel.marked = 0  # a letter before it may have selected another

    def press(self, key: str) -> bool:
        """Take a character typed while the question listens. Return False if it is not an answer."""
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
        """Answer with the selected choice."""
        if self.panel is not None:
            self._choose(self.panel.choices[self.panel.marked])

    def comment(self) -> None:
        """Let the user write words for the model that go with the selected choice."""
        if self.panel is not None:
            self._write_for(self.panel.choices[self.panel.marked])

    def move(self, by: int) -> None:
        """Select another choice."""
        if self.panel is not None:
            self.panel.marked = (self.panel.marked + by) % len(self.panel.choices)

    def scroll(self, by: int) -> None:
        """Scroll the body by that many rows, at most to its ends."""
        if self.panel is not None:
            self.panel.scroll = max(0, min(self.panel.scroll + by, len(self.panel.body) - 1))

    def deny(self, reason: str = "", stop: bool = False) -> None:
        """Deny the call; `stop` ends the turn too."""
        if self.panel is not None and not self.panel.answer.done():
            self.panel.answer.set_result(Deny(reason, stop))

    def send(self, words: str) -> None:
        """Answer with the choice that the user has written words for, which may be empty."""
        panel = self.panel
        if panel is None or panel.commented is None or panel.answer.done():
            return
        if panel.commented.answer is None:
            self.deny(words)
        else:
            panel.answer.set_result(replace(panel.commented.answer, remark=words))

    def ask_again(self) -> None:
        """Show the choices again instead of taking words."""
        if self.panel is not None:
            self.panel.commented = None
            self.note_typing()
            self.panel.listens_at = self._monotonic() + LISTEN_DELAY_S / 2  # Esc twice may be a slip
            self.on_change()

    def _choose(self, choice: ApprovalChoice) -> None:
        panel = self.panel
        if panel is None or panel.answer.done():
            return
        if choice.answer is None:
            self._write_for(choice)
        elif panel.unread:
            self.say(UNREAD_HINT)
        else:
            panel.answer.set_result(choice.answer)

    def _write_for(self, choice: ApprovalChoice) -> None:
        panel = self.panel
        if panel is None or panel.answer.done():
            return
        if choice.answer is not None and panel.unread:
            self.say(UNREAD_HINT)
            return
        panel.commented = choice
        self.on_change()


def question_head(question: PermissionQuestion) -> str:
    """Return the question itself, on one line."""
    tool = one_line(question.tool)
    asker = f"[{one_line(question.asker)}] " if question.asker else ""
    if question.preview.plan:
        return f"{asker}Carry out this plan?"
    if question.preview.questions:
        return asker + one_line(question.preview.questions[0].question)
    if question.waits:
        return f"{asker}Let this command connect?"
    if question.port:
        return f"{asker}Let commands connect to {one_line(question.port)}?"
    runs_outside = question.refused or question.outside
    return asker + ("Run this command outside the sandbox?" if runs_outside else f"Allow {tool}?")


def question_reason(question: PermissionQuestion) -> str:
    """Return the reason for a question on one line, or a note on a command that was blocked; "" for none."""
    label = "Note" if question.refused else "Reason"
    return one_line(f"{label}: {question.why}") if question.why else ""


def question_body(question: PermissionQuestion, ctx: RenderContext) -> list[str]:
    """Draw the whole call in question: every character visible, long lines wrapped."""
    inner = RenderContext(max(ctx.columns - 2, 2), ctx.theme, full=True)
    preview = question.preview
    if preview.plan:
        return [f"  {row}" for row in wrap(escape_prose(preview.plan), inner.columns)]
    if preview.diff:
        rows = render_diff(preview.diff, inner)
    elif any(access.kind == "server" for access in question.access):
        rows = wrap(escape_strict(preview.text or question.title), inner.columns)
    else:
        rows = draw_script(preview.text or question.title, inner)
    if question.refused:
        output = wrap(escape_strict(preview.output), inner.columns)
        dim = [ctx.paint("dim", row) for row in output if row.strip()]
        rows = [*inner.wrapped("warning", one_line(question.refused)), *rows, *dim]
    for access in question.access:
        if (access.outside or access.protected) and access.kind != "network":  # which the title names
            named = f"/{access.target}".endswith(f"/{question.title.removeprefix('/')}")
            rows = [] if named and rows == [question.title] else rows  # the place is named once
            where = "outside the project: " if access.outside else ""
            rows += inner.wrapped("warning", f"{access.kind}s {where}{one_line(access.target)}")
    return [f"  {row}" for row in rows]


def question_target(question: PermissionQuestion, ctx: RenderContext) -> list[str]:
    """Return the rows that name the file of a diff; [] for other questions, whose body names it."""
    title = one_line(question.title)
    return [f"  {row}" for row in wrap(title, ctx.columns - 2)] if question.preview.diff else []


def full_question(question: PermissionQuestion, ctx: RenderContext) -> list[str]:
    """Draw a question for printing: the whole call, and each answer with its full rule."""
    choices = approval_choices(question)
    answers = [f"  {choice.digit} {choice.text}  {choice.letter}" for choice in choices]
    rows = [row for answer in answers for row in wrap(answer, ctx.columns)]
    return [*question_target(question, ctx), *question_body(question, ctx), *rows]


def draw_approval(panel: ApprovalPanel, ctx: RenderContext, rows: int) -> tuple[list[str], int]:
    """Draw the question in at most `rows` lines, which always include the choices.

    Return the row of the selected one too, or of the hint while the user writes words.
    """
    question = panel.question
    if panel.columns != ctx.columns:  # new, or the terminal was resized
        before = panel.body
        panel.body = question_body(question, ctx) if not question.preview.plan else []  # it is printed above
        panel.scroll = _same_place(panel.scroll, before, panel.body)
        panel.columns = ctx.columns
    head = ctx.clipped("warning", question_head(question))
    title = one_line(question.title)
    if question.preview.diff and title:
        head += "  " + clip(title, max(ctx.columns - len(question.tool) - 10, 1))
    air = 4 if rows >= 14 else 0  # blank lines around the body
    # Answers repeat a long command, so they are cut where they would leave it less than half of the rows.
    most = rows - 1 - max(MIN_BODY_ROWS, min(len(panel.body), rows // 2))
    whole, _ = _foot(panel, ctx, 1 << 30)
    if most - air < len(whole) <= most:  # whole answers are worth more than blank lines
        air = 0
    foot, marked = _foot(panel, ctx, most - air)
    room = max(rows - air - 1 - len(foot), MIN_BODY_ROWS)
    if room < len(panel.body) <= room + air:  # the whole body is worth more than the blank lines
        room += air
        air = 0
    if panel.fitted and len(panel.body) > room:
        panel.scroll = _first_change(panel.body)
        panel.fitted = False
    last_page = len(panel.body) - room + 1 if len(panel.body) > room else 0  # one row shows the position
    panel.scroll = min(panel.scroll, last_page)
    shown = panel.body[panel.scroll : panel.scroll + room]
    if len(panel.body) > room:
        shown = panel.body[panel.scroll : panel.scroll + room - 1]
        last = panel.scroll + len(shown)
        panel.end_seen |= last == len(panel.body)
        place = f"  lines {panel.scroll + 1}-{last} of {len(panel.body)} · "
        short = place + ("PgUp/PgDn" if panel.end_seen else "End before approving")
        long = place + ("PgUp/PgDn to scroll" if panel.end_seen else "PgDn or End before approving")
        key = ctx.keys["outputs"]
        shown = [*shown, ctx.hint(f"{long} · {key} to print all" if key else long, short)]
    else:
        panel.end_seen = True
    gap = [""] if air else []
    below = gap if not panel.writing else []
    inside = [*shown, *gap] if shown else []
    above = [*gap, head, *gap, *inside]
    lines = [clip_painted(row, ctx.columns) for row in (*above, *foot, *below)]
    return lines, len(above) + marked


def _same_place(at: int, before: list[str], after: list[str]) -> int:
    """Return the row of the body after a resize that contains the start of row `at` before it."""
    old = _row_starts(before)
    new = _row_starts(after)
    place = old[at] * new[-1] // max(old[-1], 1)
    return bisect_left(new, new[bisect_right(new, place) - 1])


def _row_starts(body: list[str]) -> list[int]:
    """Count the characters before each row, and all. Another width breaks lines elsewhere but keeps them."""
    return [0, *accumulate(len(strip_sequences(row).replace(" ", "")) for row in body)]


def _first_change(body: list[str]) -> int:
    """Return the index of the row before the first added or removed one, 0 without one."""
    changed = (at for at, row in enumerate(body) if _CHANGED_ROW.match(strip_sequences(row)))
    return max(next(changed, 0) - 1, 0)


def _foot(panel: ApprovalPanel, ctx: RenderContext, max_rows: int) -> tuple[list[str], int]:
    """Draw the reason and the answers in at most `max_rows`: wrapped if they fit, else cut with a note.

    Return the row of the selected answer too.
    """
    question = panel.question
    shows_edit = question.cause == "edit" and bool(question.preview.diff)
    shows_place = question.cause == "outside" and any(access.outside for access in question.access)
    reason = "" if shows_edit or shows_place else question_reason(question)
    why = [ctx.paint("dim", f"  {row}") for row in wrap(reason, max(ctx.columns - 2, 2))] if reason else []
    if panel.commented is not None:
        return [*why, _writing_hint(panel.commented, ctx)], len(why)
    room = max(ctx.columns - 7, 4)
    texts = [wrap(f"{choice.digit} {choice.text}", room) for choice in panel.choices]
    cut = len(why) + sum(map(len, texts)) + 1 > max_rows
    if cut:
        texts = [[clip(f"{choice.digit} {choice.text}", room)] for choice in panel.choices]
        why = [ctx.clipped("dim", f"  {reason}")] if reason else []
    rows = [row for at, text in enumerate(texts) for row in _choice_rows(panel, at, text, ctx)]
    lasting = "/".join(choice.letter for choice in panel.choices if choice.lasting)
    confirm = f" · {lasting} then Enter" if lasting else ""
    last = f"  Esc to deny and stop{confirm} · Tab to add a remark"
    short = f"  Esc to deny{confirm}"
    if cut and any(len(wrap(choice.text, room - 2)) > 1 for choice in panel.choices):
        last = short = with_keys("  {outputs} for full rules · Esc to deny", ctx.keys, " · ")
    marked = len(why) + sum(map(len, texts[: panel.marked]))
    return [*why, *rows, ctx.hint(last, short)], marked


def _writing_hint(choice: ApprovalChoice, ctx: RenderContext) -> str:
    """Return the prompt for a reason, or for a remark that goes with an approval."""
    if choice.answer is None:
        long = "Tell makeroom what to do instead (optional) · Enter to deny · Esc to go back"
        short = "Enter to deny · Esc to go back"
    else:
        scope = f"{choice.text} · " if choice.lasting else ""
        long = f"{scope}Add a remark for the model (optional) · Enter to approve · Esc to go back"
        short = f"{scope}Enter to approve · Esc to go back"
    return long if len(long) <= ctx.columns else clip(short, ctx.columns)


def _choice_rows(panel: ApprovalPanel, at: int, text: list[str], ctx: RenderContext) -> list[str]:
    """Draw one answer, with its letter after the last row."""
    marked = at == panel.marked
    rows = hang(text, first=MARKER if marked else "  ", others="    ")
    rows = [ctx.paint("bold", row) for row in rows] if marked else rows
    return [*rows[:-1], rows[-1] + ctx.paint("dim", f"  {panel.choices[at].letter}")]
