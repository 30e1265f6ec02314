"""Decompress the body of an HTTP response piece by piece. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

CODINGS = ("gzip", "x-gzip", "deflate")
_GZIP_MAGIC = b"\x1f\x8b"
_PIECE_BYTES = 1 << 20


class Unpacker:
    """Decompresses a body in bounded pieces: a few bytes can expand to gigabytes.

    A body of gzip may consist of several members, such as one for each event of a stream.
    """

    def __init__(self, coding: str | None) -> None:
        """Raises ValueError for a coding that is not in CODINGS."""
        self.coding = (coding or "identity").strip().lower()
        if self.coding not in ("identity", *CODINGS):
            raise ValueError(f"it is compressed with {self.coding[:40]!r}, which was not requested")
        self._member = zlib.decompressobj(zlib.MAX_WBITS | 32)  # gzip or zlib
        self._is_first = True
        self._rest = b""
        self._holds_more = False  # the decompressor can return more without further data

    @property
    def is_complete(self) -> bool:
        """Return whether the data so far ends where a compressed body may end."""
        return self.coding == "identity" or self._member.eof

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Yield all of the decompressed data so far. Raises zlib.error."""
        if self.coding == "identity":
            yield data
            return
        while piece := self._unpack(data):
            data = b""
            yield piece

    def _unpack(self, data: bytes) -> bytes:
        """Return the next piece of the decompressed data, b"" if there is none so far. Raises zlib.error."""
        data = self._rest + data
        self._rest = b""
        while data or self._holds_more:
            if self._member.eof:
                if not data.startswith(_GZIP_MAGIC[: len(data)]):
                    return b""  # padding
                self._member = zlib.decompressobj(zlib.MAX_WBITS | 16)
            unpacked = self._decompressed(data)
            self._holds_more = len(unpacked) == _PIECE_BYTES and not self._member.eof
            data = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
            if unpacked:
                self._rest = data
                return unpacked
        return b""

    def _decompressed(self, data: bytes) -> bytes:
        is_first = self._is_first
        self._is_first = False
        try:
            return self._member.decompress(data, _PIECE_BYTES)
        except zlib.error:
            if not is_first or self.coding != "deflate":
                raise
            self._member = zlib.decompressobj(-zlib.MAX_WBITS)  # some servers omit the header of zlib
            return self._member.decompress(data, _PIECE_BYTES)
