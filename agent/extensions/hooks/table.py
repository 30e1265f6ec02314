"""Hooks as they are written in settings, and which of them an event is for. Pure.

    {"PreToolUse": [{"matcher": "Edit|Write", "hooks": [{"type": "command", "command": "…", "timeout": 30}]}]}

is the form of Claude Code's settings; clients of the stream protocol register `hookCallbackIds` in the place
of `hooks`. `pre_tool = "…"` is the short form of our settings: one command under an older name of the event.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agent.formatting import client_name
from agent.ports import HookEvent

HOOK_TIMEOUT_S = 60.0  # unless the entry names another
SHORT_NAMES: Mapping[str, tuple[HookEvent, ...]] = {
    "prompt": (HookEvent.PROMPT,),
    "pre_tool": (HookEvent.PRE_TOOL,),
    "post_tool": (HookEvent.POST_TOOL, HookEvent.POST_TOOL_FAILURE),
    "stop": (HookEvent.STOP,),
    "pre_compact": (HookEvent.PRE_COMPACT,),
    "post_compact": (HookEvent.POST_COMPACT,),
}
_EXACT_NAMES = re.compile(r"[\w,| -]*", re.ASCII)  # what a matcher may hold that is no pattern
_SEPARATOR = re.compile(r"[,|]")
_OLDER_TOOL_NAMES = {"Agent": ("Task",)}  # by which Claude Code knew a tool before
# What an event's matcher is held against besides names of tools; events that are not named have none.
_SUBJECTS: Mapping[HookEvent, str] = {
    HookEvent.SESSION_START: "source",
    HookEvent.SESSION_END: "reason",
    HookEvent.NOTIFICATION: "type",
    HookEvent.SUBAGENT_STOP: "agent_type",
    HookEvent.PRE_COMPACT: "trigger",
    HookEvent.POST_COMPACT: "trigger",
}
# Of Claude Code, at which nothing is fired here.
EVENTS_ELSEWHERE = (
    "ConfigChange", "CwdChanged", "Elicitation", "ElicitationResult", "FileChanged", "InstructionsLoaded",
    "PermissionDenied", "PermissionRequest", "PostToolBatch", "Setup", "StopFailure", "SubagentStart",
    "TaskCompleted", "TaskCreated", "TeammateIdle", "UserPromptExpansion", "WorktreeCreate", "WorktreeRemove",
)  # fmt: skip
TOOL_EVENTS = (HookEvent.PRE_TOOL, HookEvent.POST_TOOL, HookEvent.POST_TOOL_FAILURE)


@dataclass(frozen=True, slots=True)
class HookEntry:
    """One hook: `run` is its command line, or the id of a client's callback.

    names, pattern  what it is for: any of the names, or what the pattern is found in; neither: all
    blocks          whether it counts as a veto where it could not be asked
    background      nobody waits for it, and its answer does not count
    short_name      of our settings under which it stands, "" in the form of Claude Code
    origin          where it was set, for people
    """

    event: HookEvent
    run: str
    names: frozenset[str] = frozenset()
    pattern: re.Pattern[str] | None = None
    timeout: float = HOOK_TIMEOUT_S
    blocks: bool = False
    background: bool = False
    short_name: str = ""
    origin: str = ""

    @property
    def matcher(self) -> str:
        """What it is for, as people read it."""
        return "|".join(sorted(self.names)) or (self.pattern.pattern if self.pattern is not None else "*")

    def covers(self, event: HookEvent, subjects: Sequence[str]) -> bool:
        """Whether it is for an event; `subjects` are the names of what that is about, none: no matter."""
        if event is not self.event:
            return False
        if not subjects or (not self.names and self.pattern is None):
            return True
        if self.pattern is not None:
            return any(map(self.pattern.search, subjects))
        return not self.names.isdisjoint(subjects)

    def __str__(self) -> str:
        label = self.short_name or f"{self.event}({self.matcher})"
        return f"{label} {self.run}"


def chosen(entries: Sequence[HookEntry], event: HookEvent, about: Mapping[str, Any]) -> tuple[HookEntry, ...]:
    """The hooks that an event is for, each command once."""
    subjects = subjects_of(event, about)
    found: dict[str, HookEntry] = {}
    for entry in entries:
        if entry.covers(event, subjects):
            first = found.setdefault(entry.run, entry)
            found[entry.run] = replace(first, blocks=first.blocks or entry.blocks)
    return tuple(found.values())


def subjects_of(event: HookEvent, about: Mapping[str, Any]) -> tuple[str, ...]:
    """The names that matchers of an event are held against."""
    if event in TOOL_EVENTS and about.get("tool"):
        own = str(about["tool"])
        name = client_name(own)
        return tuple(dict.fromkeys((name, own, *_OLDER_TOOL_NAMES.get(name, ()))))
    name = _SUBJECTS.get(event, "")
    if name == "trigger":
        return (compaction_trigger(about),)
    return (str(about[name]),) if about.get(name) else ()


def compaction_trigger(about: Mapping[str, Any]) -> str:
    """Why room is made, in the words of Claude Code: "manual" or "auto"."""
    return "manual" if about.get("trigger") == "manual" else "auto"


@dataclass(frozen=True, slots=True)
class HookTable:
    """The hooks of one place, a line about each mistake there, and about each thing without effect."""

    entries: tuple[HookEntry, ...] = ()
    problems: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def all_lines(self) -> tuple[str, ...]:
        """What there is to say about a table that others wrote."""
        return (*self.problems, *self.remarks)


class HookMistake(str):
    """A line about something that nobody can have meant."""


def read_hooks(raw: Any, origin: str = "") -> HookTable:
    """The hooks of a settings file or of a client."""
    if not isinstance(raw, Mapping):
        return HookTable() if raw is None else HookTable(problems=("takes a table of events",))
    found = [each for name, groups in raw.items() for each in _entries(str(name), groups)]
    entries = tuple(replace(each, origin=origin) for each in found if isinstance(each, HookEntry))
    mistakes = tuple(each for each in found if isinstance(each, HookMistake))
    remarks = tuple(each for each in found if isinstance(each, str) and each not in mistakes)
    return HookTable(entries, mistakes, remarks)


def _entries(name: str, groups: Any) -> Iterator[HookEntry | str]:
    events = SHORT_NAMES.get(name, ())
    short = name if events else ""
    if not events and name in tuple(HookEvent):
        events = (HookEvent(name),)
    if not events and name in EVENTS_ELSEWHERE:
        yield f"the hooks for {name} are left out: there is no such event here"
        return
    if not events:
        near = difflib.get_close_matches(name, [*SHORT_NAMES, *map(str, HookEvent)], 1)
        if near:  # a guard with a slip in its name would guard nothing
            yield HookMistake(f"{name!r} is no event; did you mean {near[0]!r}?")
        else:
            yield f"{name!r} is no event, and its hooks are ignored; there are {', '.join(HookEvent)}"
        return
    if isinstance(groups, str) and groups.strip():
        for event in events:
            guards = event is HookEvent.PRE_TOOL
            yield HookEntry(event, groups.strip(), blocks=guards, short_name=short)
    elif not isinstance(groups, list) and groups is not None:
        yield HookMistake(f'{name} takes a command, such as "check.sh", not {groups!r}')
    else:
        for event in events:
            for group in groups or ():
                yield from _of_group(event, group)


def _of_group(event: HookEvent, group: Any) -> Iterator[HookEntry | str]:
    """The hooks of one matcher."""
    if not isinstance(group, Mapping):
        yield HookMistake(f"{event} takes a list of objects with a matcher and hooks, not {group!r}")
        return
    text = group.get("matcher")
    names, pattern = frozenset[str](), None
    if text is not None and not isinstance(text, str):
        yield f"the matcher {text!r} of a hook is no text, so the hook is for everything"
    elif text and text != "*":
        if _EXACT_NAMES.fullmatch(text):
            names = frozenset(filter(None, map(str.strip, _SEPARATOR.split(text))))
        else:
            try:
                pattern = re.compile(text)
            except re.error as error:
                yield f"the matcher {text!r} of a hook is no pattern ({error}), so the hook is for everything"
    for ident in group.get("hookCallbackIds") or ():
        blocks = group.get("onFailure", "continue") != "continue"
        yield HookEntry(event, str(ident), names, pattern, _timeout(group), blocks)
    for hook in group.get("hooks") or ():
        command = hook.get("command") if isinstance(hook, Mapping) else None
        if not isinstance(hook, Mapping) or hook.get("type", "command") != "command":
            kind = hook.get("type") if isinstance(hook, Mapping) else hook
            yield f"a hook of the type {kind!r} for {event} is left out: only commands are run here"
        elif not isinstance(command, str) or not command.strip():
            yield HookMistake(f"a hook for {event} takes a command, not {command!r}")
        else:
            usual = "block" if event is HookEvent.PRE_TOOL else "continue"
            background = hook.get("async") is True
            blocks = not background and hook.get("onFailure", group.get("onFailure", usual)) != "continue"
            if "if" in hook:
                yield f"the condition {hook['if']!r} of a hook for {event} is not read: it is always asked"
            yield HookEntry(event, command.strip(), names, pattern, _timeout(hook), blocks, background)


def _timeout(raw: Mapping[str, Any]) -> float:
    """Seconds; the usual ones where none are named, or no usable number."""
    given = raw.get("timeout")
    usable = isinstance(given, int | float) and not isinstance(given, bool) and 0 < given < 1e6
    return float(given) if usable and given is not None else HOOK_TIMEOUT_S


def status_command(raw: Any) -> str:
    """The command of a status line; "" for none, or one of another kind."""
    command = (
        raw.get("command") if isinstance(raw, dict) and raw.get("type", "command") == "command" else None
    )
    return command.strip() if isinstance(command, str) else ""
