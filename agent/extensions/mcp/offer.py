"""What a server offers: its tools under the names that they have here, its prompts and resources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agent.permissions import FOREIGN_PREFIX

from .entries import tool_names
from .session import ConnectionLost, McpSession, Message, ServerFailed

RESOURCES = "resources"  # stands for a server's resources where its tools are named


@dataclass(frozen=True, slots=True)
class Offer:
    """`tools` by their names at the server, `names` the names that they have here: mcp__server__tool.

    `left_out` are tools whose names are too long.
    """

    tools: Mapping[str, Message] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    resources: tuple[Message, ...] = ()
    prompts: tuple[Message, ...] = ()


async def ask_offer(session: McpSession, greeting: Message, word: str) -> Offer:
    """What the server of a session offers; `word` stands for it in names. Raises ServerFailed."""
    features = greeting.get("capabilities")
    features = features if isinstance(features, dict) else {}
    tools = await _listed(session, features, "tools")
    prompts = await _listed(session, features, "prompts")
    resources = await _listed(session, features, "resources")
    named = ((tool.get("name"), tool) for tool in tools)
    by_name = {name: tool for name, tool in named if isinstance(name, str) and name.isprintable()}
    names = tool_names(word, by_name, (f"{FOREIGN_PREFIX}{word}__{RESOURCES}",))
    return Offer(
        {name: by_name[name] for name in by_name if name in names},
        {name: names[name] for name in by_name if name in names},
        tuple(name for name in by_name if name not in names),
        tuple(each for each in resources if isinstance(each.get("uri"), str)),
        tuple(each for each in prompts if isinstance(each.get("name"), str)),
    )


async def _listed(session: McpSession, features: Message, kind: str) -> list[Message]:
    """A list of a kind that the server has; one that fails beside the tools is empty."""
    if kind not in features and (kind != "tools" or features):
        return []
    try:
        return await session.items(f"{kind}/list", kind)
    except ConnectionLost:
        raise
    except ServerFailed:
        if kind == "tools":
            raise
        return []
