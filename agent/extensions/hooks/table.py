"""Read the hooks of a settings file or of a client. Pure.

    {"PreToolUse": [{"matcher": "Edit|Write", "hooks": [{"type": "command", "command": "…", "timeout": 30}]}]}

is the form of Claude Code's settings; clients of the stream protocol register `hookCallbackIds` instead of
`hooks`. `pre_tool = "…"` is the short form of our settings: one command under an older name of the event.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from agent.ports import HookEvent

from .entries import HOOK_TIMEOUT_S, HookEntry, Matcher

SHORT_NAMES: Mapping[str, tuple[HookEvent, ...]] = {
    "prompt": (HookEvent.PROMPT,),
    "pre_tool": (HookEvent.PRE_TOOL,),
    "post_tool": (HookEvent.POST_TOOL, HookEvent.POST_TOOL_FAILURE),
    "stop": (HookEvent.STOP,),
    "pre_compact": (HookEvent.PRE_COMPACT,),
    "post_compact": (HookEvent.POST_COMPACT,),
}
# Events of Claude Code that do not occur here.
EVENTS_ELSEWHERE = (
    "ConfigChange", "CwdChanged", "Elicitation", "ElicitationResult", "FileChanged", "InstructionsLoaded",
    "PermissionDenied", "PermissionRequest", "PostToolBatch", "Setup", "StopFailure", "SubagentStart",
    "TaskCompleted", "TaskCreated", "TeammateIdle", "UserPromptExpansion", "WorktreeCreate", "WorktreeRemove",
)  # fmt: skip


class HookTable(Struct, frozen=True):
    """The hooks defined in one place.

    problems  a line about each error
    remarks   a line about each definition that has no effect
    unknown   a line about each event that does not occur here, by its name
    """

    entries: tuple[HookEntry, ...] = ()
    problems: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    unknown: Mapping[str, str] = {}

    @property
    def all_lines(self) -> tuple[str, ...]:
        """All lines, for a table that was written for another program or by someone else."""
        return (*self.problems, *self.remarks, *self.unknown.values())

    @classmethod
    def read(cls, raw: object, origin: str = "") -> HookTable:
        """Return the hooks of a settings file or of a client."""
        if raw is None:
            return cls()
        if not isinstance(raw, Mapping):
            return cls(problems=("must be a table of events",))
        reading = _Reading(origin)
        for name, groups in raw.items():
            reading.read_event(str(name), groups)
        return cls(
            tuple(reading.entries),
            problems=tuple(reading.problems),
            remarks=tuple(reading.remarks),
            unknown=reading.unknown,
        )


EVERYTHING = Matcher()


class _Reading:
    """The hooks read so far, with problems and remarks."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self.entries: list[HookEntry] = []
        self.problems: list[str] = []
        self.remarks: list[str] = []
        self.unknown: dict[str, str] = {}

    def read_event(self, name: str, groups: Any) -> None:
        events = SHORT_NAMES.get(name, ())
        short = name if events else ""
        if not events and name in tuple(HookEvent):
            events = (HookEvent(name),)
        if not events:
            self._unknown_event(name)
        elif isinstance(groups, str) and groups.strip():
            for event in events:
                guards = event is HookEvent.PRE_TOOL
                self.entries.append(
                    HookEntry(event, groups.strip(), blocks=guards, short_name=short, origin=self._origin)
                )
        elif not isinstance(groups, list) and groups is not None:
            self.problems.append(f'{name} must be a command, such as "check.sh", not {groups!r}')
        else:
            for event in events:
                for group in groups or ():
                    self._read_group(event, group)

    def _unknown_event(self, name: str) -> None:
        import difflib  # 1 ms, only needed for errors

        if name in EVENTS_ELSEWHERE or name.lower().endswith("commit"):  # git's, and no typo of a compaction
            self.unknown[name] = f"the hooks for {name} are ignored: makeroom does not have this event"
        elif near := difflib.get_close_matches(name, [*SHORT_NAMES, *map(str, HookEvent)], 1):
            # A hook with a typo in its name would protect nothing.
            self.problems.append(f"unknown event {name!r}; did you mean {near[0]!r}?")
        else:
            events = ", ".join(HookEvent)
            self.unknown[name] = f"unknown event {name!r} (its hooks are ignored); the events are {events}"

    def _read_group(self, event: HookEvent, group: Any) -> None:
        """Read the hooks of one matcher."""
        if not isinstance(group, Mapping) or not _lists_hooks(group):
            self.problems.append(
                f"{event} must be a list of objects with a matcher and a list of hooks, not {group!r}"
            )
            return
        matcher = self._matcher(group.get("matcher"))
        for ident in group.get("hookCallbackIds") or ():
            entry = HookEntry(
                event,
                run=str(ident),
                matching=matcher,
                timeout=_timeout(group),
                blocks=group.get("onFailure", "continue") != "continue",
                origin=self._origin,
            )
            self.entries.append(entry)
        for hook in group.get("hooks") or ():
            if isinstance(hook, Mapping) and hook.get("type", "command") == "command":
                self._read_command(event, matcher, hook, group)
            else:
                kind = hook.get("type") if isinstance(hook, Mapping) else hook
                self.remarks.append(
                    f"a hook of type {kind!r} for {event} is ignored: only commands are supported"
                )

    def _read_command(
        self, event: HookEvent, matcher: Matcher, hook: Mapping[str, Any], group: Mapping[str, Any]
    ) -> None:
        command = hook.get("command")
        if not isinstance(command, str) or not command.strip():
            self.problems.append(f"the command of a hook for {event} must be a command line, not {command!r}")
            return
        self.remarks += _remarks(event, hook)
        usual = "block" if event is HookEvent.PRE_TOOL else "continue"
        background = hook.get("async") is True
        entry = HookEntry(
            event,
            run=_command_line(command, hook.get("args")),
            matching=matcher,
            timeout=_timeout(hook),
            condition=_condition(event, hook),
            blocks=not background and hook.get("onFailure", group.get("onFailure", usual)) != "continue",
            background=background,
            origin=self._origin,
        )
        self.entries.append(entry)

    def _matcher(self, text: object) -> Matcher:
        """Read a matcher: exact names, or a pattern if it contains any other character."""
        if text is None:
            return EVERYTHING
        if not isinstance(text, str):
            self.remarks.append(f"the matcher {text!r} of a hook is not a string, so it matches everything")
            return EVERYTHING
        if not text or text == "*":
            return EVERYTHING
        if re.fullmatch(r"[\w,| -]*", text, re.ASCII):
            return Matcher(names=frozenset(filter(None, map(str.strip, re.split(r"[,|]", text)))))
        try:
            return Matcher(pattern=re.compile(text))
        except re.error as error:
            self.remarks.append(
                f"the matcher {text!r} of a hook is not a valid pattern ({error}), so it matches everything"
            )
            return EVERYTHING


