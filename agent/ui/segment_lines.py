"""Turn rich's segments into lines of ANSI text with as few codes as possible.

Slow to import, because rich is: loaded after the first paint.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style

from transcripts.patterns import lazy_pattern

from .terminal_text import Theme, linked

_DEFAULT_BACKGROUND = lazy_pattern(r"(?:^|;)49(?=;|$)")
# Attributes that are visible on a space: underline, reverse, strike-through, background.
_SEEN_ON_BLANKS = lazy_pattern(r"(?:^|;)(?:4|7|9|4[0-8]|10[0-7])(?=;|$)")
RESET_SUFFIX = "\x1b[m"
_WEB_ADDRESS = lazy_pattern(r"(?:https?://|mailto:)[!-~]{1,2000}")
_COLOUR_ONLY = lazy_pattern(r"3[0-7]|9[0-7]|38;5;\d+|38;2;\d+;\d+;\d+")


def segment_line(segments: Iterable[Segment], theme: Theme) -> str:
    """Paint one line of segments; spaces take the codes of their neighbours, trailing ones are cut."""
    runs: list[tuple[str, str]] = []
    for text, style, control in segments:
        if control or not text:
            continue
        codes = _codes_of(style, theme.colour) if style and theme.weight else ""
        if style and style.link and theme.links and is_safe_link(style.link):
            text = linked(text, style.link)
        if runs and not text.strip(" ") and not _SEEN_ON_BLANKS.search(f"{codes};{runs[-1][0]}"):
            codes = runs[-1][0]
        if runs and runs[-1][0] == codes:
            runs[-1] = (codes, runs[-1][1] + text)
        else:
            runs.append((codes, text))
    while runs and not _SEEN_ON_BLANKS.search(runs[-1][0]):
        codes, text = runs.pop()
        if kept := text.rstrip(" "):
            runs.append((codes, kept))
            break
    return _painted_runs(runs)


def _painted_runs(runs: list[tuple[str, str]]) -> str:
    line = ""
    held = ""
    for codes, text in runs:
        line += _change(held, codes) + text
        held = codes
    return line + _change(held, "")


def _change(held: str, wanted: str) -> str:
    """Return the code that changes the attributes from `held` to `wanted`."""
    if held == wanted:
        return ""
    if not wanted:
        return "\x1b[m"
    if not held or (_COLOUR_ONLY.fullmatch(held) and _COLOUR_ONLY.fullmatch(wanted)):
        return f"\x1b[{wanted}m"
    return f"\x1b[;{wanted}m"


def is_safe_link(address: str) -> bool:
    """Return whether an address may be sent to a terminal: a web address of printable ASCII characters."""
    return bool(_WEB_ADDRESS.fullmatch(address))


def filled(line: str, style: Style, theme: Theme) -> str:
    """Fill a line with the background of a style to the end of the row; the row must not be full."""
    return f"{line.removesuffix(RESET_SUFFIX)}\x1b[;{_codes_of(style, theme.colour)}m\x1b[K{RESET_SUFFIX}"


@lru_cache(maxsize=1024)
def _codes_of(style: Style, colour: bool) -> str:
    """Return the SGR numbers of a style."""
    wanted = (style if colour else style.without_color).update_link(None)
    return _DEFAULT_BACKGROUND.sub(
        "", wanted.render("x", color_system=ColorSystem.TRUECOLOR).partition("x")[0][2:-1]
    ).strip(";")
