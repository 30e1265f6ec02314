"""Complete a responder's reply: sign thinking, give calls ids, cut it to the output limit."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from .event_stream import raw_input
from .models import ServedModel
from .prefix import Prefix
from .reply import RAW_JSON, Block, Body, Reply, thinks
from .signing import sign
from .token_counting import count_block, count_text
from .tool_search import with_searches


class CompletedReply(Struct, frozen=True):
    """The blocks as they are sent, the stop reason, and the output tokens."""

    blocks: Sequence[Block]
    stop: str
    tokens: int


def complete_reply(reply: Reply, body: Body, model: ServedModel, prefix: Prefix) -> CompletedReply:
    """Complete a reply to `body`, appending it to `prefix`, which afterwards ends with the reply."""
    searched = with_searches(reply.blocks, body.get("tools") or [], prefix.digest.hex()[:20])
    shown = _displayed(searched, body, model)
    room = min(body["max_tokens"], model.window - prefix.tokens)
    kept, cut = _fitted(shown, room)
    stop = reply.stop
    if cut:
        stop = "max_tokens" if body["max_tokens"] <= room else "model_context_window_exceeded"
    tokens = sum(map(_cost, kept)) + 3
    done = [_completed(block, place, prefix) for place, block in enumerate(kept)]
    return CompletedReply(done, stop, min(tokens, max(room, 1)) if cut else tokens)


def thinking_shown(thinking: Mapping[str, Any] | None, model: ServedModel) -> bool | None:
    """Return whether the text of thinking is shown; None if the model does not think."""
    kind = (thinking or {}).get("type") or ("adaptive" if model.thinks_unasked else "disabled")
    if kind not in ("adaptive", "enabled"):
        return None
    display = (thinking or {}).get("display") or ("omitted" if model.binds_thinking else "summarized")
    return bool(display != "omitted")


def _displayed(blocks: Sequence[Block], body: Body, model: ServedModel) -> list[Block]:
    shown = thinking_shown(body.get("thinking"), model)
    found: list[Block] = []
    for block in blocks:
        if block.get("type") != "thinking" or "signature" in block:
            found.append(block)
        elif shown is not None:
            found.append(block if shown else thinks(""))
    enabled = (body.get("thinking") or {}).get("type") == "enabled"
    if enabled and found and "thinking" not in str(found[0].get("type")):
        found.insert(0, thinks("I answer by my rules."))
    return found


def _fitted(blocks: Sequence[Block], room: int) -> tuple[list[Block], bool]:
    """The blocks that fit into `room` tokens, the last one cut; and whether anything was cut."""
    kept: list[Block] = []
    for block in blocks:
        cost = _cost(block)
        if cost <= room:
            kept.append(block)
            room -= cost
            continue
        part = _cut(block, max(room, 0) / cost)
        return ([*kept, part] if part else kept), True
    return kept, False


def _cut(block: Block, share: float) -> Block | None:
    if block["type"] == "text":
        text = block["text"][: int(len(block["text"]) * share)].rstrip()
        return {**block, "text": text} if text else None
    if block["type"] == "tool_use" and share > 0:
        raw = raw_input(block)
        return {**block, RAW_JSON: raw[: min(int(len(raw) * share), len(raw) - 1)]}
    return None


def _cost(block: Block) -> int:
    if block.get("type") == "tool_use":
        return count_text(raw_input(block)) + count_text(str(block["name"])) + 6
    return count_block(block)


def _completed(block: Block, place: int, prefix: Prefix) -> Block:
    done = dict(block)
    if done["type"] == "tool_use" and "id" not in done:
        done = {
            "type": "tool_use",
            "id": f"toolu_{prefix.digest.hex()[:20]}_{place}",
            **{k: v for k, v in done.items() if k != "type"},
        }
    if done["type"] == "thinking":
        done.setdefault("signature", sign(done["thinking"], prefix.digest, prefix.place))
        prefix.place += 1
    if RAW_JSON not in done and _is_utf8(done):
        prefix.extend("messages", "assistant", done)
    return done


def _is_utf8(block: Block) -> bool:
    try:
        json.dumps(block, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True
