"""Answers that match the caller's schema: the tool StructuredOutput, whose input is the answer.

The tool is offered from the first request on, with any model and server. A call that fits the schema ends
the turn.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agent.errors import UsageError
from tools.base import Tool, ToolCall, ToolError, ToolResult, UncheckableSchema, no_access, text_result

TOOL_NAME = "StructuredOutput"
MAX_REMINDERS = 5  # then the run fails
DESCRIPTION = (
    "Give the final answer of this conversation as an object that matches this tool's schema. Call it exactly"
    " once, when everything else is done. It ends the turn, and no other text is read."
)
ANSWER_REMINDER = f"Give your answer now by calling {TOOL_NAME}. Text alone is not read."


class StructuredOutput:
    """A ports.ToolSource. `value` is the answer in the current turn, None until there is one."""

    name = "the answer's schema"

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.value: Mapping[str, Any] | None = None
        self._schema = schema
        self._tool = Tool(
            name=TOOL_NAME,
            description=DESCRIPTION,
            arguments=schema,
            kind="other",
            title=lambda arguments: "the answer",
            access=no_access,
            run=self._run,
            for_agents=False,
        )

    async def open(self, folder: Path, environ: Mapping[str, str]) -> None:
        """Check the schema. Raises UsageError if it cannot be used."""
        if self._schema.get("type", "object") != "object":
            raise UsageError('--json-schema: "type" must be "object"')
        try:
            self._tool.parse({})
        except UncheckableSchema as error:
            raise UsageError(f"--json-schema: {error}") from error
        except ToolError:
            pass  # empty arguments do not fit, as expected, and the schema can be used

    def tools(self) -> Sequence[Tool]:
        return (self._tool,)

    async def close(self) -> None:
        """Do nothing: there is nothing to release."""

    async def _run(self, arguments: Mapping[str, Any], call: ToolCall) -> ToolResult:
        self.value = dict(arguments)
        return text_result("Answer recorded.", ends_turn=True)


def structured_output(text: str | None) -> StructuredOutput | None:
    """Return the tool for --json-schema, or None without the flag. Raises UsageError."""
    if text is None:
        return None
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--json-schema: not valid JSON ({error})") from error
    if not isinstance(schema, dict):
        raise UsageError("--json-schema: not a JSON object")
    return StructuredOutput({"type": "object", **schema})
