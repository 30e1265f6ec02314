"""Resources of servers, which the user mentions as `@server:uri`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

from tools.base import ToolContext
from transcripts import Block, ImageBlock, TextBlock, attached

from .failures import ServerFailed
from .results import ResultPlace, resource_result
from .server import McpServer


class MentionedResource(NamedTuple):
    """A resource of a server that a text mentions."""

    server: McpServer
    uri: str


class AttachedResource(Struct, frozen=True):
    """A resource that was read for a prompt; with `trouble`, `message` says why it is not attached."""

    message: str
    blocks: tuple[Block, ...] = ()
    trouble: bool = False


def resource_summaries(servers: Sequence[McpServer]) -> Iterator[tuple[str, str]]:
    """Yield (name with its @, summary) of each resource, for completion."""
    for server in servers:
        for raw in () if server.failure else server.offer.resources:
            if " " not in raw["uri"]:
                about = str(raw.get("description") or raw.get("name") or "")
                yield f"@{server.entry.name}:{raw['uri']}", about


def mentioned_resources(servers: Sequence[McpServer], text: str) -> list[MentionedResource]:
    """Return the resources of servers that a text mentions, each once."""
    found: dict[tuple[str, str], MentionedResource] = {}
    for name, uri in re.findall(r"(?<!\S)@([^\s:@]{1,64}):([^\s]{1,2000})", text):
        fitting = (each for each in servers if each.enabled and name in (each.entry.name, each.word))
        server = next(fitting, None)
        if server is not None:
            uris = {raw["uri"] for raw in server.offer.resources}
            plain = uri if uri in uris else uri.rstrip(".,;!?)]}>'\"`")
            found[name, plain] = MentionedResource(server, plain)
    return list(found.values())[:20]


async def attached_resource(
    server: McpServer, uri: str, context: ToolContext, ident: str
) -> AttachedResource:
    """Read a resource that the user mentions."""
    shown = f"@{server.entry.name}:{uri}"
    try:
        answer = await server.request("resources/read", {"uri": uri})
    except ServerFailed as error:
        return AttachedResource(f"{shown} is not attached: {error}", trouble=True)
    place = ResultPlace(entry=server.entry, context=context, ident=ident)
    result = await resource_result(answer, place, {})
    texts = [block.text for block in result.content if isinstance(block, TextBlock)]
    images = [block for block in result.content if isinstance(block, ImageBlock)]
    block = attached("Resource", shown, "\n".join(texts))
    return AttachedResource(f"read {shown}", (*images, block))
