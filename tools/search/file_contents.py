"""Find files that ripgrep treats differently from `read`: binary files, and files with lone CRs."""

from __future__ import annotations

import codecs
import os
from collections.abc import Mapping
from contextlib import suppress

from tools.files import FileError, load_file, opened_file

_MAX_CR_BYTES = 16 * 1024 * 1024  # of a file that is checked for line ends
_MAX_CR_FILES = 500
_FILE_HEAD_BYTES = 64 * 1024  # in which a binary file contains a NUL


def begins_binary(path: str) -> bool:
    """Return whether the file has a NUL in its beginning and is not UTF-16; False if it cannot be read."""
    try:
        with opened_file(path) as (descriptor, _):
            head = os.pread(descriptor, _FILE_HEAD_BYTES, 0)
    except (OSError, FileError):
        return False
    return b"\0" in head and not head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))


def with_lone_cr(folder: str, sizes: Mapping[str, int]) -> list[str]:
    """Return those files (name below a directory, size) in which a lone CR ends lines, as in `read`.

    Only as many files as is quick are checked, and only in encodings of single bytes.
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
