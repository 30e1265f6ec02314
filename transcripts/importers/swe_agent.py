"""Reads SWE-agent trajectories: one JSON object with `history` (role, content, action, ...) or `trajectory`.

Calls that the model made through the API are taken as they are. An action that it wrote as text becomes a
call of `bash`, and the observation after it the result.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from transcripts.messages import Block, TextBlock, ToolUseBlock, block_from_json

from .recording import ImportedSession, ParsedFile, content_blocks


def recognizes(file: ParsedFile) -> bool:
    """Whether it is one object with steps."""
    return bool(_steps(file, "history") or _steps(file, "trajectory"))


def read_session(file: ParsedFile, session: ImportedSession) -> None:
    """Add the conversation of `history`; of `trajectory` where a file has no history."""
    if history := _steps(file, "history"):
        _add_history(history, session)
    else:
        _add_trajectory(_steps(file, "trajectory"), session)


def _steps(file: ParsedFile, name: str) -> list[Any]:
    steps = file.whole.get(name) if isinstance(file.whole, Mapping) else None
    return steps if isinstance(steps, list) else []


def _add_history(steps: list[Any], session: ImportedSession) -> None:
    pending: list[str] = []  # calls without a result so far
    for number, step in enumerate(steps):
        if not isinstance(step, Mapping):
            session.damaged += 1
            continue
        content = content_blocks(step.get("content")) or ()
        match step.get("role"):
            case "assistant":
                pending = _add_reply(step, number, content, session)
            case "user" | "tool" if pending and _is_observation(step):
                ids = [str(ident) for ident in step.get("tool_call_ids") or pending[:1]]
                for ident in ids:
                    session.add_result(ident, content, None)
                pending = [ident for ident in pending if ident not in ids]
            case "user":
                session.add_user(content, None)
            case _:
                session.skipped += 1


def _is_observation(step: Mapping[str, Any]) -> bool:
    return step.get("role") == "tool" or step.get("message_type", "observation") == "observation"


def _add_trajectory(steps: list[Any], session: ImportedSession) -> None:
    first = steps[0] if isinstance(steps[0], Mapping) else {}
    for message in first.get("query") or ():
        if isinstance(message, Mapping) and message.get("role") == "user":
            session.add_user(content_blocks(message.get("content")) or (), None)
    for number, step in enumerate(steps):
        if not isinstance(step, Mapping):
            session.damaged += 1
            continue
        ids = _add_reply(step, number, content_blocks(step.get("response")) or (), session)
        for ident in ids[:1]:
            session.add_result(ident, content_blocks(step.get("observation")) or (), None)


def _add_reply(
    step: Mapping[str, Any], number: int, content: tuple[Block, ...], session: ImportedSession
) -> list[str]:
    """Add a step's reply: its thought, else `content`, and its calls. Returns their tool ids."""
    thought, action, calls = step.get("thought"), step.get("action"), step.get("tool_calls")
    if isinstance(thought, str) and action is not None:
        content = (TextBlock(thought),) if thought.strip() else ()
    uses: list[Block | None] = []
    if isinstance(calls, list) and calls:
        uses = [_call(call) for call in calls if isinstance(call, Mapping)]
    elif isinstance(action, str) and action.strip():
        uses = [ToolUseBlock(f"step_{number}", "bash", {"command": action})]
    usable = [use for use in uses if isinstance(use, ToolUseBlock)]
    session.add_reply((*content, *usable), None)
    return [use.id for use in usable]


def _call(call: Mapping[str, Any]) -> Block | None:
    function = call.get("function")
    if not isinstance(function, Mapping) or not call.get("id"):
        return None
    arguments, name = function.get("arguments"), function.get("name") or "unnamed"
    if isinstance(arguments, str):
        with suppress(ValueError):
            arguments = json.loads(arguments or "{}")
    return block_from_json({"type": "tool_use", "id": call["id"], "name": name, "input": arguments})
