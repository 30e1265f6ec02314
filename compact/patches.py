"""Find the files that a call edits or shows, and the texts that it replaces, with the tools of any agent.

An edit names its old text in an argument, or it is a patch of apply_patch, in an argument of its own or
within a command.

A file is shown by a tool that reads files, or by a command that prints one: `cat`, `nl`, `head`, or
`sed -n 1,80p`.
"""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from transcripts import PATCH_START, ToolUseBlock, file_patches
from transcripts.patterns import lazy_pattern

from .identifiers import OLD_TEXT_ARGUMENTS, file_path_of, strings

_SHOWN_FILE = lazy_pattern(
    r"""(?:^|&&|;|\|\||"|\s-l?c\s['"]?)\s*
    (?: sed\s+-n\s+['"]?(?P<first>\d+)(?:,(?P<last>\d+))?p['"]?\s+
      | (?:cat|nl|bat|head)(?:\s+-{1,2}[\w=.,:+-]+|\s+\d+)*\s+ )
    (?P<path>"[^"\n$`]+"|'[^'\n]+'|[^\s;|&<>'"$`*(){}-][^\s;|&<>'"$`*(){}]*)
    (?=\s*(?:$|[|;&"']|\n|2>))""",
    re.VERBOSE,
)


class ShownFile(NamedTuple):
    """The file that a command prints, and the lines that it names; (0, 0): from the first."""

    path: str
    lines: tuple[int, int]


def old_texts(use: ToolUseBlock) -> Iterator[str]:
    """Yield the texts that a call replaces; of a patch the old lines of each hunk, with their context."""
    nested = use.input.get("edits")
    for call in (use.input, *(nested if isinstance(nested, list) else ())):
        for name in OLD_TEXT_ARGUMENTS if isinstance(call, Mapping) else ():
            if isinstance(text := call.get(name), str):
                yield text
    for text in strings(use.input):
        for change in file_patches(text):
            yield from filter(None, (hunk.old for hunk in change.hunks))


def other_texts(use: ToolUseBlock) -> Iterator[tuple[str, str]]:
    """Yield (argument, text) for the texts of a call that it does not replace; of a patch the new lines."""
    for name, value in use.input.items():
        if name not in OLD_TEXT_ARGUMENTS:
            yield from ((name, patched_text(text)) for text in strings(value))


def patched_text(text: str) -> str:
    """Return the text that a patch leaves in its files; any other text as it is."""
    if PATCH_START not in text:
        return text
    return "\n".join(hunk.new for change in file_patches(text) for hunk in change.hunks)


def is_patch(use: ToolUseBlock) -> bool:
    """Return whether a call applies a patch, as an argument or within a command."""
    return any(
        PATCH_START in value
        if isinstance(value, str)
        else any(PATCH_START in text for text in strings(value))
        for value in use.input.values()  # quick, since a resumed long session has many calls
    )


def files_of(use: ToolUseBlock) -> list[str]:
    """Return the files that a call edits or shows: those of an argument, a patch, or a command."""
    if path := file_path_of(use):
        return [path]
    changes = (change for text in strings(use.input) for change in file_patches(text))
    if files := list(dict.fromkeys(change.path for change in changes)):
        return files
    shown = shown_file(use)
    return [shown.path] if shown is not None else []


def shown_file(use: ToolUseBlock) -> ShownFile | None:
    """Return the one file that a command prints, None if it prints none or several."""
    command = use.input.get("command", use.input.get("cmd"))
    text = " ".join(map(str, command)) if isinstance(command, list) else command
    if not isinstance(text, str) or PATCH_START in text:
        return None
    found = list(_SHOWN_FILE.finditer(text))
    if len(found) != 1:
        return None
    first = int(found[0]["first"] or 0)
    return ShownFile(found[0]["path"].strip("\"'"), (first, int(found[0]["last"] or first)))
