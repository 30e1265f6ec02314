"""Draw markdown with rich, as lines of ANSI text. Slow to import: loaded after the first paint."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable
from functools import cache
from itertools import count
from typing import ClassVar, cast

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

from .code_colours import coloured
from .markdown_tokens import deepest_indent, parsed_markdown
from .segment_lines import segment_line
from .terminal_text import (
    CODE_TAB_CELLS,
    Theme,
    cell_width,
    escape_prose,
    expand_tabs,
    wrap,
    wrap_painted,
    wrapped_spans,
)

MIN_LAYOUT_COLUMNS = 12  # on a narrower screen text is only wrapped
MAX_LAYOUT_CHARS = 60_000  # a longer text is only wrapped: rich takes up to 2 s for this much
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
    """Draw the text in `columns`, lines joined by newlines; control characters are shown as symbols."""
    safe = expand_tabs(escape_prose(text), CODE_TAB_CELLS)
    if columns < MIN_LAYOUT_COLUMNS or len(safe) > MAX_LAYOUT_CHARS:
        return "\n".join(wrap(safe, columns))
    document = _Document("", code_theme=theme.palette.code, hyperlinks=theme.links)
    # unlike in rich, HTML is text: tags that a model writes about must not vanish
    document.parsed = parsed_markdown(safe, theme.links)
    held = _HeldGraphemes(safe)
    for token in document.parsed:
        for child in token.children or ():
            child.content = held.hold(child.content)
    # rich drops text that has no room after its indents, so it gets enough columns; lines that are then too
    # wide for the terminal are wrapped again
    room = max(columns, deepest_indent(document.parsed) + 6)
    lines = map(held.restore, _draw(document, room, theme))
    return "\n".join(row for line in lines for row in wrap_painted(line, columns))


class _HeldGraphemes:
    """The graphemes that rich would measure differently from `cell_width`.

    During the layout, each is replaced by a private character, repeated once for each of its cells.
    """

    def __init__(self, text: str) -> None:
        self._unused = (char for char in map(chr, range(0x100000, 0x10FFFE)) if char not in text)
        self._held: dict[str, str] = {}  # grapheme -> its replacement
        self._seen = Counter[str]()  # occurrences of each replacement so far

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
        """Return the next line with its graphemes; one that rich broke is put at its start."""
        for grapheme, char in self._held.items():
            before = self._seen[char]
            width = cell_width(grapheme)
            *pieces, end = line.split(char)
            self._seen[char] += len(pieces)
            starts = (grapheme if at % width == 0 else "" for at in count(before))
            line = "".join(piece + start for piece, start in zip(pieces, starts, strict=False)) + end
        return line


def _draw(body: RenderableType, columns: int, theme: Theme) -> list[str]:
    """Draw with rich, and return the lines without blank lines at both ends."""
    console = _console(theme.links)
    drawn = console.render_lines(body, console.options.update(width=columns), pad=False)
    lines = [segment_line(line, theme) for line in drawn]
    shown = [at for at, line in enumerate(lines) if line]
    return lines[shown[0] : shown[-1] + 1] if shown else []


@cache
def _console(links: bool) -> Console:
    """Return a console that writes nothing. Addresses are dim, link texts underlined."""
    styles = RichTheme({**_STYLES.styles, "markdown.link_url": Style(underline=links, dim=not links)})
    return Console(file=io.StringIO(), width=80, height=100, legacy_windows=False, theme=styles, _environ={})


class _LeftHeading(Heading):
    """A heading at the left margin, without rich's box."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        yield self.text


class _BareCode(CodeBlock):
    """A code block below its language, without a background and indented by two, so that it can be copied.

    Its lines are wrapped here, because rich loses parts of joined emoji when it wraps them.
    """

    info = ""  # the text after the opening of the fence

    @classmethod
    def create(cls, markdown: Markdown, token: Token) -> _BareCode:
        block = cls(token.info.partition(" ")[0] or "text", markdown.code_theme)
        block.info = escape_prose(token.info).strip()
        return block

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip("\n")
        drawn = coloured(code, language=self.lexer_name, theme=str(self.theme))
        room = options.max_width - 2
        lines = drawn.split("\n")
        rows = [line[begin:end] for line in lines for begin, end in wrapped_spans(line.plain, room)]
        if self.info not in ("", "text"):
            named = wrap(f"── {self.info}", options.max_width)
            yield Text("\n".join(named), style="dim", no_wrap=True, overflow="ignore")
        yield Padding(Text("\n", no_wrap=True, overflow="ignore").join(rows), (0, 0, 0, 2))


class _BarredQuote(BlockQuote):
    """A quote with a bar before each of its rows, including those between paragraphs."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        bar = Segment("│ ", Style(dim=True))
        inner = options.update(width=max(options.max_width - 2, 1))
        for at, element in enumerate(cast("Iterable[RenderableType]", self.elements)):
            yield from (bar, Segment("\n")) if at else ()
            for line in console.render_lines(element, inner, style=self.style, pad=False):
                yield from (bar, *line, Segment("\n"))


class _ThinRule(HorizontalRule):
    """A rule across the whole width."""

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
    """A table with rules between its columns only; on a narrow screen, its cells one by one."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        headings = self.header.row.cells if self.header is not None and self.header.row is not None else []
        rows = (
            [[cell.content for cell in row.cells] for row in self.body.rows] if self.body is not None else []
        )
        if options.max_width < len(headings) * 10:  # cells, with the gap; a narrower table is drawn as lines
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
    """Draw each cell on its own line after its heading, with a blank line between rows."""
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
