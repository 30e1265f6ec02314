"""Parse markdown into tokens that hide nothing: HTML as text, images and addresses as links.

Slow to import, because markdown-it is: loaded after the first paint.
"""

from __future__ import annotations

from collections.abc import Iterator

from markdown_it import MarkdownIt
from markdown_it.common.normalize_url import normalizeLink, normalizeLinkText
from markdown_it.rules_block.table import escapedSplit
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

from transcripts.patterns import lazy_pattern

from .segment_lines import is_safe_link
from .terminal_text import escape_prose, one_line

_INDENTING = ("blockquote_open", "list_item_open")
# an address ends at non-ASCII punctuation of sentences
_BARE_ADDRESS = lazy_pattern(
    r"https?://[^\s<>\"'`\u2010-\u2027\u2030-\u205e\u00ab\u00bb\u3001-\u3003\u3008-\u301f\uff01-\uff0f"
    r"\uff1a-\uff1f\uff3b-\uff3d\uff5b-\uff65]{1,2000}"
)


def parsed_markdown(text: str, links: bool) -> list[Token]:
    """Parse the text into tokens that hide nothing; quotes keep their line breaks.

    Definitions of references are text: an answer is drawn piece by piece, and the text that uses a reference
    is drawn before its definition arrives.
    """
    parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"]).disable("reference")
    parser.core.ruler.before("inline", "whole_rows", _keep_whole_rows)
    tokens = parser.parse(text)
    depth = 0
    for token in tokens:
        depth += token.nesting if token.type.startswith("blockquote") else 0
        token.children = token.children and [*_shown_inline(token.children, links)]
        for child in token.children or () if depth else ():
            child.type = "hardbreak" if child.type == "softbreak" else child.type
    return tokens


def deepest_indent(tokens: list[Token]) -> int:
    """Return an upper bound of the cells that quotes and lists take before a line."""
    deepest = 0
    indents = [0]
    for token in tokens:
        if token.nesting == 1:
            numbers = len(str(token.attrs.get("start", ""))) + 2 if token.type == "ordered_list_open" else 0
            indents.append(indents[-1] + numbers + (3 if token.type in _INDENTING else 0))
        elif token.nesting == -1:
            indents.pop()
        deepest = max(deepest, indents[-1])
    return deepest


def _keep_whole_rows(state: StateCore) -> None:
    """Join surplus cells of a table's row into its last one, such as those of a split `a || b`."""
    lines = state.src.split("\n")
    last = None
    columns = 0
    cells = 0
    for token in state.tokens:
        if token.type == "tr_open":
            cells = 0
        elif token.type in ("th_open", "td_open"):
            cells += 1
        elif token.type == "inline":
            last = token
        elif token.type == "thead_close":
            columns = cells
        elif token.type == "tr_close" and cells == columns and last is not None and last.map:
            found = escapedSplit(lines[last.map[0]].lstrip(" >").removeprefix("|").rstrip().removesuffix("|"))
            if len(found) > columns:
                last.content = "|".join(found[columns - 1 :]).strip()


def _shown_inline(tokens: list[Token], links: bool) -> Iterator[Token]:
    """Yield the tokens of a line, with images as links; bare addresses are linked if the terminal has links.

    An image in a link is replaced by its text.
    """
    opened: Token | None = None
    words: list[Token] = []
    for token in tokens:
        if token.type == "link_open":
            opened = token
            words = []
        elif token.type == "link_close" and opened is not None:
            yield from _shown_link(opened, words, token, links)
            opened = None
        elif token.type == "image":
            source = str(token.attrs.get("src", ""))
            alternative = _text(escape_prose(token.content) or source)
            if opened is not None:
                words.append(alternative)
            else:
                yield from _shown_link(_link_open(source), [alternative], _link_close(), links)
        else:
            # a character reference (`&#x202e;`) may stand for a character that must be escaped
            token.content = escape_prose(token.content)
            if opened is not None:
                words.append(token)
            elif links and token.type == "text":
                yield from _with_bare_addresses(token.content)
            else:
                yield token


def _with_bare_addresses(text: str) -> Iterator[Token]:
    """Yield a text with its addresses as links, since a terminal does not find one that is wrapped."""
    at = 0
    for found in _BARE_ADDRESS.finditer(text):
        address = found[0].rstrip(".,;:!?")
        address = address if "(" in address else address.rstrip(")]}.,;:!?")
        target = address if is_safe_link(address) else normalizeLink(address)
        if is_safe_link(target):
            yield from (_text(text[at : found.start()]), _link_open(target), _text(address), _link_close())
            at = found.start() + len(address)
    yield _text(text[at:])


def _shown_link(opened: Token, words: list[Token], closed: Token, links: bool) -> Iterator[Token]:
    """Yield a link, followed by its address if the terminal does not open links."""
    href = str(opened.attrs.get("href", ""))
    shown = one_line(normalizeLinkText(href))
    label = "".join(word.content for word in words)
    if links and is_safe_link(href):
        yield from (opened, *(words if label else [_text(shown)]), closed)
    elif label.strip() in (href, shown, shown.removeprefix("mailto:")):
        yield from words
    elif links or not label:
        yield from (*words, _text(f" ({shown})" if label else f"({shown})"))
    else:
        opened.attrs["href"] = shown
        yield from (opened, *words, closed)


def _text(content: str) -> Token:
    return Token("text", tag="", nesting=0, content=content)


def _link_open(address: str) -> Token:
    return Token("link_open", tag="a", nesting=1, attrs={"href": address})


def _link_close() -> Token:
    return Token("link_close", tag="a", nesting=-1)
