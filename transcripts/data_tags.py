"""The tags around data in the text of prompts and results, which that text cannot close. Pure."""

from __future__ import annotations

import re
from enum import StrEnum

from .patterns import lazy_pattern

# In sessions from before `ChannelBlock` makeroom's own context is a text block between these tags.
INJECTED_OPENING_TAG = "<surroundings>"
INJECTED_CLOSING_TAG = "</surroundings>"
ATTACHED_LINE = "(attached by makeroom: the prompt mentions it)"  # the first line of an attached file then
SKILL_OPENING_TAG = "<skill-instructions>"
SKILL_CLOSING_TAG = "</skill-instructions>"
HOOK_OPENING_TAG = "<hook>"
SKILL_START = "Instructions of the skill "  # begins the text of a skill; its name and directory follow


class DataTag(StrEnum):
    """The tags around data in prompts, which their text cannot close."""

    ATTACHED = "attached"  # a file, folder or resource that a prompt mentions
    PUT_BACK = "put-back"  # cleared text that a prompt needs again
    GIT_STATE = "git-state"  # what git says about the project when a session begins
    BACKGROUND_OUTPUT = "background-output"
    AGENT_REPORT = "agent-report"
    MCP_SERVER = "mcp-server"
    OWN_COMMAND = "command-of-the-user"  # what the user ran with `!`, and what it wrote
    PASTED = "pasted"  # what the user pasted into a prompt

    @property
    def is_added(self) -> bool:
        """Return whether makeroom added the data to the prompt, not the user."""
        return self not in (DataTag.OWN_COMMAND, DataTag.PASTED)


OWN_COMMAND_OPENING_TAG = f"<{DataTag.OWN_COMMAND}>"
INJECTED_TAGS = (
    (INJECTED_OPENING_TAG, INJECTED_CLOSING_TAG),
    (SKILL_OPENING_TAG, SKILL_CLOSING_TAG),
    *((f"<{tag}>", f"</{tag}>") for tag in DataTag if tag.is_added),
)
ADDED_TAGS = {
    *(tag.strip("<>") for tag in (HOOK_OPENING_TAG, INJECTED_OPENING_TAG, SKILL_OPENING_TAG)),
    *DataTag,
}
_PASTED = lazy_pattern(rf"<{DataTag.PASTED} id=(\d+)>\n(.*?)\n</{DataTag.PASTED}>", re.DOTALL)


def injected(text: str) -> str:
    """Return a text between the tags that older sessions had, with closing tags within it escaped."""
    closed = text.replace(INJECTED_CLOSING_TAG, f"<\\{INJECTED_CLOSING_TAG[1:]}")
    return f"{INJECTED_OPENING_TAG}\n{closed}\n{INJECTED_CLOSING_TAG}"


def quoted(text: str, tag: str, attributes: str = "") -> str:
    """Return data between tags that it cannot close."""
    closed = re.sub(rf"<(?=\s*/\s*{tag})", r"<\\", text, flags=re.IGNORECASE)
    return f"<{tag}{attributes}>\n{closed}\n</{tag}>"


def unquoted_data(text: str, tag: str) -> str | None:
    """Return the data in a text that `quoted` made without attributes; None for any other text."""
    opening = f"<{tag}>\n"
    closing = f"\n</{tag}>"
    if len(text) < len(opening + closing) or not (text.startswith(opening) and text.endswith(closing)):
        return None
    return _unescaped(text[len(opening) : -len(closing)], tag)


def _unescaped(text: str, tag: str) -> str:
    """Return data with its closing tags as they were before `quoted` escaped them."""
    return re.sub(rf"<\\(?=\s*/\s*{tag})", "<", text, flags=re.IGNORECASE)


def split_pastes(text: str) -> list[str]:
    """Split a prompt at what was pasted into it: typed, pasted, typed, ..., pasted, typed."""
    pieces = _PASTED.split(text)
    del pieces[1::3]  # the numbers
    pieces[1::2] = (_unescaped(piece, DataTag.PASTED) for piece in pieces[1::2])
    return pieces


def with_paste_labels(text: str) -> str:
    """Return a prompt as it was shown when it was sent: with a label for each paste."""
    return _PASTED.sub(lambda found: paste_label(int(found[1]), found[2]), text)


def paste_label(number: int, pasted: str) -> str:
    """Return `[paste 1: 52 lines]`."""
    lines = len(pasted.removesuffix("\n").split("\n"))
    size = f"{lines:,} lines" if lines > 1 else f"{len(pasted):,} characters"
    return f"[paste {number}: {size}]"


def own_words(text: str) -> str:
    """Return the user's words in a text of a prompt: the whole text, or the command line that they ran."""
    if not text.startswith(OWN_COMMAND_OPENING_TAG):
        return text
    return "\n".join(text.split("\n", 2)[:2])  # without the output of the command
