"""Encode what a terminal is sent, in UTF-8 or the charset of a locale that has another, with symbols it has.

Standard input is decoded as a file of its bytes is.
"""

from __future__ import annotations

import codecs
import os
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from io import BufferedReader, TextIOWrapper
from unicodedata import normalize

from tools.files.text_encoding import decode_text, mark_stray_bytes, pluralize

from .terminal_text import cell_width

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
    """The charset that the locale names: ASCII for C, and for one without; UTF-8 where no locale is set."""
    locale = next(filter(None, (environ.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG"))), "")
    charset = locale.partition("@")[0].partition(".")[2]
    try:
        return codecs.lookup(charset or "ascii").name if locale else "utf-8"
    except LookupError:
        return "ascii"


def encode_for_terminal(text: str, environ: Mapping[str, str]) -> bytes:
    """The text as the terminal takes it: for a character that it has not, one that is alike, or `?`.

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


def stdin_text(data: bytes, told: str = "") -> tuple[str, str, str]:
    """What standard input says, in the encoding that a file of these bytes is read in; what is to be told.

    Third the encoding for what follows, where these bytes leave no doubt of one that is not UTF-8; else
    `told`, which is that of what came before.
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
    """The lines of standard input with their ends, each as soon as it is there; tells once how they are read.

    What is typed at a terminal has the charset of its locale, where the bytes allow it.
    """
    typed, charset = stdin.isatty(), locale_charset(os.environ)
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
