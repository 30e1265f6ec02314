"""The rule-based brain that `makeroom --offline` talks to: it understands a few requests and says so plainly.

It is stateless: everything is derived from the body of the request, compacted or not.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .intents import Plan, plan
from .intents import Step as PlanStep
from .reading import Job, job_in, next_reply
from .recap import is_summary_request, recap
from .reply import Block, Body, Reply, calls, says, thinks
from .telling import failure, is_interrupted, told
from .view import Call, Step, calls_in, carried, is_continuation, steps, texts

HELP = """I am makeroom's offline demo: rules on your own machine, not a language model. I understand:

- `read README.md`, `show me lines 10 to 20 of src/x.py`, `read a.py and b.py`
- `read every Python file in the src directory one by one`
- `list the files in docs`, `find TODO in src`, `find files named *.toml`
- `` run `git status` ``, `run the tests`
- `create hello.py with print('hi')`, `replace 'hi' by 'hello' in hello.py`
- `use the compact tool`, `recall r12`, `recall the build error`
- several of these joined with "then"

With a key, makeroom talks to a real model instead."""

_GREETING = re.compile(r"\W*(hi|hello|hey|good (morning|evening|afternoon)|moin|hallo|salut)\b.{0,40}", re.I)
_THANKS = re.compile(r"\W*(thanks|thank you|thx|great|nice|cool|ok(ay)?|perfect)\b.{0,40}", re.I)


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be done: the words, what came after them, and the record that they were folded into."""

    text: str
    past: Sequence[Step]
    record: str = ""
    resumed: bool = False


class Brain:
    """Answers from the body of the request alone; may be shared by any number of threads."""

    def __call__(self, body: Body) -> Reply:
        if is_summary_request(body):
            return recap(body)
        request = _request(steps(body))
        tools = {tool["name"] for tool in body.get("tools") or []}
        return _offered(_answer(request), tools)


def _request(past: Sequence[Step]) -> Request:
    """The newest words of the person that ask for something."""
    resumed = False
    for at in range(len(past) - 1, -1, -1):
        step = past[at]
        if step.kind == "ask" and is_continuation(step.text):
            resumed = True
        elif step.kind == "ask" and (not resumed or _is_understood(step.text)):
            return Request(step.text, past[at + 1 :], resumed=resumed)
        elif step.kind == "record":
            found = _recorded(step.text)
            if found:
                return Request(found, past[at:], step.text, resumed)
    return Request("continue" if resumed else "", past)


def _is_understood(text: str) -> bool:
    return job_in(text) is not None or bool(plan(text).steps)


def _recorded(record: str) -> str:
    """The last request that a record of earlier messages repeats in its own words, or nothing."""
    listed = carried(record)
    if listed:
        return next((text for text in reversed(listed) if _is_understood(text)), "")
    lines = [line for line in record.split("\n") if job_in(line) is not None]
    return lines[-1] if lines else ""


def _answer(request: Request) -> Reply:
    job = job_in(request.text)
    if job is not None:
        return _with_rest(next_reply(job, request.past, request.record), request, job)
    found = plan(request.text)
    if found.steps:
        return _carried_out(found, request)
    if request.past and request.past[-1].call is not None:
        return Reply([thinks("I look at what came back."), says(told(calls_in(request.past)[-1:]))])
    return Reply([thinks("I look for a rule that fits."), says(_small_talk(request.text))])


def _with_rest(reply: Reply, request: Request, job: Job) -> Reply:
    """A run of reading is carried out alone; what else was asked in the same breath is named at its end."""
    rest = [
        part for part in re.split(r"\bthen\b", request.text) if job_in(part) is None and part.strip(" ,.;")
    ]
    if reply.stop != "end_turn" or not rest or request.record:
        return reply
    named = "; ".join(part.strip(" ,.;") for part in rest)
    return Reply([*reply.blocks, says(f"I have not done this, ask for it on its own: {named}")])


def _small_talk(text: str) -> str:
    if _GREETING.fullmatch(text):
        return f"Hello! {HELP}"
    if _THANKS.fullmatch(text):
        return 'You are welcome. Say "help" for what I understand.'
    if re.fullmatch(r"\W*(help|what can you do|who are you|\?).{0,40}", text, re.I):
        return HELP
    if is_continuation(text) or not text:
        return f"There is nothing in view that I could go on with.\n\n{HELP}"
    return f"No rule of mine fits that.\n\n{HELP}"


def _carried_out(found: Plan, request: Request) -> Reply:
    """The next step of a plan, or the account of it when all steps are done or one has failed."""
    made = calls_in(request.past)
    done = _done(found, request, made)
    latest = made[-len(found.steps[done - 1]) :] if done else []
    broken = any(call.failed for call in latest)
    if broken and request.resumed and request.past[-1].call is None:
        done -= 1
    elif broken:
        left = [action.note for step in found.steps[done:] for action in step]
        undone = f"\n\nNot done: {'; '.join(left)}." if left else ""
        return Reply([thinks("That did not work."), says(failure(latest) + undone)])
    if done < len(found.steps):
        return _step(found, done)
    unclear = f"\n\nNo rule of mine fits this part: {'; '.join(found.rest)}." if found.rest else ""
    return Reply([thinks("All of it is done."), says((told(made[-4:]) or "That was done.") + unclear)])


def _done(found: Plan, request: Request, made: Sequence[Call]) -> int:
    """How many steps have been begun: by the calls in view, or by the notes where calls are folded away."""
    done, left = 0, len(made)
    for step in found.steps:
        left -= len(step)
        if left < 0:
            break
        done += 1
    noted = [
        int(number)
        for text in texts(request.past)
        for number in re.findall(rf"Step (\d+) of {len(found.steps)}\b", text)
    ]
    if made and is_interrupted(made[-1].result) and made[-1].failed:
        return done
    return min(max([done, *noted]), len(found.steps))


def _step(found: Plan, number: int) -> Reply:
    step: PlanStep = found.steps[number]
    what = " and ".join(action.note for action in step)
    note = f"Step {number + 1} of {len(found.steps)}: {what}." if len(found.steps) > 1 else f"I {what}."
    blocks: list[Block] = [thinks(f"I am to {what}."), says(note)]
    return Reply([*blocks, *(calls(action.tool, **action.input) for action in step)])


def _offered(reply: Reply, tools: set[str]) -> Reply:
    """The reply, unless it calls a tool that the request does not offer."""
    missing = {block["name"] for block in reply.blocks if block["type"] == "tool_use"} - tools
    if not missing:
        return reply
    return Reply([says(f"For that I would need a tool that I was not given: {', '.join(sorted(missing))}.")])
