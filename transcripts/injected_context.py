"""What the program puts beside a person's words in a prompt: told apart from them by the tags around it."""

from __future__ import annotations

from .messages import Block, TextBlock

OPENING = "<surroundings>"
CLOSING = "</surroundings>"


def is_injected(block: Block) -> bool:
    """Whether a block of a prompt is the program's own: where and when the session takes place."""
    return (
        isinstance(block, TextBlock)
        and block.text.startswith(OPENING)
        and block.text.rstrip().endswith(CLOSING)
    )


def without_injected(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    """The blocks of a prompt that are the person's."""
    return tuple(block for block in blocks if not is_injected(block))


def injected_texts(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    """The blocks of a prompt that are ours."""
    return tuple(block for block in blocks if is_injected(block))
