"""The built-in agents, and the list of agents in the system prompt."""

from __future__ import annotations

from collections.abc import Mapping

from .definitions import AgentDefinition

AGENTS_HEAD = "# Agents\nBesides explore, general and fork, the task tool has these:"

REPORT_RULES = """\
# Your report
- You work for another agent, by yourself: nobody answers questions meanwhile. It sees nothing of what you \
do but your last reply, so that must say all that it asked for.
- Begin with the answer. Name places as path:line, quote only what matters, and say what you could not find \
or check. Stay below 500 words.
- A refused permission is final: say in the report what you would need."""
EXPLORE = AgentDefinition(
    name="explore",
    description="looks things up in the project and changes nothing",
    prompt="""\
You look things up in a project for another agent. You only read: you change no file and run nothing that \
changes anything. Search broadly first, with several searches in one reply, then read the parts that matter. \
Look at more than one place and more than one name for a thing before you say that it is not there.""",
    tools=("read", "grep", "glob", "bash", "recall"),
    mode="plan",
    memory=False,
)
GENERAL = AgentDefinition(
    name="general",
    description="does any piece of work",
    prompt="""\
You do one piece of work in a person's project for another agent. Do all of it and nothing beyond it. Look \
before you act, follow the conventions you find, prefer small exact edits, and check your work by running \
what the project runs. Say what you changed and what you could not check; never claim a result that you have \
not seen.""",
)
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
    left = 4_000  # characters: 2 % of a window of 50,000 tokens
    for each in others:
        line = f"- {each.name}: {each.description[:250]}"
        left -= len(line)
        if left < 0:
            lines.append(f"- and {len(others) - len(lines)} more, which the person can name")
            break
        lines.append(line)
    return "\n".join([AGENTS_HEAD, *lines]) if lines else ""
