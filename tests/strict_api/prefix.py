"""Walk a request once: the digest and token count up to every block, and which thinking is invalid.

Tools come first, then the system prompt, then the messages, as in the real prompt cache. Neighbouring
messages of one role count as one, and cache marks are not part of a digest.
"""

import hashlib
from collections.abc import Iterator
from threading import Lock
from typing import Any

import msgspec
from msgspec import Struct, field

from .reply import Block, Body
from .signing import is_bound_to, read_proof
from .token_counting import MESSAGE_OVERHEAD, TOOLS_OVERHEAD, count_block
from .tool_search import found_tools, is_deferred

START = b"makeroom"
_encode = msgspec.json.Encoder(order="sorted").encode


class Position(Struct, frozen=True):
    """One block. `digest` and `tokens` cover all up to and with it; `mark` is the TTL of its cache mark."""

    level: str
    kind: str
    digest: bytes
    tokens: int
    mark: str | None


class Prefix(Struct):
    """A request after the walk.

    dropped  paths of the thinking blocks that were left out
    problem  the first invalid thinking block, in the API's words
    place    how many thinking blocks the open turn has so far
    """

    positions: list[Position] = field(default_factory=list)
    digest: bytes = START
    tokens: int = 0
    dropped: list[str] = field(default_factory=list)
    problem: str | None = None
    place: int = 0
    _role: str = ""

    def extend(self, level: str, role: str, block: Block) -> None:
        """Append one block to the prefix."""
        if role != self._role:
            self.tokens += MESSAGE_OVERHEAD
            self._role = role
        raw = canonical(block)
        own = hashlib.blake2b(raw, digest_size=16).digest()
        self.tokens += _tokens(own, block)
        self.digest = hashlib.blake2b(self.digest + role.encode() + own, digest_size=16).digest()
        mark = block.get("cache_control")
        ttl = mark.get("ttl", "5m") if isinstance(mark, dict) else None
        self.positions.append(Position(level, str(block.get("type")), self.digest, self.tokens, ttl))


_MEMO_LIMIT = 1 << 16
_memo: dict[bytes, int] = {}
_memo_lock = Lock()


def _tokens(digest: bytes, block: Block) -> int:
    found = _memo.get(digest)
    if found is None:
        found = count_block(block)
        with _memo_lock:
            if len(_memo) >= _MEMO_LIMIT:
                _memo.clear()
            _memo[digest] = found
    return found


def canonical(block: Block) -> bytes:
    """The bytes that identify a block: without cache marks and null fields."""
    kind = block.get("type")
    if kind == "text" and not block.get("citations"):
        return b"text:" + str(block["text"]).encode()
    if kind == "tool_use":
        return _encode([kind, block["id"], block["name"], block["input"]])
    return _encode(_unmarked(block))


def _unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {k: v for k, v in value.items() if k != "cache_control" and v is not None}
        content = kept.get("content")
        if isinstance(content, list):
            kept["content"] = [_unmarked(part) for part in content]
        return kept
    return value


def blocks_of(content: str | list[Block] | None) -> list[Block]:
    """Content as a list of blocks, also where it is a string."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content or []


def walk_prefix(body: Body, binds: bool, drop: bool = False) -> Prefix:
    """Walk a request that is otherwise valid.

    With `binds`, thinking must follow the prefix that it was made for, else it is a problem or, with `drop`,
    left out. Without, its signature must fit its text, and the open turn must keep its thinking from the
    first block on.
    """
    prefix = Prefix()
    tools = body.get("tools") or []
    for tool in tools:
        if not is_deferred(tool):
            prefix.extend("tools", "tools", tool)
    if tools:
        prefix.tokens += TOOLS_OVERHEAD
    for block in blocks_of(body.get("system")):
        prefix.extend("system", "system", block)
    for path, role, block in _message_blocks(body):
        if role == "user" and block.get("type") != "tool_result":
            prefix.place = 0
        if block.get("type") != "thinking":
            prefix.extend("messages", role, block)
            prefix.tokens += sum(map(count_block, found_tools(block, tools)))
            continue
        problem = _problem(block, prefix, binds)
        if problem is None:
            prefix.extend("messages", role, block)
            prefix.place += 1
        elif drop:
            prefix.dropped.append(path)
        else:
            prefix.problem = prefix.problem or f"{path}: {problem}"
    if prefix.problem is None and not binds:
        prefix.problem = _reordered(body)
    return prefix


def _message_blocks(body: Body) -> Iterator[tuple[str, str, Block]]:
    for number, message in enumerate(body["messages"]):
        for place, block in enumerate(blocks_of(message["content"])):
            yield f"messages.{number}.content.{place}", message["role"], block


_INVALID = "Invalid `signature` in `thinking` block"
_BOUND = (
    f"{_INVALID}. The block is bound to a different conversation. Remove the block, or set "
    '`thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
)
_MODIFIED = (
    "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These "
    "blocks must remain as they were in the original response."
)


def _problem(block: Block, prefix: Prefix, binds: bool) -> str | None:
    found = read_proof(block["signature"], block["thinking"])
    if found is None:
        return _INVALID
    if binds and not is_bound_to(found, block["thinking"], prefix.digest):
        return _BOUND
    return None


def _reordered(body: Body) -> str | None:
    """The problem where the open turn keeps only a part of its thinking, on a model that does not bind it."""
    place = 0
    found = None
    for path, role, block in _message_blocks(body):
        if role == "user" and block.get("type") != "tool_result":
            place, found = 0, None
        elif block.get("type") == "thinking":
            known = read_proof(block["signature"], block["thinking"])
            if known is not None and known.place != place:
                found = found or f"{path}: {_MODIFIED}"
            place += 1
    return found
