"""Prompts of servers, which the user types as `/mcp__server__prompt a "b c"`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from msgspec import Struct

from tools.base import ToolError
from tools.text import printable

from .failures import ServerFailed
from .names import tool_names
from .server import McpServer
from .session import Message, objects_in


class CalledPrompt(Struct, frozen=True):
    """A prompt of a server, and the arguments that were typed after its name."""

    server: McpServer
    prompt: Message
    arguments: str = ""

    @property
    def summary(self) -> str:
        """Its parameters and its description, for a list."""
        arguments = " ".join(f"<{each.get('name')}>" for each in self._parameters())
        return f"{arguments} {self.prompt.get('description') or ''}".strip()

    async def text(self) -> str:
        """Return the text of the prompt with its arguments. Raises ToolError."""
        params = {"name": str(self.prompt["name"]), "arguments": self._filled()}
        try:
            answer = await self.server.request("prompts/get", params)
        except ServerFailed as error:
            raise ToolError(str(error)) from error
        text = "\n\n".join(filter(None, map(_message_text, objects_in(answer.get("messages")))))
        if not text.strip():
            raise ToolError("the server gave no text")
        return printable(text[:200_000])

    def _parameters(self) -> Sequence[Message]:
        return objects_in(self.prompt.get("arguments"))

    def _filled(self) -> dict[str, str]:
        """Return the arguments by name; the last one gets all remaining words. Raises ToolError."""
        parameters = self._parameters()
        try:
            given = shlex.split(self.arguments)
        except ValueError as error:
            raise ToolError(f"cannot split its arguments: {error}") from error
        missing = [str(each.get("name")) for each in parameters[len(given) :] if each.get("required") is True]
        if missing:
            raise ToolError(f"it needs {', '.join(missing)}")
        if len(given) > len(parameters) > 0:
            given = [*given[: len(parameters) - 1], " ".join(given[len(parameters) - 1 :])]
        return {str(each.get("name")): value for each, value in zip(parameters, given, strict=False)}


def listed_prompts(servers: Sequence[McpServer]) -> Iterator[tuple[str, CalledPrompt]]:
    """Yield (name of the command, prompt) for each prompt of the connected servers."""
    for server in servers:
        if server.failure:
            continue
        prompts = {str(prompt["name"]): prompt for prompt in server.offer.prompts}
        for name, full in tool_names(server.word, prompts).items():
            yield full, CalledPrompt(server, prompts[name])


def find_prompt(servers: Sequence[McpServer], line: str) -> CalledPrompt | None:
    """Return the prompt that a line calls, None for any other line."""
    if not line.startswith("/mcp__"):
        return None
    name, _, arguments = line.strip().removeprefix("/").partition(" ")
    for full, found in listed_prompts(servers):
        if full.lower() == name.lower():
            return CalledPrompt(found.server, prompt=found.prompt, arguments=arguments.strip())
    return None


def _message_text(message: Message) -> str:
    """Return the text of one message of a prompt."""
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
