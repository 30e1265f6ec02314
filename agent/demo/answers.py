"""The answers of the demo: its help, descriptions of results, and the summary of a conversation."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from transcripts.export import fenced
from transcripts.patterns import lazy_pattern
from transcripts.wording import pluralize

from .conversation import Calls, Step, calls_in, is_continuation, own_text
from .reading_run import find_progress, find_run
from .request_rules import RUN_TESTS

SHOWN_LINES = 12  # of an output or of a list
QUOTED_CHARS = 2_000
PROMPT_CHARS = 600  # of a prompt in a summary

HELP = Path(__file__).with_name("help.md").read_text("utf-8").rstrip("\n")
_GREETING = lazy_pattern(
    r"\W*(hi|hello|hey|good (morning|evening|afternoon)|moin|hallo|salut)\b.{0,40}", re.I
)
_THANKS = lazy_pattern(r"\W*(thanks|thank you|thx|great|nice|cool|ok(ay)?|perfect)\b.{0,40}", re.I)
_HELP = lazy_pattern(r"\W*(help|what can you do|who are you|\?).{0,40}", re.I)


def small_talk(text: str) -> str:
    """Return an answer to a text that requests nothing."""
    if _THANKS.fullmatch(text):
        return "You're welcome. Type 'help' to see what I understand."
    if is_continuation(text) or not text:
        return f"There is nothing to continue.\n\n{HELP}"
    beginning = "Hello! " if _GREETING.fullmatch(text) else "I do not understand that.\n\n"
    return HELP if _HELP.fullmatch(text) else beginning + HELP


def name_calls(calls: Calls) -> str:
    """Describe calls by a verb and the first argument, as in "read `a.py` and run `ls`"."""
    named = ((call.name.replace("bash", "run"), *map(str, call.input.values())) for call in calls)
    return " and ".join(" ".join((verb, *(f"`{what}`" for what in given[:1]))) for verb, *given in named)


def quote(lines: Sequence[str]) -> str:
    """Return the lines as a Markdown code block, cut to QUOTED_CHARS."""
    text = "\n".join(lines)
    return fenced(text if len(text) <= QUOTED_CHARS else f"{text[:QUOTED_CHARS]}\n(cut here)")


def describe_failure(call: Step) -> str:
    """Describe a failed call; the turn ends with this text."""
    what = call.input.get("file_path") or call.input.get("command") or call.tool
    output = quote((call.text.strip() or "no result").split("\n")[-SHOWN_LINES:])
    if call.denied:
        return f"{call.tool} was denied (`{what}`), so I am stopping here.\n\n{output}"
    why = " The demo cannot fix arbitrary code." if call.command == RUN_TESTS else ""
    return f"{call.tool} failed (`{what}`), so I am stopping here.{why} The output was:\n\n{output}"


_DEFINITION = r"(?m)^\s*(?:async\s+)?(?:def|class|function|fn|func|interface|struct|enum)\s+(\w+)"


def describe_success(call: Step) -> str:
    """Describe the result of a successful call."""
    text = re.sub(r"(?m)^ *\d+\t", "", call.text) if call.tool == "read" else call.text
    lines = text.rstrip("\n").split("\n")
    count = pluralize(len(lines), "line")
    match call.tool:
        case "read" if len(lines) == 1 and call.text.startswith(("[", "<")):  # no line of a file
            return f"I read `{call.path}`, but its text is no longer in the context."
        case "read" if call.is_unchanged:
            return f"`{call.path}` is unchanged since I last read it."
        case "read":
            names = ", ".join(f"`{name}`" for name in re.findall(_DEFINITION, text)[:SHOWN_LINES])
            defines = f" It defines {names}." if names else ""
            return f"I read `{call.path}`.{defines} It starts with:\n\n{quote(lines[:6])}"
        case "bash" if not text.strip():
            return f"`{call.command}` succeeded without output."
        case "bash":
            last = ", ending with" if len(lines) > SHOWN_LINES else ""
            return f"`{call.command}` printed {count}{last}:\n\n{quote(lines[-SHOWN_LINES:])}"
        case "write" | "edit":  # without the heading of the lines that follow, and with the file as code
            name = re.escape(call.path.rsplit("/", 1)[-1])
            reply = lines[0].removesuffix(" The lines around the change:")
            return "Done: " + re.sub(rf"(?<!`)[^ `]*{name}(?!`)", r"`\g<0>`", reply, count=1)
    return f"The {call.tool} tool returned:\n\n{quote(lines[:SHOWN_LINES])}"


def write_summary(past: Sequence[Step]) -> str:
    """Return an analysis and a summary of nine sections in their tags; carries over an earlier summary."""
    prompts = [text for step in past for text in step.prompts]
    request = prompts[-1][:PROMPT_CHARS] if prompts else "(none in view)"
    listed = [f"- User: {' '.join(text.split())[:PROMPT_CHARS]}" for text in prompts[-SHOWN_LINES:]]
    failed = [f"- {call.tool}: {call.text.strip()[:120]}" for call in calls_in(past) if call.failed]
    newest = next((step.text for step in reversed(past) if step.kind == "reply"), "(nothing yet)")
    sections = (
        ("Primary Request and Intent", request),
        (
            "Key Technical Concepts",
            "This summary was written by rules, not by a language model.",
        ),
        ("Files and Code Sections", "\n".join(_files(past)) or "(none)"),
        ("Errors and Fixes", "\n".join(failed[-5:]) or "(none)"),
        ("Problem Solving", f"{len(calls_in(past))} tool calls were in the context at this point."),
        ("All User Messages", "\n".join(listed) or "(none in view)"),
        ("Pending Tasks", "\n".join(_pending(past, prompts))),
        ("Current Work", newest[:PROMPT_CHARS].split("Up next (")[0].strip()),
        ("Next Step", f'Continue with the request: "{request}"'),
    )
    text = "\n\n".join(f"{number}. {title}:\n{body}" for number, (title, body) in enumerate(sections, 1))
    return f"<analysis>\nReviewed {len(past)} steps.\n</analysis>\n\n<summary>\n{text}\n</summary>"


def _files(past: Sequence[Step]) -> Iterator[str]:
    for title, tool in (("Read", "read"), ("Written", "write"), ("Edited", "edit")):
        paths: list[str] = []
        for step in past:
            carried = re.findall(rf"(?m)^{title}: (.+)$", step.text) if step.kind == "record" else []
            paths += [path for line in carried for path in line.split(", ")]
            paths += [step.path] if step.tool == tool and not step.failed else []
        if newest := list(dict.fromkeys(reversed(paths)))[:40]:
            yield f"{title}: {', '.join(reversed(newest))}"
    yield from [f"Ran: {call.command[:120]}" for call in calls_in(past) if call.tool == "bash"][-5:]


def _pending(past: Sequence[Step], prompts: Sequence[str]) -> Iterator[str]:
    """Yield the lines that an unfinished reading run or plan resumes from."""
    run = next(filter(None, map(find_run, reversed(prompts))), None)
    if run and (found := find_progress(run, past)).noted and found.done:
        yield f"The last was {found.position}"
        yield from found.up_next()
    if begun := re.findall(r"Step \d+ of \d+", own_text(past)):
        yield f"Last started: {begun[-1]}"
    yield "Anything else in the last user message that is not answered above."