def _lists_hooks(group: Mapping[str, Any]) -> bool:
    """Return whether a group has a list of commands, or of callbacks of a client."""
    given = [group[name] for name in ("hooks", "hookCallbackIds") if group.get(name) is not None]
    return bool(given) and all(isinstance(each, list) for each in given)


def _remarks(event: HookEvent, hook: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line about each field of a command that has no effect here."""
    if "if" in hook and not _condition(event, hook):
        yield f"the condition {hook['if']!r} of a hook for {event} is ignored: the hook always runs"
    if hook.get("asyncRewake") is True:
        yield f"asyncRewake of a hook for {event} is ignored: makeroom waits for the hook"
    if hook.get("shell", "bash") != "bash":
        yield f"the shell {hook['shell']!r} of a hook for {event} is ignored: bash runs it"


def _condition(event: HookEvent, hook: Mapping[str, Any]) -> str:
    """Return the condition of a hook; "" for none, or one that cannot be applied."""
    if event not in (HookEvent.PRE_TOOL, HookEvent.POST_TOOL, HookEvent.POST_TOOL_FAILURE):
        return ""
    text = hook.get("if")
    if not isinstance(text, str):
        return ""
    from agent.permissions import translate_rule  # 10 ms, and few hooks have a condition

    try:
        return text if translate_rule(text, "/") else ""
    except ValueError:
        return ""


def _command_line(command: str, args: object) -> str:
    """Return the command line of a hook. With `args`, `command` is one word, and so is each of them.

    Only `${NAME}` is replaced in these words.
    """
    if not isinstance(args, list):
        return command.strip()
    pieces = (re.split(r"(\$\{\w+\})", str(word)) for word in (command, *args))
    return " ".join("".join(map(_quoted_piece, word)) or "''" for word in pieces)


def _quoted_piece(text: str) -> str:
    if text.startswith("${"):
        return f'"{text}"'
    return shlex.quote(text) if text else ""


def _timeout(raw: Mapping[str, Any]) -> float:
    """Return the time limit in seconds; the default if the entry has no valid number."""
    given = raw.get("timeout")
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given < 1e6:
        return HOOK_TIMEOUT_S
    return float(given)


def status_command(raw: object) -> str:
    """Return the command of a status line; "" for none, or one of another type."""
    if not isinstance(raw, dict) or raw.get("type", "command") != "command":
        return ""
    command = raw.get("command")
    return command.strip() if isinstance(command, str) else ""
