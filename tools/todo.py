"""The todo tool: the model keeps a to-do list, which the user sees.

The list itself is the input of the newest call: rewinds, resumes and compactions find it in the transcript.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from tools.parameters import Arguments
from transcripts import Display

from .base import SMALL_WINDOW_TOKENS, Tool, ToolCall, ToolError, ToolResult, no_access, text_result

MAX_TODOS = 50
MAX_TODO_CHARS = 10_000  # of all items: each summary repeats the list


class TodoEntry(Struct, frozen=True):
    """One item; other fields that a model adds are ignored."""

    content: Annotated[str, Meta(min_length=1)]
    status: Literal["pending", "in_progress", "completed"]
    activeForm: str = ""


class TodoArguments(Arguments):
    """The whole list."""

    todos: Annotated[tuple[TodoEntry, ...], Meta(max_length=MAX_TODOS)]


async def set_todos(arguments: TodoArguments, call: ToolCall) -> ToolResult:
    if sum(len(entry.content) for entry in arguments.todos) > MAX_TODO_CHARS:
        raise ToolError(
            f"The list is longer than {MAX_TODO_CHARS:,} characters.\nDescribe each item in a few words."
        )
    return text_result("Updated.", human=Display(silent=True))


def _title(arguments: TodoArguments) -> str:
    done = sum(entry.status == "completed" for entry in arguments.todos)
    current = next((entry for entry in arguments.todos if entry.status == "in_progress"), None)
    now = f": {current.activeForm or current.content}" if current else ""
    return f"{done} of {len(arguments.todos)} done{now}" if arguments.todos else "nothing to do"


TOOL = Tool(
    name="todo",
    description="""\
Keep a to-do list that the user sees and that survives compactions. Use it for work of three or more steps. \
Each call replaces the whole list. Keep one item in_progress, with its activeForm ("Running tests"), and \
mark items completed as soon as they are done.""",
    arguments=TodoArguments,
    kind="plans",
    title=_title,
    access=no_access,
    run=set_todos,
    least_window=SMALL_WINDOW_TOKENS + 1,
)
