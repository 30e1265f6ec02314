"""Draw markdown with rich, as lines of ANSI text. Slow to import: loaded after the first paint."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import count
from typing import ClassVar, cast

from markdown_it import MarkdownIt
from markdown_it.common.normalize_url import normalizeLink, normalizeLinkText
from markdown_it.rules_block.table import escapedSplit
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import (
    BlockQuote,
    CodeBlock,
    Heading,
    HorizontalRule,
    ListItem,
    Markdown,
    MarkdownElement,
    TableElement,
)
from rich.padding import Padding
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text
from rich.theme import Theme as RichTheme
from wcwidth import iter_graphemes

from transcripts.patterns import lazy_pattern

from .code_colours import coloured
from .segment_lines import is_safe_link, segment_line
from .terminal_text import (
    CODE_TAB_CELLS,
    Theme,
    cell_width,
    escape_prose,
    expand_tabs,
    one_line,
    wrap,
    wrap_painted,
    wrapped_spans,
)

MIN_TABLE_COLUMN = 10  # cells, with the gap; in less a table shows its rows one below the other
MIN_LAYOUT_COLUMNS = 12  # below that text is only wrapped
MAX_LAYOUT_CHARS = 60_000  # the same beyond that: rich takes up to 2 s for as much
MIN_TEXT_COLUMNS = 6  # behind the indents of quotes and lists
_INDENTING = ("blockquote_open", "list_item_open")
# the punctuation of a sentence ends an address where it is none of ASCII
_BARE_ADDRESS = lazy_pattern(
    r"https?://[^\s<>\"'`\u2010-\u2027\u2030-\u205e\u00ab\u00bb\u3001-\u3003\u3008-\u301f\uff01-\uff0f"
    r"\uff1a-\uff1f\uff3b-\uff3d\uff5b-\uff65]{1,2000}"
)
_STYLES = RichTheme(
    {
        "markdown.h1": Style(bold=True, underline=True, color="magenta"),
        "markdown.h2": Style(bold=True, color="magenta"),
        "markdown.h3": Style(bold=True),
        "markdown.h4": Style(bold=True, italic=True),
        "markdown.code": Style(color="cyan"),
        "markdown.item.bullet": Style(),
        "markdown.item.number": Style(dim=True),
        "markdown.block_quote": Style(italic=True),
        "markdown.hr": Style(dim=True),
        "markdown.link": Style(underline=True),
    }
)


def draw_markdown(text: str, columns: int, theme: Theme) -> str:
    """The text drawn in `columns`, lines joined by newlines; control characters are shown, not sent."""
    safe = expand_tabs(escape_prose(text), CODE_TAB_CELLS)
    if columns < MIN_LAYOUT_COLUMNS or len(safe) > MAX_LAYOUT_CHARS:
        return "\n".join(wrap(safe, columns))
    document = _Document("", code_theme=theme.palette.code, hyperlinks=theme.links)
    # like rich's own, but HTML is text: the tags that a model writes about must not vanish
    document.parsed = _parsed(safe, theme.links)
    held = _HeldGraphemes(safe)
    for token in document.parsed:
        for child in token.children or ():
            child.content = held.hold(child.content)
    # rich leaves out what has no room behind its indents: a line that is too wide for the terminal is
    # wrapped again
    room = max(columns, _deepest_indent(document.parsed) + MIN_TEXT_COLUMNS)
    lines = map(held.restore, _draw(document, room, theme))
    return "\n".join(row for line in lines for row in wrap_painted(line, columns))


class _HeldGraphemes:
    """The graphemes held back from rich, so that it counts cells as `cell_width` does.

    While rich lays out, each stands as one private character of one cell, as often as it takes cells.
    """

    def __init__(self, text: str) -> None:
        self._unused = (char for char in map(chr, range(0x100000, 0x10FFFE)) if char not in text)
        self._held: dict[str, str] = {}  # a grapheme, and the character that stands for it
        self._seen = Counter[str]()  # how often each of those came back

    def hold(self, text: str) -> str:
        if cell_width(text) == cell_len(text):
            return text
        return "".join(map(self._run, iter_graphemes(text)))

    def _run(self, grapheme: str) -> str:
        width = cell_width(grapheme)
        if width == cell_len(grapheme):
            return grapheme
        if grapheme not in self._held:
            self._held[grapheme] = next(self._unused)
        return self._held[grapheme] * width

    def restore(self, line: str) -> str:
        """The next line with the graphemes; one that rich broke stands where it began."""
        for grapheme, char in self._held.items():
            before = self._seen[char]
            width = cell_width(grapheme)
            *pieces, end = line.split(char)
            self._seen[char] += len(pieces)
            starts = (grapheme if at % width == 0 else "" for at in count(before))
            line = "".join(piece + start for piece, start in zip(pieces, starts, strict=False)) + end
        return line


def _parsed(text: str, links: bool) -> list[Token]:
    """The text as tokens of which everything is shown; within quotes a line ends where it ended.

    Definitions of references are text: an answer is drawn piece by piece, and the one that uses them is
    drawn before they come.
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


