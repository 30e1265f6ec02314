"""Definitions of agents: the purpose of each, the tools it may use, and its instructions.

Three are built in; others come as Markdown files with fields, or as JSON. Unknown fields are ignored; a value
that cannot be used is left out with a remark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct

from agent.permissions import MODES, Mode, mode_named

MAX_AGENT_DESCRIPTION_CHARS = 250  # shown to the model of each
MAX_AGENTS_SECTION_CHARS = 4_000  # of the list in the system prompt: 2 % of a window of 50,000 tokens
AGENTS_HEAD = "# Agents\nBesides explore, general and fork, the task tool has these:"

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


class AgentDefinition(Struct, frozen=True):
    """A kind of agent. Tool names are kept as they were written, also those of other programs.

    description  when to use it, for the model
    prompt       its system prompt, without the rules for its report
    tools        the tools that it is offered, None for all; `without` excludes some of them
    model        "" for that of the session; `effort` likewise
    mode         the permission mode, if that is narrower than the session's; None: the session's
    memory       it is shown the memory files
    skills       the skills whose instructions it has from the beginning
    background   it always runs in the background
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
    origin: str = "built in"


class ReadAgent(NamedTuple):
    """A definition, and a remark about each of its fields that cannot be used."""

    definition: AgentDefinition
    remarks: tuple[str, ...]


EXPLORE = AgentDefinition(
    name="explore",
    description="looks things up in the project and changes nothing",
    prompt=EXPLORE_PROMPT,
    tools=("read", "grep", "glob", "bash", "recall"),
    mode="plan",
    memory=False,
)
GENERAL = AgentDefinition(name="general", description="does any piece of work", prompt=GENERAL_PROMPT)
FORK = AgentDefinition(
    name="fork", description="does any piece of work and knows the conversation", prompt=""
)
BUILTIN_AGENTS: Mapping[str, AgentDefinition] = {each.name: each for each in (EXPLORE, GENERAL, FORK)}


def find_agent(agents: Mapping[str, AgentDefinition], name: str) -> AgentDefinition | None:
    """Return the agent of that name, in any letter case; general-purpose is Claude Code's name of general."""
    name = name.lower()
    if name in agents:
        return agents[name]
    return agents.get("general") if name == "general-purpose" else None


def agents_section(agents: Mapping[str, AgentDefinition]) -> str:
    """Return the section of the system prompt that lists agents; "" if there are only the built-in ones."""
    others = [each for name, each in agents.items() if each is not BUILTIN_AGENTS.get(name)]
    lines: list[str] = []
    left = MAX_AGENTS_SECTION_CHARS
    for each in others:
        line = f"- {each.name}: {each.description[:MAX_AGENT_DESCRIPTION_CHARS]}"
        left -= len(line)
        if left < 0:
            lines.append(f"- and {len(others) - len(lines)} more, which the person can name")
            break
        lines.append(line)
    return "\n".join([AGENTS_HEAD, *lines]) if lines else ""


def narrower_mode(mode: Mode, other: Mode | None) -> Mode:
    """Return the mode of the two that allows less."""
    # From the narrowest to the widest: a mode allows at most what the next one allows or asks about.
    by_width: tuple[Mode, ...] = ("plan", "dontAsk", "manual", "acceptEdits", "bypassPermissions")
    return mode if other is None else min(mode, other, key=by_width.index)


def read_agent(name: str, fields: Mapping[str, object], prompt: str, origin: str) -> ReadAgent:
    """Return the definition in the fields of a file or of JSON; its field `name` takes precedence.

    Raises ValueError, in one line, if they contain no definition.
    """
    name = str(fields.get("name") or name).strip()
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,63}", name.lower()):
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
        origin=origin,
    )
    return ReadAgent(definition, tuple(remarks))


def given_agents(text: str) -> dict[str, Mapping[str, object]]:
    """Return the fields of each definition in JSON, by name. Raises ValueError for anything else."""
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is no JSON: {error}") from error
    if not isinstance(raw, dict) or not all(isinstance(fields, dict) for fields in raw.values()):
        raise ValueError('it is no object of the form {"NAME": {"description": ..., "prompt": ...}}')
    return raw


def tool_names(written: object) -> tuple[str, ...] | None:
    """Return the names in a list, or in a text with commas or spaces, without patterns in brackets.

    None stands for all tools.
    """
    if isinstance(written, list | tuple):
        written = ", ".join(map(str, written))
    names_and_patterns = re.findall(r"\*|[\w-]+(?:\*)?(?=\(|[\s,]|$)|\([^)]*\)", str(written or ""))
    names = [name for name in names_and_patterns if not name.startswith("(")]
    return None if "*" in names else tuple(dict.fromkeys(names))
