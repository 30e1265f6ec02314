"""A call's input is read forgivingly, for tools that declare a Struct and for those with a JSON Schema."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest
from msgspec.structs import asdict

from tests.narrowing import block_text
from tests.tables import each_row
from tools import bash, edit, grep, read, todo
from tools.base import Tool, ToolCall, ToolError, ToolResult, text_result

from .file_session import ROOT


def test_harmless_forms_of_input_are_understood():
    assert asdict(read.TOOL.parse({"file_path": "f", "offset": "5", "limit": 7.0})) == {
        "file_path": "f",
        "offset": 5,
        "limit": 7,
    }
    given = {"file_path": "f", "old_string": "a", "new_string": "b", "replace_all": "true"}
    assert edit.TOOL.parse(given).replace_all
    assert read.TOOL.parse({"file_path": "f", "offset": '"5"'}).offset == 5
    assert read.TOOL.parse({"file_path": "f", "offset": "null"}).offset is None
    assert bash.TOOL.parse({"job": "b1", "command": None, "kill": None}).command == ""
    given = {"pattern": "x", "path": "", "context": "", "output_mode": "", "-i": "", "offset": ""}
    assert grep.TOOL.parse(given) == grep.TOOL.parse({"pattern": "x", "path": ""})
    assert edit.TOOL.parse({"file_path": "f", "old_string": "a", "new_string": ""}).new_string == ""
    given = {"file_path": "f", "old_string": "5", "new_string": "[1]"}
    assert edit.TOOL.parse(given).old_string == "5"


@each_row("text", ["[" * 2_500, "[" * 5_000 + "]" * 5_000, '[{"content": NaN}]', "Infinity"])
def test_a_string_of_json_that_no_request_can_hold_is_not_decoded(text: str):
    with pytest.raises(ToolError, match="todo could not be called"):
        todo.TOOL.parse({"todos": text})


def test_wrong_input_is_named_with_what_is_possible():
    with pytest.raises(ToolError, match="parameter `todos` is ''"):
        todo.TOOL.parse({"todos": ""})
    with pytest.raises(ToolError) as caught:
        read.TOOL.parse({"path": "f", "offset": "x", "colour": 1})
    told = str(caught.value)
    assert told.startswith("read could not be called:\n")
    assert "The required parameter `file_path` is missing." in told
    assert "An unexpected parameter `path` was provided. Did you mean `file_path`?" in told
    assert "An unexpected parameter `colour` was provided.\n" in told
    assert "`offset` is 'x'" in told
    assert told.endswith("Its parameters are: file_path (required), offset, limit.")
    with pytest.raises(ToolError, match="content"):
        edit.TOOL.parse({"file_path": "f", "old_string": "a", "new_string": {"content": 1}})


def test_parameters_that_other_programs_call_otherwise_are_known_by_our_names():
    given = {"path": "f", "oldText": "a", "new_str": "b", "replaceAll": True}
    own = {"file_path": "f", "old_string": "a", "new_string": "b", "replace_all": True}
    assert edit.TOOL.with_own_names(given) == own
    assert grep.TOOL.with_own_names({"query": "x", "path": "src"}) == {"pattern": "x", "path": "src"}
    both = {"file_path": "f", "path": "g"}  # which is meant cannot be known
    assert read.TOOL.with_own_names(both) == both
    assert foreign(ROUTE).with_own_names({"path": "x"}) == {"path": "x"}
    with pytest.raises(ToolError, match="`cwd` was provided"):
        bash.TOOL.parse({"command": "ls", "cwd": "src"})


async def run(arguments: Any, call: ToolCall) -> ToolResult:
    return text_result(str(arguments))


def foreign(schema: dict[str, Any]) -> Tool:
    """A tool as a server declares it."""
    return Tool("mcp__maps__route", "", schema, "other", str, lambda arguments, context: (), run)


ROUTE = {
    "type": "object",
    "properties": {
        "from": {"type": "string"},
        "stops": {"type": "array", "items": {"type": "string"}},
        "speed": {"type": "integer", "minimum": 1},
        "by": {
            "type": "object",
            "properties": {"car": {"type": "boolean"}},
            "required": ["car"],
            "additionalProperties": False,
        },
    },
    "required": ["from"],
    "additionalProperties": False,
}


def test_input_is_checked_against_a_json_schema():
    tool = foreign(ROUTE)
    given = {"from": "here", "stops": ["there"], "speed": 30, "by": {"car": True}}
    assert tool.parse(given) == given
    assert tool.parse({"from": "here", "speed": "30", "stops": '["a"]'}) == {
        "from": "here",
        "speed": 30,
        "stops": ["a"],
    }
    with pytest.raises(ToolError) as caught:
        tool.parse({"form": 1, "stops": ["a", 2], "speed": 0, "by": {"cart": 1}})
    assert str(caught.value).split("\n") == [
        "mcp__maps__route could not be called:",
        "The parameter `stops.1` is 2: 2 is not of type 'string'.",
        "The parameter `speed` is 0: 0 is less than the minimum of 1.",
        "The required parameter `by.car` is missing.",
        "An unexpected parameter `by.cart` was provided.",
        "The required parameter `from` is missing.",
        "An unexpected parameter `form` was provided. Did you mean `from`?",
        "Its parameters are: from (required), stops, speed, by.",
    ]


@each_row(
    "schema",
    [
        {"type": "objekt"},
        {"$schema": 5},
        {"properties": {"a": {"$ref": "http://127.0.0.1:9/elsewhere"}}},
        {"properties": {"a": {"$ref": "#/properties/a"}}},
        {"properties": {"a": {"pattern": "("}}},
    ],
)
def test_a_schema_that_cannot_be_used_is_an_error_of_the_call_and_asks_no_server(schema: dict[str, Any]):
    with pytest.raises(ToolError, match="mcp__maps__route declares a parameter schema that cannot be used: "):
        foreign(schema).parse({"a": "x"})


def test_the_schema_library_is_loaded_only_for_a_tool_that_needs_it():
    code = """
import sys
from tools import read
read.TOOL.parse({"file_path": "f"})
assert "jsonschema" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


@each_row(("name", "kind"), [("two words", "other"), ("", "other"), ("läsa", "other"), ("x", "y")])
def test_a_tool_has_a_name_that_rules_can_say_and_a_known_kind(name: str, kind: Any):
    with pytest.raises(ValueError, match="invalid tool: name"):
        Tool(name, "", {}, kind, str, lambda arguments, context: (), run)


def test_a_tool_is_run_with_what_was_parsed():
    arguments = foreign(ROUTE).parse({"from": "x"})

    async def running() -> str:
        result = await foreign(ROUTE).run(arguments, None)  # type: ignore[arg-type]
        return block_text(result.content[0])

    assert asyncio.run(running()) == "{'from': 'x'}"
