"""Mask exact values and known forms of secrets in bytes that arrive in pieces: the output of a command."""

from __future__ import annotations

import os
import string

from transcripts.patterns import lazy_bytes_pattern

from .masking import MASK_TEXT, SecretMasks, mask_output

MAX_LINE_BYTES = 16 * 1024  # of a line that is masked as a whole; a longer one is masked in pieces
MAX_CONTEXT_BYTES = 1024  # of the part of a line that was shown, which shows what the rest is
_KEY_BEGIN = lazy_bytes_pattern(rb"-----BEGIN [A-Z0-9 ]*PRIVATE KEY")
_KEY_CHARACTERS = f"{string.ascii_letters}{string.digits}_+/=.~%!@#$&*-".encode()
_SECRET_MASK = b"[secret masked]"
_KEY_END = lazy_bytes_pattern(rb"-----END [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----")
# A line of a key, possibly after the name and number that grep prints, or a header in the key.
_KEY_LINE = lazy_bytes_pattern(
    rb"(?:[^\s:]{0,400}[:-]\d{1,9}[:-]|[^\s:]{1,400}:|[ \t]*\d{1,9}[:\t-])?[ \t+\-\"'|>#*]{0,40}"
    rb"(?:[A-Za-z0-9+/=]{0,100}|(?:Proc-Type|DEK-Info|Comment|Version):.{0,200})[\\n\"',\s]{0,8}"
)


class StreamRedactor:
    """Masks secrets in bytes that arrive in pieces, even if one is split between pieces.

    Output is delayed while its end may be the beginning of a masked value, and to the end of a line that ends
    like a key so far. A prompt, which ends with a space or a punctuation mark, is not delayed. The rest of
    its line is masked by what the whole line is: `Authorization: Bearer ` shows that a token follows.
    """

    def __init__(self, masks: SecretMasks) -> None:
        self._values = [os.fsencode(value) for value in masks.used()]
        self._held = b""
        self._line = b""  # that has not ended
        self._context = b""  # the last bytes of its part that was shown already
        self._in_key = False

    def feed(self, data: bytes) -> bytes:
        """Add output, and return the part that can be shown now."""
        text = self._held + data
        for value in self._values:
            text = text.replace(value, MASK_TEXT.encode())
        shown = len(text) - max((_begun(text, value) for value in self._values), default=0)
        self._held = text[shown:]
        text = self._line + text[:shown]
        whole = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1
        if len(text) - whole > MAX_LINE_BYTES:
            end = text[-MAX_CONTEXT_BYTES:]
            whole = len(text) - len(end) + len(end.rstrip(_KEY_CHARACTERS))
        elif text[-1:] not in _KEY_CHARACTERS:
            whole = len(text)
        self._line = text[whole:]
        return self._masked(text[:whole])

    def flush(self) -> bytes:
        """Return the delayed part."""
        delayed = self._line + self._held
        self._held = self._line = b""
        return self._masked(delayed)

    def _masked(self, text: bytes) -> bytes:
        if not text:  # as at each flush of a command without output
            return text
        context = self._context
        begun = text[max(text.rfind(b"\n"), text.rfind(b"\r")) + 1 :]
        self._context = (begun if len(begun) < len(text) else context + text)[-MAX_CONTEXT_BYTES:]
        shown = self._rest_of_line(context, text) if context else self._masked_lines(text)
        if self._in_key:
            self._context = b""
        return shown

    def _rest_of_line(self, context: bytes, text: bytes) -> bytes:
        """Return text after a part of its first line that was shown."""
        first, end, others = text.partition(b"\n")
        rest = first + end
        before = self._masked_lines(context)
        masked = self._masked_lines(context + rest)
        if masked.startswith(before):
            shown = masked[len(before) :]
        else:  # the secret began in the part that was shown
            kept = _common_end(masked, rest)
            shown = (_SECRET_MASK if kept < len(rest) else b"") + rest[len(rest) - kept :]
        return shown + self._masked_lines(others)

    def _masked_lines(self, text: bytes) -> bytes:
        if self._in_key or b"-----BEGIN" in text:
            text = b"".join(map(self._without_key, text.splitlines(keepends=True)))
        shown = text.decode("utf-8", "surrogateescape")
        masked = mask_output(shown)
        return text if masked == shown else masked.encode("utf-8", "surrogateescape")

    def _without_key(self, line: bytes) -> bytes:
        """Return a line without the part of a private key in it."""
        shown = b""
        if not self._in_key and (begun := _KEY_BEGIN.search(line)) is not None:
            self._in_key = True
            shown = line[: begun.start()] + b"[private key masked]"
            line = line[begun.end() :]
            if (ended := _KEY_END.search(line)) is None:
                return shown + line[len(line.rstrip(b"\r\n")) :]
        elif not self._in_key:
            return line
        else:
            ended = _KEY_END.search(line)
        if ended is not None:
            self._in_key = False
            return shown + line[ended.end() :] if shown else line[ended.end() :].lstrip(b"\r\n")
        self._in_key = _KEY_LINE.fullmatch(line) is not None
        return b"" if self._in_key else line


def _common_end(one: bytes, other: bytes) -> int:
    """Return the number of bytes at the end that both have in common."""
    count = 0
    while count < min(len(one), len(other)) and one[-1 - count] == other[-1 - count]:
        count += 1
    return count


def _begun(text: bytes, value: bytes) -> int:
    """Return the number of bytes at the end of the text that could be the beginning of the value."""
    at = text.find(value[:1], max(0, len(text) - len(value) + 1))
    while at >= 0:
        if value.startswith(text[at:]):
            return len(text) - at
        at = text.find(value[:1], at + 1)
    return 0
