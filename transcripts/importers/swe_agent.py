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

from .recording import (
    Count,
    FactAssembly,
    ImportedSession,
    Sample,
    content_blocks,
)


def recognizes(sample: Sample) -> bool:
    """Whether it is one object with steps; a pretty-printed one has no object on its first lines."""
    return isinstance(sample.whole, Mapping) and bool(_steps(sample.whole))


def read_session(text: str, count: Count) -> ImportedSession:
    """The conversation of `history`; of `trajectory` where a file has no history."""
    whole = json.loads(text)
    steps = _steps(whole)
    assembly = FactAssembly(count)
    if steps is whole.get("history"):
        _add_history(steps, assembly)
    else:
        _add_trajectory(steps, assembly)
    return assembly.finish("swe-agent")


def _steps(whole: Mapping[str, Any]) -> list[Any]:
    for name in ("history", "trajectory"):
        steps = whole.get(name)
        if isinstance(steps, list) and steps:
            return steps
    return []


def _add_history(steps: list[Any], assembly: FactAssembly) -> None:
    pending: list[str] = []  # calls without a result so far
    for number, step in enumerate(steps):
        if not isinstance(step, Mapping):
            assembly.damaged += 1
            continue
        content = content_blocks(step.get("content")) or ()
        match step.get("role"):
            case "assistant":
                uses = _calls(step, f"step_{number}")
                assembly.reply((*_reply_text(step, content), *uses), None)
                pending = [use.id for use in uses]
            case "user" | "tool" if pending and _is_observation(step):
                ids = [str(ident) for ident in step.get("tool_call_ids") or pending[:1]]
                for ident in ids:
                    assembly.result(ident, content, None)
                pending = [ident for ident in pending if ident not in ids]
            case "user":
                assembly.user(content, None)
            case _:
                assembly.skipped += 1


def _is_observation(step: Mapping[str, Any]) -> bool:
    return step.get("role") == "tool" or step.get("message_type", "observation") == "observation"


def _reply_text(step: Mapping[str, Any], content: tuple[Block, ...]) -> tuple[Block, ...]:
    thought = step.get("thought")
    if isinstance(thought, str) and step.get("action") is not None:
        return (TextBlock(thought),) if thought.strip() else ()
    return content


def _calls(step: Mapping[str, Any], ident: str) -> tuple[ToolUseBlock, ...]:
    calls = step.get("tool_calls")
    if isinstance(calls, list) and calls:
        made = (_call(call) for call in calls if isinstance(call, Mapping))
        return tuple(use for use in made if isinstance(use, ToolUseBlock))
    action = step.get("action")
    if isinstance(action, str) and action.strip():
        return (ToolUseBlock(ident, "bash", {"command": action}),)
    return ()


def _call(call: Mapping[str, Any]) -> Block | None:
    function = call.get("function")
    if not isinstance(function, Mapping) or not call.get("id"):
        return None
    arguments, name = function.get("arguments"), function.get("name") or "unnamed"
    if isinstance(arguments, str):
        with suppress(ValueError):
            arguments = json.loads(arguments or "{}")
    return block_from_json({"type": "tool_use", "id": call["id"], "name": name, "input": arguments})


def _add_trajectory(steps: list[Any], assembly: FactAssembly) -> None:
    first = steps[0] if isinstance(steps[0], Mapping) else {}
    for message in first.get("query") or ():
        if isinstance(message, Mapping) and message.get("role") == "user":
            assembly.user(content_blocks(message.get("content")) or (), None)
    for number, step in enumerate(steps):
        if not isinstance(step, Mapping):
            assembly.damaged += 1
            continue
        uses = _calls(step, f"step_{number}")
        assembly.reply((*_reply_text(step, content_blocks(step.get("response")) or ()), *uses), None)
        observation = content_blocks(step.get("observation")) or ()
        for use in uses[:1]:
            assembly.result(use.id, observation, None)
