"""The standard streams as bytes.

Input is decoded like a file with the same bytes. Output to pipes is UTF-8; output to terminals has the
charset of the locale, and symbols that are missing in it are replaced.
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
from typing import Any, NamedTuple, TextIO
from unicodedata import normalize

from tools.text import decode_text, mark_stray_bytes
from transcripts.wording import pluralize

from .terminal_text import cell_width, write_fully

# Our symbols, each with an ASCII character that also takes one cell.
_ASCII_SYMBOLS = str.maketrans(
    {
        **dict(zip("❯●⎿…·⏎─│•⋯✗✓↑↓←→└■▣▤▥▦▧▨▩▌—", ">*|~-$-|*:xv^v<>`#+x=%*o@|-", strict=True)),
        **dict(zip("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "|/-\\|/-\\|/", strict=True)),
        **dict(zip("☐☑☒◻◼▶▸✔⚠", "ox#o#>>v!", strict=True)),
        **dict(zip("“”„‘’‚–‐−×", '"""\'\',---x', strict=True)),
    }
)


def locale_charset(environ: Mapping[str, str]) -> str:
    """Return the charset of the locale: ASCII for C or one without charset, UTF-8 if no locale is set."""
    locale = next(filter(None, (environ.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG"))), "")
    charset = locale.partition("@")[0].partition(".")[2]
    try:
        return codecs.lookup(charset or "ascii").name if locale else "utf-8"
    except LookupError:
        return "ascii"


def encode_for_terminal(text: str, environ: Mapping[str, str]) -> bytes:
    """Encode a text for the terminal: a character missing in its charset becomes a similar one, or `?`.

    The replacement takes as many cells, so that the layout of the screen stays intact.
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
    """A writer of whole lines to a pipe or a file in UTF-8, or to a terminal in the charset of the locale.

    Lines end in LF, and `line` returns after the line was written, however slow the reader is. `mask` removes
    secrets from a line. `gone` is 0, or the exit code once nothing can be written: the reader has closed its
    end, or the disk is full, which is reported once on standard error.
    """

    def __init__(self, stream: TextIO, mask: Callable[[str], str] = str) -> None:
        self._stream = stream
        self._mask = mask
        self.gone = 0

    @property
    def at_terminal(self) -> bool:
        """Return whether the output is a terminal, which would obey control characters."""
        return self._stream.isatty()

    def line(self, text: str) -> str:
        """Write the text and a newline; return the text as written."""
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
            self.gone = 141 if left else 1  # 128 + SIGPIPE
            with Path(os.devnull).open("wb") as void:  # the interpreter's last flush must not fail
                os.dup2(void.fileno(), self._stream.fileno())
            if not left and self._stream is not sys.stderr:
                with suppress(OSError):
                    sys.stderr.write(f"error: cannot write to standard output: {error.strerror}\n")
        return shown


class StdinText(NamedTuple):
    """Text from standard input, a warning about its encoding or "", and the encoding for later bytes."""

    text: str
    warning: str
    encoding: str


def stdin_text(data: bytes, encoding: str = "") -> StdinText:
    """Decode standard input in the encoding in which a file with these bytes would be read.

    The encoding for the following bytes is the detected one if it is clearly not UTF-8, otherwise `encoding`,
    which is that of the preceding bytes.
    """
    decoded = decode_text(data, encoding)
    if decoded is None or decoded[1].nuls:
        text = data.decode("utf-8", "replace")
        lost = "" if text.encode() == data else "standard input is not text; some bytes were lost"
        return StdinText(text, warning=lost, encoding=encoding)
    text, form = decoded
    if form.strays:
        warning = f"standard input is not valid UTF-8 ({pluralize(form.strays, 'invalid byte')})"
        return StdinText(mark_stray_bytes(text), warning=warning, encoding=encoding)
    warning = f"reading standard input as {form.codec}{', a guess' * form.guessed}" if form.hint else ""
    found = encoding if form.guessed else form.hint or encoding
    return StdinText(text, warning=warning, encoding=found)


def stdin_lines(stdin: BufferedReader[Any]) -> Iterator[str]:
    """Yield the lines of standard input with their ends, each as it arrives; warn once about their encoding.

    Input from a terminal has the charset of its locale, if the bytes allow it.
    """
    typed = stdin.isatty()
    charset = locale_charset(os.environ)
    if not typed and stdin.peek(2)[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        yield from TextIOWrapper(stdin, "utf-16", "replace", newline="\n")
        return
    encoding = charset if typed and charset not in ("utf-8", "ascii") else ""
    warned = {""}
    for line in stdin:
        text, warning, encoding = stdin_text(line, encoding)
        about = warning.partition(",")[0]
        if not (typed or line.isascii() or about in warned):
            warned.add(about)
            sys.stderr.write(f"warning: {warning}\n")
        yield text
