"""Hooks as values, and the selection of those for an event. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from agent.client_names import client_name
from agent.ports import HookEvent

HOOK_TIMEOUT_S = 60.0  # unless the entry defines another


class Matcher(NamedTuple):
    """The subjects of an event that a hook is for: any of the names, or a pattern to search for in them.

    Without both, it matches every subject.
    """

    names: frozenset[str] = frozenset()
    pattern: re.Pattern[str] | None = None

    def matches(self, subjects: Sequence[str]) -> bool:
        """Return whether it matches a subject with these names; an event without subject has none."""
        if not subjects or (not self.names and self.pattern is None):
            return True
        if self.pattern is not None:
            return any(map(self.pattern.search, subjects))
        return not self.names.isdisjoint(subjects)

    def __str__(self) -> str:
        return "|".join(sorted(self.names)) or (self.pattern.pattern if self.pattern is not None else "*")


class HookEntry(Struct, frozen=True):
    """One hook: `run` is its command line as written, or the id of a client's callback.

    matching    the subjects of the event that it is for
    condition   the rule that a call has to meet, "" for none
    blocks      its failure counts as a veto
    background  it is not waited for, and its answer is ignored
    short_name  the name of the setting that defines it, "" for the form of Claude Code
    origin      the file, flag or plugin directory that defines it, for the user
    start       commands before those of a plugin, which give them its directory; "" for others
    """

    event: HookEvent
    run: str
    matching: Matcher = Matcher()
    timeout: float = HOOK_TIMEOUT_S
    condition: str = ""
    blocks: bool = False
    background: bool = False
    short_name: str = ""
    origin: str = ""
    start: str = ""

    @property
    def line(self) -> str:
        """The command line that is executed."""
        return f"{self.start}{self.run}"

    @property
    def moment(self) -> str:
        """The name of the event, as the definition has it."""
        return self.short_name or self.event

    @property
    def matcher(self) -> str:
        """The matcher, for the user."""
        return str(self.matching)

    def __str__(self) -> str:
        label = self.short_name or f"{self.event}({self.matcher})"
        return f"{label} {self.run}"


def chosen(
    entries: Sequence[HookEntry], event: HookEvent, about: Mapping[str, Any], folder: str = "/"
) -> tuple[HookEntry, ...]:
    """Return the hooks for an event, each command once. Paths in conditions are relative to `folder`."""
    subjects = _subjects(event, about)
    found: dict[str, HookEntry] = {}
    for entry in entries:
        if entry.event is not event or not entry.matching.matches(subjects):
            continue
        if not entry.condition or _meets(entry.condition, about, folder):
            first = found.setdefault(entry.line, entry)
            found[entry.line] = replace(first, blocks=first.blocks or entry.blocks)
    return tuple(found.values())


def _meets(condition: str, about: Mapping[str, Any], folder: str) -> bool:
    from .conditions import meets  # 10 ms, and few hooks have one

    return meets(condition, str(about.get("tool") or ""), about.get("input") or {}, folder)


def _subjects(event: HookEvent, about: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names that the matchers of an event are compared with; none for events without matchers."""
    match event:
        case HookEvent.PRE_TOOL | HookEvent.POST_TOOL | HookEvent.POST_TOOL_FAILURE:
            return _tool_names(str(about.get("tool") or ""))
        case HookEvent.PRE_COMPACT | HookEvent.POST_COMPACT:
            return (compaction_trigger(about),)
        case HookEvent.SESSION_START:
            name = about.get("source")
        case HookEvent.SESSION_END:
            name = about.get("reason")
        case HookEvent.NOTIFICATION:
            name = about.get("type")
        case HookEvent.SUBAGENT_STOP:
            name = about.get("agent_type")
        case _:
            name = None
    return (str(name),) if name else ()


def _tool_names(own: str) -> tuple[str, ...]:
    """Return the names of a tool: Claude Code's, ours, and a former one."""
    if not own:
        return ()
    name = client_name(own)
    former = ("Task",) if name == "Agent" else ()
    return tuple(dict.fromkeys((name, own, *former)))


def compaction_trigger(about: Mapping[str, Any]) -> str:
    """Return Claude Code's name for the trigger of a compaction: "manual" or "auto"."""
    return "manual" if about.get("trigger") == "manual" else "auto"
