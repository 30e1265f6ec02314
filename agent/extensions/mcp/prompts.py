"""What a person takes from servers: prompts as `/mcp__server__prompt a "b c"`, resources as `@server:uri`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tools.base import ToolContext, ToolError
from transcripts.messages import ATTACHED_LINE, Block, ImageBlock, TextBlock, injected

from .entries import tool_names
from .results import ResultPlace, resource_result
from .server import McpServer
from .session import Message, ServerFailed

MAX_MENTIONED_RESOURCES = 20  # of one prompt
MAX_PROMPT_CHARS = 200_000
_MENTIONED = re.compile(r"(?<!\S)@([^\s:@]{1,64}):([^\s]{1,2000})")
_AFTER_MENTION = ".,;!?)]}>'\"`"


@dataclass(frozen=True, slots=True)
class CalledPrompt:
    """A line that calls a prompt of a server."""

    server: McpServer
    prompt: Message
    arguments: str


@dataclass(frozen=True, slots=True)
class AttachedResource:
    """What becomes of a resource that is mentioned; `trouble`: `told` says why nothing is attached."""

    told: str
    blocks: tuple[Block, ...] = ()
    trouble: bool = False


def listed_prompts(servers: Sequence[McpServer]) -> Iterator[tuple[str, CalledPrompt]]:
    """(name of the command, prompt) of each prompt of the connected servers."""
    for server in servers:
        prompts = (
            {str(prompt["name"]): prompt for prompt in server.offer.prompts} if not server.failure else {}
        )
        for name, full in tool_names(server.word, prompts).items():
            yield full, CalledPrompt(server, prompts[name], "")


def find_prompt(servers: Sequence[McpServer], line: str) -> CalledPrompt | None:
    """The prompt that a line calls; None where it calls none."""
    name, _, arguments = line.strip().removeprefix("/").partition(" ")
    if not line.startswith("/mcp__"):
        return None
    for full, found in listed_prompts(servers):
        if full.lower() == name.lower():
            return CalledPrompt(found.server, found.prompt, arguments.strip())
    return None


def summaries(servers: Sequence[McpServer]) -> list[tuple[str, str]]:
    """(name, summary) of each prompt, and of each resource with its @, for completion."""
    rows = [(full, _summary(found.prompt)) for full, found in listed_prompts(servers)]
    connected = (server for server in servers if not server.failure)
    return rows + [
        (f"@{server.entry.name}:{raw['uri']}", str(raw.get("description") or raw.get("name") or ""))
        for server in connected
        for raw in server.offer.resources
        if " " not in raw["uri"]
    ]


def _summary(prompt: Message) -> str:
    arguments = " ".join(f"<{each.get('name')}>" for each in _parameters(prompt))
    return f"{arguments} {prompt.get('description') or ''}".strip()


def _parameters(prompt: Message) -> list[Message]:
    found = prompt.get("arguments")
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


async def prompt_text(called: CalledPrompt) -> str:
    """The text of a prompt with its arguments. Raises ToolError."""
    name = str(called.prompt["name"])
    parameters = _parameters(called.prompt)
    try:
        given = shlex.split(called.arguments)
    except ValueError as error:
        raise ToolError(f"its arguments: {error}") from error
    missing = [str(each.get("name")) for each in parameters[len(given) :] if each.get("required") is True]
    if missing:
        raise ToolError(f"it needs {', '.join(missing)}")
    if len(given) > len(parameters) > 0:
        given = [*given[: len(parameters) - 1], " ".join(given[len(parameters) - 1 :])]
    arguments = {str(each.get("name")): value for each, value in zip(parameters, given, strict=False)}
    try:
        answer = await called.server.request("prompts/get", {"name": name, "arguments": arguments})
    except ServerFailed as error:
        raise ToolError(str(error)) from error
    messages = answer.get("messages")
    found = [each for each in messages if isinstance(each, dict)] if isinstance(messages, list) else []
    text = "\n\n".join(filter(None, map(_said, found)))
    if not text.strip():
        raise ToolError("the server gave no text")
    return text[:MAX_PROMPT_CHARS]


def _said(message: Message) -> str:
    """The text of one message of a prompt."""
    content = message.get("content")
    parts = content if isinstance(content, list) else [content]
    texts = []
    for part in parts:
        match part:
            case {"type": "text", "text": str(text)}:
                texts.append(text)
            case {"type": "resource", "resource": {"text": str(text)}}:
                texts.append(text)
            case {"type": str(kind)}:
                texts.append(f"[{kind}]")
    speaker = "Assistant: " if message.get("role") == "assistant" else ""
    return f"{speaker}{chr(10).join(texts)}" if texts else ""


def mentioned_resources(servers: Sequence[McpServer], text: str) -> list[tuple[McpServer, str]]:
    """The resources of servers that a text mentions, each once."""
    found: dict[tuple[str, str], tuple[McpServer, str]] = {}
    for name, uri in _MENTIONED.findall(text):
        server = next(
            (each for each in servers if each.enabled and name in (each.entry.name, each.word)), None
        )
        if server is not None:
            known = {raw["uri"] for raw in server.offer.resources}
            uri = uri if uri in known else uri.rstrip(_AFTER_MENTION)
            found[name, uri] = server, uri
    return list(found.values())[:MAX_MENTIONED_RESOURCES]


async def attached_resource(
    server: McpServer, uri: str, context: ToolContext, ident: str
) -> AttachedResource:
    """Read a resource that the person mentions."""
    shown = f"@{server.entry.name}:{uri}"
    try:
        answer = await server.request("resources/read", {"uri": uri})
    except ServerFailed as error:
        return AttachedResource(f"{shown} is not attached: {error}", trouble=True)
    result = await resource_result(answer, ResultPlace(server.entry, context, ident), {})
    texts = [block.text for block in result.content if isinstance(block, TextBlock)]
    images = [block for block in result.content if isinstance(block, ImageBlock)]
    text = TextBlock(injected(f"{ATTACHED_LINE}\nResource: {shown}\n{chr(10).join(texts)}"))
    return AttachedResource(f"read {shown}", (*images, text))
