"""The client as approver and as hooks: permission questions and moments of a turn, asked of it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agent.formatting import client_name
from agent.permissions.rule_syntax import known_rules
from agent.permissions.rules import mode_named
from agent.ports import (
    Allow,
    Deny,
    HookAnswer,
    HookEvent,
    PermissionQuestion,
    PermissionUpdate,
)

from .client_channel import ClientChannel, ClientRefused

HOOK_CALLBACK_TIMEOUT_S = 60.0  # unless the client names another
HOOK_NAMES: Mapping[HookEvent, str] = {
    HookEvent.PRE_TOOL: "PreToolUse",
    HookEvent.POST_TOOL: "PostToolUse",
    HookEvent.PROMPT: "UserPromptSubmit",
    HookEvent.STOP: "Stop",
    HookEvent.PRE_COMPACT: "PreCompact",
}


@dataclass(frozen=True, slots=True)
class ClientApprover:
    """Implements ports.Approver: the client decides, or the person behind it."""

    channel: ClientChannel

    async def ask(self, question: PermissionQuestion) -> Allow | Deny:
        request = {
            "subtype": "can_use_tool",
            "tool_name": client_name(question.tool),
            "display_name": client_name(question.tool),
            "input": dict(question.input),
            "tool_use_id": question.call,
            "permission_suggestions": _suggestions(question),
            "decision_reason": question.refused or question.why,
            "title": question.title,
            "description": question.title,
        }
        paths = [each.target for each in question.access if each.kind in ("read", "write") and each.outside]
        if paths:
            request["blocked_path"] = paths[0]
        sent: list[str] = []
        try:
            with self.channel.action_required():
                answer = await self.channel.ask(request, sent)
        except ClientRefused as error:
            return Deny(str(error), unattended=True)
        given = permission_answer(answer)
        if isinstance(given, Allow) and given.updated_input is not None:
            seen = json.loads(sent[0])["request"]["input"]
            return replace(given, updated_input=unmasked(given.updated_input, seen, question.input))
        return given


def permission_answer(answer: Mapping[str, Any]) -> Allow | Deny:
    """What an answer to can_use_tool means; anything but a clear yes is a no."""
    if answer.get("behavior") != "allow":
        return Deny(str(answer.get("message") or ""), stop=answer.get("interrupt") is True)
    changed = answer.get("updatedInput")
    updates = answer.get("updatedPermissions")
    return Allow(
        updated_input=changed if isinstance(changed, dict) else None,
        updates=tuple(map(_update, updates)) if isinstance(updates, list) else (),
    )


def unmasked(
    changed: Mapping[str, Any], seen: Mapping[str, Any], original: Mapping[str, Any]
) -> dict[str, Any]:
    """A changed input with the original in each field that the client left as it saw it.

    It may have seen a secret masked, or a long text shortened: neither may be what runs.
    """
    return {
        name: original[name] if name in original and name in seen and value == seen[name] else value
        for name, value in changed.items()
    }


def _update(raw: Any) -> PermissionUpdate:
    """A change of permissions; only what is for the session is followed."""
    if not isinstance(raw, dict) or raw.get("destination") != "session":
        return PermissionUpdate()
    match raw.get("type"):
        case "setMode":
            return PermissionUpdate(mode=mode_named(str(raw.get("mode"))))
        case "addRules" if raw.get("behavior") in ("allow", "deny"):
            texts = [_rule_text(rule) for rule in raw.get("rules") or () if isinstance(rule, dict)]
            rules = tuple(filter(None, texts))
            return (
                PermissionUpdate(allow=rules) if raw["behavior"] == "allow" else PermissionUpdate(deny=rules)
            )
    return PermissionUpdate()


def _rule_text(rule: Mapping[str, Any]) -> str:
    """A rule as it is written here, "" for one about no tool of ours."""
    content = rule.get("ruleContent")
    text = f"{rule.get('toolName')}({content})" if content else str(rule.get("toolName"))
    try:
        found, _ = known_rules(text)
    except ValueError:
        return ""
    return str(found[0]) if len(found) == 1 else ""


def _suggestions(question: PermissionQuestion) -> list[dict[str, Any]]:
    """What the client may grant for the rest of the session."""
    if question.refused or not question.prefix:
        return []
    if all(each.kind == "write" for each in question.access):
        return [{"type": "setMode", "mode": "acceptEdits", "destination": "session"}]
    rule, _ = known_rules(question.prefix)
    content = {} if rule[0].pattern is None else {"ruleContent": str(rule[0])[len(rule[0].tool) + 1 : -1]}
    rules = [{"toolName": client_name(rule[0].tool), **content}]
    return [{"type": "addRules", "rules": rules, "behavior": "allow", "destination": "session"}]


@dataclass(frozen=True, slots=True)
class HookMatcher:
    """Callbacks of the client for an event: `tools` None for all. `blocks`: a failure counts as a veto."""

    event: str
    callbacks: tuple[str, ...]
    tools: re.Pattern[str] | None = None
    timeout: float = HOOK_CALLBACK_TIMEOUT_S
    blocks: bool = False

    def covers(self, event: str, tool: str) -> bool:
        return self.event == event and (self.tools is None or not tool or bool(self.tools.fullmatch(tool)))


def hook_matchers(hooks: Any) -> tuple[HookMatcher, ...]:
    """The hooks that the client registered. Raises ValueError for a pattern that is none."""
    found = []
    for event, matchers in hooks.items() if isinstance(hooks, dict) else ():
        for raw in matchers or ():
            pattern = raw.get("matcher")
            try:
                tools = None if pattern in (None, "", "*") else re.compile(pattern)
            except re.error as error:
                raise ValueError(f"the matcher {pattern!r} of a hook is no pattern: {error}") from error
            timeout = raw.get("timeout") or HOOK_CALLBACK_TIMEOUT_S
            blocks = raw.get("onFailure", "continue") != "continue"
            found.append(HookMatcher(event, tuple(raw.get("hookCallbackIds") or ()), tools, timeout, blocks))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class ClientHooks:
    """Implements ports.Hooks: callbacks of the client. `about_session` gives what every callback is told."""

    channel: ClientChannel
    matchers: Sequence[HookMatcher]
    about_session: Callable[[], Mapping[str, Any]]
    tell: Callable[[str], None]

    async def run(self, event: HookEvent, about: Mapping[str, Any]) -> HookAnswer:
        """See ports.Hooks."""
        joined, name = HookAnswer(), HOOK_NAMES.get(event, "")
        tool = client_name(str(about.get("tool", "")))
        for matcher in self.matchers:
            if not matcher.covers(name, tool):
                continue
            for callback in matcher.callbacks:
                told = hook_input(event, {**about, **joined.changed_input})
                joined = joined.then(await self._call(matcher, callback, told))
                if joined.veto is not None:
                    return joined
        return joined

    async def _call(self, matcher: HookMatcher, callback: str, told: dict[str, Any]) -> HookAnswer:
        request = {
            "subtype": "hook_callback",
            "callback_id": callback,
            "input": {**self.about_session(), **told},
            "tool_use_id": told.get("tool_use_id"),
        }
        sent: list[str] = []
        try:
            answer = await asyncio.wait_for(self.channel.ask(request, sent), matcher.timeout)
        except TimeoutError:
            fault = f"took longer than {matcher.timeout:g} s"
        except ClientRefused as error:
            fault = f"failed: {error}"
        else:
            given = hook_answer(answer)
            if given.updated_input is None:
                return given
            seen = json.loads(sent[0])["request"]["input"].get("tool_input", {})
            return replace(given, updated_input=unmasked(given.updated_input, seen, told["tool_input"]))
        words = f"a hook of the client for {matcher.event} {fault}"
        self.tell(words)
        return HookAnswer(veto=words) if matcher.blocks else HookAnswer()


def hook_input(event: HookEvent, about: Mapping[str, Any]) -> dict[str, Any]:
    """What a callback is told of a moment, in the client's terms."""
    told: dict[str, Any] = {"hook_event_name": HOOK_NAMES[event]}
    match event:
        case HookEvent.PRE_TOOL | HookEvent.POST_TOOL:
            told |= {"tool_name": client_name(about["tool"]), "tool_input": about["input"]}
            told["tool_use_id"] = about.get("id")
            if event is HookEvent.POST_TOOL:
                told["tool_response"] = {"content": about["output"], "is_error": about["error"]}
        case HookEvent.PROMPT:
            told["prompt"] = about["prompt"]
        case HookEvent.STOP:
            told["stop_hook_active"] = about["again"]
            told["last_assistant_message"] = about["answer"]
        case HookEvent.PRE_COMPACT:
            told["trigger"] = "manual" if about["trigger"] == "manual" else "auto"
            told["custom_instructions"] = about.get("focus")
    return told


def hook_answer(answer: Mapping[str, Any]) -> HookAnswer:
    """What the answer of a callback means; fields that are not as expected say nothing."""
    specific = answer.get("hookSpecificOutput")
    specific = specific if isinstance(specific, dict) else {}
    decision = specific.get("permissionDecision")
    reason = specific.get("permissionDecisionReason") or answer.get("reason")
    refused = decision == "deny" or answer.get("decision") in ("block", "deny")
    if decision is None and answer.get("decision") in ("approve", "allow"):
        decision = "allow"
    stop = None
    if answer.get("continue") is False:
        stop = str(answer.get("stopReason") or reason or "a hook stopped the turn")
    changed = specific.get("updatedInput")
    return HookAnswer(
        veto=str(reason or "no reason given") if refused else None,
        words=str(specific.get("additionalContext") or ""),
        decision=decision if decision in ("allow", "ask") else None,
        updated_input=changed if isinstance(changed, dict) else None,
        stop=stop,
    )
