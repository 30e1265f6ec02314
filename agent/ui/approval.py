"""Ask the person: a question takes the place of the input, whose draft is kept.

Keys typed before the question could be read must not answer it: it listens only after 300 ms without a
key. Until then, and whenever a key that is no answer is pressed, keys go on into the draft. A letter counts
only when no other key follows soon: the first letter of a word is no answer, and neither is any letter of
one that is being typed. What outlasts the call is only marked by its key, and taken by Enter: no key alone
grants it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from agent.ports import Allow, Deny, PermissionQuestion

from .escape import one_line, output, strict
from .labels import RenderContext
from .text_cells import clip, clip_start, fit, width, wrap

QUIET = 0.3  # seconds
ALONE = 0.35  # seconds that a letter must stand alone to be an answer: slower than most people type
DIGIT_ALONE = 0.15  # the same for a digit, which begins no word
PAUSE = 1.0  # seconds without a key after which a word is over
LEAST_ROWS = 3


@dataclass(frozen=True, slots=True)
class ApprovalChoice:
    """One answer: its letter and digit, what it says, and what it means (None asks for a reason first)."""

    letter: str
    digit: str
    words: str
    answer: Allow | None

    @property
    def lasting(self) -> bool:
        """Whether it grants more than this call."""
        return self.answer is not None and self.answer.scope != "once"


@dataclass(slots=True)
class ApprovalPanel:
    """A question on the screen."""

    question: PermissionQuestion
    choices: tuple[ApprovalChoice, ...]
    answer: asyncio.Future[Allow | Deny]
    listens_at: float
    at: int = 0
    first: int = 0  # the line of the body that is shown first
    reasoning: bool = False
    held: str = ""  # a key that may be an answer or the beginning of a word
    word_until: float = 0.0  # until then a key that follows belongs to the same word
    typing: bool = False  # words were typed meanwhile: Enter ends those, and is no answer
    draft: str = ""  # what is written in the input, which the question hides
    body: list[str] = field(default_factory=list)


class ApprovalDialog:
    """Implements ports.Approver. `panel` is the question on the screen, or None."""

    def __init__(self, changed: Callable[[], None], monotonic: Callable[[], float] = time.monotonic) -> None:
        self.panel: ApprovalPanel | None = None
        self.changed = changed
        self._monotonic = monotonic
        self._one = asyncio.Lock()

    async def ask(self, question: PermissionQuestion) -> Allow | Deny:
        """Show the question and wait; cancelling takes it off the screen."""
        async with self._one:
            waiting: asyncio.Future[Allow | Deny] = asyncio.get_running_loop().create_future()
            self.panel = ApprovalPanel(question, choices(question), waiting, self._monotonic() + QUIET)
            self.changed()
            try:
                return await waiting
            finally:
                self.panel = None
                self.changed()

    @property
    def listening(self) -> bool:
        """Whether keys are answers now."""
        panel = self.panel
        return panel is not None and not panel.reasoning and self._monotonic() >= panel.listens_at

    def disturb(self) -> None:
        """A key came that is no answer: the person is typing something else."""
        if self.panel is not None:
            now = self._monotonic()
            self.panel.listens_at, self.panel.word_until = now + QUIET, now + PAUSE
            self.panel.typing = True
            self.changed()

    def press(self, key: str) -> str:
        """A character typed while the question listens; returns what belongs into the draft after all."""
        panel = self.panel
        if panel is None:
            return key
        held, panel.held = panel.held, ""
        chosen = _keyed(panel, key)
        before = _keyed(panel, held)
        if chosen is None or (before and not before.lasting) or self._monotonic() < panel.word_until:
            if before:
                panel.at = 0  # what the first letter of the word may have marked
            self.disturb()
            return held + key
        panel.held = key
        if chosen.lasting:
            panel.at = panel.choices.index(chosen)
            panel.word_until = self._monotonic() + PAUSE
            self.changed()
        else:
            alone = DIGIT_ALONE if key == chosen.digit else ALONE
            panel.word_until = self._monotonic() + alone
            asyncio.get_running_loop().call_later(alone, self._stood_alone, panel, chosen)
        return ""

    def enter(self) -> None:
        """Take the choice whose key was just typed, else the marked one; none behind typed words."""
        panel = self.panel
        if panel is not None and not panel.typing:
            self._choose(_keyed(panel, panel.held) or panel.choices[panel.at])

    def move(self, by: int) -> None:
        """Mark another choice."""
        if self.panel is not None:
            self.panel.at = (self.panel.at + by) % len(self.panel.choices)
            self.panel.typing, self.panel.held, self.panel.word_until = False, "", 0.0

    def scroll(self, by: int) -> None:
        if self.panel is not None:
            self.panel.first = max(0, min(self.panel.first + by, len(self.panel.body) - 1))

    def refuse(self, reason: str = "", stop: bool = False) -> None:
        """Say no; `stop` ends the turn too."""
        if self.panel is not None and not self.panel.answer.done():
            self.panel.answer.set_result(Deny(reason, stop))

    def back(self) -> None:
        """Ask again instead of taking a reason."""
        if self.panel is not None:
            self.panel.reasoning = False
            self.panel.listens_at = self._monotonic() + QUIET
            self.changed()

    def _stood_alone(self, panel: ApprovalPanel, choice: ApprovalChoice) -> None:
        if panel is self.panel and panel.held in (choice.letter, choice.digit):
            panel.held = ""
            self._choose(choice)

    def _choose(self, choice: ApprovalChoice) -> None:
        panel = self.panel
        if panel is None or panel.answer.done():
            return
        if choice.answer is None:
            panel.reasoning = True
            self.changed()
        else:
            panel.answer.set_result(choice.answer)


def _keyed(panel: ApprovalPanel, key: str) -> ApprovalChoice | None:
    return next((choice for choice in panel.choices if key in (choice.letter, choice.digit)), None)


def choices(question: PermissionQuestion) -> tuple[ApprovalChoice, ...]:
    """The answers to a question. The one that may be missing comes last: digits keep their meaning."""
    once, no = (
        ApprovalChoice("y", "1", "Yes, this once", Allow("once")),
        ApprovalChoice("n", "3", "No, and tell why", None),
    )
    if question.prefix is None:
        special = any(touch.outside or touch.protected for touch in question.touches)
        words = f"Yes, {'this place' if special else f'all of {one_line(question.tool)}'} in this session"
        return once, ApprovalChoice("a", "2", words, Allow("session")), no
    rule = one_line(question.prefix)
    session = ApprovalChoice("a", "2", f"Yes, for this session: {rule}", Allow("session"))
    return (
        once,
        session,
        no,
        ApprovalChoice("p", "4", f"Yes, always in this project: {rule}", Allow("always")),
    )


def body(question: PermissionQuestion, look: RenderContext) -> list[str]:
    """What is asked for, whole: every character visible, long lines wrapped."""
    from .render import diff  # not before the first paint

    inner = RenderContext(max(look.columns - 2, 2), look.theme, full=True)
    if question.preview.get("diff"):
        rows = diff(str(question.preview["diff"]), inner)
    else:
        text = str(question.preview.get("text") or question.title)
        rows = wrap(output(text.replace("\r", "␍")) if "\r" in text else strict(text), inner.columns)
    for touch in question.touches:
        if touch.outside or touch.protected:
            where = "a protected place" if touch.protected else "outside the project"
            words = f"{touch.kind}s {where}: {one_line(touch.target)}"
            rows += [look.theme.paint("warning", row) for row in wrap(words, inner.columns)]
    return [f"  {row}" for row in rows]


def place(question: PermissionQuestion, look: RenderContext) -> list[str]:
    """Where a change is made: a diff alone does not tell. What has no diff is told by its body."""
    title = one_line(question.title)
    return [f"  {row}" for row in wrap(title, look.columns - 2)] if question.preview.get("diff") else []


def draw(panel: ApprovalPanel, look: RenderContext, rows: int) -> list[str]:
    """The question in at most `rows` lines; the choices are always there."""
    question, paint = panel.question, look.theme.paint
    if not panel.body:
        panel.body = body(question, look)
    head = [paint("warning", clip(f"Allow {one_line(question.tool)}?", look.columns))]
    title = one_line(question.title)
    if question.preview.get("diff") and title:
        head[0] += "  " + clip(title, max(look.columns - len(question.tool) - 10, 1))
    foot = _foot(panel, look, rows - len(head) - LEAST_ROWS)
    room = max(rows - len(head) - len(foot), LEAST_ROWS)
    shown = panel.body[panel.first : panel.first + room]
    if len(panel.body) > room:
        shown = panel.body[panel.first : panel.first + room - 1]
        last = panel.first + len(shown)
        more = f"  lines {panel.first + 1}-{last} of {len(panel.body)} · PgUp PgDn · Ctrl-O prints all"
        shown = [*shown, paint("dim", clip(more, look.columns))]
    return [fit(row, look.columns) for row in (*head, *shown, *foot)]


def whole(question: PermissionQuestion, look: RenderContext) -> list[str]:
    """The question for printing: all that is asked for, and each answer with its rule in full."""
    answers = [f"  {choice.digit} {choice.words}  {choice.letter}" for choice in choices(question)]
    return [
        *place(question, look),
        *body(question, look),
        *(row for answer in answers for row in wrap(answer, look.columns)),
    ]


def _foot(panel: ApprovalPanel, look: RenderContext, most: int) -> list[str]:
    """The answers in at most `most` rows: wrapped where there is room, else cut, and that is said."""
    paint = look.theme.paint
    why = (
        [paint("dim", clip(f"  {one_line(panel.question.why)}", look.columns))] if panel.question.why else []
    )
    if panel.reasoning:
        return [*why, clip("Why not? Enter sends it (may be empty), Esc goes back", look.columns)]
    room = max(look.columns - 7, 4)
    texts = [wrap(f"{choice.digit} {choice.words}", room) for choice in panel.choices]
    cut = len(why) + sum(map(len, texts)) + 1 > most
    if cut:
        texts = [[clip(f"{choice.digit} {choice.words}", room)] for choice in panel.choices]
    rows = [row for at, text in enumerate(texts) for row in _choice(panel, at, text, look)]
    marking = " or ".join(choice.letter for choice in panel.choices if choice.lasting)
    last = f"  Esc: no, and stop · {marking} only marks, Enter takes it"
    if panel.typing:
        last = _typing(panel.draft, look.columns)
    elif cut and any(len(wrap(choice.words, room - 2)) > 1 for choice in panel.choices):
        last = "  Ctrl-O: rules whole; Esc: no"
    return [*why, *rows, paint("dim", clip(last, look.columns))]


def _typing(draft: str, columns: int) -> str:
    """How to answer behind typed words, and the end of those, for which the words before make way."""
    shown = one_line(draft)
    long, short = "  You are typing: ↑ or ↓, then Enter, answers", "  Typing (↑ Enter answers)"
    lead = next((words for words in (long, short) if width(words) + width(shown) + 3 <= columns), short)
    return f"{lead} · {clip_start(shown, columns - width(lead) - 3)}" if shown else long


def _choice(panel: ApprovalPanel, at: int, text: list[str], look: RenderContext) -> list[str]:
    """The rows of one answer: marked when it is chosen, its letter behind the last."""
    marked = at == panel.at
    marks = ["❯ " if marked else "  ", *("    " for _ in text[1:])]
    rows = [mark + row for mark, row in zip(marks, text, strict=True)]
    rows = [look.theme.paint("bold", row) for row in rows] if marked else rows
    return [*rows[:-1], rows[-1] + look.theme.paint("dim", f"  {panel.choices[at].letter}")]
