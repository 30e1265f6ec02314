"""Colours: the appearance of each role of text, and the themes that users choose from.

Text only uses the terminal's sixteen colours, so that the terminal's palette decides their appearance on a
light or a dark background. A theme adds backgrounds, which need 256 colours or more.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

# Role -> (attributes that also apply without colour, colours), as SGR numbers.
ROLES: Mapping[str, tuple[str, str]] = {
    "dim": ("2", ""),
    "bold": ("1", ""),
    "thinking": ("2;3", ""),
    "prompt": ("1", ""),
    "shell": ("1", "33"),
    "chip": ("4", "36"),
    "found": ("7", ""),
    "current": ("1", "36"),  # the selected row of a menu
    "accent": ("", "36"),
    "good": ("", "32"),
    "bad": ("", "31"),
    "warning": ("", "33"),
    "hunk": ("2", "36"),
    "highlight": ("", "35"),
    "error": ("1", "31"),
    **{f"chart{at}": ("", str(code)) for at, code in enumerate((36, 34, 33, 35, 32, 31, 96, 95))},
}


class Fill(Struct, frozen=True):
    """Backgrounds, with rich's names of colours: of a changed line, and of the changed words in it."""

    line: str
    words: str


class Palette(Struct, frozen=True):
    """A theme. Without fills, changed lines are marked by the colour of their text."""

    name: str = "ansi"
    code: str = "ansi_dark"  # rich's name for the colours of code
    added: Fill | None = None
    removed: Fill | None = None
    on_fill: str = "default"  # text without a colour on a fill
    signs: tuple[str, str] = ("green", "red")  # of added and of removed lines
    roles: Mapping[str, tuple[str, str]] | None = None  # that differ from ROLES


# No shade of yellow is readable on white.
_DARK_YELLOW = "38;5;94"
_ORANGE = "38;5;130"
_LIGHT_ROLES = {"warning": ("", _DARK_YELLOW), "shell": ("1", _DARK_YELLOW), "chart2": ("", _DARK_YELLOW)}
_BLIND_ROLES = {"good": ("", "34"), "bad": ("", "33"), "error": ("1", "33"), "warning": ("", "35")}
_OWN_ROLES: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "light": _LIGHT_ROLES,
    "colour-blind": _BLIND_ROLES,
    "colour-blind-light": {
        **_LIGHT_ROLES,
        **_BLIND_ROLES,
        "bad": ("", _ORANGE),
        "error": ("1", _ORANGE),
    },
}
# Theme -> its colours for true-colour terminals and for those with 256 colours: an added line and its changed
# words, a removed line and its changed words, and text on them.
_FILLS: Mapping[str, tuple[tuple[str, ...], tuple[int, ...]]] = {
    "dark": (("#12301c", "#1f6135", "#3c161c", "#7a2533", "#dcdcdc"), (22, 28, 52, 88, 253)),
    "light": (("#dcf5e2", "#9fdfb0", "#fde3e3", "#f8b4b4", "#1f1f1f"), (194, 157, 224, 217, 235)),
    "colour-blind": (("#10284a", "#1d4f91", "#43290b", "#86520f", "#dcdcdc"), (17, 25, 58, 94, 253)),
    "colour-blind-light": (
        ("#dbe9ff", "#a3c8ff", "#ffe9cf", "#ffc883", "#1f1f1f"),
        (189, 153, 223, 216, 235),
    ),
}
ANSI = Palette()


def choose_palette(name: str, environ: Mapping[str, str], is_light: bool | None = None) -> Palette:
    """Return the palette of a theme, or ANSI if the terminal lacks its colours.

    `is_light` is the background that the terminal reported, None if it reported none.
    """
    if name == "auto":
        if is_light is None:
            is_light = _light_by_environment(environ)
        name = "light" if is_light else "dark"
    any_colour = environ.get("COLORTERM", "") in ("truecolor", "24bit")
    if name not in _FILLS or not (any_colour or "256" in environ.get("TERM", "")):
        return ANSI
    exact, indexed = _FILLS[name]
    line, words, old_line, old_words, text = exact if any_colour else [f"color({at})" for at in indexed]
    blind = name.startswith("colour-blind")
    return Palette(
        name=name,
        code="ansi_light" if name.endswith("light") else "ansi_dark",
        added=Fill(line, words),
        removed=Fill(old_line, old_words),
        on_fill=text,
        signs=("blue", "yellow") if blind else ("green", "red"),
        roles=_OWN_ROLES.get(name),
    )


def _light_by_environment(environ: Mapping[str, str]) -> bool:
    """Return whether COLORFGBG, which some terminals set, names a light background: 7, or 9 and above."""
    ground = environ.get("COLORFGBG", "").rpartition(";")[2]
    return ground.isdigit() and (int(ground) == 7 or int(ground) > 8)
