"""Make text fit to be shown: shortened in the middle, plain for the model, escaped for the screen.

Pure functions over text. What is kept on disk, and where, is for those who call them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

HEAD = 4_000  # characters kept of the beginning: what ran, the first error
TAIL = 26_000  # characters kept of the end: how it came out; with HEAD the 30,000 that Claude Code shows

_ESCAPES = re.compile(
    r"(?:\x1b\]|\x9d)[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"  # OSC; a line's end closes an unclosed one
    r"|(?:\x1b[PX^_]|[\x90\x98\x9e\x9f])[^\x1b\x9c\n]*(?:\x1b\\|\x9c)?"  # DCS, SOS, PM, APC
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # CSI
    r"|\x1b[ -/]*[0-~]?"  # the short ones
)
_ERASE_LINE = re.compile(r"(?:\x1b\[|\x9b)[02]?K")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U0001bca0-\U0001bca3\U000e0000-\U000e0fff"
)
_TAGS = re.compile("[\U000e0000-\U000e0fff]")
_UNSEEN = re.compile(f"[{_INVISIBLE}]")
# An emoji's variation selector and joiner are everyday text: taken out too, but no news to anybody.
_NEWS = re.compile(f"(?![\u200d\ufe0e\ufe0f])[{_INVISIBLE}]|[\ufe00-\ufe0f]{{2,}}")
_UNSAFE = re.compile(f"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff{_INVISIBLE}]")


@dataclass(frozen=True, slots=True)
class Truncated:
    """Shortened text, a line in its middle that says so, and how much is not in it (0, 0: whole)."""

    text: str
    omitted_chars: int = 0
    omitted_lines: int = 0


def truncate(text: str, head: int = HEAD, tail: int = TAIL) -> Truncated:
    """Keep at most `head` characters of the beginning and `tail` of the end, in whole lines where cheap.

    The line that tells of the gap comes on top; it counts the characters and the line ends left out.
    """
    if len(text) <= head + tail:
        return Truncated(text)
    first = text[:head]
    last = text[len(text) - tail :] if tail else ""
    cut = first.rfind("\n")
    if cut >= head * 3 // 4:
        first = first[: cut + 1]
    cut = last.find("\n")
    if 0 <= cut <= tail // 4:
        last = last[cut + 1 :]
    omitted = len(text) - len(first) - len(last)
    lines = text.count("\n", len(first), len(text) - len(last))
    gap = f"[... {omitted:,} characters, {lines:,} lines left out here ...]"
    before = "" if not first or first.endswith("\n") else "\n"
    return Truncated(f"{first}{before}{gap}\n{last}", omitted, lines)


def printable(text: str) -> str:
    """What a terminal would have shown, as plain text: for the model.

    Control sequences and characters that draw nothing are taken out, a line that was drawn over and over
    (progress bars) is left in its final state. Newlines and tabs stay. `unseen` counts what was hidden.
    """
    if "\r" in text:
        text = "\n".join(map(_final, text.replace("\r\n", "\n").split("\n")))
    if "\x08" in text:
        text = _overstrike(text)
    if "\x1b" in text or not text.isascii():
        text = _UNSEEN.sub("", _ESCAPES.sub("", text))
    return _CONTROLS.sub("", text)


def untagged(text: str) -> str:
    """The text without tag characters, which nobody sees and in which whole sentences can be hidden."""
    return text if text.isascii() else _TAGS.sub("", text)


def unseen(text: str) -> int:
    """How many characters of the text cannot be seen by a person but can be read by a model.

    Tags, bidirectional controls, zero-width ones, runs of variation selectors. An emoji's joiner and its
    single selector are not counted.
    """
    return 0 if text.isascii() else sum(len(found[0]) for found in _NEWS.finditer(text))


def escaped(text: str, keep: str = "\n\t") -> str:
    """The text so that no terminal obeys it: for the screen. ESC as ␛, U+202E as its name.

    `keep` names the control characters that stay; a path or a command on one line keeps none: `keep=""`.
    """
    return _UNSAFE.sub(lambda found: found[0] if found[0] in keep else _picture(found[0]), text)


def _picture(char: str) -> str:
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"U+{code:04X}"


def _final(line: str) -> str:
    """The last state of a line that was redrawn with carriage returns; what was longer before sticks out."""
    if "\r" not in line:
        return line
    shown = ""
    for piece in reversed(line.split("\r")):
        erased = _ERASE_LINE.search(piece)
        plain = _ESCAPES.sub("", piece)
        if len(plain) > len(shown):
            shown += plain[len(shown) :]
        if erased:
            break
    return shown


def _overstrike(text: str) -> str:
    """Let each backspace take back the character before it (how manual pages print bold)."""
    kept: list[str] = []
    for char in text:
        if char != "\x08":
            kept.append(char)
        elif kept and kept[-1] != "\n":
            kept.pop()
    return "".join(kept)