def _deepest_indent(tokens: list[Token]) -> int:
    """The most cells that quotes and lists take before a line of text, rather too many than too few."""
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
    """Put what a table's row has more than columns back into its last cell: `a || b` there is split too."""
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
    """The tokens of a line, where an image is a link, and an address that no link holds is text.

    An image within a link is only its words.
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
                link = Token("link_open", "a", 1, attrs={"href": source})
                yield from _shown_link(link, [alternative], Token("link_close", "a", -1), links)
        else:
            # what stands for a character (`&#x202e;`) may stand for one that is not to be sent
            token.content = escape_prose(token.content)
            if opened is not None:
                words.append(token)
            elif links and token.type == "text":
                yield from _with_bare_addresses(token.content)
            else:
                yield token


def _with_bare_addresses(text: str) -> Iterator[Token]:
    """A text in which addresses are links: a terminal does not find one that goes on in another row."""
    at = 0
    for found in _BARE_ADDRESS.finditer(text):
        address = found[0].rstrip(".,;:!?")
        address = address if "(" in address else address.rstrip(")]}.,;:!?")
        target = address if is_safe_link(address) else normalizeLink(address)
        if is_safe_link(target):
            link = Token("link_open", "a", 1, attrs={"href": target})
            yield from (_text(text[at : found.start()]), link, _text(address), Token("link_close", "a", -1))
            at = found.start() + len(address)
    yield _text(text[at:])


def _shown_link(opened: Token, words: list[Token], closed: Token, links: bool) -> Iterator[Token]:
    """A link behind its words where the terminal opens it, else followed by its address."""
    href = str(opened.attrs.get("href", ""))
    shown = one_line(normalizeLinkText(href))
    said = "".join(word.content for word in words)
    if links and is_safe_link(href):
        yield from (opened, *(words if said else [_text(shown)]), closed)
    elif said.strip() in (href, shown, shown.removeprefix("mailto:")):
        yield from words
    elif links or not said:
        yield from (*words, _text(f" ({shown})" if said else f"({shown})"))
    else:
        opened.attrs["href"] = shown
        yield from (opened, *words, closed)


def _text(content: str) -> Token:
    return Token("text", "", 0, content=content)


def _draw(body: RenderableType, columns: int, theme: Theme) -> list[str]:
    """The lines of the drawing, without blank ones at both ends."""
    console = _console(theme.links)
    drawn = console.render_lines(body, console.options.update(width=columns), pad=False)
    lines = [segment_line(line, theme) for line in drawn]
    shown = [at for at, line in enumerate(lines) if line]
    return lines[shown[0] : shown[-1] + 1] if shown else []


@cache
def _console(links: bool) -> Console:
    """Lays out; writes nothing. Addresses are dim; where texts are links, those are underlined instead."""
    styles = RichTheme({**_STYLES.styles, "markdown.link_url": Style(underline=links, dim=not links)})
    return Console(file=io.StringIO(), width=80, height=100, legacy_windows=False, theme=styles, _environ={})


class _LeftHeading(Heading):
    """A heading at the left margin, without rich's box."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        yield self.text


