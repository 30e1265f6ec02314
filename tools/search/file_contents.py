"""Find files that ripgrep treats differently from `read`: binary files, and files with lone CRs."""

from __future__ import annotations

import codecs
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from tools.files import MAX_WHOLE_BYTES, FileError, load_file, opened_file
from tools.text import BINARY_HEAD_BYTES, TextForm, decode_text, has_early_nul

_MAX_CR_BYTES = 16 * 1024 * 1024  # of a file that is checked for line endings
_FILE_HEAD_BYTES = 64 * 1024  # in which a binary file contains a NUL


def begins_binary(path: str) -> bool:
    """Return whether the file has a NUL in its beginning and is not UTF-16; False if it cannot be read."""
    try:
        with opened_file(path) as (descriptor, _):
            head = os.pread(descriptor, _FILE_HEAD_BYTES, 0)
    except (OSError, FileError):
        return False
    is_marked = head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return b"\0" in head and not is_marked and decode_text(head[: len(head) // 2 * 2]) is None


class TextsWithNul(NamedTuple):
    """The texts among files with a NUL: those that begin without one, and those of wide characters."""

    late: list[str]
    wide: list[str]


def texts_with_nul(folder: str, names: Sequence[str]) -> TextsWithNul:
    """Return the texts among files with a NUL (names below a directory), judged by their beginning."""
    found = TextsWithNul([], [])
    for name in names:
        with suppress(OSError, FileError), opened_file(f"{folder}/{name}") as (descriptor, _):
            head = os.pread(descriptor, BINARY_HEAD_BYTES, 0)
            if not has_early_nul(head):
                found.late.append(name)
            elif decode_text(head[:1024]) is not None:
                found.wide.append(name)
    return found


def wide_codecs(folder: str, names: Sequence[str]) -> dict[str, str]:
    """Return the codec of each file (name below a directory) of UTF-32, or of UTF-16 without a mark."""
    found = dict[str, str]()
    for name in names:
        with suppress(OSError, FileError):
            with opened_file(f"{folder}/{name}") as (descriptor, _):
                has_null = b"\0" in os.pread(descriptor, _FILE_HEAD_BYTES, 0)
            decoded = decode_text(load_file(f"{folder}/{name}", MAX_WHOLE_BYTES).data) if has_null else None
            form = decoded[1] if decoded is not None else TextForm()
            if form.unit == 4 or (form.unit == 2 and not form.mark):
                found[name] = form.codec
    return found


def detected_codecs(folder: str, names: Sequence[str]) -> dict[str, str]:
    """Return the codec in which `read` shows each file (name below a directory) that is not valid UTF-8.

    Files of mostly valid UTF-8 are left out, and so are those of unknown or wide encodings.
    """
    found = dict[str, str]()
    for name in names[:500]:  # each takes about a millisecond
        with suppress(OSError, FileError):
            decoded = decode_text(load_file(f"{folder}/{name}", MAX_WHOLE_BYTES).data)
            if decoded is not None and decoded[1].unit == 1 and decoded[1].codec != "utf-8":
                found[name] = decoded[1].codec
    return found


def with_lone_cr(folder: str, sizes: Mapping[str, int]) -> list[str]:
    """Return those files (name below a directory, size) in which a lone CR ends lines, as in `read`.

    Only as many files as is quick are checked, and only in encodings of single bytes.
    """
    found = list[str]()
    room = _MAX_CR_BYTES
    for name in [name for name, size in sizes.items() if 0 < size < _MAX_CR_BYTES][:500]:
        with suppress(OSError, FileError):
            data = load_file(f"{folder}/{name}", room).data
            if b"\0" not in data and data.count(b"\r") > data.count(b"\r\n"):
                found.append(name)
            room -= len(data)
    return found
