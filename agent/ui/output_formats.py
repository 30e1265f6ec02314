"""The output formats of a headless run (`-p`): text, json and stream-json, as wrappers expect them.

Only the answer goes to standard output; everything else goes to standard error. The fields of the result are
those of claude-agent-sdk's ResultMessage. To add a format, write a class with `show(event)` in a separate
module and name it in OUTPUT_FORMATS.
"""

from __future__ import annotations

import json
import pkgutil
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from agent import events
from agent.app import OUTPUT_FORMATS
from agent.client_names import client_name
from agent.errors import BudgetExceeded
from agent.ports import Status
from compact import Spending
from transcripts import INVISIBLE, Display, Reply, Result, ToolUseBlock, Usage, joined_pieces
from transcripts.patterns import lazy_pattern

from .context_chart import plain_chart
from .render import retrying_message
from .standard_streams import PipeWriter
from .terminal_text import escape_prose, escape_strict, one_line, title_line

_SUBTYPES: Mapping[str, str] = {
    "done": "success",
    "failed": "success",
    "refused": "success",
    "max_turns": "error_max_turns",
    "no_answer": "error_max_structured_output_retries",
}
_TERMINAL_REASONS: Mapping[str, str] = {
    "done": "completed",
    "failed": "model_error",
    "refused": "model_error",
    "max_turns": "max_turns",
    "interrupted": "aborted_streaming",
    "denied": "aborted_tools",
    "no_answer": "structured_output_retry_exhausted",
}
# Unicode line separators are legal within JSON, but many readers break lines there. DEL and the C1 controls
# (NEL among them) are legal too, but terminals obey them, as they obey characters that reorder or hide text.
_ESCAPED_IN_JSON = lazy_pattern(f"[\x7f-\x9f\u2028\u2029{INVISIBLE}]")


class OutputFormat:
    """The output of a run. Created once, when the run's session is known, before the first event."""

    def __init__(self, run: RunOutput) -> None:
        self.run = run

    def begin_turn(self) -> None:
        """Begin a turn; `run.started`, `run.tools` and `run.details` are those of this turn."""

    def show(self, event: events.Event) -> None:
        """Write the output for an event to `run.out`; quick, never raises. A TurnFinished ends a turn."""
        raise NotImplementedError


class SpentInRun:
    """The spending of a run by model: its sessions, one after another, and their agents."""

    def __init__(self) -> None:
        self.by_model: dict[str, Spending] = {}
        self._session = ""
        self._counted = dict[str, Spending]()

    @property
    def dollars(self) -> float:
        return sum(each.dollars for each in self.by_model.values())

    def leave_out(self, status: Status) -> None:
        """Exclude the spending of the session before the run."""
        self._session = status.session
        self._counted = dict(status.spending)

    def count(self, status: Status) -> None:
        """Add the spending since the last call; all spending of a new session is since then."""
        before = self._counted if status.session == self._session else {}
        for model in {status.model: None, **dict.fromkeys(status.spending)}:
            new = status.spending.get(model, Spending()).since(before.get(model, Spending()))
            self.by_model[model] = self.by_model.get(model, Spending()) + new
        self.leave_out(status)