class _BareCode(CodeBlock):
    """A code block without a background, indented by two, so that it can be copied, below its language.

    Its lines are wrapped here: rich loses parts of joined emoji when it wraps them.
    """

    info = ""  # all that stands behind the opening of the fence

    @classmethod
    def create(cls, markdown: Markdown, token: Token) -> _BareCode:
        block = cls(token.info.partition(" ")[0] or "text", markdown.code_theme)
        block.info = escape_prose(token.info).strip()
        return block

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip("\n")
        drawn = coloured(code, self.lexer_name, str(self.theme))
        room = options.max_width - 2
        lines = drawn.split("\n")
        rows = [line[begin:end] for line in lines for begin, end in wrapped_spans(line.plain, room)]
        if self.info not in ("", "text"):
            named = wrap(f"── {self.info}", options.max_width)
            yield Text("\n".join(named), style="dim", no_wrap=True, overflow="ignore")
        yield Padding(Text("\n", no_wrap=True, overflow="ignore").join(rows), (0, 0, 0, 2))


class _BarredQuote(BlockQuote):
    """A quote with a bar before each of its rows, those between its paragraphs too."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        bar = Segment("│ ", Style(dim=True))
        inner = options.update(width=max(options.max_width - 2, 1))
        for at, element in enumerate(cast("Iterable[RenderableType]", self.elements)):
            yield from (bar, Segment("\n")) if at else ()
            for line in console.render_lines(element, inner, style=self.style, pad=False):
                yield from (bar, *line, Segment("\n"))


class _ThinRule(HorizontalRule):
    """A rule over the whole width."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text("─" * options.max_width, style="dim", no_wrap=True)


class _Item(ListItem):
    """A list item with a dot after its number."""

    def render_number(
        self, console: Console, options: ConsoleOptions, number: int, last_number: int
    ) -> RenderResult:
        wide = len(str(last_number)) + 3
        mark = Segment(f"{number}. ".rjust(wide), console.get_style("markdown.item.number", default="none"))
        blank = Segment(" " * wide)
        body = console.render_lines(self.elements, options.update(width=options.max_width - wide))
        for first, line in enumerate(body):
            yield blank if first else mark
            yield from line
            yield Segment("\n")


class _OpenTable(TableElement):
    """A table with rules between its columns only; where it is too narrow for them, its rows one by one."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        headings = self.header.row.cells if self.header is not None and self.header.row is not None else []
        rows = (
            [[cell.content for cell in row.cells] for row in self.body.rows] if self.body is not None else []
        )
        if options.max_width < len(headings) * MIN_TABLE_COLUMN:
            yield _stacked([cell.content for cell in headings], rows)
            return
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, collapse_padding=True)
        for cell in headings:
            heading = cell.content.copy()
            heading.stylize("bold")
            table.add_column(heading, justify=cell.justify, overflow="fold")
        for row in rows:
            table.add_row(*row)
        yield table


def _stacked(headings: list[Text], rows: list[list[Text]]) -> Text:
    """Each cell on a line of its own behind its heading, a blank line between rows."""
    lines = []
    for row in rows:
        lines += [
            Text.assemble((heading.plain, "bold"), ": ", cell)
            for heading, cell in zip(headings, row, strict=False)
        ]
        lines.append(Text())
    return Text("\n").join(lines[:-1] or [Text(heading.plain, "bold") for heading in headings])


class _Document(Markdown):
    """Markdown with the elements above."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _LeftHeading,
        "fence": _BareCode,
        "code_block": _BareCode,
        "blockquote_open": _BarredQuote,
        "hr": _ThinRule,
        "list_item_open": _Item,
        "table_open": _OpenTable,
    }
