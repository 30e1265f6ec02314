"""The standard streams as bytes.

Input is decoded as a file of its bytes is. Output to pipes is UTF-8; to terminals it has the charset of the
locale, with symbols that exist in it.
"""

from __future__ import annotations

import codecs
import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from io import BufferedReader, TextIOWrapper
from pathlib import Path
from typing import TextIO
from unicodedata import normalize

from tools.text import decode_text, mark_stray_bytes, pluralize

from .terminal_text import cell_width, write_fully

BROKEN_PIPE_CODE = 141  # 128 + SIGPIPE

# Our symbols, each with one that every charset has and that takes one cell too.
_ASCII_SYMBOLS = str.maketrans(
    {
        **dict(zip("❯●⎿…·⏎─│•⋯✗✓↑↓←→└■▣▤▥▦▧▨▩▌—", ">*|~-$-|*:xv^v<>`#+x=%*o@|-", strict=True)),
        **dict(zip("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "|/-\\|/-\\|/", strict=True)),
        **dict(zip("☐☑☒◻◼▶▸✔⚠", "ox#o#>>v!", strict=True)),
        **dict(zip("“”„‘’‚–‐−×", '"""\'\',---x', strict=True)),
    }
)


def locale_charset(environ: Mapping[str, str]) -> str:
    """Return the charset of the locale: ASCII for C and for one without, UTF-8 if no locale is set."""
    locale = next(filter(None, (environ.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG"))), "")
    charset = locale.partition("@")[0].partition(".")[2]
    try:
        return codecs.lookup(charset or "ascii").name if locale else "utf-8"
    except LookupError:
        return "ascii"


def encode_for_terminal(text: str, environ: Mapping[str, str]) -> bytes:
    """Encode a text for the terminal: a character that it lacks becomes a similar one, or `?`.

    What stands for a character takes as many cells, so that the screen stays as it was laid out.
    """
    charset = locale_charset(environ)
    if charset == "utf-8":
        return text.encode("utf-8", "replace")
    return b"".join(map(_encoded, text, [charset] * len(text)))


@lru_cache(maxsize=4096)
def _encoded(char: str, charset: str) -> bytes:
    try:
        return char.encode(charset)
    except UnicodeEncodeError:
        width = cell_width(char)
        for alike in (char.translate(_ASCII_SYMBOLS), normalize("NFKD", char)):
            shown = alike.encode(charset, "ignore")
            if shown and len(shown) == width:
                return shown
        return b"?" * width


class PipeWriter:
    """A writer of whole lines to a pipe or a file: UTF-8, at once, quiet when the reader is gone.

    A terminal gets the charset of the locale.

    Lines end in LF alone, and each goes out in one piece before `line` returns, however slow the reader.
    `mask` takes out of a line what nobody may see. `gone` is 0, or the exit code once nothing can be written:
    the reader has closed its end, or the disk is full, which is told once on standard error.
    """

    def __init__(self, stream: TextIO, mask: Callable[[str], str] = str) -> None:
        self._stream = stream
        self._mask = mask
        self.gone = 0

    @property
    def at_terminal(self) -> bool:
        """Return whether a terminal shows what is written, and would obey what stands in it."""
        return self._stream.isatty()

    def line(self, text: str) -> str:
        """Write the text and a newline; returns the text as it was written."""
        shown = self._mask(text)
        if self.gone:
            return shown
        data = f"{shown}\n".encode("utf-8", "replace")
        if self.at_terminal:
            data = encode_for_terminal(f"{shown}\n", os.environ)
        try:
            self._stream.flush()
            write_fully(self._stream.fileno(), data)
        except io.UnsupportedOperation:  # a stream in memory
            self._stream.write(data.decode())
        except OSError as error:
            left = isinstance(error, BrokenPipeError | ConnectionResetError)
            self.gone = BROKEN_PIPE_CODE if left else 1
            with Path(os.devnull).open("wb") as void:  # the interpreter's last flush must report nothing
                os.dup2(void.fileno(), self._stream.fileno())
            if not left and self._stream is not sys.stderr:
                with suppress(OSError):
                    sys.stderr.write(f"error: standard output cannot be written: {error.strerror}\n")
        return shown


def stdin_text(data: bytes, told: str = "") -> tuple[str, str, str]:
    """Decode standard input, in the encoding that a file of these bytes would be read in.

    Returns the text, a warning, and the encoding for the bytes that follow: the detected one if it is clearly
    not UTF-8, else `told`, which is the encoding of what came before.
    """
    decoded = decode_text(data, told)
    if decoded is None:
        text = data.decode("utf-8", "replace")
        lost = "" if text.encode() == data else "bytes of standard input, which is no text, are lost"
        return text, lost, told
    text, form = decoded
    if form.strays:
        return mark_stray_bytes(text), f"not UTF-8 in standard input: {pluralize(form.strays, 'byte')}", told
    doubt = f"standard input is read as {form.codec}{', a guess' * form.guessed}" if form.told else ""
    return text, doubt, told if form.guessed else form.told or told


def stdin_lines(stdin: BufferedReader) -> Iterator[str]:
    """Yield the lines of standard input with their ends, each at once; warn once of their encoding.

    What is typed at a terminal has the charset of its locale, where the bytes allow it.
    """
    typed = stdin.isatty()
    charset = locale_charset(os.environ)
    if not typed and stdin.peek(2)[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        yield from TextIOWrapper(stdin, "utf-16", "replace", newline="\n")
        return
    told = charset if typed and charset not in ("utf-8", "ascii") else ""
    doubts = {""}
    for line in stdin:
        text, doubt, told = stdin_text(line, told)
        about = doubt.partition(",")[0]
        if not (typed or line.isascii() or about in doubts):
            doubts.add(about)
            sys.stderr.write(f"warning: {doubt}\n")
        yield text
