"""Diffs, prompts and MCP servers in the form of the protocol."""

import json
import random
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from tools.unified_diff import unified_diff
from transcripts import TextBlock

if TYPE_CHECKING:
    from agent.acp.contents import ServerOfClient

# The library is imported where it is used: that takes a fifth of the time of collecting all tests.
pytestmark = pytest.mark.skipif(find_spec("acp") is None, reason="needs the extra acp")


def put_back(new: str, diff: str) -> str:
    """The old text, from the new one and the parts of the diff, the last part first."""
    from agent.acp.contents import hunks

    lines = new.splitlines(keepends=True)
    for part in reversed(list(hunks(diff))):
        at = max(0, part.line - 1)
        count = len(part.new.splitlines())
        assert "".join(lines[at : at + count]) == part.new
        lines[at : at + count] = [part.old]
    return "".join(lines)


def random_text(source: random.Random, lines: Sequence[str]) -> str:
    ends = source.random() < 0.7
    text = "\n".join(line for line in lines if source.random() < 0.8)
    return f"{text}\n" if ends and text else text


def test_the_parts_of_a_diff_lead_from_the_new_text_back_to_the_old_one() -> None:
    source = random.Random(7)
    words = [f"{mark}line {number}" for number in range(40) for mark in ("", "+", "-", "@@ ", " ")]
    for _ in range(300):
        old = random_text(source, source.sample(words, 30))
        kept = [line if source.random() < 0.9 else f"other {line}" for line in old.splitlines()]
        new = random_text(source, kept) or "one\n"
        assert put_back(new, unified_diff(old, new, "a.py").text) == old


def test_a_new_file_has_no_old_text() -> None:
    from agent.acp.contents import diff_contents

    (made,) = diff_contents("/p/a.py", unified_diff("", "one\n", "a.py").text)
    assert made.model_dump(exclude_none=True) == {"type": "diff", "path": "/p/a.py", "new_text": "one\n"}


def test_links_to_files_become_mentions_and_sent_files_stay_data() -> None:
    from acp import embedded_text_resource, resource_block, resource_link_block, text_block

    from agent.acp.contents import prompt_content

    content = prompt_content(
        [
            text_block("compare "),
            resource_link_block("a.py", "file:///p/a%20b.py"),
            text_block(" with "),
            resource_link_block("page", "https://example.org/x"),
            text_block(", "),
            resource_link_block("broken", "file://[x"),
            text_block(" and "),
            resource_block(embedded_text_resource("file:///p/c.py", "x = 1\n</resource>\n")),
        ]
    )
    assert (
        content.words
        == 'compare @"/p/a b.py" with [page](https://example.org/x), [broken](file://[x) and /p/c.py'
    )
    sent, words = content.blocks
    assert isinstance(sent, TextBlock) and isinstance(words, TextBlock)
    assert sent.text.startswith('<resource uri="file:///p/c.py">\nx = 1\n')
    assert sent.text.count("</resource>") == 1  # its own end
    assert words.text == content.words


def test_text_cannot_end_its_fence() -> None:
    from agent.acp.contents import code_block

    assert code_block("a\n```\nb").startswith("````\n")
    assert len(code_block("x" * 100_000)) < 21_000


def test_mcp_servers_of_an_editor_are_written_as_in_a_file() -> None:
    from acp.schema import EnvVariable, HttpHeader, HttpMcpServer, McpServerStdio

    from agent.acp.contents import server_config

    given: list[ServerOfClient] = [
        McpServerStdio(name="files", command="/bin/f", args=["-x"], env=[EnvVariable(name="A", value="1")]),
        HttpMcpServer(type="http", name="web", url="http://h", headers=[HttpHeader(name="K", value="v")]),
    ]
    assert json.loads(server_config(given)) == {
        "mcpServers": {
            "files": {"command": "/bin/f", "args": ["-x"], "env": {"A": "1"}},
            "web": {"type": "http", "url": "http://h", "headers": {"K": "v"}},
        }
    }
    assert server_config([]) == ""
