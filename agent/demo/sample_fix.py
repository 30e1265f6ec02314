"""Fix the bug of the sample project step by step, as a model would: test, read, edit, test again."""

from __future__ import annotations

from collections.abc import Sequence

from transcripts.patterns import lazy_pattern

from .conversation import Answer, Step, calls_in, tool_call

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
