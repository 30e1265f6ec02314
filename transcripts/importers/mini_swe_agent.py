"""Read trajectories of mini-SWE-agent: one JSON object with `trajectory_format` and `messages`.

Version 2 records calls as the model made them, in messages of Chat Completions or in whole responses of the
Responses API. An action that the model wrote as text becomes a call of `bash`, and the next observation
becomes its result.
"""

from collections.abc import Mapping
from typing import Any

from ..messages import Block, ThinkingBlock, ToolUseBlock
from .openai_items import chat_calls, content_parts, reasoning, tool_call
from .recording import (
    UNREADABLE_CALLS,
    UNREADABLE_PARTS,
    ImportedSession,
    ParsedFile,
    Skip,
    list_in,
    mapping_in,
    parse_time,
)


def recognizes(file: ParsedFile) -> bool:
    """Return whether the file is one object that names the format."""
    named = file.whole.get("trajectory_format") if isinstance(file.whole, Mapping) else None
    return isinstance(named, str) and named.startswith("mini-swe-agent")


def read_session(file: ParsedFile, session: ImportedSession) -> None:
    """Add the conversation, without the system prompt and the last message, which repeats the submission."""
    pending: list[str] = []  # calls without a result so far
    model = _model(file.whole)
    for number, raw in enumerate(list_in(file.whole, "messages")):
        if not isinstance(raw, Mapping):
            session.damaged += 1
            continue
        about = mapping_in(raw, "extra")
        ts = parse_time(about.get("timestamp"))
        if _is_reply(raw):
            blocks = _reply(raw, about, f"message_{number}", session.skip)
            pending = [block.id for block in blocks if isinstance(block, ToolUseBlock)]
            session.add_reply(blocks, ts, str(raw.get("model") or model))
            continue
        content = content_parts(raw.get("output" if _is_output(raw) else "content"), session.skip)
        if _is_output(raw) or ("returncode" in about and pending):
            ident = str(raw.get("tool_call_id") or raw.get("call_id") or (pending or [""])[0])
            pending = [call for call in pending if call != ident]
            failed = about.get("returncode") not in (0, None)
            session.add_result(ident, content, ts, error=failed)
        elif raw.get("role") == "user":
            session.add_user(content, ts)
        else:
            session.skip("messages of other roles")


def _model(found: Any) -> str:
    """Return the model that the settings of the run name, "" if there is none."""
    for name in ("info", "config", "model"):
        found = mapping_in(found, name)
    name = found.get("model_name")
    return name if isinstance(name, str) else ""


def _is_reply(raw: Mapping[str, Any]) -> bool:
    return raw.get("role") == "assistant" or raw.get("object") == "response"


def _is_output(raw: Mapping[str, Any]) -> bool:
    return raw.get("role") == "tool" or raw.get("type") == "function_call_output"


def _reply(raw: Mapping[str, Any], about: Mapping[str, Any], ident: str, skip: Skip) -> tuple[Block, ...]:
    """Return the blocks of a reply; the calls of actions that are text get ids that start with `ident`."""
    items = raw.get("output")
    if isinstance(items, list):
        return tuple(block for item in items for block in _item(item, skip))
    thought = raw.get("reasoning_content")
    blocks: list[Block] = [ThinkingBlock(thought, "")] if isinstance(thought, str) and thought else []
    blocks += content_parts(raw.get("content"), skip)
    if calls := list_in(raw, "tool_calls"):
        return (*blocks, *chat_calls(calls, skip))
    for index, action in enumerate(list_in(about, "actions")):
        if isinstance(action, Mapping) and isinstance(action.get("command"), str):
            blocks.append(ToolUseBlock(f"{ident}_{index}", name="bash", input={"command": action["command"]}))
    return tuple(blocks)


def _item(item: Any, skip: Skip) -> tuple[Block, ...]:
    match item:
        case {"type": "message"}:
            return content_parts(item.get("content"), skip)
        case {"type": "reasoning"}:
            return reasoning(item, skip)
        case {"type": "function_call"}:
            ident = item.get("call_id") or item.get("id")
            use = tool_call(ident, item.get("name"), item.get("arguments"))
            if use is not None:
                return (use,)
            skip(UNREADABLE_CALLS)
        case _:
            skip(UNREADABLE_PARTS)
    return ()
