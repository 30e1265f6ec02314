"""Read rollouts of Codex: lines of {"timestamp", "type", "payload"}, or bare items of the Responses API.

`response_item` lines are the conversation: messages, reasoning, calls and their outputs. Consecutive items of
the model are one reply. Commands and patches become calls of makeroom's tools. Omitted are `event_msg` lines,
which repeat items for the screen (only `thread_rolled_back` changes the conversation), summaries that
replaced history (a replay has the history itself), and instructions and context that Codex added.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct, field

from ..messages import Block, TextBlock, ToolUseBlock
from ..patterns import lazy_pattern
from .apply_patch import own_calls
from .openai_items import content_parts, reasoning, tool_call
from .recording import ImportedSession, ParsedFile, Skip, mapping_in, parse_time

_LINE_TYPES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
_BARE_TYPES = ("function_call", "function_call_output", "reasoning", "custom_tool_call", "local_shell_call")
# Type of an item -> what it is if it is left out.
_LEFT_OUT = {
    "compaction": "summaries",
    "compaction_summary": "summaries",
    "context_compaction": "summaries",
    "web_search_call": "searches by the service",
    "image_generation_call": "images made by the service",
    "agent_message": "messages between agents",
}
_CONTEXT_TAGS = ("user_instructions", "environment_context", "skill", "turn_aborted", "subagent_notification")
_CONTEXT = lazy_pattern(
    rf"\s*(?:<(?P<tag>{'|'.join(_CONTEXT_TAGS)}|recommended_plugins)>(?s:.*)</(?P=tag)>"
    r"|# AGENTS\.md instructions for (?s:.*)</(?:INSTRUCTIONS|environment_context)>)\s*"
)
# The heading of an output: "Exit code: 1", or lines up to "Output:" with "Process exited with code 1".
_FAILED = lazy_pattern(r"(?:Exit code: |(?:(?!Output:)[^\n]*\n){0,5}Process exited with code )[1-9-]")


def recognizes(file: ParsedFile) -> bool:
    """Return whether the lines are those of a rollout, or the file consists of items of the Responses API."""
    return any(
        (raw.get("type") in _LINE_TYPES and isinstance(raw.get("payload"), Mapping))
        or (raw.get("type") in _BARE_TYPES and "payload" not in raw)
        for raw in file.objects
    )


def read_session(file: ParsedFile, session: ImportedSession) -> None:
    """Add the conversation in the order of the file."""
    reader = _Reader(session)
    for raw in file.objects:
        reader.read_line(raw)
    reader.end_reply()


class _Reader(Struct):
    """Collects the items of the reply that is not complete yet."""

    session: ImportedSession
    model: str = ""
    blocks: tuple[Block, ...] = ()
    ts: float | None = None
    _calls: dict[str, list[str]] = field(default_factory=dict)  # Codex's id of a call -> the ids of our calls

    def read_line(self, raw: Mapping[str, Any]) -> None:
        payload = mapping_in(raw, "payload")
        ts = parse_time(raw.get("timestamp"))
        match raw.get("type"):
            case "response_item":
                self._read_item(payload, ts)
            case "turn_context":
                self.model = str(payload.get("model") or self.model)
                self.session.skip("turn_context lines")
            case "compacted":
                self.session.skip("summaries")
            case "event_msg":
                self.session.skip("event_msg lines")
                if payload.get("type") == "thread_rolled_back" and isinstance(payload.get("num_turns"), int):
                    self.end_reply()
                    self.session.drop_prompts(payload["num_turns"])
            case _ if "payload" in raw:
                self.session.skip_line(raw)
            case _:
                self._read_item(raw, ts)

    def end_reply(self) -> None:
        """Add the reply whose items have been collected, if there are any."""
        if self.blocks:
            self.session.add_reply(self.blocks, self.ts, self.model)
        self.blocks = ()

    def _read_item(self, item: Mapping[str, Any], ts: float | None) -> None:
        match item.get("type", "message"):
            case "message":
                self._read_message(item, ts)
            case "reasoning":
                self._extend(reasoning(item, self.session.skip), ts)
            case "function_call":
                name = _full_name(item)
                self._add_call(tool_call(item.get("call_id"), name, item.get("arguments")), ts)
            case "custom_tool_call":
                given = {"input": item.get("input")}
                self._add_call(tool_call(item.get("call_id"), item.get("name"), given), ts)
            case "local_shell_call":
                ident = item.get("call_id") or item.get("id")
                self._add_call(tool_call(ident, "local_shell", item.get("action")), ts)
            case "function_call_output" | "custom_tool_call_output":
                self._add_output(item, ts)
            case str(kind) if kind in _LEFT_OUT:
                self.session.skip(_LEFT_OUT[kind])
            case _:
                self.session.skip_line(item)

    def _read_message(self, item: Mapping[str, Any], ts: float | None) -> None:
        blocks = content_parts(item.get("content"), self.session.skip)
        match item.get("role"):
            case "assistant":
                self._extend(blocks, ts)
                if not blocks:
                    self.session.skip("empty messages")
            case "user":
                own = tuple(block for block in blocks if not _is_context(block))
                if own:
                    self.end_reply()
                    self.session.add_user(own, ts)
                else:
                    self.session.skip("context that Codex added" if blocks else "empty messages")
            case "developer" | "system":
                self.session.skip("instructions for the model")
            case _:
                self.session.skip_line(item)

    def _extend(self, blocks: tuple[Block, ...], ts: float | None) -> None:
        if blocks:
            self.blocks += blocks
            self.ts = ts

    def _add_call(self, use: ToolUseBlock | None, ts: float | None) -> None:
        if use is None:
            self.session.damaged += 1
            return
        calls = own_calls(use)
        self._calls[use.id] = [call.id for call in calls]
        self._extend(tuple(calls), ts)

    def _add_output(self, item: Mapping[str, Any], ts: float | None) -> None:
        """Add the result of a call; a patch that became several calls has the same result for each."""
        self.end_reply()
        content, failed = _output(item.get("output"), self.session.skip)
        ident = str(item.get("call_id"))
        for call in self._calls.pop(ident, [ident]):
            self.session.add_result(call, content, ts, error=failed)


def _full_name(item: Mapping[str, Any]) -> str:
    """Return the name of a tool with the server that it belongs to."""
    name = str(item.get("name") or "unnamed")
    server = str(item.get("namespace") or "")
    return name if not server or name.startswith(server) else f"{server.removesuffix('__')}__{name}"


def _is_context(block: Block) -> bool:
    return isinstance(block, TextBlock) and _CONTEXT.fullmatch(block.text) is not None


_PATCH_FAILED = "apply_patch verification failed"


def _output(output: Any, skip: Skip) -> tuple[tuple[Block, ...], bool]:
    """Return the content of an output, and whether the call failed.

    Older versions wrapped it: {"output": text, "metadata": {"exit_code": 1}}, or {"content", "success"}.
    """
    wrapped = output
    if isinstance(output, str) and output.startswith('{"output"'):
        with suppress(ValueError, RecursionError):
            wrapped = json.loads(output)
    failed = False
    if isinstance(wrapped, Mapping) and ("output" in wrapped or "content" in wrapped):
        exit_code = mapping_in(wrapped, "metadata").get("exit_code")
        failed = wrapped.get("success") is False or exit_code not in (0, None)
        output = wrapped.get("output", wrapped.get("content"))
    blocks = content_parts(output, skip)
    head = blocks[0].text if blocks and isinstance(blocks[0], TextBlock) else ""
    return blocks, failed or _FAILED.match(head) is not None or head.startswith(_PATCH_FAILED)
