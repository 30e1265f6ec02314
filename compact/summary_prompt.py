"""Ask the model for a summary: the instructions, the messages before them, and the answer.

The request extends the view as it was last sent, so that the history is read from the cache. An answer that
is empty, calls a tool, is cut off, or is larger than what it replaces is a failure. One that is no summary
(summary_answer.py) is asked for once more.
"""

import re
from collections.abc import Generator, Sequence

from msgspec.structs import replace

from transcripts import Folded, Message, Part, PartKind, Reply, TextBlock, ToolResultBlock, Usage
from transcripts.patterns import lazy_pattern

from .breakpoints import cache_breakpoints, cached_messages
from .estimate import tokens_behind
from .situation import Situation, SummaryReply, SummaryRequest
from .summary_answer import defect_of

INSTRUCTIONS = """\
Answer with text only. Do not call any tools: a tool call makes this summary fail.

The conversation above is about to be replaced by your summary, to free context. You must be able to \
continue the work from the summary alone. {analysis} a <summary> with these nine sections:

1. Primary request and intent: everything that the user asked for, in detail.
2. Key technical concepts: technologies, conventions and decisions, with their reasons.
3. Files and code: every file that was read, changed or created, with its full path and what matters in it; \
code that will be needed, verbatim.
4. Errors and fixes: what went wrong, how it was fixed, and the user's feedback on it.
5. Problem solving: what is known so far, and which approaches were tried and did not work.
6. All user messages: the user's messages are kept verbatim elsewhere; do not repeat them. Say only which of \
them later messages changed or withdrew.
7. Pending tasks: what the user asked for that is not done yet.
8. Current work: precisely what you were doing last, with file names and code.
9. Next step: only what follows from the newest request, with verbatim quotes from the conversation that \
show where the work stands. If the last task is finished, say so and name no next step.

Give paths, identifiers, numbers, commands and error messages exactly. Mark what was not verified. If the \
conversation begins with an earlier summary, update it: carry over everything that is still true, so that \
nothing is lost by summarizing twice.
"""
FOCUS = "\nThe user asks you to pay particular attention to this:\n{focus}\n"
ANALYSIS = """\
First write an <analysis>, in which you go through the conversation in order and collect what matters; it is \
discarded. Then write"""
REMINDER = "\nReminder: text only, no tool calls. End your answer with <summary>...</summary>."
AGAIN = (
    "\nYour last answer was not the summary: it {defect}. Write all nine sections with their content, as "
    "text, in English or in the user's language."
)
INSTRUCTION_TOKENS = 700  # of all of these, approximately
LEFT_OUT_TEXT = "[The oldest part of this conversation is omitted here.]"
LEFT_OUT_TOKENS = 12
_ANALYSIS = lazy_pattern(r"<analysis>.*?(?:</analysis>|(?=<summary>)|\Z)", re.DOTALL)
_SUMMARY = lazy_pattern(r"<summary>(.*?)(?:</summary>|\Z)", re.DOTALL)


def summary_instructions(focus: str, thinks: bool) -> str:
    """Return the instructions; a model that thinks before it answers is not asked for an analysis."""
    text = INSTRUCTIONS.format(analysis="Write" if thinks else ANALYSIS)
    return text + (FOCUS.format(focus=focus) if focus else "") + REMINDER


_INSTRUCTION_LINES = frozenset(
    line for thinks in (True, False) for line in summary_instructions("", thinks).split("\n")
)


def _has_thought(folded: Folded) -> bool:
    """Return whether any reply contains thinking."""
    replies = (fact for fact in reversed(folded.facts) if isinstance(fact, Reply))
    return any(block.is_thinking for reply in replies for block in reply.blocks)


class SummaryFailed(Exception):
    """The summary failed; the text gives the reason."""


class NoAnswer(SummaryFailed):
    """The server did not answer; it may answer another time."""


class SummaryPending(Exception):
    """The summary is written in the background."""


def request_summary(situation: Situation, focus: str) -> Generator[SummaryRequest, SummaryReply, str]:
    """Ask for a summary, omitting more of the oldest exchanges each time that the request is too long.

    Raises NoAnswer, SummaryFailed and SummaryPending.
    """
    settings = situation.settings
    window = situation.window.size
    output = _max_output(situation)
    instructions = summary_instructions(focus, thinks=_has_thought(situation.folded))
    over = situation.tokens + INSTRUCTION_TOKENS + output - window
    leave_out = _oldest_exchanges(situation, over)
    reason = ""
    for _ in range(max(1, settings.summary_max_requests)):
        reply = yield SummaryRequest(
            instructions, leave_out=leave_out, max_tokens=output, edits=situation.lasting
        )
        reason = reply.failure or ""
        if reply.pending:
            raise SummaryPending
        if not reply.too_long:
            summary = _summary_in(reply, situation)
            if defect := defect_of(summary, situation.folded, _INSTRUCTION_LINES):
                again = instructions + AGAIN.format(defect=defect)
                reply = yield SummaryRequest(
                    again, leave_out=leave_out, max_tokens=output, edits=situation.lasting
                )
                return finished_summary(reply, situation, ", also when asked again")
            return summary
        over = max(over, 0) + window // 5  # each further request omits a fifth more
        leave_out = max(leave_out + 1, _oldest_exchanges(situation, over))
    asked = f"asked {settings.summary_max_requests} times, omitting more each time"
    raise SummaryFailed(f"{reason} ({asked})")


