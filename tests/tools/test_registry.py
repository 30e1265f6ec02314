"""The built-in tools are one source of tools; the model is sent the same bytes of them in every version."""

from __future__ import annotations

import asyncio
import errno
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from agent.model.anthropic.request import encode_request
from agent.model_port import ModelRequest, RequestSettings
from agent.permissions import parse_rules
from tools import BUILTIN, read
from tools.base import Tool, ToolCall, ToolError, ToolResult, text_result
from tools.file_errors import os_errors_explained
from tools.registry import BuiltinTools, definitions, join_tools, load_builtin_tools
from transcripts.tool_kinds import same_tools
from transcripts.view import to_json_bytes

from .file_session import ROOT

STORED = json.loads(Path(__file__).with_name("definitions.json").read_text("utf-8"))


def test_the_source_has_the_tools_of_the_table_once_it_is_open(tmp_path: Path):
    source = BuiltinTools()
    assert source.tools() == ()
    asyncio.run(source.open(tmp_path, {}))
    assert tuple(tool.name for tool in source.tools()) == BUILTIN
    asyncio.run(source.close())


def test_what_the_model_is_sent_of_the_tools_is_byte_for_byte_what_is_stored():
    settings = RequestSettings("m", 1, tools=definitions(load_builtin_tools()))
    body = encode_request(ModelRequest(settings, ()))
    assert b'"tools":%b,"stream"' % to_json_bytes(STORED) in body


def test_the_record_keeps_the_kind_of_each_tool_besides():
    kept = definitions(load_builtin_tools())
    assert [{key: each[key] for key in each if key != "kind"} for each in kept] == STORED
    assert {each["name"]: each["kind"] for each in kept} == {
        "bash": "runs",
        "read": "reads",
        "write": "writes",
        "edit": "writes",
        "grep": "searches",
        "glob": "searches",
        "compact": "asks",
        "recall": "recalls",
        "todo": "plans",
        "task": "other",
        "ask_user": "asks",
        "exit_plan": "asks",
        "monitor": "runs",
        "web_fetch": "other",
    }


def test_definitions_without_kinds_are_the_same_tools_and_other_descriptions_are_not():
    now = definitions(load_builtin_tools())
    assert same_tools(STORED, now) and same_tools(now, STORED)
    assert not same_tools(STORED[1:], now)
    assert not same_tools([{**STORED[0], "description": "else"}, *STORED[1:]], now)
    assert not same_tools([{**STORED[0], "input_schema": {}}, *STORED[1:]], now)


def test_a_declared_schema_is_sent_unchanged():
    async def run(arguments: Any, call: ToolCall) -> ToolResult:
        return text_result("")

    schema = {"type": "object", "properties": {"title": {"title": "Title", "type": "string"}}}
    tool = Tool("mcp__x__y", "d", schema, "other", str, lambda arguments, context: (), run)
    (made,) = definitions([tool])
    assert made == {"name": "mcp__x__y", "description": "d", "input_schema": schema, "kind": "other"}


def test_tools_of_several_sources_are_joined_and_a_name_used_twice_names_both():
    other = replace(read.TOOL, name="mcp__files__read")
    joined = join_tools([("makeroom", [read.TOOL]), ("files", [other])])
    assert joined == {"read": read.TOOL, "mcp__files__read": other}
    with pytest.raises(ValueError, match="the tool read is defined twice: by makeroom and files"):
        join_tools([("makeroom", [read.TOOL]), ("files", [read.TOOL])])


def test_a_rule_can_name_every_tool():
    rules = parse_rules("mcp__git-hub__createIssue(octo*), Read,mcp__x__y")
    assert [rule.tool for rule in rules] == ["mcp__git-hub__createIssue", "read", "mcp__x__y"]
    for unknown in ("frobnicate", "mcp__"):
        with pytest.raises(ValueError, match="unknown tool"):
            parse_rules(unknown)


def test_importing_the_package_loads_no_tool():
    code = """
import sys, tools
heavy = {"pydantic", "asyncio", "tools.base", "tools.read"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
assert tools.BUILTIN[1] == "read"
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_a_description_names_other_tools_only_if_they_are_offered():
    tools = {tool.name: tool for tool in load_builtin_tools()}

    def described(*names: str) -> dict[str, str]:
        return {each["name"]: each["description"] for each in definitions(tools[name] for name in names)}

    explore = described("bash", "read", "recall")
    assert (
        explore["bash"].endswith("\n- For files, prefer read.") and "before you change" not in explore["read"]
    )
    assert described("bash", "read", "grep")["bash"].endswith("prefer read and grep.")
    assert described("read", "edit")["read"].endswith("\n- Read a file before you change it.")
    assert described("write", "edit")["write"].endswith("\n- Prefer edit for changes in an existing file.")
    assert described("compact", "recall")["compact"].endswith(
        "Nothing is lost: recall returns the original of everything that was shortened."
    )


@pytest.mark.parametrize("brief", [False, True], ids=["whole", "brief"])
def test_a_tool_that_is_offered_alone_names_no_other(brief: bool):
    tools = [tool.in_brief() if brief else tool for tool in load_builtin_tools()]
    # These words are names of programs or parameters there, or verbs.
    plain = {
        "bash": ["monitor"],
        "edit": ["bash", "recall"],
        "glob": ["grep"],
        "grep": ["bash", "monitor"],
        "read": ["bash", "write", "edit", "recall", "task", "ask_user"],
        "task": ["todo"],
        "write": ["edit"],
    }
    for tool in tools:
        (alone,) = definitions([tool])
        words = set(re.findall(r"\w+", f"{alone['description']} {json.dumps(alone['input_schema'])}"))
        named = {name for name in words & set(BUILTIN) - {tool.name} if tool.name not in plain.get(name, ())}
        assert not named, f"{tool.name} names {named}"


def test_a_remedy_is_left_out_if_it_needs_a_tool_that_is_not_offered(tmp_path: Path):
    def explained(name: str) -> ToolError:
        with pytest.raises(ToolError) as caught, os_errors_explained(f"{tmp_path}/project/{name}", tmp_path):
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")
        return caught.value

    missing = explained("nowhere.py")
    assert missing.for_model(["read", "glob"]) == str(missing)
    assert str(missing).endswith("nowhere.py\nCheck the path; glob finds files by name.")
    assert missing.for_model(["read"]) == str(missing).partition("\n")[0]
    assert explained("*.py").for_model(["read", "glob"]).endswith("glob finds the matching files.")
    plain = ToolError("It failed.", "Try again.")
    assert plain.for_model([]) == "It failed.\nTry again."
