"""The client as approver and as hooks: it answers permission questions and hook events of a turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from agent.client_names import client_name
from agent.extensions.hooks import AskedHooks, HookEntry, HookFailed, hook_answer
from agent.permissions import known_rules, mode_named
from agent.ports import Allow, Deny, HookAnswer, PermissionQuestion, PermissionUpdate

from .client_channel import ClientChannel, ClientRefused


class ClientApprover(Struct, frozen=True):
    """A ports.Approver: the client or its user decides."""

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
        if question.asker:
            request["agent_id"] = question.asker
        paths = [each.target for each in question.access if each.kind in ("read", "write") and each.outside]
        if paths:
            request["blocked_path"] = paths[0]
        try:
            with self.channel.action_required():
                answer = await self.channel.ask(request)
        except ClientRefused as error:
            return Deny(str(error), unattended=True)
        given = permission_answer(answer.body)
        if isinstance(given, Allow) and given.updated_input is not None:
            changed = unmasked(given.updated_input, answer.seen["input"], question.input)
            return replace(given, updated_input=changed)
        return given


def permission_answer(answer: Mapping[str, Any]) -> Allow | Deny:
    """Parse an answer to can_use_tool; anything but a clear yes is a denial."""
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
    """Return a changed input with the original value in each field that the client has not changed.

    The client may have seen a masked secret or a shortened text, which must not be run.
    """
    return {
        name: original[name] if name in original and name in seen and value == seen[name] else value
        for name, value in changed.items()
    }


def _update(raw: Any) -> PermissionUpdate:
    """Return a change of permissions; an empty one unless it is for the session."""
    if not isinstance(raw, dict) or raw.get("destination") != "session":
        return PermissionUpdate()
    match raw.get("type"):
        case "setMode":
            return PermissionUpdate(mode=mode_named(str(raw.get("mode"))))
        case "addRules" if isinstance(given := raw.get("rules"), list):
            rules = tuple(filter(None, (_rule_text(rule) for rule in given if isinstance(rule, dict))))
            match raw.get("behavior"):
                case "allow":
                    return PermissionUpdate(allow=rules)
                case "deny":
                    return PermissionUpdate(deny=rules)
    return PermissionUpdate()


def _rule_text(rule: Mapping[str, Any]) -> str:
    """Return a rule in our syntax, "" for a rule about an unknown tool."""
    content = rule.get("ruleContent")
    text = f"{rule.get('toolName')}({content})" if content else str(rule.get("toolName"))
    try:
        found, _ = known_rules(text)
    except ValueError:
        return ""
    return str(found[0]) if len(found) == 1 else ""


def _suggestions(question: PermissionQuestion) -> list[dict[str, Any]]:
    """Return the rules that the client may grant for the rest of the session."""
    if question.refused or not question.prefix:
        return []
    if all(each.kind == "write" for each in question.access):
        return [{"type": "setMode", "mode": "acceptEdits", "destination": "session"}]
    rule, _ = known_rules(question.prefix)
    content = {} if rule[0].pattern is None else {"ruleContent": str(rule[0])[len(rule[0].tool) + 1 : -1]}
    rules = [{"toolName": client_name(rule[0].tool), **content}]
    return [{"type": "addRules", "rules": rules, "behavior": "allow", "destination": "session"}]


def client_hooks(
    channel: ClientChannel,
    entries: Sequence[HookEntry],
    about_session: Callable[[], Mapping[str, Any]],
    tell: Callable[[str], None],
) -> AskedHooks:
    """Return the hooks of `entries`, which are callbacks of the client."""

    async def ask(entry: HookEntry, given_input: dict[str, Any]) -> HookAnswer:
        request = {
            "subtype": "hook_callback",
            "callback_id": entry.run,
            "input": given_input,
            "tool_use_id": given_input.get("tool_use_id"),
        }
        try:
            answer = await channel.ask(request)
        except ClientRefused as error:
            raise HookFailed(f"failed: {error}") from error
        given = hook_answer(answer.body)
        if given.updated_input is None:
            return given
        seen = answer.seen["input"].get("tool_input", {})
        return replace(given, updated_input=unmasked(given.updated_input, seen, given_input["tool_input"]))

    return AskedHooks(entries, ask=ask, about_session=about_session, label=_label, tell=tell)


def _label(entry: HookEntry) -> str:
    return f"a hook of the client for {entry.event}"
