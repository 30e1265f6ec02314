"""Read the paths in an index of git."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

GITLINK = b"\0\0\xe0\0"  # the mode 0160000 in an index


def repositories_in_index(data: bytes, hash_bytes: int) -> Iterator[bytes]:
    """Return the paths of the other repositories in a git index (submodules), relative to the checkout."""
    if GITLINK in data:
        yield from (path for path, mode in paths_in_index(data, hash_bytes) if mode == GITLINK)


def paths_in_index(data: bytes, hash_bytes: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield (path, mode) of each entry of a git index.

    The format is gitformat-index(5), versions 2 to 4. Reading stops at invalid data.
    """
    if data[:4] != b"DIRC":
        return
    version, count = (int.from_bytes(data[at : at + 4], "big") for at in (4, 8))
    at = 12
    path = b""
    with suppress(ValueError, IndexError):
        for _ in range(count):
            flags = at + 40 + hash_bytes
            length = (data[flags] & 0x0F) << 8 | data[flags + 1]  # as in git, a path need not end with a NUL
            start = flags + (4 if data[flags] & 0x40 else 2)
            kept = 0
            if version == 4:  # the path begins like the previous one without that many bytes
                cut = data[start] & 0x7F
                while data[start] & 0x80:
                    start += 1
                    cut = ((cut + 1) << 7) | (data[start] & 0x7F)
                start = start + 1
                kept = max(0, len(path) - cut)
            end = data.index(0, start) if length == 0xFFF else start + length - kept
            path = path[:kept] + data[start:end]
            yield path, data[at + 24 : at + 28]
            at = end + 1 if version == 4 else at + ((end - at) // 8 + 1) * 8
