"""Colour code by its language if that is quick.

Slow to import, because rich is: loaded after the first paint.
"""

from __future__ import annotations

from rich.style import Style
from rich.syntax import ANSI_LIGHT, ANSISyntaxTheme, Syntax
from rich.text import Text

from transcripts.export import is_quickly_coloured

_SEEN_ON_WHITE = {"yellow": Style(color="color(94)")}
_ON_WHITE = ANSISyntaxTheme(
    {
        token: _SEEN_ON_WHITE.get(style.color.name if style.color else "", style)
        for token, style in ANSI_LIGHT.items()
    }
)


def coloured(code: str, *, language: str, theme: str) -> Text:
    """Colour code if that is known to be quick. The result has the same lines."""
    if not is_quickly_coloured(code, language):
        return Text(code, no_wrap=True)
    colours = _ON_WHITE if theme == "ansi_light" else theme
    drawn = Syntax(code, language, theme=colours, background_color="default").highlight(code)
    if not code.endswith("\n"):
        drawn.remove_suffix("\n")  # the lexer added it
    drawn.style = ""
    drawn.spans = [span for span in drawn.spans if span.style != "on default"]  # the background is not ours
    return drawn if drawn.plain == code else Text(code, no_wrap=True)
