"""Look into files for what ripgrep treats unlike `read`: binary files, and lines that end in a lone CR."""

from __future__ import annotations

import codecs
import os
from collections.abc import Mapping
from contextlib import suppress

from tools.files import FileError, load_file, opened_file

_MAX_CR_BYTES = 16 * 1024 * 1024  # looked through for line ends
_MAX_CR_FILES = 500
_FILE_HEAD_BYTES = 64 * 1024  # in which a binary file has a NUL


def begins_binary(path: str) -> bool:
    """Return whether the file has a NUL in its beginning and is no UTF-16; False where it cannot be read."""
    try:
        with opened_file(path) as (descriptor, _):
            head = os.pread(descriptor, _FILE_HEAD_BYTES, 0)
    except (OSError, FileError):
        return False
    return b"\0" in head and not head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))


def with_lone_cr(folder: str, sizes: Mapping[str, int]) -> list[str]:
    """Return the files (name below a directory, size) that have lines ended by a lone CR, as `read` counts
    them.

    As many are looked into as is quick, texts of bytes alone.
    """
    found = list[str]()
    room = _MAX_CR_BYTES
    for name in [name for name, size in sizes.items() if 0 < size < _MAX_CR_BYTES][:_MAX_CR_FILES]:
        with suppress(OSError, FileError):
            data = load_file(f"{folder}/{name}", room).data
            if b"\0" not in data and data.count(b"\r") > data.count(b"\r\n"):
                found.append(name)
            room -= len(data)
    return found
