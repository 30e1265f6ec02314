"""The newest plan and to-do list of a session, read from its facts, so that they follow every rewind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct, field

from agent.client_names import own_name
from transcripts import Channel, Exchange, Fact, FactTrail, Folded, Reply, Result, User, joined_pieces

from .environment import PLANNING

PLAN_TOOL = "exit_plan"
MAX_PLAN_CHARS = 20_000  # of a plan that a summary repeats; recall shows the rest


class TodoItem(Struct, frozen=True):
    """One thing to do; `active` is its text while it is in progress, "" for the same text."""

    content: str
    status: str
    active: str = ""

    @property
    def shown(self) -> str:
        """Return the text for the user: the active form of an item in progress."""
        return self.active if self.status == "in_progress" and self.active else self.content


class TodoList(NamedTuple):
    """A to-do list, and the seq of the reply that set it."""

    seq: int
    items: tuple[TodoItem, ...]


class Plan(NamedTuple):
    """The text of a plan, and the seq of the reply that showed it."""

    seq: int
    text: str


class _TodoTrail(FactTrail):
    """The newest to-do list among the facts read so far."""

    newest: TodoList | None = None


def newest_todos(folded: Folded) -> TodoList | None:
    """Return the newest list that a call has set as `todos`; None without one.

    Any tool with that argument counts, including those of servers and of imported sessions. Each fact is read
    once.
    """
    trail = folded.memo(_TodoTrail)
    for fact in reversed(trail.unread(folded, Result)):
        if not fact.error and (found := _list_set_by(folded, fact)) is not None:
            trail.newest = found
            break
    return trail.newest


def _list_set_by(folded: Folded, fact: Result) -> TodoList | None:
    use = folded.conversation.call_of(fact)
    given = use.input.get("todos") if use is not None else None
    if given is None:
        return None  # mostly
    if not isinstance(given, list | tuple) or not all(isinstance(item, Mapping) for item in given):
        return None
    items = (
        TodoItem(*(str(item.get(name, "")) for name in ("content", "status", "activeForm"))) for item in given
    )
    return TodoList(fact.of, tuple(items))


def todo_lines(items: tuple[TodoItem, ...]) -> list[str]:
    """Return a line for each item of the list."""
    return [f"[{item.status or '?'}] {item.content}" for item in items]


class _PlanTrail(FactTrail):
    """The plans among the facts read so far.

    planning  the last prompt of the user was in plan mode
    shown     seq of a reply -> the plan that it showed, "" for one that the user denied
    answer    the last answer in plan mode
    pieces    the texts of that answer so far, if it was cut off
    """

    planning: bool = False
    shown: dict[int, str] = field(default_factory=dict)
    answer: Plan | None = None
    pieces: tuple[str, ...] = ()


def newest_plan(folded: Folded) -> Plan | None:
    """Return the newest plan; None without one. Each fact is read once.

    It is the newest plan that the model showed and the user did not deny, with the user's changes. If the
    model never showed one, as models without that tool do, it is its last answer in plan mode.
    """
    trail = folded.memo(_PlanTrail)
    kinds: tuple[type[Fact], ...] = (User, Reply)
    if any(own_name(tool) == PLAN_TOOL for tool in folded.conversation.tools_called):
        kinds = (*kinds, Result)
    for fact in trail.unread(folded, *kinds):
        match fact:
            case User(source="user"):
                trail.pieces = ()
                trail.planning = any(
                    (Channel(folded.tag).words(block) or "").startswith(PLANNING) for block in fact.blocks
                )
            case Reply() if trail.planning and fact.text:
                pieces = (*trail.pieces, fact.text)
                trail.answer = Plan(fact.seq, joined_pieces(pieces)[:MAX_PLAN_CHARS])
                if fact.complete:  # otherwise another attempt replaces it
                    trail.pieces = pieces if fact.is_cut else ()
            case Result():
                exchange = folded.conversation.exchange_of(fact.of)
                shown = _plan_call(exchange) if exchange is not None else None
                if shown is not None:
                    trail.shown[fact.of] = shown[:MAX_PLAN_CHARS]
    if not trail.shown:
        return trail.answer
    return max((Plan(seq, text) for seq, text in trail.shown.items() if text), default=None)


def _plan_call(exchange: Exchange) -> str | None:
    """Return the plan that a call of the exchange showed, "" if the user denied it; None without a call."""
    results = exchange.results
    for at, use in exchange.uses.items():
        result = results.get(at)
        if own_name(use.name) == PLAN_TOOL and result is not None and not result.error:
            given = str(result.about.get("plan") or use.input.get("plan") or "")
            return given if result.about.get("approved", True) else ""
    return None
