"""Build the input of a hook from an event, in the form of Claude Code. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agent.client_names import client_name, client_output
from agent.permissions import client_mode
from agent.ports import HookEvent
from transcripts import ProjectRecords

from .entries import HookEntry, compaction_trigger

if TYPE_CHECKING:
    from agent.permissions import PermissionStore
    from agent.session import Session
    from tools.base import ToolContext


def hook_input(event: HookEvent, about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the input of a hook for an event, without the part that `about_session` returns."""
    payload: dict[str, Any] = {"hook_event_name": str(event)}
    payload |= {name: about[name] for name in ("agent_id", "agent_type") if about.get(name)}
    match event:
        case HookEvent.PRE_TOOL | HookEvent.POST_TOOL | HookEvent.POST_TOOL_FAILURE:
            payload |= _of_call(event, about)
        case HookEvent.PROMPT:
            payload["prompt"] = about["prompt"]
        case HookEvent.STOP | HookEvent.SUBAGENT_STOP:
            payload["stop_hook_active"] = about["again"]
            payload["last_assistant_message"] = about["answer"]
        case HookEvent.PRE_COMPACT:
            payload["trigger"] = compaction_trigger(about)
            payload["custom_instructions"] = about.get("focus") or ""
        case HookEvent.POST_COMPACT:
            payload["trigger"] = compaction_trigger(about)
            payload["compact_summary"] = about.get("summary") or ""
        case HookEvent.NOTIFICATION:
            payload |= {"message": about["message"], "notification_type": about.get("type", "")}
        case HookEvent.SESSION_START:
            payload |= {name: about[name] for name in ("source", "model") if name in about}
        case HookEvent.SESSION_END:
            payload["reason"] = about["reason"]
    return payload


def _of_call(event: HookEvent, about: Mapping[str, Any]) -> dict[str, Any]:
    payload: dict[str, Any] = {
        "tool_name": client_name(about["tool"]),
        "tool_input": about["input"],
        "tool_use_id": about.get("id"),
    }
    if event is HookEvent.POST_TOOL:
        payload["tool_response"] = _response(about)
    elif event is HookEvent.POST_TOOL_FAILURE:
        payload["error"] = about["output"]
    if "seconds" in about:
        payload["duration_ms"] = round(about["seconds"] * 1000)
    return payload


def _response(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the output of a call: `content` is all of it, other fields are those that scripts expect."""
    payload = {"content": about["output"], "is_error": about["error"]}
    if path := about["input"].get("file_path"):
        payload["filePath"] = path
    return {**payload, **(client_output(about["tool"], about["output"]) or {})}


def with_short_form(entry: HookEntry, payload: Mapping[str, Any], about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the input of a command; a hook under an older name gets the older form as well."""
    if not entry.short_name:
        return dict(payload)
    return {**payload, "moment": entry.short_name, **about}


def about_session(session: Session, tools: ToolContext, permissions: PermissionStore) -> dict[str, Any]:
    """Return the part of every hook's input that is about the session."""
    return {
        "session_id": session.sid,
        "transcript_path": str(ProjectRecords(tools.folder).path_of(session.sid)),
        "cwd": str(tools.cwd),
        "permission_mode": client_mode(permissions.rules.mode),
    }
