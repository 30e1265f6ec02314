"""The value that a responder returns: blocks and a stop reason; the server adds ids and signatures."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

Block: TypeAlias = dict[str, Any]
Body: TypeAlias = dict[str, Any]

RAW_JSON = "_json"
"""Private key of a tool_use block: the input exactly as it is streamed, whether or not it is JSON."""


class Reply(Struct, frozen=True):
    """One assistant message.

    A tool_use without `id` is given one, a thinking block without `signature` is signed. `stop_reason` None
    means tool_use where a tool is called and end_turn otherwise. `usage` overrides fields of the simulated
    usage.
    """

    blocks: Sequence[Block]
    stop_reason: str | None = None
    usage: Mapping[str, Any] | None = None
    stop_details: Mapping[str, Any] | None = None

    @property
    def stop(self) -> str:
        if self.stop_reason is not None:
            return self.stop_reason
        return "tool_use" if any(block.get("type") == "tool_use" for block in self.blocks) else "end_turn"


Responder: TypeAlias = Callable[[Body], Reply]
"""From the body of a request to the reply. Called from several threads."""


def says(text: str) -> Block:
    """A text block."""
    return {"type": "text", "text": text}


def thinks(text: str) -> Block:
    """A thinking block, which the server signs."""
    return {"type": "thinking", "thinking": text}


def calls(name: str, **input: Any) -> Block:
    """A tool call, which the server gives an id."""
    return {"type": "tool_use", "name": name, "input": input}
