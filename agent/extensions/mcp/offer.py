"""The offer of a server: its tools under our names, its prompts and resources."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from agent.permissions import FOREIGN_PREFIX

from .failures import ConnectionLost, ServerFailed
from .names import tool_names
from .session import McpSession, Message, object_in

RESOURCES = "resources"  # represents a server's resources among the names of its tools


class Offer(Struct, frozen=True):
    """The tools by their names on the server; `names` contains our names: mcp__server__tool.

    left_out  tools whose names are too long
    """

    tools: Mapping[str, Message] = {}
    names: Mapping[str, str] = {}
    left_out: tuple[str, ...] = ()
    resources: tuple[Message, ...] = ()
    prompts: tuple[Message, ...] = ()


async def ask_offer(session: McpSession, greeting: Message, word: str) -> Offer:
    """Return the offer of a session's server; `word` represents it in names. Raises ServerFailed."""
    features = object_in(greeting.get("capabilities"))
    tools = await _listed(session, features, "tools")
    prompts = await _listed(session, features, "prompts")
    resources = await _listed(session, features, "resources")
    named = ((tool.get("name"), tool) for tool in tools)
    by_name = {name: tool for name, tool in named if isinstance(name, str) and name.isprintable()}
    names = tool_names(word, by_name, (f"{FOREIGN_PREFIX}{word}__{RESOURCES}",))
    return Offer(
        tools={name: by_name[name] for name in by_name if name in names},
        names={name: names[name] for name in by_name if name in names},
        left_out=tuple(name for name in by_name if name not in names),
        resources=tuple(each for each in resources if isinstance(each.get("uri"), str)),
        prompts=tuple(each for each in prompts if isinstance(each.get("name"), str)),
    )


async def _listed(session: McpSession, features: Message, kind: str) -> list[Message]:
    """Return a list of a server; empty if it fails, except for tools. Raises ServerFailed."""
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