class RunOutput:
    """The output of a run: `begin`, `show` for each event, `finish` at the end of each turn in every case.

    The format named `form` writes to `out`; notices go to `err`. The figures of the result are collected
    here: usage, times, denials and `answer` of the turn, and the costs of the run. Only the last reply is
    kept.

    status              returns the current status; `started` is the one at the beginning of the turn
    tools, details      names of the tools, and more fields of the session that a format may write
    partial             write replies as they stream in
    tells_agents_whole  write the messages of agents too
    answers_command     a slash command was run, so its output is the answer
    command_error       the last error in the output of a command, and its exit code: `command_code`
    """

    started: Status
    tools: Sequence[str] = ()
    details: Mapping[str, Any] = MappingProxyType({})
    tells_agents_whole = False
    status: Callable[[], Status]

    def __init__(self, form: str, mask: Callable[[str], str] = str, partial: bool = False) -> None:
        self.partial = partial
        self.out = PipeWriter(sys.stdout, mask)
        self.err = PipeWriter(sys.stderr, mask)
        self.form = form
        self._format: OutputFormat | None = None
        self._early: list[events.Event] = []  # events before `begin`
        self._spent = SpentInRun()
        self._reset()

    def _reset(self) -> None:
        self.answer = ""
        self.command_error = ""
        self.command_code = 0
        self.answers_command = False
        self.structured: dict[str, object] | None = None
        self._began_at = time.monotonic()
        self._requested_at: float | None = None
        self._api_seconds = 0.0
        self._usage = Usage()
        self._last: Reply | None = None
        self._denials: list[dict[str, Any]] = []
        self._code: int | None = None
        self._retried = ""  # the reason of the last line, if that was about a retry

    def begin(self, status: Callable[[], Status], tools: Sequence[str] = (), **details: Any) -> None:
        """Begin with the session, which the first line of output names; later calls have no effect."""
        if self._format is None:
            self.status = status
            self._spent.leave_out(status())
            self._format = pkgutil.resolve_name(OUTPUT_FORMATS[self.form])(self)
            self.begin_turn(tools, **details)
            for event in self._early:
                self.show(event)

    def begin_turn(self, tools: Sequence[str], **details: Any) -> None:
        """Begin another turn of the run; each turn has a result."""
        assert self._format is not None
        self._reset()
        self.started = self.status()
        self.tools = tools
        self.details = details
        self._format.begin_turn()

    def show(self, event: events.Event) -> None:
        """Write the output for an event; quick, never raises. A second TurnFinished of a turn is ignored."""
        if self._format is None:
            self._early.append(event)
            return
        if isinstance(event, events.TurnFinished):
            if self._code is not None:
                return
            failed_json = self.form != "text" and event.reason != "done"  # clients rely on the exit code
            self._code = event.code or int(failed_json)
        self._sum_up(event)
        line = stderr_line(event)
        if isinstance(event, events.Retrying):
            again = event.reason == self._retried
            soon = again and event.left_s is not None  # every 2 s until the time that the first line named
            line = "" if soon else retrying_message(event, again=again)
            self._retried = event.reason
        elif line:
            self._retried = ""
        if line:
            if self.answers_command and not isinstance(event, events.TurnFinished | events.Retrying):
                self._answer_with(event, line)
            else:
                self.err.line(line)
        self._format.show(event)

    def finish(self, code: int = 1, error: str = "the run ended unexpectedly") -> int:
        """Write the result with this error if no TurnFinished did; return the exit code."""
        if self._code is None:
            self.show(events.TurnFinished("interrupted", turns=0, error=error, code=code))
        return self.out.gone or self._code or 0

    def tool_use(self, of: int, block: int) -> ToolUseBlock | None:
        """Return the call of the newest reply that a result belongs to, None if it is not known."""
        is_last = self._last is not None and self._last.seq == of
        found = dict(enumerate(self._last.blocks)).get(block) if self._last and is_last else None
        return found if isinstance(found, ToolUseBlock) else None

    def result(self, end: events.TurnFinished) -> dict[str, Any]:
        """Return the result object. An API failure is a "success" with is_error, as clients expect."""
        subtype = _SUBTYPES.get(end.reason, "error_during_execution")
        if end.reason == "failed" and end.code == BudgetExceeded.code:
            subtype = "error_max_budget_usd"
        status = self.status()
        self._spent.count(status)
        return {
            "type": "result",
            "subtype": subtype,
            "is_error": end.reason != "done",
            "duration_ms": round((time.monotonic() - self._began_at) * 1000),
            "duration_api_ms": round(self._api_seconds * 1000),
            "num_turns": end.turns,
            "result": self._result_text(end),
            "errors": [end.error] if end.error else [],
            "session_id": status.session or self.started.session,
            "total_cost_usd": self._spent.dollars,
            "usage": usage_fields(self._usage),
            "modelUsage": model_usage(self._spent.by_model, status.window),
            "permission_denials": self._denials,
            "stop_reason": self._last.stop if self._last else None,
            "terminal_reason": _TERMINAL_REASONS[end.reason],
            **({} if self.structured is None else {"structured_output": self.structured}),
            "uuid": str(uuid.uuid4()),
        }

    def _result_text(self, end: events.TurnFinished) -> str:
        if self.answers_command:
            return "\n".join(filter(None, (self.answer, end.error)))
        return end.error if end.reason == "failed" else self.answer or end.error

    def _answer_with(self, event: events.Event, line: str) -> None:
        if isinstance(event, events.Notice) and (event.code or event.level == "error"):
            self.command_error = event.text
            self.command_code = event.code or 1
        else:
            self.answer = f"{self.answer}\n{line}" if self.answer else line

    def _sum_up(self, event: events.Event) -> None:
        match event:
            case events.RequestStarted():
                self._requested_at = time.monotonic()
            case events.ReplyFinished(reply):
                self._end_request()
                continues = self._last is not None and self._last.is_cut
                self._last = reply
                self._usage += reply.usage
                text = reply.text
                self.answer = joined_pieces((self.answer, text)) if continues else text or self.answer
            case events.StreamAborted():
                self._end_request()
            case events.ToolCallFinished(of, block, "StructuredOutput", _, Result(error=False)):
                use = self.tool_use(of, block)
                self.structured = dict(use.input) if use else None
            case events.ToolCallFinished(result=Result(error=False, human=Display(answer=answer))) if answer:
                self.answer = answer
            case events.ToolCallFinished(of, block, name, denied=True):
                self._denials.append(_denial(name, self.tool_use(of, block)))

    def _end_request(self) -> None:
        if self._requested_at is not None:
            self._api_seconds += time.monotonic() - self._requested_at
            self._requested_at = None


