"""Command lines in the text of a command or skill: their output takes the place of the line."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from agent.loop.embedded_commands import MAX_EMBEDDED_CHARS, StoppedByUser, embedded_output
from agent.permissions import PermissionRules, PermissionStore
from agent.ports import Allow, Deny
from tests.agent.loop.world import World, world
from tools.base import ToolCall, ToolError, ToolResult, text_result
from tools.bash import TOOL


def output(made: World, line: str = "make", text: str = "built\n", fails: bool = False) -> str:
    """Return the output of a line, whose command answers with a text and moves to another directory."""

    async def run(arguments: Any, call: ToolCall) -> ToolResult:
        call.context.cwd = call.context.folder / "elsewhere"
        if fails:
            raise ToolError(f"{arguments.command} cannot run")
        return text_result(f"\n{text}")

    made.context.tools = {**made.tools, "bash": replace(TOOL, run=run)}
    here = made.context.tool_context.cwd
    found = asyncio.run(embedded_output(made.context, made.events.append, line, "id"))
    assert made.context.tool_context.cwd == here
    return found


def test_the_output_of_a_line_is_asked_for_trimmed_and_cut(tmp_path: Path) -> None:
    with world([], tmp_path, Allow()) as made:
        assert output(made) == "built"
        [question] = made.approver.questions
        assert (question.tool, question.input) == ("bash", {"command": "make", "timeout": 10_000})
        made.context.permissions = PermissionStore(PermissionRules(mode="bypassPermissions"))
        exact = "x" * MAX_EMBEDDED_CHARS
        assert output(made, text=exact) == exact
        assert output(made, text=f"{exact}y") == f"{exact}\n[1 more characters omitted]"
        assert output(made, fails=True) == "make cannot run"


def test_a_line_that_may_not_run_is_replaced_by_the_reason(tmp_path: Path) -> None:
    with world([], tmp_path, Deny("not now"), Deny(stop=True)) as made:
        assert output(made) == "[not run: make: The user denied this call: not now]"
        with pytest.raises(StoppedByUser):
            output(made)
        made.context.tools = made.tools
        nothing = asyncio.run(embedded_output(made.context, made.events.append, "make", "id"))
        assert nothing == "[not run: make: bash is not available here]"
