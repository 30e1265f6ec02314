"""Choose the answer to a conversation: a summary, the next step of a request, or small talk.

The bug of the sample project is fixed as a model would: test, read, edit, test again.
"""

import re
from collections.abc import Sequence
from itertools import accumulate

from transcripts import Message
from transcripts.patterns import lazy_pattern

from .answers import describe_failure, describe_success, name_calls, small_talk, write_summary
from .conversation import Answer, Step, calls_in, is_continuation, own_text, read_view, tool_call
from .reading_run import find_run, read_next
from .request_rules import plan_steps

FIX_REQUEST = lazy_pattern(r"(?is).*\b(fix|repair|mend)\b.*\btests?\b.*")
SAMPLE_TESTS = "python3 -m unittest -q"  # needs nothing but Python
_NO_PYTEST = lazy_pattern(r"No module named pytest|\bpython: (?:command )?not found")
SAMPLE_MODULE = "temperature.py"
SAMPLE_BUG = "    return sum(values) / (len(values) - 1)\n"
SAMPLE_REMEDY = "    return sum(values) / len(values)\n"


def next_fix(text: str, past: Sequence[Step]) -> Answer | None:  # noqa: PLR0911  one return per step
    """Return the next step after a test failure in the sample project, None anywhere else."""
    calls = calls_in(past)
    if not calls or not FIX_REQUEST.fullmatch(text):
        return None
    latest = calls[-1]
    if latest.denied or latest.interrupted:
        return None
    if latest.tool == "bash" and latest.failed:
        if _NO_PYTEST.search(latest.text) and latest.command != SAMPLE_TESTS:
            reply = "pytest is not installed, so I will run the tests with unittest."
            return Answer(reply, (tool_call("bash", command=SAMPLE_TESTS),))
        if SAMPLE_MODULE not in latest.text or "ZeroDivisionError" not in latest.text:
            return None
        reply = f"Two tests fail, and both call `mean` in `{SAMPLE_MODULE}`. I will read it."
        return Answer(reply, (tool_call("read", file_path=SAMPLE_MODULE),))
    shows_bug = SAMPLE_BUG.strip() in latest.text or latest.is_unchanged  # it was read in an earlier turn
    if latest.tool == "read" and latest.path.endswith(SAMPLE_MODULE) and shows_bug:
        reply = "The bug: the sum is divided by one less than the number of values."
        edit = tool_call("edit", file_path=SAMPLE_MODULE, old_string=SAMPLE_BUG, new_string=SAMPLE_REMEDY)
        return Answer(reply, (edit,))
    if latest.tool == "edit" and not latest.failed and latest.path == SAMPLE_MODULE:
        command = next((call.command for call in reversed(calls) if call.tool == "bash"), SAMPLE_TESTS)
        return Answer("Now I will run the tests again.", (tool_call("bash", command=command),))
    edited = any(call.tool == "edit" and call.path == SAMPLE_MODULE and not call.failed for call in calls)
    if latest.tool == "bash" and edited:
        return Answer(
            "Both tests pass. `mean` divided by `len(values) - 1`; now it divides by `len(values)`.\n\n"
            "`/diff` shows the change, and `/rewind` undoes it. To see makeroom free context, ask: "
            "*Read every txt file in the logs directory one by one*."
        )
    return None


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
