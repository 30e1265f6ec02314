"""summary: the model tells what happened; its account replaces the old messages, the newest stay verbatim.

Asked on the view as last sent, so that the history is read from the cache. The answer is checked: one that
is empty, calls a tool, breaks off, or is larger than what it replaces is a failure, and then the history
stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from dataclasses import dataclass

from .plan import Situation, SummaryReply, SummaryRequest

INSTRUCTIONS = """\
Answer with text only. Do not call any tool: a tool call makes this summary fail.

The conversation above is about to be folded away to make room, and your summary takes its place. Whoever \
reads it must be able to go on without the conversation. Write an <analysis> first, in which you go through \
the conversation in order and collect what matters; it is not kept. Then write a <summary> of nine sections:

1. Primary request and intent: everything that the user asked for, in detail.
2. Key technical concepts: technologies, conventions and decisions, with the reasons.
3. Files and code: every file read, changed or created, by its full path, what matters in it, and code that \
will be needed, verbatim.
4. Errors and fixes: what went wrong, how it was solved, and what the user said about it.
5. Problem solving: what is understood by now, and what was tried and does not work.
6. All user messages: each of them, except tool results.
7. Pending tasks: what was asked for and is not done.
8. Current work: what was being done last, precisely, with file names and code.
9. Next step: only what follows from the newest request, with verbatim quotes of the conversation that show \
where the work stands. If the last task is finished, say so and name no next step.

Name paths, identifiers, numbers, commands and error messages exactly. Say what was not verified as such. \
If an earlier record or summary stands at the beginning, update it: carry over all that is still true, so \
that nothing gets lost by being summarised twice.
"""
FOCUS = "\nThe user asks to keep an eye on this in particular:\n{focus}\n"
LAST = "\nAgain: text only, no tool call. Write <analysis>...</analysis> and then <summary>...</summary>."
INSTRUCTION_TOKENS = 700
_ANALYSIS = re.compile(r"<analysis>.*?(?:</analysis>|(?=<summary>)|\Z)", re.DOTALL)
_SUMMARY = re.compile(r"<summary>(.*?)(?:</summary>|\Z)", re.DOTALL)
TOO_LONG = "too long"


@dataclass(frozen=True, slots=True)
class SummaryAnswer:
    """The summary's text, or why there is none; and what the call took."""

    text: str = ""
    failure: str = ""
    tokens: int = 0


def ask(situation: Situation, focus: str = "") -> Generator[SummaryRequest, SummaryReply, SummaryAnswer]:
    """Ask for a summary, leaving out more of the oldest exchanges each time that the request is too long."""
    settings = situation.settings
    output = min(settings.summary_max_output, situation.window.max_output)
    words = INSTRUCTIONS + (FOCUS.format(focus=focus) if focus else "") + LAST
    over = situation.tokens + INSTRUCTION_TOKENS + output - situation.window.size
    leave_out = oldest(situation, over)
    reason = ""
    for _ in range(max(1, settings.summary_tries)):
        answer = yield SummaryRequest(words, leave_out, output, situation.planned)
        told = check(situation, answer)
        if not told.failure.startswith(TOO_LONG):
            return told
        reason = told.failure
        over = max(over, 0) + situation.window.size // 5
        leave_out = max(leave_out + 1, oldest(situation, over))
    return SummaryAnswer(
        failure=f"{reason}; asked {settings.summary_tries} times, leaving out more each time"
    )


def oldest(situation: Situation, tokens: int) -> int:
    """How many of the oldest exchanges in view hold at least so many of the model's tokens."""
    if tokens <= 0:
        return 0
    view, count = situation.folded.view, 0
    need = situation.unscaled(tokens)
    for index, message in enumerate(view):
        if message.role == "assistant":
            if view.tokens_before(index) >= need:
                return count
            count += 1
    return max(1, count - 1)


def check(situation: Situation, answer: SummaryReply) -> SummaryAnswer:
    """The summary of an answer, or what is wrong with it."""
    if answer.failure is not None:
        return SummaryAnswer(failure=answer.failure)
    if answer.stop == "tool_use":
        return SummaryAnswer(failure="the answer called a tool")
    if answer.stop in ("max_tokens", "model_context_window_exceeded"):
        return SummaryAnswer(failure=f"the answer broke off ({answer.stop})")
    text = stripped(answer.text or "")
    if not text:
        return SummaryAnswer(failure="the answer was empty")
    tokens = situation.count.text(text)
    if tokens >= situation.folded.view.tokens:
        return SummaryAnswer(failure="the summary is larger than what it replaces")
    return SummaryAnswer(text, tokens=tokens)


def stripped(text: str) -> str:
    """The summary alone: analysis and tags are gone."""
    text = _ANALYSIS.sub("", text, count=1)
    found = _SUMMARY.search(text)
    return (found.group(1) if found else text).strip()
