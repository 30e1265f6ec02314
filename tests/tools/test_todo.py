"""The to-do list as a call sets it: what is taken, what is refused, and its line on the screen."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.tables import each_row
from tools.base import ToolCall, ToolContext, ToolError
from tools.registry import definitions
from tools.todo import MAX_TODOS, TOOL
from transcripts import Display

from .tool_run import run_tool

PLACE = Path("/nowhere")
CONTEXT = ToolContext(PLACE, PLACE, PLACE, PLACE)


def item(content: str, status: str = "pending", **more: Any) -> dict[str, Any]:
    return {"content": content, "status": status, **more}


def test_a_list_is_taken_with_what_other_programs_add_to_an_item() -> None:
    given = [item("a", "completed", id="1"), item("Run tests", "in_progress", activeForm="Running tests")]
    arguments = TOOL.parse({"todos": given})
    assert TOOL.title(arguments) == "1 of 2 done: Running tests"
    assert TOOL.title(TOOL.parse({"todos": []})) == "nothing to do"
    result = asyncio.run(run_tool(TOOL, arguments, ToolCall(CONTEXT)))
    assert not result.error and result.human == Display(silent=True)


@each_row(
    ("todos", "told"),
    [
        (
            [item("a", "doing")],
            "todos.0.status` is 'doing': it must be one of completed, in_progress, pending",
        ),
        ([item("")], "todos.0.content"),
        ([item("a")] * (MAX_TODOS + 1), "todos"),
        ([{"status": "pending"}], "todos.0.content` is missing"),
    ],
)
def test_what_is_not_a_list_is_an_error_that_names_the_item(todos: Any, told: str) -> None:
    with pytest.raises(ToolError, match="todo could not be called") as error:
        TOOL.parse({"todos": todos})
    assert told in str(error.value)


def test_a_list_of_essays_is_refused() -> None:
    arguments = TOOL.parse({"todos": [item("x" * 9_000), item("y" * 9_000)]})
    with pytest.raises(ToolError, match="longer than 10,000 characters"):
        asyncio.run(run_tool(TOOL, arguments, ToolCall(CONTEXT)))


def test_its_schema_is_in_one_piece_as_not_every_server_follows_references() -> None:
    (definition,) = definitions([TOOL])
    schema = definition["input_schema"]
    assert "$" not in str(schema) and set(schema) == {
        "additionalProperties",
        "properties",
        "required",
        "type",
    }
    assert set(schema["properties"]["todos"]["items"]["properties"]) == {"content", "status", "activeForm"}
