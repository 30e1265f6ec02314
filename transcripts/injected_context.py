"""What the program puts beside a person's words in a prompt: told apart from them by the tags around it."""

from __future__ import annotations

from .messages import Block, Text

OPENING = "<surroundings>"
CLOSING = "</surroundings>"


def is_ours(block: Block) -> bool:
    """Whether a block of a prompt is the program's own: where and when the session takes place."""
    return (
        isinstance(block, Text) and block.text.startswith(OPENING) and block.text.rstrip().endswith(CLOSING)
    )


def spoken(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    """The blocks of a prompt that are the person's."""
    return tuple(block for block in blocks if not is_ours(block))


def beside(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    """The blocks of a prompt that are ours."""
    return tuple(block for block in blocks if is_ours(block))