def _denial(name: str, use: ToolUseBlock | None) -> dict[str, Any]:
    """Return a denied call in the form of the result."""
    ident, given = (use.id, dict(use.input)) if use else ("", {})
    return {"tool_name": client_name(name), "tool_use_id": ident, "tool_input": given}


def model_usage(spent: Mapping[str, Spending], window: int) -> dict[str, Any]:
    """Return usage and costs of a run by model; `window` is the context window of the current model."""
    return {
        model: {
            "inputTokens": each.usage.input,
            "outputTokens": each.usage.output,
            "cacheReadInputTokens": each.usage.cache_read,
            "cacheCreationInputTokens": each.usage.cache_written,
            "webSearchRequests": each.usage.searches,
            "costUSD": each.dollars,
            "contextWindow": window,
            **({"costBasis": "unknown"} if each.unpriced else {}),
        }
        for model, each in spent.items()
    }


def refused_result(error: str, session: str) -> dict[str, Any]:
    """Return the result of a run that could not begin."""
    return {
        "type": "result",
        "subtype": "error_during_execution",
        "is_error": True,
        "duration_ms": 0,
        "duration_api_ms": 0,
        "num_turns": 0,
        "errors": [error],
        "session_id": session,
        "total_cost_usd": 0,
        "usage": usage_fields(Usage()),
        "modelUsage": {},
        "permission_denials": [],
        "stop_reason": None,
        "uuid": str(uuid.uuid4()),
    }


class TextFormat(OutputFormat):
    """The final answer and nothing else; each tool call is reported on standard error."""

    def show(self, event: events.Event) -> None:
        match event:
            case events.ToolCallFinished(_, _, name, title):
                call = f"● {one_line(name)}  {title_line(title)}"
                self.run.err.line(call + _outcome(event))
            case events.TurnFinished() if answer := self.run.answer:
                self.run.out.line(escape_prose(answer) if self.run.out.at_terminal else answer)


def _outcome(event: events.ToolCallFinished) -> str:
    """Describe a failure or a denial, with its reason and the rule that would have allowed the call."""
    human = event.result.human
    if not event.result.error:
        return f"  ({one_line(human.note)})" if human.blocked else ""
    if not event.denied:
        return "  (failed)"
    why = one_line(human.denied)
    return f"  (denied: {why})" if why else "  (denied)"


class JsonFormat(OutputFormat):
    """One object at the end."""

    def show(self, event: events.Event) -> None:
        if isinstance(event, events.TurnFinished):
            self.run.out.line(json_line(self.run.result(event)))


def stderr_line(event: events.Event) -> str:
    """Return the line for the user about an event, "" for none."""
    match event:
        case events.Notice(text, level):
            return escape_prose(text) if level == "info" else f"{level}: {escape_prose(text)}"
        case events.ContextCompacted(text) | events.CommandOutput(text):
            return escape_prose(text)
        case events.ContextChart():
            return plain_chart(event)
        case events.Retrying():
            return retrying_message(event)
        case events.TurnFinished(error=error) if error:
            return f"{'' if error.startswith('usage: ') else 'error: '}{escape_strict(error)}"
        case _:
            return ""


def json_line(value: object) -> str:
    """Return JSON on one line without raw line separators or characters that a terminal obeys."""
    try:
        text = _to_json(value)
    except ValueError:  # NaN and the like from a server, which only Python's reader accepts
        text = _to_json(json.loads(json.dumps(value, default=str), parse_constant=lambda name: None))
    return _ESCAPED_IN_JSON.sub(lambda found: _escaped_in_json(found[0]), text)


def _to_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str, allow_nan=False)


@lru_cache(maxsize=256)
def _escaped_in_json(character: str) -> str:
    return json.dumps(character)[1:-1] if character != "\x7f" else "\\u007f"


def usage_fields(usage: Usage) -> dict[str, int]:
    """Return usage with the field names of the API."""
    return {
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation_input_tokens": usage.cache_written,
    }
