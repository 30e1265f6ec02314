"""Choose the answer to a conversation: a summary, the next step of a request, or small talk."""

import re
from collections.abc import Sequence
from itertools import accumulate

from transcripts import Message

from .answers import describe_failure, describe_success, name_calls, small_talk, write_summary
from .conversation import Answer, Step, calls_in, is_continuation, own_text, read_view, tool_call
from .reading_run import find_run, read_next
from .request_rules import plan_steps
from .sample_fix import next_fix


def answer(messages: Sequence[Message], instruction: str, tools: set[str]) -> Answer:
    """Return the next reply, or a summary if an instruction follows the messages."""
    past = list(read_view(messages))
    found = Answer(write_summary(past)) if instruction else _answer(*_newest_request(past))
    if missing := {call.name for call in found.calls} - tools:
        return Answer(f"I cannot do that without these tools: {', '.join(sorted(missing))}.")
    return found


def _newest_request(past: Sequence[Step]) -> tuple[str, Sequence[Step], bool]:
    """Return the newest prompt with a request, the steps after it, and whether the user asked to continue it.

    If the prompt is repeated in a record, the steps begin with the record.
    """
    resumed = False
    for at, step in reversed(list(enumerate(past))):
        if step.kind == "prompt" and is_continuation(step.text):
            resumed = True
        elif step.kind == "prompt" and (not resumed or _is_understood(step.text)):
            return step.text, past[at + 1 :], resumed
        elif step.kind == "record":
            prompts = step.prompts or [line for line in step.text.split("\n") if find_run(line)]
            if text := next(filter(_is_understood, reversed(prompts)), ""):
                return text, past[at:], resumed
    return "continue" if resumed else "", past, resumed


def _is_understood(text: str) -> bool:
    return bool(find_run(text) or plan_steps(text)[0])


def _answer(text: str, past: Sequence[Step], resumed: bool) -> Answer:
    latest = past[-1] if past else Step("reply")
    if run := find_run(text):
        if latest.denied or (latest.failed and latest.tool == "bash"):
            return Answer(describe_failure(latest))
        found = read_next(run, past)
        rest = "; ".join(part.strip(" ,.;") for part in re.split(r"\bthen\b", text) if not find_run(part))
        if found.calls or not rest or past[0].kind == "record":
            return found
        return Answer(f"{found.text}\n\nI did not do this part; ask for it separately: {rest}")
    if (fix := next_fix(text, past)) is not None:
        return fix
    if plan_steps(text)[0]:
        return _next_step(text, past, resumed)
    return Answer(describe_success(latest) if latest.kind == "call" else small_talk(text))


def _next_step(text: str, past: Sequence[Step], resumed: bool) -> Answer:
    """Return the next step of a plan, or a report if all steps are done or one has failed."""
    steps, unclear = plan_steps(text)
    calls = calls_in(past)
    begun = sum(through <= len(calls) for through in accumulate(map(len, steps)))
    if any(step.kind == "record" for step in past):  # it replaces calls that are not in the view
        notes = re.findall(rf"Step (\d+) of {len(steps)}\b", own_text(past))
        begun = max([begun, *map(int, notes)])
    latest = calls[-len(steps[begun - 1]) :] if begun else []
    failed = next((call for call in latest if call.failed), None)
    if failed and failed.path == "README.md" and "README" not in text and not failed.denied:
        return Answer(
            "README.md does not exist, so I will list the files.", (tool_call("bash", command="ls -la"),)
        )
    if failed:
        if not resumed or past[-1].kind == "call":
            left = "; ".join(map(name_calls, steps[begun:]))
            return Answer(describe_failure(failed) + (f"\n\nNot done: {left}." if left else ""))
        begun -= 1
    if begun < len(steps):
        number = f"Step {begun + 1} of {len(steps)}: " if len(steps) > 1 else "I will "
        return Answer(f"{number}{name_calls(steps[begun])}.", steps[begun])
    done = [describe_success(call) for call in calls[-4:] if not call.failed]
    report = "\n\n".join(done) or "Done."
    return Answer(report + (f"\n\nI do not understand this part: {'; '.join(unclear)}." if unclear else ""))
