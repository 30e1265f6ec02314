"""What the rules see of a request: who asked what, which calls were made and what came back.

The history may have been compacted: results replaced by placeholders, exchanges folded into a record that
stands in a user message. Nothing outside the request is known.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from .prefix import blocks_of
from .reply import Block, Body

Kind: TypeAlias = Literal["ask", "record", "say", "call"]


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call with its result as far as it is in view."""

    name: str
    input: dict[str, object]
    result: str
    failed: bool


@dataclass(frozen=True, slots=True)
class Step:
    """One thing in the conversation: a person's words, a text of the program's own, a reply, a call."""

    kind: Kind
    text: str = ""
    call: Call | None = None


_TAGGED = re.compile(r"\s*<([A-Za-z][\w-]*)\b[^>]*>.*?</\1>", re.DOTALL)
_BRACKETED = re.compile(r"^\s*\[[^\]\n]*\][^\n]*$", re.MULTILINE)
_RECORD_WORDS = re.compile(
    r"\b(summary|ledger|compacted|folded|being continued|earlier (conversation|exchanges|messages)|so far)\b",
    re.I,
)
_CONTINUES = re.compile(
    r"\W*(please\s+)?"
    r"(continue|go on|proceed|resume|keep going|carry on|your previous response was interrupted)\b.*",
    re.I | re.DOTALL,
)
_CARRIED = re.compile(r"^(?:- User: |\(r\d+\.\d+\) )(.+(?:\n(?!- User: |\(|\n|#).+)*)", re.MULTILINE)
_SHORT = 400


def steps(body: Body) -> list[Step]:
    """The conversation, flat and in order."""
    results = dict(_results(body))
    found: list[Step] = []
    for message in body["messages"]:
        for block in blocks_of(message["content"]):
            if block["type"] == "text" and message["role"] == "user":
                found.extend(_user_steps(block["text"]))
            elif block["type"] == "text":
                found.append(Step("say", block["text"]))
            elif block["type"] == "tool_use":
                text, failed = results.get(block["id"], ("", True))
                found.append(Step("call", call=Call(block["name"], block["input"], text, failed)))
    return found


def _results(body: Body) -> Iterator[tuple[str, tuple[str, bool]]]:
    for message in body["messages"]:
        for block in blocks_of(message["content"]):
            if block["type"] == "tool_result":
                yield block["tool_use_id"], (text_of(block), bool(block.get("is_error")))


def text_of(block: Block) -> str:
    """The text within a result."""
    parts = blocks_of(block.get("content"))
    return "\n".join(part["text"] for part in parts if part["type"] == "text")


def _user_steps(text: str) -> list[Step]:
    """A user's text, told apart into the program's own words and the person's."""
    if text.startswith(("[folded: files", "[snipped")):
        return [Step("record", text.split("\n", 1)[0])]  # contents of files, or no contents at all
    if text.startswith("[folded"):
        return [Step("record", text)]
    start = 0
    while match := _TAGGED.match(text, start):
        start = match.end()
    own = _BRACKETED.sub("", text[start:]).strip()
    if own.startswith("<") or (len(own) > _SHORT and _RECORD_WORDS.search(own[:_SHORT])):
        own = ""
    record = [] if own == text.strip() else [Step("record", text)]
    return [*record, Step("ask", own)] if own else record


def carried(record: str) -> list[str]:
    """The messages of the person that a record repeats, oldest first."""
    return [found.strip() for found in _CARRIED.findall(record)]


def is_continuation(text: str) -> bool:
    """Whether a person only asks to go on."""
    return len(text) < _SHORT and _CONTINUES.fullmatch(text) is not None


def last_text(body: Body) -> str:
    """The last text of the last message, where that is a user's."""
    texts = [block["text"] for block in blocks_of(body["messages"][-1]["content"]) if block["type"] == "text"]
    return texts[-1] if texts else ""


def texts(past: Sequence[Step]) -> Iterator[str]:
    """Everything but people's words and results: replies and records, oldest first."""
    return (step.text for step in past if step.kind in ("say", "record"))


def calls_in(past: Sequence[Step]) -> list[Call]:
    """The calls, oldest first."""
    return [step.call for step in past if step.call is not None]
