"""The tools that the model can call; importing this package loads none of them."""

from __future__ import annotations

# Tool `grep` is the value TOOL of the module tools/grep.py. The model is offered the tools in this order.
BUILTIN = (
    "bash",
    "read",
    "write",
    "edit",
    "grep",
    "glob",
    "compact",
    "recall",
    "todo",
    "task",
    "ask_user",
    "exit_plan",
    "monitor",
    "web_fetch",
)
# With the tools that a source offers only if there is something for them to do.
TOOL_NAMES = (*BUILTIN, "skill")
