"""Find and read the files of a git repository as git does."""

from __future__ import annotations

# Paths are joined in the way git does.
# ruff: noqa: PTH112, PTH113, PTH118, PTH123
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from transcripts.patterns import lazy_pattern

from .option_syntax import NotProved

_SECTION = lazy_pattern(r'\s*\[\s*([\w.-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\]')


def repository_above(folder: str) -> str | None:
    """Return the working directory of the repository that a directory belongs to; None if there is none."""
    above = (str(place) for place in (Path(folder), *Path(folder).parents))
    return next((place for place in above if os.path.lexists(f"{place}/.git")), None)


def git_dir_of(folder: str) -> str:
    """Return the git directory of a working directory that has a `.git`."""
    path = f"{folder}/.git"
    if os.path.isdir(path):
        return path
    return os.path.join(folder, first_line(path).removeprefix("gitdir:").strip())


class GitSetting(NamedTuple):
    """One setting of a file. Section and key are in lower case, `inner` is the subsection's name."""

    section: str
    inner: str
    key: str
    value: str

    @property
    def name(self) -> str:
        """The name as git writes it, such as `remote.origin.url`."""
        return ".".join(filter(None, (self.section, self.inner, self.key)))


def parse_settings(text: str) -> Iterator[GitSetting]:
    """Yield the settings in a text."""
    section = inner = ""
    lines = iter(text.replace("\r\n", "\n").split("\n"))
    for line in lines:
        if header := _SECTION.match(line):
            section = header[1].lower()
            inner = re.sub(r"\\(.)", r"\1", header[2] or "")
            line = line[header.end() :]
        key, _, value = line.partition("=")
        if re.fullmatch(r"[A-Za-z][\w-]*", key.strip()):
            yield GitSetting(
                section=section, inner=inner, key=key.strip().lower(), value=_plain_value(value, lines)
            )


def _plain_value(text: str, lines: Iterator[str]) -> str:
    """Return a value without quotes and comment. It may continue on the next lines."""
    found: list[str] = []
    quoted = False
    at = 0
    while at < len(text):
        char = text[at]
        if char == "\\" and at + 1 == len(text):
            text = next(lines, "")
            at = 0
            continue
        if char == "\\":
            at += 1
            found.append({"n": "\n", "t": "\t", "b": "\b"}.get(text[at], text[at]))
        elif char == '"':
            quoted = not quoted
        elif char in "#;" and not quoted:
            break
        else:
            found.append(char)
        at += 1
    return "".join(found).strip()


def settings_text(path: str) -> str:
    """Return the text of a settings file, "" if it does not exist."""
    return file_bytes(path, 1_000_000).decode("latin-1")


def file_bytes(path: str, limit: int) -> bytes:
    """Return the content of a regular file, b"" if it does not exist. Raises NotProved."""
    if path == os.devnull:  # how settings files are usually switched off
        return b""
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return b""
    except (OSError, ValueError) as error:
        raise NotProved(f"{path} cannot be read") from error
    with open(opened, "rb") as file:
        found = os.fstat(opened)
        if not os.path.isfile(path) or found.st_size > limit:
            raise NotProved(f"{path} is not a settings file")
        return file.read(limit)


def first_line(path: str) -> str:
    """Return the first line of a file, "" if it does not exist."""
    return settings_text(path).partition("\n")[0].strip() if os.path.isfile(path) else ""
