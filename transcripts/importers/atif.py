"""Read trajectories in the Agent Trajectory Interchange Format (ATIF) of Harbor and Terminal-Bench.

One JSON object with `schema_version` "ATIF-v1.x" and `steps`: prompts (`source` "user") and replies
("agent"), each reply with its calls and what was observed after them. An observation that names no call was
made after all calls of its step: it is the result of the last one, and the others have none. Without calls,
it is what the user said next.
"""

from collections.abc import Mapping
from typing import Any

from ..messages import Block, TextBlock, ThinkingBlock, ToolUseBlock
from .openai_items import content_parts, image_at, readable_calls, tool_call
from .recording import ImportedSession, ParsedFile, Skip, list_in, mapping_in, parse_time, read_parts


def recognizes(file: ParsedFile) -> bool:
    """Return whether the file is one object that names a version of the format."""
    version = file.whole.get("schema_version") if isinstance(file.whole, Mapping) else None
    return isinstance(version, str) and version.startswith("ATIF-v")


def read_session(file: ParsedFile, session: ImportedSession) -> None:
    """Add the conversation of the steps, without the trajectories of subagents."""
    default = mapping_in(file.whole, "agent").get("model_name")
    for step in list_in(file.whole, "steps"):
        source = step.get("source") if isinstance(step, Mapping) else None
        if not isinstance(step, Mapping):
            session.damaged += 1
        elif source == "user":
            content = _content(step.get("message"), session.skip)
            session.add_user(content, parse_time(step.get("timestamp")))
        elif source == "agent":
            _add_reply(step, str(step.get("model_name") or default or ""), session)
        else:
            session.skip("system steps" if source == "system" else "steps of an unknown source")
    session.skip("subagent trajectories", len(list_in(file.whole, "subagent_trajectories")))


def _add_reply(step: Mapping[str, Any], model: str, session: ImportedSession) -> None:
    ts = parse_time(step.get("timestamp"))
    thought = step.get("reasoning_content")
    thinking = (ThinkingBlock(thought, ""),) if isinstance(thought, str) and thought else ()
    calls = _calls(step, session.skip)
    session.add_reply((*thinking, *_content(step.get("message"), session.skip), *calls), ts, model)
    for result in list_in(step.get("observation"), "results"):
        if not isinstance(result, Mapping):
            session.damaged += 1
            continue
        content = _content(result.get("content"), session.skip)
        ident = result.get("source_call_id")
        failed = mapping_in(result, "extra").get("is_error") is True
        if ident is not None:
            session.add_result(str(ident), content, ts, error=failed)
        elif calls:
            for call in calls:
                session.add_result(call.id, content if call is calls[-1] else (), ts, error=failed)
        else:
            session.add_user(content, ts)


def _calls(step: Mapping[str, Any], skip: Skip) -> list[ToolUseBlock]:
    """Return the calls of a step. Those without an id are skipped."""
    return readable_calls(map(_call, list_in(step, "tool_calls")), skip)


def _call(raw: Any) -> ToolUseBlock | None:
    given = raw if isinstance(raw, Mapping) else {}
    return tool_call(given.get("tool_call_id"), given.get("function_name"), given.get("arguments"))


def _content(content: Any, skip: Skip) -> tuple[Block, ...]:
    """Return a text, or parts, in which images are files next to the trajectory."""
    if not isinstance(content, list):
        return content_parts(content, skip)
    return read_parts(content, _part, skip)


def _part(raw: Mapping[str, Any]) -> tuple[Block, ...] | None:
    match raw:
        case {"type": "text", "text": str(text)}:
            return (TextBlock(text),) if text.strip() else ()
        case {"type": str(kind), "source": {"path": str(path)}}:
            return (image_at(path) if kind == "image" else TextBlock(f"[{kind}: {path}]"),)
    return None
