"""Read a view for the demo, compacted or not: prompts, summaries of earlier messages, replies, calls.

The demo knows only the view: cleared results are placeholders, and summarized exchanges are a user's message.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct, field

from compact import is_result_id
from transcripts import ChannelBlock, DataTag, Message, TextBlock, ToolResultBlock, ToolUseBlock
from transcripts.patterns import lazy_pattern

Calls = tuple[ToolUseBlock, ...]  # of one reply; they get their ids when they are sent

_TAGGED_TEXT = lazy_pattern(r"\s*<([A-Za-z][\w-]*)\b[^>]*>.*?</\1>", re.S)
_BRACKETED_LINE = lazy_pattern(r"^\s*\[[^\]\n]*\][^\n]*$", re.M)
_CONTINUATION = lazy_pattern(
    r"(?is)\W*(please\s+)?(continue|go on|proceed|resume|keep going|carry on|"
    r"your (previous )?(response|reply) was (interrupted|cut))\b.*"
)
_CARRIED_PROMPT = lazy_pattern(r"^(?:- User: |\(r\d+\.\d+\) )(.+(?:\n(?!- User: |\(|\n|#).+)*)", re.M)


class Answer(Struct, frozen=True):
    """One reply: its text and its calls."""

    text: str
    calls: Calls = ()


class Step(Struct, frozen=True):
    """A text, or a call whose `text` is its result. A record is makeroom's own text in a user message."""

    kind: Literal["prompt", "record", "reply", "call"]
    text: str = ""
    tool: str = ""
    input: Mapping[str, Any] = field(default_factory=dict)
    failed: bool = False  # even if a call has no result

    @property
    def path(self) -> str:
        return str(self.input.get("file_path"))

    @property
    def command(self) -> str:
        return str(self.input.get("command"))

    @property
    def denied(self) -> bool:
        """Return whether the user, a rule or a hook denied the call, rather than the operating system."""
        starts = ("Permission denied:", "A hook", "The user denied", "The user refused")
        return self.failed and self.text.startswith(starts)

    @property
    def interrupted(self) -> bool:
        """Return whether the call was interrupted and is worth repeating."""
        return self.failed and self.text.startswith(("[interrupted", "[not run", "The reply was cut"))

    @property
    def is_unchanged(self) -> bool:
        """Return whether the call read a file whose text is further up, and returned a reference to it."""
        return self.tool == "read" and self.text.startswith("File unchanged since ")

    @property
    def prompts(self) -> list[str]:
        """Return the user's messages: the prompt, or those that a record repeats, oldest first."""
        if self.kind == "record":
            return [found.strip() for found in _CARRIED_PROMPT.findall(self.text)]
        return [self.text] if self.kind == "prompt" else []


def read_view(messages: Sequence[Message]) -> Iterator[Step]:
    """Yield the steps of the conversation in order."""
    blocks = [(message.role, part.block) for message in messages for part in message.parts]
    results = {block.tool_use_id: block for _, block in blocks if isinstance(block, ToolResultBlock)}
    for role, block in blocks:
        match block:
            case ChannelBlock():
                yield Step("record", block.text)
            case TextBlock() if role == "user":
                yield from _read_user_text(block.text)
            case TextBlock():
                yield Step("reply", block.text)
            case ToolUseBlock():
                result = results.get(block.id, ToolResultBlock(block.id, (), is_error=True))
                parts = (part for part in result.content if isinstance(part, TextBlock))
                texts = [part.text for part in parts if not is_result_id(part)]
                yield Step(
                    "call", text="\n".join(texts), tool=block.name, input=block.input, failed=result.is_error
                )


def _read_user_text(text: str) -> Iterator[Step]:
    """Yield the parts of a user's text: makeroom's own text, and the user's."""
    if text.startswith(("[summarized: files", "[folded: files", "[snipped")):  # contents of files, or nothing
        text = text.split("\n", 1)[0]
    start = 0
    while match := _TAGGED_TEXT.match(text, start):
        start = match.end()
    own = (
        ""
        if text.startswith(("[summarized", "[folded", "[snipped"))
        else _BRACKETED_LINE.sub("", text[start:]).strip()
    )
    if own.startswith("<"):
        own = ""
    if not own and text.startswith(f"<{DataTag.PASTED} "):  # the whole prompt was pasted
        own = text.strip()
    if own != text.strip():
        yield Step("record", text)
    if own:
        yield Step("prompt", own)


def tool_call(name: str, **given: Any) -> ToolUseBlock:
    return ToolUseBlock("", name=name, input=given)


def is_continuation(text: str) -> bool:
    """Return whether the user only asks to continue."""
    return len(text) < 400 and _CONTINUATION.fullmatch(text) is not None


def own_text(past: Sequence[Step]) -> str:
    """Join replies and records, oldest first, which contain the demo's own notes."""
    return "\n".join(step.text for step in past if step.kind in ("reply", "record"))


def calls_in(past: Sequence[Step]) -> list[Step]:
    """Return the calls, oldest first."""
    return [step for step in past if step.kind == "call"]
