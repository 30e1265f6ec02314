"""The size of an image to the model: tokens, estimated from its dimensions. Pure."""

from __future__ import annotations

import struct
from base64 import b64decode
from math import prod

MAX_IMAGE_TOKENS = 1_600  # of the largest image after the API has scaled it
PIXELS_PER_TOKEN = 750  # of an image, by the API's documentation


def image_tokens(data: str) -> int:
    """Estimate the tokens of a base64 image from its dimensions."""
    return min(MAX_IMAGE_TOKENS, max(1, _pixels(data) // PIXELS_PER_TOKEN))


def _pixels(data: str) -> int:
    """Return width times height of a base64 png, gif or jpeg from its first bytes; the maximum if unknown."""
    unknown = MAX_IMAGE_TOKENS * PIXELS_PER_TOKEN
    try:
        head = b64decode(data[:64_000])  # the dimensions of an image are in its beginning
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
