"""Images for requests: recognized by their bytes, checked completely, and scaled if they are too large.

A broken image in the conversation makes every later request fail, so nothing unchecked leaves this module.
With Pillow (the extra "images") an image is decoded, and scaled if needed. Without it, only its header and
its end can be checked, and a large image is rejected.
"""

from __future__ import annotations

import base64
import io
import struct
import warnings
import zlib
from collections.abc import Iterator
from typing import Any

from transcripts import ImageBlock

MAX_IMAGE_FILE_BYTES = 64 * 1024 * 1024  # of an image file
_MAX_SIDE_PX = 1_568  # the API scales larger images down anyway, which costs time
_MAX_BASE64_CHARS = 5 * 1024 * 1024  # of one image in a request
_MAGIC_BYTES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
_HINT = "Install the extra (pip install 'makeroom[images]'), or scale the image down."


class BadImage(Exception):
    """The bytes are not an image that can be shown. The text is the reason."""


def media_type(head: bytes) -> str | None:
    """Return the media type of an image that the API accepts, by its first 16 bytes; None for others."""
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _MAGIC_BYTES.items() if head.startswith(magic)), None)


def load_image(data: bytes) -> tuple[ImageBlock, str]:
    """Return the image, scaled if needed, and a note of its size. Raises BadImage."""
    kind = media_type(data[:16])
    if kind is None:
        raise BadImage("not a PNG, JPEG, GIF or WebP image")
    if kind == "image/png":
        data = _without_broken_extras(data)
    try:
        import PIL.Image as pillow  # 30 ms, and rarely needed
    except ImportError:
        return _without_pillow(data, kind)
    return _with_pillow(data, kind, pillow)


def _without_broken_extras(data: bytes) -> bytes:
    """Return a PNG without ancillary chunks that have a wrong checksum, which decoders reject."""
    kept = [data[:8]]
    at = 8
    while at + 12 <= len(data):
        end = at + 12 + int.from_bytes(data[at : at + 4], "big")
        is_extra = data[at + 4] & 0x20  # its name is in lower case
        if not is_extra or zlib.crc32(data[at + 4 : end - 4]) == int.from_bytes(data[end - 4 : end], "big"):
            kept.append(data[at:end])
        at = end
    return b"".join((*kept, data[at:]))


def _with_pillow(data: bytes, kind: str, pillow: Any) -> tuple[ImageBlock, str]:
    warnings.filterwarnings("ignore", category=pillow.DecompressionBombWarning)  # the limit is checked here
    try:
        image = pillow.open(io.BytesIO(data), formats=[kind.rpartition("/")[2].upper()])  # reads the header
        width, height = image.size
        if width * height > 100_000_000:  # about 400 MB when decoded
            raise BadImage(f"it has too many pixels ({width}x{height})")
        image.load()
    except pillow.DecompressionBombError as error:
        raise BadImage("it has too many pixels") from error
    except (OSError, ValueError, SyntaxError, EOFError, struct.error, zlib.error) as error:
        raise BadImage("it cannot be decoded, since it is truncated or damaged") from error
    if max(width, height) <= _MAX_SIDE_PX and _base64_size(data) <= _MAX_BASE64_CHARS:
        return _block(kind, data), f"{width}x{height}"
    for side in (_MAX_SIDE_PX, 1024, 512):
        shrunk = image.copy()
        shrunk.thumbnail((side, side))
        for new_kind, content in _encodings(shrunk):
            if _base64_size(content) <= _MAX_BASE64_CHARS:
                size = f"{width}x{height}, shown as {shrunk.width}x{shrunk.height}"
                return _block(new_kind, content), size
    raise BadImage("it is too large at any scale")


def _encodings(image: Any) -> Iterator[tuple[str, bytes]]:
    """Yield (media type, bytes): PNG, which is lossless, then JPEG, which is smaller."""
    for kind, modes, options in (("PNG", ("L", "LA", "P", "RGB", "RGBA"), {}), ("JPEG", (), {"quality": 85})):
        output = io.BytesIO()
        (image if image.mode in modes else image.convert("RGB")).save(output, kind, **options)
        yield f"image/{kind.lower()}", output.getvalue()


def _without_pillow(data: bytes, kind: str) -> tuple[ImageBlock, str]:
    try:
        width, height = _SIZE_OF_WHOLE[kind](data)
    except (struct.error, IndexError, ValueError) as error:
        raise BadImage("it is truncated") from error
    if width < 1 or height < 1:
        raise BadImage(f"its header says {width}x{height} pixels")
    if max(width, height) > _MAX_SIDE_PX:
        raise BadImage(
            f"it has {width}x{height} pixels, and scaling it to {_MAX_SIDE_PX} requires Pillow. {_HINT}"
        )
    if _base64_size(data) > _MAX_BASE64_CHARS:
        raise BadImage(f"it has {len(data):,} bytes, more than a request may contain. {_HINT}")
    return _block(kind, data), f"{width}x{height}"


def _block(kind: str, data: bytes) -> ImageBlock:
    return ImageBlock(kind, base64.b64encode(data).decode("ascii"))


def _base64_size(data: bytes) -> int:
    return (len(data) + 2) // 3 * 4


# Functions by format that check the end of an image and return its size in pixels. They raise ValueError,
# IndexError or struct.error if it is truncated.


def _png_size(data: bytes) -> tuple[int, int]:
    if data[12:16] != b"IHDR":
        raise ValueError
    place = 8
    name = b""
    while name != b"IEND":
        length, name = struct.unpack(">I4s", data[place : place + 8])
        body = data[place + 4 : place + 8 + length]
        checksum = data[place + 8 + length : place + 12 + length]
        if struct.unpack(">I", checksum) != (zlib.crc32(body),):
            raise BadImage("its checksums are wrong")
        place += 12 + length
    return struct.unpack(">II", data[16:24])


def _gif_size(data: bytes) -> tuple[int, int]:
    if not data.rstrip(b"\0").endswith(b";"):
        raise ValueError
    return struct.unpack("<HH", data[6:10])


def _jpeg_size(data: bytes) -> tuple[int, int]:
    if b"\xff\xd9" not in data[-32:]:
        raise ValueError
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
    if int.from_bytes(data[4:8], "little") + 8 > len(data):
        raise ValueError
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


_SIZE_OF_WHOLE = {
    "image/png": _png_size,
    "image/jpeg": _jpeg_size,
    "image/gif": _gif_size,
    "image/webp": _webp_size,
}
