"""Draw markdown with rich, as lines of ANSI text. Slow to import: loaded after the first paint."""

from __future__ import annotations

import io
from functools import cache
from typing import ClassVar

from markdown_it import MarkdownIt
from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import CodeBlock, Heading, ListItem, Markdown, MarkdownElement, TableElement
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
        "markdown.h1": Style(bold=True, underline=True),
        "markdown.h2": Style(bold=True),
        "markdown.h3": Style(bold=True),
        "markdown.h4": Style(bold=True, italic=True),
        "markdown.code": Style(color="cyan"),
        "markdown.item.bullet": Style(),
        "markdown.item.number": Style(dim=True),
        "markdown.block_quote": Style(italic=True, dim=True),
        "markdown.hr": Style(dim=True),
        "markdown.link": Style(underline=True),
        "markdown.link_url": Style(dim=True),
    }
)


def draw_markdown(text: str, columns: int, theme: Theme) -> str:
    """The text drawn in `columns`, lines joined by newlines; control characters are shown, not sent."""
    safe = escape_prose(text).expandtabs(4)
    if columns < MIN_LAYOUT_COLUMNS or len(safe) > MAX_LAYOUT_CHARS:
        return "\n".join(wrap(safe, columns))
    document = _Document("", hyperlinks=False)
    # like rich's own, but HTML is text: the tags that a model writes about must not vanish
    document.parsed = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"]).parse(safe)
    # rich counts joined emoji as one: a line that is too wide for other terminals is wrapped again
    lines = _draw(document, columns, theme)
    return "\n".join(row for line in lines for row in wrap_painted(line, columns))


def _draw(body: RenderableType, columns: int, theme: Theme) -> list[str]:
    """The lines of the drawing, without blank ones at both ends."""
    console = _console()
    drawn = console.render_lines(body, console.options.update(width=columns), pad=False)
    lines = [segment_line(line, theme) for line in drawn]
    shown = [at for at, line in enumerate(lines) if line]
    return lines[shown[0] : shown[-1] + 1] if shown else []


@cache
def _console() -> Console:
    """Lays out; writes nothing."""
    return Console(file=io.StringIO(), width=80, height=100, legacy_windows=False, theme=_STYLES, _environ={})


class _LeftHeading(Heading):
    """A heading at the left margin, without rich's box."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        yield self.text


class _BareCode(CodeBlock):
    """A code block without a background, indented by two, so that it can be copied.

    Its lines are wrapped here: rich loses parts of joined emoji when it wraps them.
    """

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip("\n")
        drawn = coloured(code, self.lexer_name, "ansi_dark")
        room = options.max_width - 2
        lines = drawn.split("\n")
        rows = [line[begin:end] for line in lines for begin, end in wrapped_spans(line.plain, room)]
        yield Padding(Text("\n", no_wrap=True, overflow="ignore").join(rows), (0, 0, 0, 2))


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
        "list_item_open": _Item,
        "table_open": _OpenTable,
    }
