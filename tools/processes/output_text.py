"""Bytes of an output as text, where it may be cut within a character."""

from __future__ import annotations


def from_first_character(data: bytes) -> bytes:
    """The data without the rest of a UTF-8 character that was cut at the beginning."""
    return data[next((at for at in range(min(3, len(data))) if not 0x80 <= data[at] < 0xC0), 3) :]


def decoded_output(data: bytes, codec: str | None = None) -> str:
    """The bytes as text, without the rest of a character that was cut at the beginning.

    In `codec`, where it was found; "" spells out what is not UTF-8, which else becomes U+FFFD.
    """
    if codec and codec != "utf-8":
        return data.decode(codec, "replace")
    return from_first_character(data).decode("utf-8", "replace" if codec is None else "backslashreplace")
