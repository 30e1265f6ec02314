"""The definitions of agents: what each is for, what it may use, and how it is told to work.

Two are built in; others come as Markdown files with fields, or as JSON. Fields that are not known are passed
over, as are values that make no sense: what is left out is told in one line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent.permissions.modes import MODES, Mode, mode_named

MAX_AGENT_DESCRIPTION_CHARS = 250  # shown to the model of each
MAX_AGENTS_SECTION_CHARS = 4_000  # of the list in the system prompt: 2 % of a window of 50,000 tokens
AGENTS_HEAD = "# Agents\nBesides explore, general and fork, the task tool has these:"
_AGENT_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_TOOL_NAMES = re.compile(r"\*|[\w-]+(?:\*)?(?=\(|[\s,]|$)|\([^)]*\)")
# From the narrowest to the widest: what a mode allows, the later ones allow too, or ask about.
_MODES_BY_WIDTH: tuple[Mode, ...] = ("plan", "dontAsk", "manual", "acceptEdits", "bypassPermissions")

REPORT_RULES = """\
# Your report
- You work for another agent, by yourself: nobody answers questions meanwhile. It sees nothing of what you \
do but your last reply, so that must say all that it asked for.
- Begin with the answer. Name places as path:line, quote only what matters, and say what you could not find \
or check. Stay below 500 words.
- A refused permission is final: say in the report what you would need."""
EXPLORE_PROMPT = """\
You look things up in a project for another agent. You only read: you change no file and run nothing that \
changes anything. Search broadly first, with several searches in one reply, then read the parts that matter. \
Look at more than one place and more than one name for a thing before you say that it is not there."""
GENERAL_PROMPT = """\
You do one piece of work in a person's project for another agent. Do all of it and nothing beyond it. Look \
before you act, follow the conventions you find, prefer small exact edits, and check your work by running \
what the project runs. Say what you changed and what you could not check; never claim a result that you have \
not seen."""


@dataclass(frozen=True, slots=True)
class AgentDefinition:
    """A kind of agent. Names of tools are as they were written, those of other programs among them.

    description  when it is to be used, for the model
    prompt       its system prompt, without the rules for its report
    tools        that it is offered, None for all; `without` are those of them that it is not
    model        "" for that of the session; `effort` likewise
    mode         the permission mode, where that is narrower than the session's; None: the session's
    memory       whether it is shown the memory files
    skills       whose texts it has from the beginning
    background   whether it always runs in the background
    origin       where it comes from
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
    origin: str = "built in"


EXPLORE = AgentDefinition(
    "explore",
    "looks things up in the project and changes nothing",
    EXPLORE_PROMPT,
    tools=("read", "grep", "glob", "bash", "recall"),
    mode="plan",
    memory=False,
)
GENERAL = AgentDefinition("general", "does any piece of work", GENERAL_PROMPT)
FORK = AgentDefinition("fork", "does any piece of work and knows the conversation", "")
_NAMES_OF_CLIENTS = {"general-purpose": "general"}
BUILTIN_AGENTS: Mapping[str, AgentDefinition] = {each.name: each for each in (EXPLORE, GENERAL, FORK)}


def find_agent(agents: Mapping[str, AgentDefinition], name: str) -> AgentDefinition | None:
    """The agent of that name, in any letter case and as Claude Code calls it."""
    name = name.lower()
    return agents.get(name) or agents.get(_NAMES_OF_CLIENTS.get(name, ""))


def agents_section(agents: Mapping[str, AgentDefinition]) -> str:
    """What the system prompt of a session says of agents; "" where there are only those of the task tool."""
    others = [each for name, each in agents.items() if each is not BUILTIN_AGENTS.get(name)]
    lines, left = list[str](), MAX_AGENTS_SECTION_CHARS
    for each in others:
        line = f"- {each.name}: {each.description[:MAX_AGENT_DESCRIPTION_CHARS]}"
        if (left := left - len(line)) < 0:
            lines.append(f"- and {len(others) - len(lines)} more, which the person can name")
            break
        lines.append(line)
    return "\n".join([AGENTS_HEAD, *lines]) if lines else ""


def narrower_mode(mode: Mode, other: Mode | None) -> Mode:
    """The one of two modes that allows less."""
    return mode if other is None else min(mode, other, key=_MODES_BY_WIDTH.index)


def agent_definition(
    name: str, fields: Mapping[str, Any], prompt: str, origin: str
) -> tuple[AgentDefinition, list[str]]:
    """A definition from the fields of a file or of JSON, and a line about each that cannot be used.

    Raises ValueError, in one line, where there is no definition in it.
    """
    name = str(fields.get("name") or name).strip()
    if not _AGENT_NAME.fullmatch(name.lower()):
        raise ValueError(f"{name!r} is no name for an agent: small letters, digits, - and _")
    description = " ".join(str(fields.get("description") or "").split())
    if not description or not prompt.strip():
        raise ValueError(f"it has no {'text' if description else 'description'}")
    remarks: list[str] = []
    wanted = str(fields.get("permissionMode") or "")
    if wanted and mode_named(wanted) not in MODES:
        remarks.append(f"permissionMode {wanted!r} is not known: it works in the session's")
    turns = fields.get("maxTurns")
    if turns is not None and (not isinstance(turns, int) or isinstance(turns, bool) or turns < 1):
        remarks.append(f"maxTurns {turns!r} is no number of requests")
        turns = None
    model = str(fields.get("model") or "")
    made = AgentDefinition(
        name.lower(),
        description,
        prompt.strip(),
        tools=None if "tools" not in fields else tool_names(fields["tools"]),
        without=tool_names(fields.get("disallowedTools")) or (),
        model="" if model == "inherit" else model,
        effort=str(fields.get("effort") or ""),
        mode=mode_named(wanted),
        max_turns=turns,
        skills=tool_names(fields.get("skills")) or (),
        background=fields.get("background") is True,
        origin=origin,
    )
    return made, remarks


def given_agents(text: str) -> dict[str, Mapping[str, object]]:
    """The definitions in JSON, fields by name. Raises ValueError for anything else."""
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is no JSON: {error}") from error
    if not isinstance(raw, dict) or not all(isinstance(fields, dict) for fields in raw.values()):
        raise ValueError('it is no object of the form {"NAME": {"description": ..., "prompt": ...}}')
    return raw


def tool_names(written: Any) -> tuple[str, ...] | None:
    """The names in a list, or in a text with commas or blanks; patterns in brackets are left out.

    None stands for all.
    """
    if isinstance(written, list | tuple):
        written = ", ".join(map(str, written))
    found = [name for name in _TOOL_NAMES.findall(str(written or "")) if not name.startswith("(")]
    return None if "*" in found else tuple(dict.fromkeys(found))
