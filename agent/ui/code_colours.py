"""Colour code by its language, where that is quick.

Slow to import, as rich is: loaded after the first paint.
"""

from __future__ import annotations

from pathlib import PurePath

from rich.style import Style
from rich.syntax import ANSI_LIGHT, ANSISyntaxTheme, Syntax
from rich.text import Text

from tools.files.text_encoding import word_set

# Code beyond these limits, or in another language, has no colours: some lexers take time without end for text
# that was made for that. Those of these languages take at most half a second within the limits.
MAX_COLOURED_CHARS = 10_000
MAX_COLOURED_LINE_CHARS = 500
COLOURED_LANGUAGES = word_set(
    "asm bash batch c c++ clojure cmake console cpp csharp css dart diff docker dockerfile elixir erlang fish"
    " fsharp go graphql groovy haskell hcl html http ini java javascript jinja js json jsx julia kotlin latex"
    " lua make makefile markdown md nasm nginx nim objc ocaml perl php powershell properties proto protobuf"
    " ps1 pycon python python3 r rst ruby rust scala scss sh shell sql svelte swift terraform tex toml ts tsx"
    " typescript vim vue xml yaml zig zsh"
)
# Endings of files that are no names of their languages.
_ENDINGS = {
    "bat": "batch", "cc": "cpp", "cfg": "ini", "clj": "clojure", "cs": "csharp", "cxx": "cpp",
    "erl": "erlang", "ex": "elixir", "exs": "elixir", "h": "c", "hpp": "cpp", "hs": "haskell",
    "htm": "html", "jl": "julia",
    "kt": "kotlin", "kts": "kotlin", "mjs": "js", "ml": "ocaml", "mk": "make", "pl": "perl", "py": "python",
    "pyi": "python", "rb": "ruby", "rs": "rust", "tf": "terraform", "yml": "yaml",
}  # fmt: skip

_SEEN_ON_WHITE = {"yellow": Style(color="color(94)")}
_ON_WHITE = ANSISyntaxTheme(
    {
        token: _SEEN_ON_WHITE.get(style.color.name if style.color else "", style)
        for token, style in ANSI_LIGHT.items()
    }
)


def language_of(file_name: str) -> str:
    """The language of a file by its name, "text" if it has none that is coloured."""
    path = PurePath(file_name.lower())
    ending = path.suffix.removeprefix(".") or path.name
    name = _ENDINGS.get(ending, ending)
    return name if name in COLOURED_LANGUAGES else "text"


def coloured(code: str, language: str, theme: str) -> Text:
    """The code as it is, in colours where that is known to be quick. The text has the same lines."""
    short = len(code) <= MAX_COLOURED_CHARS and max(map(len, code.split("\n"))) <= MAX_COLOURED_LINE_CHARS
    if not short or language.lower() not in COLOURED_LANGUAGES:
        return Text(code, no_wrap=True)
    colours = _ON_WHITE if theme == "ansi_light" else theme
    drawn = Syntax(code, language, theme=colours, background_color="default").highlight(code)
    if not code.endswith("\n"):
        drawn.remove_suffix("\n")  # which the lexer added
    drawn.style = ""
    drawn.spans = [span for span in drawn.spans if span.style != "on default"]  # the background is not ours
    return drawn if drawn.plain == code else Text(code, no_wrap=True)
