"""Asking the model for a summary: the instructions, the messages they follow, and checking the answer.

It is asked on the view as last sent, so that the history is read from the cache. An answer that is empty,
calls a tool, breaks off, or is larger than what it replaces is a failure, and then the history stays as it
is.
"""

import re
from collections.abc import Generator, Sequence

from msgspec.structs import replace

from transcripts import Folded, Message, Part, PartKind, TextBlock, ToolResultBlock
from transcripts.patterns import lazy_pattern

from .breakpoints import cache_breakpoints
from .situation import Situation, SummaryReply, SummaryRequest

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
REMINDER = "\nAgain: text only, no tool call. Write <analysis>...</analysis> and then <summary>...</summary>."
INSTRUCTION_TOKENS = 700  # of all of these, about
SHORTENING_SHARE = 5  # each further request leaves out one part in so many of the window more
LEFT_OUT_TEXT = "[The oldest part of this conversation is left out here.]"
LEFT_OUT_TOKENS = 12
_ANALYSIS = lazy_pattern(r"<analysis>.*?(?:</analysis>|(?=<summary>)|\Z)", re.DOTALL)
_SUMMARY = lazy_pattern(r"<summary>(.*?)(?:</summary>|\Z)", re.DOTALL)


class SummaryFailed(Exception):
    """The summary failed; the text gives the reason."""


def request_summary(situation: Situation, focus: str) -> Generator[SummaryRequest, SummaryReply, str]:
    """Ask for a summary, leaving out more of the oldest exchanges each time that the request is too long.

    Raises SummaryFailed.
    """
    settings = situation.settings
    window = situation.window.size
    output = min(settings.summary_max_output_tokens, situation.window.max_output)
    instructions = INSTRUCTIONS + (FOCUS.format(focus=focus) if focus else "") + REMINDER
    over = situation.tokens + INSTRUCTION_TOKENS + output - window
    leave_out = _oldest_exchanges(situation, over)
    reason = ""
    for _ in range(max(1, settings.summary_max_requests)):
        reply = yield SummaryRequest(
            instructions, leave_out=leave_out, max_tokens=output, edits=situation.lasting
        )
        reason = reply.failure or ""
        if not reply.too_long:
            return _summary_in(reply, situation)
        over = max(over, 0) + window // SHORTENING_SHARE
        leave_out = max(leave_out + 1, _oldest_exchanges(situation, over))
    asked = f"asked {settings.summary_max_requests} times, leaving out more each time"
    raise SummaryFailed(f"{reason}; {asked}")


def _oldest_exchanges(situation: Situation, tokens: int) -> int:
    """Return the number of oldest exchanges in view that together reach so many of the model's tokens."""
    if tokens <= 0:
        return 0
    view = situation.view
    count = 0
    needed = situation.unscaled(tokens)
    for index, message in enumerate(view):
        if message.role == "assistant":
            if view.tokens_before(index) >= needed:
                return count
            count += 1
    return max(1, count - 1)


def summary_messages(folded: Folded, request: SummaryRequest) -> tuple[Sequence[Message], tuple[int, ...]]:
    """The messages that a summary is asked on, and the indices of those that carry cache breakpoints.

    The instructions follow as one more user message. The last message carries a breakpoint in any case and is
    not among the indices.
    """
    if request.edits:
        folded = folded.with_edits(request.edits)
    view = folded.view.sendable()
    if request.leave_out > 0:
        return _without_oldest(view, request.leave_out), ()
    return view, tuple(index for index in cache_breakpoints(folded) if index < len(view))


def _without_oldest(view: Sequence[Message], exchanges: int) -> Sequence[Message]:
    """The view without its oldest exchanges and all thinking, which was bound to them."""
    gap = Part(TextBlock(LEFT_OUT_TEXT), 0, 0, PartKind.PLACEHOLDER, LEFT_OUT_TOKENS)
    shown = [Message("user", parts=(gap,), first=0, last=0)]
    replies = [index for index, message in enumerate(view) if message.role == "assistant"]
    if exchanges >= len(replies):
        answers_calls = not view or any(isinstance(part.block, ToolResultBlock) for part in view[-1].parts)
        return shown if answers_calls else view[-1:]
    for message in view[replies[exchanges] :]:
        parts = tuple(part for part in message.parts if part.kind is not PartKind.THINKING)
        same = len(parts) == len(message.parts)  # with its JSON made already
        shown.append(message if same else replace(message, parts=parts, encoded={}))
    return shown


def _summary_in(reply: SummaryReply, situation: Situation) -> str:
    """The summary of a reply. Raises SummaryFailed, saying what is wrong with it."""
    if reply.failure is not None:
        raise SummaryFailed(reply.failure)
    if reply.stop == "tool_use":
        raise SummaryFailed("the answer called a tool")
    if reply.stop in ("max_tokens", "model_context_window_exceeded"):
        raise SummaryFailed(f"the answer broke off ({reply.stop})")
    without_analysis = _ANALYSIS.sub("", reply.text or "", count=1)
    found = _SUMMARY.search(without_analysis)
    text = (found.group(1) if found else without_analysis).strip()
    if not text:
        raise SummaryFailed("the answer was empty")
    if situation.counter.text(text) >= situation.view.tokens:
        raise SummaryFailed("the summary is larger than what it replaces")
    return text
