"""Images that a request can carry: told by their bytes, checked whole, made smaller where they are too large.

A broken image in the history makes every later request fail, so nothing unchecked leaves this file. With
Pillow (the extra "images") large ones are scaled; without it they are refused.
"""

from __future__ import annotations

import base64
import io
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from transcripts.messages import ImageBlock

SIDE = 1_568  # pixels of the longer side; larger ones are scaled by the API anyway and cost time
BASE64 = 5 * 1024 * 1024  # characters of one image that the API takes
PIXELS = 100_000_000  # of an image that is decoded at all: about 400 MB
LARGEST = 64 * 1024 * 1024  # bytes of an image file that is opened
_HINT = "Install the extra (pip install 'makeroom[images]') or make it smaller with bash."


class BadImage(Exception):
    """The bytes begin like an image but are none, or not one that can be shown; the text says why."""


@dataclass(frozen=True, slots=True)
class Picture:
    """An image for the model; `note` tells its size and what was done to it."""

    image: ImageBlock
    note: str


def media_type(head: bytes) -> str | None:
    """What the first 16 bytes say the file is, among the types that the API takes."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return None


def picture(data: bytes, kind: str) -> Picture:
    """The image as a block, scaled where needed. Raises Broken."""
    try:
        import PIL.Image as pillow
    except ImportError:
        return _unscaled(data, kind)
    return _scaled(data, kind, pillow)


def _scaled(data: bytes, kind: str, pillow: Any) -> Picture:
    width, height = _size(data, kind)
    if width * height > PIXELS:
        raise BadImage(f"it has {width}x{height} pixels, too many to be shown")
    try:
        image = pillow.open(io.BytesIO(data), formats=[kind.rpartition("/")[2].upper()])
        image.load()
    except (OSError, ValueError, SyntaxError, EOFError, struct.error, zlib.error) as error:
        raise BadImage(f"it cannot be decoded ({error})") from error
    small = max(width, height) <= SIDE
    if small and _encoded_size(len(data)) <= BASE64:
        return Picture(_block(kind, data), f"{width}x{height}")
    for side in (SIDE, 1024, 512):
        shrunk = image.copy()
        shrunk.thumbnail((side, side))
        for new_kind, content in _encodings(shrunk):
            if _encoded_size(len(content)) <= BASE64:
                note = f"{width}x{height}, shown as {shrunk.width}x{shrunk.height}"
                return Picture(_block(new_kind, content), note)
    raise BadImage("it stays too large however much it is scaled")


def _encodings(image: Any) -> list[tuple[str, bytes]]:
    """PNG, which loses nothing, then JPEG, which is smaller."""
    found = []
    for kind, mode, options in (("PNG", None, {}), ("JPEG", "RGB", {"quality": 85})):
        output = io.BytesIO()
        fits = mode is None and image.mode in ("L", "LA", "P", "RGB", "RGBA")
        plain = image if fits else image.convert("RGB")
        plain.save(output, kind, **options)
        found.append((f"image/{kind.lower()}", output.getvalue()))
    return found


def _unscaled(data: bytes, kind: str) -> Picture:
    width, height = _size(data, kind)
    _CHECKS[kind](data)
    if max(width, height) > SIDE:
        raise BadImage(
            f"it has {width}x{height} pixels and Pillow is missing, which scales it to {SIDE}. {_HINT}"
        )
    if _encoded_size(len(data)) > BASE64:
        raise BadImage(f"it has {len(data):,} bytes, more than a request may hold. {_HINT}")
    return Picture(_block(kind, data), f"{width}x{height}")


def _block(kind: str, data: bytes) -> ImageBlock:
    return ImageBlock(kind, base64.b64encode(data).decode("ascii"))


def _encoded_size(size: int) -> int:
    return (size + 2) // 3 * 4


def _size(data: bytes, kind: str) -> tuple[int, int]:
    """Width and height as the header has them, before anything is decoded. Raises Broken."""
    try:
        width, height = _SIZES[kind](data)
    except (struct.error, IndexError, ValueError) as error:
        raise BadImage("its header is cut off") from error
    if width < 1 or height < 1:
        raise BadImage(f"its header says {width}x{height} pixels")
    return width, height


def _png_size(data: bytes) -> tuple[int, int]:
    if data[12:16] != b"IHDR":
        raise ValueError
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def _gif_size(data: bytes) -> tuple[int, int]:
    width, height = struct.unpack("<HH", data[6:10])
    return width, height


def _jpeg_size(data: bytes) -> tuple[int, int]:
    place = 2
    while True:
        marker, length = struct.unpack(">xBH", data[place : place + 4])
        if marker == 0xFF:  # fill bytes are allowed before a marker
            place += 1
        elif 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[place + 5 : place + 9])
            return width, height
        else:
            place += 2 + length


def _webp_size(data: bytes) -> tuple[int, int]:
    kind = data[12:16]
    if kind == b"VP8X":
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    if kind == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 ":
        width, height = struct.unpack("<HH", data[26:30])
        return width & 0x3FFF, height & 0x3FFF
    raise ValueError


def _check_png(data: bytes) -> None:
    place, name = 8, b""
    while name != b"IEND":
        head = data[place : place + 8]
        if len(head) < 8:
            raise BadImage("it is cut off")
        length, name = struct.unpack(">I4s", head)
        body = data[place + 8 : place + 12 + length]
        if len(body) != length + 4:
            raise BadImage("it is cut off")
        if zlib.crc32(name + body[:-4]) != int.from_bytes(body[-4:], "big"):
            raise BadImage("its checksums are wrong")
        place += 12 + length


def _check_jpeg(data: bytes) -> None:
    if b"\xff\xd9" not in data[-32:]:
        raise BadImage("it is cut off")


def _check_gif(data: bytes) -> None:
    if not data.rstrip(b"\0").endswith(b";"):
        raise BadImage("it is cut off")


def _check_webp(data: bytes) -> None:
    if int.from_bytes(data[4:8], "little") + 8 > len(data):
        raise BadImage("it is cut off")


_SIZES: dict[str, Callable[[bytes], tuple[int, int]]] = {
    "image/png": _png_size,
    "image/jpeg": _jpeg_size,
    "image/gif": _gif_size,
    "image/webp": _webp_size,
}
_CHECKS: dict[str, Callable[[bytes], None]] = {
    "image/png": _check_png,
    "image/jpeg": _check_jpeg,
    "image/gif": _check_gif,
    "image/webp": _check_webp,
}
