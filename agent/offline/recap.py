"""The summary of a conversation, built from what is really in it; it keeps what the rules need to go on.

An earlier summary in view is carried over: its list of user messages, its files, and its progress.
"""

import re
from collections.abc import Iterator, Sequence

from .reading import Job, Standing, ahead, job_in, standing
from .reply import Body, Reply, says
from .view import Step, calls_in, carried, last_text, steps

_LIMIT = 600
_MESSAGES = 12
_FILES = 40
_TOUCHED = {"read": "Read", "write": "Written", "edit": "Edited"}


def is_summary_request(body: Body) -> bool:
    """Whether the last message asks for a summary in the two customary tags."""
    text = last_text(body)
    return "<analysis>" in text and "<summary>" in text


def recap(body: Body) -> Reply:
    """The summary, as text only."""
    past = steps(body)
    while past and past[-1].kind in ("ask", "record"):
        if past.pop().text.find("<summary>") >= 0:
            break
    sections = "\n\n".join(f"{number}. {text}" for number, text in enumerate(_sections(past), 1))
    analysis = f"I went through {len(past)} steps and collected what was asked, touched and left open."
    return Reply([says(f"<analysis>\n{analysis}\n</analysis>\n\n<summary>\n{sections}\n</summary>")])


def asked(past: Sequence[Step]) -> list[str]:
    """Every message of the person, oldest first, those that an earlier summary carries included."""
    found: list[str] = []
    for step in past:
        if step.kind == "ask":
            found.append(step.text)
        elif step.kind == "record":
            found.extend(carried(step.text))
    return found


def _sections(past: Sequence[Step]) -> Iterator[str]:
    messages = asked(past)
    request = messages[-1] if messages else "(none in view)"
    progress = "\n".join(_progress(past, messages))
    yield f"Primary Request and Intent:\n{request[:_LIMIT]}"
    yield "Key Technical Concepts:\nRules wrote this summary: the offline demo is no language model."
    yield f"Files and Code Sections:\n{_files(past)}"
    yield f"Errors and Fixes:\n{_errors(past)}"
    yield f"Problem Solving:\n{len(calls_in(past))} tool calls were in view when this was written."
    listed = "\n".join(f"- User: {' '.join(text.split())[:_LIMIT]}" for text in messages[-_MESSAGES:])
    yield f"All User Messages:\n{listed or '(none in view)'}"
    yield f"Pending Tasks:\n{progress or 'What the last user message asks, unless it is answered above.'}"
    said = next((step.text for step in reversed(past) if step.kind == "say"), "(nothing yet)")
    yield f"Current Work:\n{said[:_LIMIT].split('Up next (')[0].strip()}"
    yield f'Next Step:\nGo on with the request, verbatim: "{request[:_LIMIT]}"'


def _files(past: Sequence[Step]) -> str:
    found: dict[str, dict[str, None]] = {name: {} for name in _TOUCHED.values()}
    for step in past:
        if step.kind == "record":
            for name, paths in found.items():
                for line in re.findall(rf"^{name}: (.+)$", step.text, re.MULTILINE):
                    paths.update(dict.fromkeys(line.split(", ")))
        elif step.call is not None and step.call.name in _TOUCHED and not step.call.failed:
            path = str(step.call.input.get("file_path"))
            found[_TOUCHED[step.call.name]].pop(path, None)
            found[_TOUCHED[step.call.name]][path] = None
    lines = [f"{name}: {', '.join(list(paths)[-_FILES:])}" for name, paths in found.items() if paths]
    commands = [str(call.input.get("command"))[:120] for call in calls_in(past) if call.name == "bash"]
    return "\n".join([*lines, *(f"Ran: {command}" for command in commands[-5:])]) or "(none)"


def _errors(past: Sequence[Step]) -> str:
    failed = [f"- {call.name}: {call.result.strip()[:120]}" for call in calls_in(past) if call.failed]
    return "\n".join(failed[-5:]) or "(none)"


def _progress(past: Sequence[Step], messages: Sequence[str]) -> Iterator[str]:
    """The lines from which an unfinished run of reading or of steps goes on."""
    jobs = [found for text in messages if (found := job_in(text))]
    job: Job | None = jobs[-1] if jobs else None
    stands = standing(job, past) if job else Standing()
    if stands.done:
        yield f"Progress: {stands.done} of {stands.total} files read; last: {stands.last}"
        yield from ahead(stands, stands.done + 1)
    marks = [
        mark for step in past if step.kind != "ask" for mark in re.findall(r"Step \d+ of \d+", step.text)
    ]
    if marks:
        yield f"Last begun: {marks[-1]}"
