"""The definition of an agent: its purpose, the tools it may use, and its instructions.

Definitions are Markdown files with fields, or JSON. Unknown fields are ignored. A value that cannot be used
is ignored with a remark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct

from agent.permissions import MODES, Mode, mode_named

WORKTREE = "worktree"  # the value of `isolation`


class AgentDefinition(Struct, frozen=True):
    """A kind of agent. Tool names are kept as written, including those of other programs.

    description  when to use it, for the model
    prompt       its system prompt, without the rules for its report
    tools        the tools that it is offered, None for all; `without` excludes some of them
    model        "" for that of the session; `effort` likewise
    mode         the permission mode, if that is narrower than the session's; None for the session's
    memory       it is shown the memory files
    skills       the skills whose instructions it starts with
    background   it always runs in the background
    isolated     it works in a git worktree of its own
    origin       its source, for the user
    """

    name: str
    description: str
    prompt: str
    tools: tuple[str, ...] | None = None
    without: tuple[str, ...] = ()
    model: str = ""
    effort: str = ""
    mode: Mode | None = None
    max_turns: int | None = None
    memory: bool = True
    skills: tuple[str, ...] = ()
    background: bool = False
    isolated: bool = False
    origin: str = "built in"


# Fields of Claude Code's agents that have no effect here.
IGNORED_FIELDS = {
    "hooks": "hooks of an agent do not run; define them in a settings file",
    "mcpServers": "agents use the servers of the session",
    "memory": "agents have no memory of their own",
    "initialPrompt": "an agent begins with the task that it is given",
    "allowed-tools": "agents use the field `tools`",
    "allowedTools": "agents use the field `tools`",
}


class ReadAgent(NamedTuple):
    """A definition, and a remark about each of its fields that cannot be used."""

    definition: AgentDefinition
    remarks: tuple[str, ...]


def read_agent(name: str, fields: Mapping[str, object], prompt: str, origin: str) -> ReadAgent:
    """Return the definition in the fields of a file or of JSON; its field `name` takes precedence.

    Raises ValueError, in one line, if they contain no definition.
    """
    name = str(fields.get("name") or name).strip()
    if not re.fullmatch(r"[a-z0-9_][a-z0-9._-]{0,63}", name.lower()):
        raise ValueError(f"{name!r} is not a valid agent name; use lower-case letters, digits, -, _ and .")
    description = " ".join(str(fields.get("description") or "").split())
    if not description or not prompt.strip():
        raise ValueError(f"it has no {'text' if description else 'description'}")
    remarks: list[str] = []
    wanted = str(fields.get("permissionMode") or "")
    if wanted and mode_named(wanted) not in MODES:
        remarks.append(f"unknown permissionMode {wanted!r} (the session's mode is used)")
    turns = fields.get("maxTurns")
    if turns is not None and (not isinstance(turns, int) or isinstance(turns, bool) or turns < 1):
        remarks.append(f"maxTurns must be a number of requests, not {turns!r} (ignored)")
        turns = None
    isolation = fields.get("isolation")
    if isolation not in (None, "", "none", WORKTREE):
        remarks.append(f"unknown isolation {isolation!r} (the agent works in the project's files)")
    model = str(fields.get("model") or "")
    definition = AgentDefinition(
        name=name.lower(),
        description=description,
        prompt=prompt.strip(),
        tools=None if "tools" not in fields else tool_names(fields["tools"]),
        without=tool_names(fields.get("disallowedTools")) or (),
        model="" if model == "inherit" else model,
        effort=str(fields.get("effort") or ""),
        mode=mode_named(wanted),
        max_turns=turns,
        skills=tool_names(fields.get("skills")) or (),
        background=fields.get("background") is True,
        isolated=isolation == WORKTREE,
        origin=origin,
    )
    return ReadAgent(definition, tuple(remarks))


def given_agents(text: str) -> dict[str, Mapping[str, object]]:
    """Return the fields of each definition in JSON, by name. Raises ValueError for anything else."""
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not valid JSON ({error})") from error
    if not isinstance(raw, dict) or not all(isinstance(fields, dict) for fields in raw.values()):
        raise ValueError('not an object of the form {"NAME": {"description": ..., "prompt": ...}}')
    return raw


def tool_names(written: object) -> tuple[str, ...] | None:
    """Return the names in a list, or in a text with commas or spaces, without patterns in parentheses.

    None stands for all tools.
    """
    if isinstance(written, list | tuple):
        written = ", ".join(map(str, written))
    names_and_patterns = re.findall(r"\*|[\w-]+(?:\*)?(?=\(|[\s,]|$)|\([^)]*\)", str(written or ""))
    names = [name for name in names_and_patterns if not name.startswith("(")]
    return None if "*" in names else tuple(dict.fromkeys(names))
