"""Read Markdown files that begin with YAML fields between two lines of `---`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from tools.files import FileError, is_inside, opened_file, read_at_most
from tools.guarded import is_protected
from transcripts.storage import trusted_owners
from transcripts.wording import cause_of

if TYPE_CHECKING:
    from yaml import SafeLoader

MAX_MARKDOWN_BYTES = 64 * 1024
MAX_SKILL_BYTES = 256 * 1024  # of a file that is read when it is used; before, its first MAX_MARKDOWN_BYTES
MAX_FRONTMATTER_CHARS = 16 * 1024


class Markdown(Struct, frozen=True):
    """A text, and the YAML fields before it; no fields if there are none."""

    fields: Mapping[str, object]
    body: str


def judged_path(path: Path, top: Path | None) -> Path:
    """Return the real path of a file of the checkout `top`, or of the user if that is None.

    Raises ValueError for a link out of the checkout or to a secret, and for a file of another user; OSError.
    """
    if top is None:
        return path.resolve()
    owners = {path.stat().st_uid, path.lstat().st_uid}  # raises OSError for a circular link
    real = path.resolve()
    if not is_inside(str(real), str(top)):
        raise ValueError("it is a link that leads out of the project")
    if real != path and is_protected(str(real), "read"):
        raise ValueError("it is a link to a secret")
    if not owners <= trusted_owners(top):
        raise ValueError("it belongs to another user")
    return real


def read_markdown(real: Path) -> Markdown:
    """Return the file's fields and text. Raises ValueError, in one line, for a file that cannot be used.

    No link in the path is followed: resolve it and judge the target first.
    """
    return parse_markdown(read_content(real, MAX_MARKDOWN_BYTES))


def read_head(real: Path) -> Markdown:
    """Return the file's fields and the beginning of its text. Raises ValueError as `read_markdown` does."""
    return parse_markdown(read_content(real, MAX_SKILL_BYTES)[:MAX_MARKDOWN_BYTES])


def read_content(real: Path, max_bytes: int) -> bytes:
    """Return the content of a file. Raises ValueError as `read_markdown` does."""
    try:
        with opened_file(str(real)) as (descriptor, state):
            if state.st_size > max_bytes:
                raise ValueError(f"it is larger than {max_bytes:,} bytes")
            return read_at_most(descriptor, max_bytes)
    except FileError as error:
        raise ValueError("it is not a regular file") from error
    except OSError as error:
        raise ValueError(cause_of(error)) from error


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
    """Return the fields of invalid YAML as their author meant them. Raises the error of YAML."""
    for repaired in (text, _on_one_line(text)):
        with suppress(ValueError):
            return _load_yaml("\n".join(map(_quoted, repaired.split("\n"))))
    raise error


def _on_one_line(text: str) -> str:
    """Join a description to one line: many have examples below them that are not indented."""
    start = re.search(r"^description:[ \t]+(?=[^\s|>])", text, re.MULTILINE)
    if start is None:
        return text
    next_field = r"\n(?=(?:name|tools|model|color|skills|permissionMode|allowed-tools|argument-hint):)"
    description, *others = re.split(next_field, text[start.end() :])
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
        raise ValueError(f"{where}{error.problem or error.context or 'not valid YAML'}") from error
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
