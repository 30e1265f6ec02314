"""The open files of this process, to notice one that is left open."""

import os
from contextlib import suppress


def open_files() -> set[tuple[str, str]]:
    """Return the number of each descriptor with what it leads to."""
    found = set[tuple[str, str]]()
    for number in os.listdir("/proc/self/fd"):  # noqa: PTH208
        with suppress(FileNotFoundError):  # of the listing itself
            found.add((number, os.readlink(f"/proc/self/fd/{number}")))  # noqa: PTH115
    return found
