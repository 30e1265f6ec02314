"""Decode bytes of an output that may be cut within a character."""

from __future__ import annotations


def from_first_character(data: bytes) -> bytes:
    """Return the data without the rest of a UTF-8 character that was cut at the beginning."""
    return data[next((at for at in range(min(3, len(data))) if not 0x80 <= data[at] < 0xC0), 3) :]


def decoded_output(data: bytes, codec: str | None = None) -> str:
    """Return the bytes as text, without the rest of a character that was cut at the beginning.

    They are decoded with `codec`. With "" bytes that are not UTF-8 are escaped, otherwise they become U+FFFD.
    """
    if codec and codec != "utf-8":
        return data.decode(codec, "replace")
    return from_first_character(data).decode("utf-8", "replace" if codec is None else "backslashreplace")
