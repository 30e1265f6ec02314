"""Sum up a run without a screen: usage, denials, the answer, and the result object made of them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agent import events
from agent.errors import BudgetExceeded
from transcripts.facts import Reply
from transcripts.messages import TextBlock, ToolUseBlock, Usage

SUBTYPES: Mapping[str, str] = {"done": "success", "max_turns": "error_max_turns"}
CODES: Mapping[int, str] = {BudgetExceeded.code: "error_max_budget_usd"}


@dataclass(frozen=True, slots=True)
class RunDescription:
    """What a run is made of. `cost` gives the US dollars spent so far."""

    session: str
    folder: str
    model: str
    tools: tuple[str, ...]
    mode: str
    cost: Callable[[], float] = lambda: 0.0


class RunStats:
    """What the result line sums up; keeps the last reply only."""

    def __init__(self, setting: RunDescription, monotonic: Callable[[], float]) -> None:
        self.setting = setting
        self._monotonic = monotonic
        self._began = monotonic()
        self._asked: float | None = None
        self._waited = 0.0
        self._usage = Usage()
        self._last: Reply | None = None
        self._denials: list[dict[str, Any]] = []
        self.answer = ""

    def note(self, event: events.Event) -> None:
        match event:
            case events.RequestStarted():
                self._asked = self._monotonic()
            case events.ReplyFinished(reply):
                self._stop_waiting()
                self._take(reply)
            case events.StreamAborted():
                self._stop_waiting()
            case events.ToolCallFinished(denied=True):
                self._deny(event)
            case _:
                pass

    def use(self, of: int, block: int) -> ToolUseBlock | None:
        """The call that a result of the newest reply belongs to."""
        if self._last is None or self._last.seq != of or not 0 <= block < len(self._last.blocks):
            return None
        found = self._last.blocks[block]
        return found if isinstance(found, ToolUseBlock) else None

    def total(self, end: events.TurnFinished) -> dict[str, Any]:
        """The result object."""
        subtype = SUBTYPES.get(end.reason) or CODES.get(end.code, "error_during_execution")
        failed = subtype != "success"
        cost = self.setting.cost()
        return {
            "type": "result",
            "subtype": subtype,
            "is_error": failed,
            "duration_ms": _milliseconds(self._monotonic() - self._began),
            "duration_api_ms": _milliseconds(self._waited),
            "num_turns": end.turns,
            "result": self.answer or end.error,
            "errors": [end.error] if end.error else [],
            "session_id": self.setting.session,
            "total_cost_usd": cost,
            "usage": usage_fields(self._usage),
            "modelUsage": {self.setting.model: _model_usage(self._usage, cost)},
            "permission_denials": self._denials,
            "stop_reason": self._last.stop if self._last else None,
            "uuid": str(uuid.uuid4()),
        }

    def _take(self, reply: Reply) -> None:
        self._last = reply
        self._usage = _plus(self._usage, reply.usage)
        text = "\n\n".join(part.text for part in reply.blocks if isinstance(part, TextBlock) and part.text)
        self.answer = text or self.answer

    def _stop_waiting(self) -> None:
        if self._asked is not None:
            self._waited += self._monotonic() - self._asked
            self._asked = None

    def _deny(self, event: events.ToolCallFinished) -> None:
        use = self.use(event.of, event.block)
        denial = {"tool_name": event.name, "tool_use_id": use.id if use else "", "tool_input": {}}
        self._denials.append(denial | ({"tool_input": dict(use.input)} if use else {}))


def usage_fields(usage: Usage) -> dict[str, int]:
    """Usage under the names of the API."""
    return {
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation_input_tokens": usage.cache_written,
    }


def _model_usage(usage: Usage, cost: float) -> dict[str, Any]:
    return {
        "inputTokens": usage.input,
        "outputTokens": usage.output,
        "cacheReadInputTokens": usage.cache_read,
        "cacheCreationInputTokens": usage.cache_written,
        "costUSD": cost,
    }


def _plus(one: Usage, two: Usage) -> Usage:
    return Usage(
        one.input + two.input,
        one.output + two.output,
        one.cache_read + two.cache_read,
        one.cache_written + two.cache_written,
        one.cache_written_hour + two.cache_written_hour,
    )


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
