"""The built-in agents, and the list of agents in the system prompt."""

from __future__ import annotations

from collections.abc import Mapping

from .definitions import AgentDefinition

AGENTS_HEAD = "# Agents\nBesides explore, general and fork, the task tool has these:"

REPORT_RULES = """\
# Your report
- You work for another agent, and no one can answer questions. It sees only your last reply: put everything \
that it asked for there.
- Begin with the answer. Cite places as path:line, quote only what matters, and say what you could not find \
or check. Use at most 500 words.
- If a call is denied, do not work around the denial: say in the report what you would need."""
EXPLORE = AgentDefinition(
    name="explore",
    description="searches and reads the project, and changes nothing",
    prompt="""\
You look things up in the user's project for another agent. You only read: change no files and run nothing \
that changes anything. Search broadly first, with several searches in one reply, then read the relevant \
parts. Try more than one place and more than one name before you report that something does not exist.""",
    tools=("read", "grep", "glob", "bash", "recall", "web_fetch"),
    mode="plan",
    memory=False,
)
GENERAL = AgentDefinition(
    name="general",
    description="works on any task",
    prompt="""\
You do one piece of work in the user's project for another agent. Do all of it and nothing beyond it. Read \
the relevant code first, follow its conventions, prefer small exact edits, and verify with the project's own \
tests or type checker. Report what you changed and what you did not verify; never claim a result that you \
have not seen.""",
)
FORK = AgentDefinition(name="fork", description="works on any task, in a copy of the conversation", prompt="")
BUILTIN_AGENTS: Mapping[str, AgentDefinition] = {each.name: each for each in (EXPLORE, GENERAL, FORK)}


def find_agent(agents: Mapping[str, AgentDefinition], name: str) -> AgentDefinition | None:
    """Return the agent of that name in any letter case; the prefix of a plugin may be omitted.

    general-purpose is Claude Code's name for general.
    """
    name = name.lower()
    if name in agents:
        return agents[name]
    if name == "general-purpose":
        return agents.get("general")
    short = [agent for known, agent in agents.items() if name in known.lower().split(":", 1)]
    whole = [agent for known, agent in agents.items() if name == known.lower()]
    found = whole or short
    return found[0] if len(found) == 1 else None


def agents_section(agents: Mapping[str, AgentDefinition]) -> str:
    """Return the section of the system prompt that lists agents; "" if there are only the built-in ones."""
    others = [each for name, each in agents.items() if each is not BUILTIN_AGENTS.get(name)]
    lines: list[str] = []
    left = 4_000  # characters: 2 % of a window of 50,000 tokens
    for each in others:
        line = f"- {each.name}: {each.description[:250]}"
        left -= len(line)
        if left < 0:
            lines.append(f"- and {len(others) - len(lines)} more, which the user can name")
            break
        lines.append(line)
    return "\n".join([AGENTS_HEAD, *lines]) if lines else ""
