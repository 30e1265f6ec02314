"""The blocks that a server rejects, and the placeholders that replace them."""

from __future__ import annotations

from agent.errors import BlockRejected
from agent.loop.model_call import _rejected_parts, _replacement
from tests.tables import each_row
from transcripts.facts import Clear
from transcripts.messages import (
    Block,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
)
from transcripts.view import Message, Part, PartKind

SERVER = {"cache": 1}


@each_row(
    "block, field",
    [
        (ToolResultBlock("call_1", (TextBlock("x"),)), "content"),
        (ImageBlock("image/png", "eA=="), "source"),
        (UnknownBlock({"type": "new"}), Clear.UNKNOWN_BLOCK),
        (TextBlock("x", SERVER), "text"),
        (TextBlock("x"), None),
        (ToolUseBlock("call_1", "act", {}, SERVER), Clear.UNKNOWN_FIELDS),
        (ToolUseBlock("call_1", "act", {}), None),
        (ThinkingBlock("x", "signature"), None),
    ],
)
def test_a_rejected_block_is_replaced_by_its_kind(block: Block, field: str | None) -> None:
    placeholder = "[a block that the API rejected was here; recall r7 shows it]"
    text = {"text": "x", Clear.UNKNOWN_FIELDS: ""}.get(field or "", placeholder)
    saves = 0 if field in ("text", Clear.UNKNOWN_FIELDS) else 5
    wanted = None if field is None else Clear(7, 2, field, text, saves)
    assert _replacement(Part(block, 7, 2, PartKind.USER, 5)) == wanted


def test_an_error_without_a_place_is_about_the_newest_image() -> None:
    image = ImageBlock("image/png", "eA==")
    shown = ToolResultBlock("call_1", (TextBlock("x"), image))
    blocks: list[Block] = [image, shown, TextBlock("x")]
    parts = [Part(each, seq, 0, PartKind.USER, 1) for seq, each in enumerate(blocks, start=1)]
    view = [Message("user", tuple(parts[:2]), 1, 2), Message("assistant", tuple(parts[2:]), 3, 3)]
    assert _rejected_parts(view, BlockRejected("bad image", ())) == [parts[1]]
    assert _rejected_parts(view[1:], BlockRejected("bad image", ())) == []
    places = ((1, 0), (0, 0), (1, 0), (0, 2), (2, 0))
    assert _rejected_parts(view, BlockRejected("bad", places)) == [parts[2], parts[0]]
