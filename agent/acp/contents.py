"""Convert values between the protocol and makeroom: prompts, diffs, tool results, MCP servers. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from acp import image_block, text_block, tool_content, tool_diff_content
from acp.schema import (
    AcpMcpServer,
    AudioContentBlock,
    ContentToolCallContent,
    EmbeddedResourceContentBlock,
    FileEditToolCallContent,
    HttpMcpServer,
    ImageContentBlock,
    McpServerStdio,
    ResourceContentBlock,
    SseMcpServer,
    TextContentBlock,
    TextResourceContents,
)

from transcripts import Block, ImageBlock, TextBlock, quoted
from transcripts.export import fenced

PromptPart = (
    TextContentBlock
    | ImageContentBlock
    | AudioContentBlock
    | ResourceContentBlock
    | EmbeddedResourceContentBlock
)
ServerOfClient = HttpMcpServer | SseMcpServer | AcpMcpServer | McpServerStdio
CallContent = ContentToolCallContent | FileEditToolCallContent
RESOURCE_TAG = "resource"  # around the text of a file that the editor sends with a prompt
MAX_SHOWN_CHARS = 20_000  # of one result; the transcript contains it in full


class PromptContent(NamedTuple):
    """A prompt: the words of the user, in which files are mentioned with @, and all of its blocks."""

    words: str
    blocks: tuple[Block, ...]


def prompt_content(parts: Iterable[PromptPart]) -> PromptContent:
    """Return the content of a prompt; links to files become mentions, so that the files are attached."""
    words = ""
    blocks: list[Block] = []
    for part in parts:
        match part:
            case TextContentBlock(text=text):
                words += text
            case ResourceContentBlock(uri=uri, name=name):
                words += _link(uri, name)
            case EmbeddedResourceContentBlock(resource=TextResourceContents(uri=uri, text=text)):
                words += _path_of(uri) or uri
                blocks.append(TextBlock(quoted(text, RESOURCE_TAG, f" uri={json.dumps(uri)}")))
            case ImageContentBlock(data=data, mime_type=kind):
                blocks.append(ImageBlock(kind, data))
            case _:
                blocks.append(TextBlock("[content of a kind that makeroom cannot read was omitted]"))
    return PromptContent(words, (*blocks, TextBlock(words)) if words else tuple(blocks))


def _link(uri: str, name: str) -> str:
    path = _path_of(uri)
    if not path:
        return f"[{name}]({uri})"
    return f'@"{path}"' if any(map(str.isspace, path)) else f"@{path}"


def _path_of(uri: str) -> str:
    """Return the path of a file's URI, "" for any other."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return ""
    return unquote(parts.path) if parts.scheme == "file" else ""


class Hunk(NamedTuple):
    """A part of a diff: its first line in the new file, and both texts."""

    line: int
    old: str
    new: str


def hunks(diff: str) -> Iterator[Hunk]:
    """Yield the parts of a unified diff of one file."""
    line = 0
    old: list[str] = []
    new: list[str] = []
    sides: tuple[list[str], ...] = ()
    for text in diff.split("\n"):
        if text.startswith("@@ "):
            if old or new:
                yield Hunk(line, "".join(old), "".join(new))
            old = []
            new = []
            sides = ()
            line = int(text.split("+", 1)[1].split(" ", 1)[0].split(",")[0])
        elif text.startswith("\\"):  # the preceding line has no newline
            for side in sides:
                side[-1] = side[-1].removesuffix("\n")
        elif line and text[:1] in (" ", "-", "+"):
            sides = {" ": (old, new), "-": (old,), "+": (new,)}[text[0]]
            for side in sides:
                side.append(f"{text[1:]}\n")
    if old or new:
        yield Hunk(line, "".join(old), "".join(new))


def diff_contents(path: str, diff: str) -> list[CallContent]:
    """Return the parts of a diff in the form of the protocol; a new file has no old text."""
    return [tool_diff_content(path, part.new, part.old or None) for part in hunks(diff)]


def shown_blocks(blocks: Sequence[Block]) -> list[CallContent]:
    """Return the content of a result for the user: the text as it is, in a fence, and the images."""
    text = "\n".join(block.text for block in blocks if isinstance(block, TextBlock))
    images = (block for block in blocks if isinstance(block, ImageBlock))
    shown: list[CallContent] = [tool_content(image_block(each.data, each.media_type)) for each in images]
    return [*([tool_content(text_block(code_block(text)))] if text.strip() else []), *shown]


def code_block(text: str) -> str:
    """Return text as a code block of Markdown, shortened if it is long."""
    if len(text) > MAX_SHOWN_CHARS:
        text = f"{text[:MAX_SHOWN_CHARS]}\n[... {len(text) - MAX_SHOWN_CHARS:,} more characters]"
    return fenced(text)


def server_config(servers: Iterable[ServerOfClient]) -> str:
    """Return the MCP servers of an editor as a value of --mcp-config; "" without any."""
    entries: dict[str, dict[str, Any]] = {}
    for server in servers:
        match server:
            case McpServerStdio(name=name, command=command, args=args, env=env):
                variables = {each.name: each.value for each in env}
                entries[name] = {"command": command, "args": args, "env": variables}
            case (
                HttpMcpServer(name=name, url=url, headers=headers)
                | SseMcpServer(name=name, url=url, headers=headers)
            ):
                sent = {each.name: each.value for each in headers}
                entries[name] = {"type": server.type, "url": url, "headers": sent}
    return json.dumps({"mcpServers": entries}) if entries else ""