def finished_summary(reply: SummaryReply, situation: Situation, more: str = "") -> str:
    """Return the summary in a reply that will not be asked for again. Raises NoAnswer and SummaryFailed."""
    summary = _summary_in(reply, situation)
    if defect := defect_of(summary, situation.folded, _INSTRUCTION_LINES):
        raise SummaryFailed(f"the answer {defect}{more}")
    return summary


USUAL_SUMMARY_TOKENS = 1_500  # of the model's summary, however short the conversation is


def summary_usage(situation: Situation, cached: bool) -> Usage:
    """Return the likely usage of a request for a summary; `cached`: prompts are cached."""
    folded = situation.folded
    most = _max_output(situation)
    prompt = min(situation.tokens + INSTRUCTION_TOKENS, situation.window.size - most)
    # An analysis or thinking of about the same length comes first.
    output = min(2 * situation.scaled(USUAL_SUMMARY_TOKENS), most)
    if not cached:
        return Usage(input=prompt, output=output)
    since = situation.now - situation.settings.cache_ttl_s
    read = 0 if situation.cache_is_cold else cached_messages(folded, folded, folded.last_seq + 1, since)
    written = prompt
    if read:
        written = min(prompt, tokens_behind(folded, read) + INSTRUCTION_TOKENS)
    return Usage(cache_read=prompt - written, cache_written=written, output=output)


def _max_output(situation: Situation) -> int:
    return min(situation.settings.summary_max_output_tokens, situation.window.max_output)


def _oldest_exchanges(situation: Situation, tokens: int) -> int:
    """Return the number of oldest exchanges in view that together have `tokens` of the model's tokens."""
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
    """Return the messages before the instructions, and the indices of those that carry cache breakpoints.

    The instructions follow as one more user message. The last message always carries a breakpoint and is not
    among the indices.
    """
    if request.edits:
        folded = folded.with_edits(request.edits)
    view = folded.view.sendable()
    if request.leave_out > 0:
        return _without_oldest(view, request.leave_out), ()
    return view, tuple(index for index in cache_breakpoints(folded) if index < len(view))


def _without_oldest(view: Sequence[Message], exchanges: int) -> Sequence[Message]:
    """Return the view without its oldest exchanges, and without all thinking, which was bound to them."""
    gap = Part(TextBlock(LEFT_OUT_TEXT), seq=0, index=0, kind=PartKind.PLACEHOLDER, tokens=LEFT_OUT_TOKENS)
    shown = [Message("user", parts=(gap,), first=0, last=0)]
    replies = [index for index, message in enumerate(view) if message.role == "assistant"]
    if exchanges >= len(replies):
        answers_calls = not view or any(isinstance(part.block, ToolResultBlock) for part in view[-1].parts)
        return shown if answers_calls else view[-1:]
    for message in view[replies[exchanges] :]:
        parts = tuple(part for part in message.parts if part.kind is not PartKind.THINKING)
        same = len(parts) == len(message.parts)  # keeps its encoded JSON
        shown.append(message if same else replace(message, parts=parts, encoded={}))
    return shown


def _summary_in(reply: SummaryReply, situation: Situation) -> str:
    """Return the summary in a reply. Raises NoAnswer and SummaryFailed with the reason."""
    if reply.failure is not None:
        raise NoAnswer(reply.failure)
    if reply.stop == "tool_use":
        raise SummaryFailed("the answer called a tool")
    if reply.stop == "refusal":
        raise SummaryFailed("the model refused to answer")
    if reply.stop in ("max_tokens", "model_context_window_exceeded"):
        raise SummaryFailed(f"the answer was cut off ({reply.stop})")
    without_analysis = _ANALYSIS.sub("", reply.text or "", count=1)
    found = _SUMMARY.search(without_analysis)
    text = (found.group(1) if found else without_analysis).strip()
    if not text:
        raise SummaryFailed("the answer was empty")
    if situation.counter.text(text) >= situation.view.tokens:
        raise SummaryFailed("the summary is larger than what it replaces")
    return text
