"""The fields before a Markdown text are read as users write them; none of them can do harm."""

import os
from pathlib import Path
from typing import Any

import pytest

from agent.extensions.frontmatter import MAX_MARKDOWN_BYTES, Markdown, parse_markdown, read_markdown
from tests.tables import each_row


@each_row(
    ("text", "fields", "body"),
    [
        ("---\nname: x\n---\nBody\n", {"name": "x"}, "Body\n"),
        ("\ufeff---\r\nname: x\r\n---\r\n\r\nBody\r\n", {"name": "x"}, "Body\n"),
        ("---\n---\nBody", {}, "Body"),
        ("---\nname: x\n---", {"name": "x"}, ""),
        ("Only a text", {}, "Only a text"),
        ("---\na rule, never closed", {}, "---\na rule, never closed"),
        ("---\nargument-hint: [a] [b]\n---\nB", {"argument-hint": "[a] [b]"}, "B"),
        ("---\nargument-hint: [a]\nname: x\n---\nB", {"argument-hint": ["a"], "name": "x"}, "B"),
        ("---\ndescription: Use it: always\n---\nB", {"description": "Use it: always"}, "B"),
        ("---\nallowed-tools: *\nname: x\n---\nB", {"allowed-tools": "*", "name": "x"}, "B"),
        ("---\ndescription: @file `x`\n---\nB", {"description": "@file `x`"}, "B"),
        (
            "---\ndescription: >\n  two\n  lines\nallowed-tools: Bash(git add:*), Read\n---\nB\n---\nC",
            {"description": "two lines\n", "allowed-tools": "Bash(git add:*), Read"},
            "B\n---\nC",
        ),
        ("---\nallowed-tools:\n  - Read\n  - Grep\n---\nB", {"allowed-tools": ["Read", "Grep"]}, "B"),
    ],
)
def test_fields_and_text_are_read_as_users_write_them(text: str, fields: dict[str, Any], body: str) -> None:
    assert parse_markdown(text.encode()) == Markdown(fields, body)


@each_row(
    ("fields", "why"),
    [
        ("- a list", "not fields"),
        ("name: x\n- y", "line 3"),
        ("\tname: x", "line 2"),
        ("a: &a x\nb:\n  - *a", "alias"),
        ("a: " + "[" * 5_000, "deeply"),
        ("- " * 8_000, "deeply"),
        ("x: " + "a" * 20_000, "characters"),
        ("when:\n  - 2026-99-99", "month"),
        ("a:\n  - !!python/object/apply:os.system [date]", "line 3"),
    ],
)
def test_fields_that_are_not_yaml_are_an_error_of_one_line(fields: str, why: str) -> None:
    with pytest.raises(ValueError, match=why) as error:
        parse_markdown(f"---\n{fields}\n---\nBody".encode())
    assert "\n" not in str(error.value)


def test_a_file_that_cannot_be_used_is_an_error_of_one_line(tmp_path: Path) -> None:
    (tmp_path / "large.md").write_bytes(b"x" * (MAX_MARKDOWN_BYTES + 1))
    (tmp_path / "folder.md").mkdir()
    (tmp_path / "loop.md").symlink_to("loop.md")
    os.mkfifo(tmp_path / "pipe.md")
    for name in ("large.md", "folder.md", "loop.md", "pipe.md", "none.md"):
        with pytest.raises(ValueError, match=r".{10}") as error:
            read_markdown(tmp_path / name)
        assert "\n" not in str(error.value)


def test_a_description_with_examples_below_it_that_are_not_indented_is_read() -> None:
    examples = '<example>\nContext: a hole\nuser: "Dig!"\n</example>'
    head = f"name: mole\ndescription: Use it to dig: deep.\n\n{examples}\nmodel: opus"
    fields = parse_markdown(f"---\n{head}\n---\nDig.".encode()).fields
    words = 'Use it to dig: deep. <example> Context: a hole user: "Dig!" </example>'
    assert fields == {"name": "mole", "description": words, "model": "opus"}
    with pytest.raises(ValueError, match="line 3"):
        parse_markdown(b"---\na: [\nb\n---\n")
