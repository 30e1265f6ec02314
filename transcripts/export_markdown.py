"""What a model wrote, as HTML: its markdown is drawn, its HTML stays text, and nothing is fetched.

An image of a markdown text becomes a link, which is followed only when somebody follows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from html import escape

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict


class _Paper(RendererHTML):
    """Draws images as links."""

    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        token = tokens[idx]
        words = self.renderInlineAsText(token.children or [], options, env) or "image"
        return f'<a href="{escape(str(token.attrs.get("src", "")))}">{escape(words)}</a>'


@cache
def _reader() -> MarkdownIt:
    rules = ["table", "strikethrough"]
    return MarkdownIt("commonmark", {"html": False}, renderer_cls=_Paper).enable(rules)


def drawn(words: str) -> str:
    """Markdown as HTML. `words` are without secrets and invisible characters, not escaped."""
    html: str = _reader().render(words)
    return f"<div class=md>{html}</div>"
