"""Agents: the definitions of those that are built in, and of those that users and projects add."""

from .builtin import AGENTS_HEAD, BUILTIN_AGENTS, FORK, REPORT_RULES, agents_section, find_agent
from .definitions import AgentDefinition, given_agents
from .files import AgentPlaces, agent_items

__all__ = [
    "AGENTS_HEAD",
    "BUILTIN_AGENTS",
    "FORK",
    "REPORT_RULES",
    "AgentDefinition",
    "AgentPlaces",
    "agent_items",
    "agents_section",
    "find_agent",
    "given_agents",
]
