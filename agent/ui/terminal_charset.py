"""Encode what a terminal is sent: UTF-8, or the charset of a locale that has another, with symbols it has."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from functools import lru_cache
from unicodedata import normalize

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
