"""Draw markdown with rich, as lines of ANSI text. Slow to import: loaded after the first paint."""

from __future__ import annotations

import io
from collections.abc import Iterable
from functools import cache
from typing import ClassVar, cast

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich import box
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

from .code_colours import coloured
from .segment_lines import segment_line
from .terminal_text import Theme, escape_prose, wrap, wrap_painted, wrapped_spans

MIN_TABLE_COLUMN = 10  # cells, with the gap; in less a table shows its rows one below the other
MIN_LAYOUT_COLUMNS = 12  # below that text is only wrapped
MAX_LAYOUT_CHARS = 60_000  # the same beyond that: rich takes up to 2 s for as much
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
    safe = escape_prose(text).expandtabs(4)
    if columns < MIN_LAYOUT_COLUMNS or len(safe) > MAX_LAYOUT_CHARS:
        return "\n".join(wrap(safe, columns))
    document = _Document("", code_theme=theme.palette.code, hyperlinks=theme.links)
    # like rich's own, but HTML is text: the tags that a model writes about must not vanish
    document.parsed = _parsed(safe)
    # rich counts joined emoji as one: a line that is too wide for other terminals is wrapped again
    lines = _draw(document, columns, theme)
    return "\n".join(row for line in lines for row in wrap_painted(line, columns))


def _parsed(text: str) -> list[Token]:
    """The text as tokens; within quotes a line ends where it ended."""
    tokens = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"]).parse(text)
    depth = 0
    for token in tokens:
        depth += token.nesting if token.type.startswith("blockquote") else 0
        for child in token.children or () if depth else ():
            child.type = "hardbreak" if child.type == "softbreak" else child.type
    return tokens


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

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip("\n")
        drawn = coloured(code, self.lexer_name, str(self.theme))
        room = options.max_width - 2
        lines = drawn.split("\n")
        rows = [line[begin:end] for line in lines for begin, end in wrapped_spans(line.plain, room)]
        if self.lexer_name not in ("", "text"):
            yield Text(f"── {self.lexer_name}"[: options.max_width], style="dim", no_wrap=True)
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
