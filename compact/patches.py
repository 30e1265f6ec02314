"""Find the texts that a call replaces, and those that a patch leaves, whatever tool an agent edits with.

An edit names its old text in an argument, or it is a patch, in an argument of its own or within a command:

    *** Begin Patch
    *** Update File: src/a.py
    @@ def total
     context
    -old line
    +new line
    *** End Patch
"""

from collections.abc import Iterator, Mapping

from transcripts import ToolUseBlock

from .identifiers import OLD_TEXT_ARGUMENTS, strings

PATCH_START = "*** Begin Patch"


def old_texts(use: ToolUseBlock) -> Iterator[str]:
    """Yield the texts that a call replaces; of a patch the old lines of each hunk, with their context."""
    nested = use.input.get("edits")
    for call in (use.input, *(nested if isinstance(nested, list) else ())):
        for name in OLD_TEXT_ARGUMENTS if isinstance(call, Mapping) else ():
            if isinstance(text := call.get(name), str):
                yield text
    for text in strings(use.input):
        yield from _hunks(text, "- ")


def patched_text(text: str) -> str:
    """Return the text that a patch leaves in its files; any other text as it is."""
    return "\n".join(_hunks(text, "+ ")) if PATCH_START in text else text


def _hunks(text: str, signs: str) -> Iterator[str]:
    """Yield the lines of each hunk of a patch that begin with one of these signs, without it."""
    start = text.find(PATCH_START)
    lines: list[str] = []
    for line in text[start:].split("\n") if start >= 0 else ():
        if line.startswith(("***", "@@")):
            if lines:
                yield "\n".join(lines)
            lines = []
        elif line and line[0] in signs:
            lines.append(line[1:])
    if lines:
        yield "\n".join(lines)
