"""Make text safe to display: without control sequences for the model, escaped for the screen. Pure."""

from __future__ import annotations

import re

from transcripts import INVISIBLE, JOINERS, is_harmless
from transcripts.patterns import lazy_bytes_pattern, lazy_pattern

_ESCAPE_SEQUENCE = lazy_pattern(
    r"(?:\x1b\]|\x9d)[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"  # OSC; may end with its line
    r"|(?:\x1b[PX^_]|[\x90\x98\x9e\x9f])[^\x1b\x9c\n]*(?:\x1b\\|\x9c)?"  # DCS, SOS, PM, APC
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # CSI
    r"|\x1b[ -/]*[0-~]?"  # two characters
)
_ESCAPED_BYTE = lazy_bytes_pattern(rb"[^\t\n\x20-\x7e]")
_ERASE_LINE = lazy_pattern(r"(?:\x1b\[|\x9b)[02]?K")
_FAILURE = lazy_pattern(r"(?i)(?<!\b0 )\b(?:fail|error|fatal|panic|exception|traceback)")
_DIGITS = lazy_pattern(r"\d+")
_CONTROL_CHAR = lazy_pattern(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_TAG_CHAR = lazy_pattern("[\U000e0000-\U000e0fff]")
_INVISIBLE_CHAR = lazy_pattern(f"[{INVISIBLE}]")
_UNSAFE_CHAR = lazy_pattern(f"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff{INVISIBLE}]")
_UNSAFE_IN_NAME = lazy_pattern(f"(?![{JOINERS}]){_UNSAFE_CHAR.pattern}")


def escaped_bytes(data: bytes) -> str:
    """Return the bytes with all but printable ASCII as \\xNN. Newlines are kept."""
    shown = _ESCAPED_BYTE.sub(lambda found: f"\\x{found[0][0]:02x}".encode(), data)
    return shown.decode("ascii").rstrip("\n")


def printable(text: str) -> str:
    """Return the text as a terminal would have shown it, without control sequences, for the model.

    Control sequences and harmful invisible characters are removed. Of a line that was redrawn (a progress
    bar), the final state is kept, and above it each earlier state that reports a failure. Newlines and tabs
    are kept. `count_invisible` returns the number of hidden characters.
    """
    if "\r" in text:
        text = "\n".join(map(_with_overdrawn_failures, text.replace("\r\n", "\n").split("\n")))
    text = as_drawn(text)
    if not text.isascii():
        text = _INVISIBLE_CHAR.sub(_if_harmless, text)
    return _CONTROL_CHAR.sub("", text)


def as_drawn(text: str) -> str:
    """Return the text as a terminal draws it, without colours, links and other sequences; CRLF becomes LF.

    Other control characters and invisible ones are kept.
    """
    if "\r" in text:
        text = "\n".join(map(_final_state, text.replace("\r\n", "\n").split("\n")))
    if "\x08" in text:
        text = _without_overstrikes(text)
    return _ESCAPE_SEQUENCE.sub("", text) if "\x1b" in text or not text.isascii() else text


def without_tags(text: str) -> str:
    """Return the text without tag characters (from U+E0000), which can hide whole sentences from users.

    Those of flags and ideographic variation selectors are kept.
    """
    return text if text.isascii() else _TAG_CHAR.sub(_if_harmless, text)


def count_invisible(text: str) -> int:
    """Count the characters of the text that a model can read but the user cannot see.

    These are tags, bidirectional controls, zero-width characters, runs of joiners and of variation selectors.
    Harmless ones are not counted.
    """
    return 0 if text.isascii() else sum(not is_harmless(found) for found in _INVISIBLE_CHAR.finditer(text))


def is_plain(text: str) -> bool:
    """Return whether every character of a name is visible: no control, hidden or unprintable ones."""
    return (text.isascii() and text.isprintable()) or _UNSAFE_IN_NAME.search(text) is None


def escaped(text: str, keep: str = "\n\t") -> str:
    """Return the text with control and hidden characters spelled out: ESC as ␛, U+202E by name.

    `keep` contains the control characters to keep; none for text on one line, such as a path.
    """

    def spelled_out(found: re.Match[str]) -> str:
        code = ord(found[0])
        if found[0] in keep or is_harmless(found):
            return found[0]
        if code < 0x20:
            return chr(0x2400 + code)
        return "␡" if code == 0x7F else f"U+{code:04X}"

    return _UNSAFE_CHAR.sub(spelled_out, text)


def _if_harmless(found: re.Match[str]) -> str:
    return found[0] if is_harmless(found) else ""


def _with_overdrawn_failures(line: str) -> str:
    """Return the line below the failures that it reported before it was redrawn.

    Of failures that differ in their numbers only, such as `3 failed`, the last one is kept.
    """
    if "\r" not in line:
        return line
    *earlier, final = line.rstrip("\r").split("\r")
    failures = {_DIGITS.sub("", piece): piece for piece in earlier if _FAILURE.search(piece)}
    failures.pop(_DIGITS.sub("", final), None)
    return "\n".join((*failures.values(), line)) if failures else line


def _final_state(line: str) -> str:
    """Return the final state of a line redrawn by carriage returns, with the rest of a longer earlier one."""
    if "\r" not in line:
        return line
    shown = ""
    for piece in reversed(line.split("\r")):
        erased = _ERASE_LINE.search(piece)
        plain = _ESCAPE_SEQUENCE.sub("", piece)
        if len(plain) > len(shown):
            shown += plain[len(shown) :]
        if erased:
            break
    return shown


def _without_overstrikes(text: str) -> str:
    """Remove the character before each backspace; manual pages print bold text that way."""
    kept: list[str] = []
    for char in text:
        if char != "\x08":
            kept.append(char)
        elif kept and kept[-1] != "\n":
            kept.pop()
    return "".join(kept)
