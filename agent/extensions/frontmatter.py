"""Read Markdown files that begin with YAML fields between two lines of `---`."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from transcripts.storage import opened_regular

if TYPE_CHECKING:
    from yaml import SafeLoader

MAX_MARKDOWN_BYTES = 64 * 1024
MAX_SKILL_BYTES = 256 * 1024  # of a file that is read when it is used; before, its first MAX_MARKDOWN_BYTES
MAX_FRONTMATTER_CHARS = 16 * 1024


class Markdown(Struct, frozen=True):
    """A text, and the YAML fields before it; no fields if there are none."""

    fields: Mapping[str, object]
    body: str


def read_markdown(path: Path) -> Markdown:
    """Return the file's fields and text. Raises ValueError, in one line, for a file that cannot be used."""
    return _read(path, MAX_MARKDOWN_BYTES)


def read_head(path: Path) -> Markdown:
    """Return the file's fields and the beginning of its text. Raises ValueError as `read_markdown` does."""
    return _read(path, MAX_SKILL_BYTES)


def _read(path: Path, max_bytes: int) -> Markdown:
    try:
        with opened_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            data = file.read(MAX_MARKDOWN_BYTES)
    except OSError as error:
        raise ValueError(error.strerror or str(error)) from error
    if size > max_bytes:
        raise ValueError(f"it is larger than {max_bytes:,} bytes")
    return parse_markdown(data)


def parse_markdown(data: bytes) -> Markdown:
    """Return the fields and text of a file's content. Raises ValueError as `read_markdown` does."""
    text = data.decode("utf-8-sig", "replace").replace("\r\n", "\n")
    frame = re.match(r"---[ \t]*\n(?:(.*?)\n)?---[ \t]*(?:\n|\Z)", text, re.DOTALL)
    if frame is None:
        return Markdown({}, text)
    return Markdown(_fields(frame[1] or ""), text[frame.end() :].lstrip("\n"))


def _fields(text: str) -> dict[str, object]:
    if len(text) > MAX_FRONTMATTER_CHARS:
        raise ValueError(f"its fields have more than {MAX_FRONTMATTER_CHARS:,} characters")
    if text.count("[") + text.count("{") > 400:  # the parser takes seconds for thousands
        raise ValueError("its fields are nested too deeply")
    try:
        found = _load_yaml(text)
    except ValueError as error:
        found = _repaired(text, error)
    if not isinstance(found, dict | None):
        raise ValueError("its first lines are not fields of the form `name: value`")
    return {str(name): value for name, value in (found or {}).items()}


def _repaired(text: str, error: ValueError) -> object:
    """Return the fields of a text that is not YAML, as their writers meant it. Raises the error of YAML."""
    for repaired in (text, _on_one_line(text)):
        with suppress(ValueError):
            return _load_yaml("\n".join(map(_quoted, repaired.split("\n"))))
    raise error


def _on_one_line(text: str) -> str:
    """Join a description to one line: many have examples below them that are not indented."""
    start = re.search(r"^description:[ \t]+(?=[^\s|>])", text, re.MULTILINE)
    if start is None:
        return text
    known = r"\n(?=(?:name|tools|model|color|skills|permissionMode|allowed-tools|argument-hint):)"
    description, *others = re.split(known, text[start.end() :])
    words = " ".join(description.split())
    return "\n".join([f"{text[: start.end()]}{words}", *others])


def _quoted(line: str) -> str:
    """Quote the value of a line that is not YAML: `argument-hint: [a] [b]`, `about: one: two`."""
    field = re.fullmatch(r"([A-Za-z_][\w-]*):[ \t]+(?![ \t])(\S.*)", line.rstrip())
    if field is None or field[2][0] in "|>":
        return line
    with suppress(ValueError):
        _load_yaml(line)
        return line
    return f"{field[1]}: {json.dumps(field[2], ensure_ascii=False)}"


def _load_yaml(text: str) -> object:
    """Return the value of a YAML text. Raises ValueError, in one line."""
    import yaml  # 23 ms, and many projects have no such file

    try:
        return yaml.load(text, Loader=_loader())
    except yaml.MarkedYAMLError as error:
        where = f"line {error.problem_mark.line + 2}: " if error.problem_mark else ""
        raise ValueError(f"{where}{error.problem or error.context or 'no YAML'}") from error
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise ValueError(str(error).partition("\n")[0]) from error
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


@cache
def _loader() -> type[SafeLoader]:
    """Return a loader that rejects aliases, which let a short text expand to an endless one.

    It is the loader in Python, since the one in C crashes on a deeply nested text.
    """
    import yaml  # as above

    class PlainLoader(yaml.SafeLoader):
        def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
            if self.check_event(yaml.AliasEvent):
                raise ValueError("aliases are not supported; put the text in quotes")
            return super().compose_node(parent, index)

    return PlainLoader
