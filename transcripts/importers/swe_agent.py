"""Read SWE-agent trajectories: one JSON object with `history` (role, content, action, ...) or `trajectory`.

Calls that the model made through the API are kept unchanged. An action that it wrote as text becomes a call
of `bash`, and the next observation becomes its result.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from ..messages import Block, TextBlock, ToolUseBlock
from .openai_items import chat_calls
from .recording import ImportedSession, ParsedFile, Skip, content_blocks, list_in


def recognizes(file: ParsedFile) -> bool:
    """Return whether the file is one object with steps."""
    return bool(list_in(file.whole, "history") or list_in(file.whole, "trajectory"))


def read_session(file: ParsedFile, session: ImportedSession) -> None:
    """Add the conversation of `history`, or of `trajectory` if the file has no history."""
    pending: list[str] = []  # calls without a result so far
    steps = list_in(file.whole, "history") or _trajectory(list_in(file.whole, "trajectory"))
    for number, step in enumerate(steps):
        if not isinstance(step, Mapping):
            session.damaged += 1
            continue
        content = content_blocks(step.get("content"), session.skip) or ()
        is_observation = (
            step.get("role") == "tool" or step.get("message_type", "observation") == "observation"
        )
        match step.get("role"):
            case "assistant":
                content, uses = _reply(step, f"step_{number}", content, session.skip)
                session.add_reply((*content, *uses), None)
                pending = [use.id for use in uses]
            case "user" | "tool" if pending and is_observation:
                ids = list(map(str, list_in(step, "tool_call_ids"))) or pending[:1]
                for ident in ids:
                    session.add_result(ident, content, None)
                pending = [ident for ident in pending if ident not in ids]
            case "user":
                session.add_user(content, None)
            case _:
                session.skip("messages of other roles")


def _trajectory(steps: list[Any]) -> Iterator[Any]:
    """Yield the steps of a trajectory in the form of a history: the query, then replies and observations."""
    for message in list_in(steps[0], "query"):
        if isinstance(message, Mapping) and message.get("role") == "user":
            yield message
    for step in steps:
        if isinstance(step, Mapping):
            yield {**step, "role": "assistant", "content": step.get("response")}
            yield {"role": "tool", "content": step.get("observation")}
        else:
            yield step


def _reply(
    step: Mapping[str, Any], ident: str, content: tuple[Block, ...], skip: Skip
) -> tuple[tuple[Block, ...], list[ToolUseBlock]]:
    """Return the content of a step and its calls; the call of an action that is text gets the id `ident`."""
    thought = step.get("thought")
    action = step.get("action")
    if isinstance(thought, str) and action is not None:
        content = (TextBlock(thought),) if thought.strip() else ()
    if calls := list_in(step, "tool_calls"):
        return content, chat_calls(calls, skip)
    if isinstance(action, str) and action.strip():
        return content, [ToolUseBlock(ident, name="bash", input={"command": action})]
    return content, []
