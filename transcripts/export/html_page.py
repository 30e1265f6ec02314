"""Render a session as one self-contained HTML page that works on a phone, in dark mode and offline.

The page's content security policy forbids network access, and every script but its own. Calls, results and
diffs can be collapsed. A chart shows the size of the context over time with a mark for each compaction, and
the text can be searched. The parts that do not depend on the session are in page.html, page.css and page.js.
"""

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from hashlib import sha256
from html import escape
from itertools import pairwise
from pathlib import Path
from string import Template

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]

from transcripts.patterns import lazy_pattern

from ..facts import Clear, Compacted, Edit, Failed, Fold, Opened, Reply, Result, Unthink, User
from ..folding import Folded
from ..invisible import INVISIBLE, is_harmless
from ..messages import Block, ImageBlock, TextBlock, ToolUseBlock, is_added
from ..render_text import block_text, content_text, session_title, shortened, utc_time
from ..wording import pluralize
from .code_languages import is_quickly_coloured
from .formats import ExportedSession
from .markdown import began_at
from .size_chart import compaction_words, size_chart
from .unified_diff import DiffRow, read_diff

Words = list[tuple[str, str]]  # a line of code as (kind, text)
# The lexers' token types -> their CSS classes.
KIND_BY_TOKEN = {
    "Token.Comment": "rem", "Token.Keyword": "key", "Token.Operator.Word": "key", "Token.Name.Tag": "key",
    "Token.Name.Builtin": "lib", "Token.Name.Exception": "lib", "Token.Name.Attribute": "lib",
    "Token.Name.Function": "def", "Token.Name.Class": "def", "Token.Name.Decorator": "lib",
    "Token.Literal.String": "str", "Token.Literal.Number": "num",
}  # fmt: skip
PROGRAM_LABEL = "Added by makeroom"
MAX_LABEL_CHARS = 120
_UNSEEN_IN_PAGE = lazy_pattern(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{INVISIBLE}]")
_BASE64 = lazy_pattern("[A-Za-z0-9+/=]+")
_IMAGE_TYPES = {"image/png", "image/jpeg", "image/gif", "image/webp"}


def session_page(session: ExportedSession) -> Iterator[str]:
    """Yield the whole page as HTML."""
    page, style, script = (
        Path(__file__).with_name(f"page.{suffix}").read_text("utf-8") for suffix in ("html", "css", "js")
    )
    folded = session.folded
    values = {
        "title": _html(session_title(folded.facts, session.sid)),
        "about": _about(folded),
        "style": style,
        "script": script,
        "digest": _digest(f"\n{script}"),
    }
    head, _, tail = page.partition("$main")
    yield Template(head).substitute(values)
    yield size_chart(folded)
    yield from _articles(session)
    yield Template(tail).substitute(values)


def _digest(script: str) -> str:
    """Return the source that allows this one script in a content security policy."""
    return f"sha256-{b64encode(sha256(script.encode()).digest()).decode()}"


def _html(text: str) -> str:
    """Return text as HTML, with markup escaped and invisible characters shown by number."""
    return escape(_visible(text))


def _visible(text: str) -> str:
    return _UNSEEN_IN_PAGE.sub(_number_of, text.replace("\r\n", "\n")).encode("utf-8", "replace").decode()


def _number_of(found: re.Match[str]) -> str:
    return found[0] if is_harmless(found) else f"⟨U+{ord(found[0]):04X}⟩"


def _about(folded: Folded) -> str:
    if (opened := folded.opened) is None:
        return ""
    prompts = sum(isinstance(fact, User) and fact.source == "user" for fact in folded.facts)
    numbers = {"prompt": prompts, "compaction": len(folded.compactions)}
    counts = ", ".join(pluralize(number, what) for what, number in numbers.items())
    counts += f" ({undone} undone)" if (undone := len(folded.undone)) else ""
    place = f"{_html(opened.model)} in <code>{_html(opened.folder)}</code>"
    return f"<p class=about>{place}, {utc_time(began_at(folded))}, {counts}</p>"


def _articles(session: ExportedSession) -> Iterator[str]:
    folded = session.folded
    replies: dict[int, Reply] = {}
    for fact in session.facts:
        match fact:
            case User():
                speaker = "You" if fact.source == "user" else PROGRAM_LABEL
                yield _article("user", fact, speaker, map(_block, fact.blocks))
            case Reply():
                replies[fact.seq] = fact
                yield _article("reply", fact, "Model", _reply_blocks(fact))
            case Result():
                yield _result(fact, replies.get(fact.of))
            case Compacted():
                yield _compaction(fact, folded)
            case Failed():
                note = f"<p>{_html(f'{fact.what} failed: {fact.reason}')}</p>"
                yield _article("note", fact, "Note", [note])
            case Opened() if fact is not folded.facts[0]:
                yield _article("note", fact, "Note", [f"<p>reopened with {_html(fact.model)}</p>"])


def _article(kind: str, fact: User | Reply | Failed | Opened, speaker: str, inside: Iterable[str]) -> str:
    time = f" <time>{utc_time(fact.ts)}</time>" if fact.ts else ""  # 0 in recordings without times
    head = f"<h2>{speaker} <a href=#r{fact.seq}>r{fact.seq}</a>{time}</h2>"
    return f"<article class={kind} id=r{fact.seq}>{head}{''.join(inside)}</article>"


def _reply_blocks(fact: Reply) -> Iterator[str]:
    for block in fact.blocks:
        if isinstance(block, ToolUseBlock):
            yield _details(_call_label(block), _pre(block_text(block)), "call")
        elif block.is_thinking:
            if thinking := block_text(block):
                yield _details("thinking", _pre(thinking), "thinking")
        elif isinstance(block, TextBlock):
            shown = _visible(block.text)
            short = len(shown) <= 30_000  # crafted text of that size takes markdown-it a second
            yield (
                f"<div class=md>{_markdown().render(shown)}</div>" if short else f"<pre>{_html(shown)}</pre>"
            )
        else:
            yield _block(block)
    if not fact.complete:
        yield f"<p class=cut>(interrupted) {_html(fact.partial[:2_000])}</p>"


class _ImagesAsLinks(RendererHTML):
    """A renderer that shows images as links, so that nothing is fetched without a click."""

    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        token = tokens[idx]
        label = self.renderInlineAsText(token.children or [], options, env) or "image"
        return f'<a href="{escape(str(token.attrs.get("src", "")))}">{escape(label)}</a>'


@cache
def _markdown() -> MarkdownIt:
    """Return a Markdown parser that escapes HTML."""
    parser = MarkdownIt("commonmark", {"html": False}, renderer_cls=_ImagesAsLinks)
    return parser.enable(["table", "strikethrough"])


def _block(block: Block) -> str:
    """Render a block of a prompt or a result; makeroom's own context is collapsed and labelled."""
    if is_added(block):
        return _details(PROGRAM_LABEL, _pre(block_text(block)), "about")
    if isinstance(block, ImageBlock) and block.media_type in _IMAGE_TYPES and _BASE64.fullmatch(block.data):
        return f'<img alt="image" src="data:{block.media_type};base64,{block.data}">'
    text = block_text(block)
    return f"<p>{_html(text.strip())}</p>" if isinstance(block, TextBlock) else _pre(text)


def _call_label(use: ToolUseBlock) -> str:
    """Return the tool and its first string argument (a path or a command) on one line."""
    first = next((value for value in use.input.values() if isinstance(value, str)), "")
    return f"{use.name} {' '.join(first.split())[:MAX_LABEL_CHARS]}"


def _result(fact: Result, reply: Reply | None) -> str:
    """Render a result, labelled with its call, or with its first words if the call was lost."""
    kind = "error" if fact.error else "result"
    inside = []
    if diff := fact.human.diff:
        inside.append(f"<pre class=diff>{''.join(_diff_lines(diff))}</pre>")
    inside += [_block(block) for block in fact.content if isinstance(block, ImageBlock)]
    text = content_text(tuple(block for block in fact.content if not isinstance(block, ImageBlock)))
    inside.append(_pre(text))
    if (stored := fact.stored) is not None:
        inside.append(f"<p class=about>full output: {_html(stored.path)}, {stored.size:,} bytes</p>")
    use = fact.call_in(reply)
    label = f"of {_call_label(use)}" if use is not None else " ".join(text[:400].split())[:MAX_LABEL_CHARS]
    body = _details(f"{kind} {label}", "".join(inside), kind, is_open=bool(diff))
    return f"<article class={kind} id=r{fact.seq}>{body}</article>"


def _diff_lines(diff: str) -> Iterator[str]:
    """Yield the name of the file and the numbered rows of its diff, with changed words marked."""
    lines = shortened(diff).splitlines()
    read = read_diff(lines).marked()
    digits = max((len(str(row.number)) for row in read.rows if row.number), default=1)
    if read.name:
        yield f'<span class="at">{_html(read.name)}\n</span>'
    language = read.language
    for row, words in zip(read.rows, read.by_side(lambda code: _words(code, language)), strict=True):
        kind = {"+": "add", "-": "del", "@": "at"}.get(row.sign, "same")
        margin = f"<i>{row.number or '⋯':>{digits}}</i> {row.sign.replace('@', ' ')} "
        yield f'<span class="{kind}">{margin}{_marked(row, words)}\n</span>'


def _words(code: str, language: str) -> list[Words]:
    """Return the lines of the code, each as words with their kinds; without kinds if the lexer is slow."""
    plain: list[Words] = [[("", line)] for line in code.split("\n")]
    if not is_quickly_coloured(code, language):
        return plain
    lines: list[Words] = [[]]
    for token, text in get_lexer_by_name(language, stripnl=False, ensurenl=False).get_tokens(code):
        kind = next(
            (KIND_BY_TOKEN[part] for part in map(str, reversed(token.split())) if part in KIND_BY_TOKEN), ""
        )
        first, *others = text.split("\n")
        lines[-1].append((kind, first))
        lines += [[(kind, piece)] for piece in others]
    return lines if len(lines) == len(plain) else plain


def _marked(row: DiffRow, words: Words) -> str:
    """Return the text of a row as HTML, with words coloured by kind and changed words marked instead."""
    if "".join(text for _, text in words) != row.text:  # the lexer changed the text
        words = [("", row.text)]
    pieces = []
    at = 0
    for kind, text in words:
        cuts = sorted(
            {at, at + len(text), *(cut for mark in row.marks for cut in mark if at < cut < at + len(text))}
        )
        for begin, end in pairwise(cuts):
            shown = _html(row.text[begin:end])
            if any(low <= begin < high for low, high in row.marks):
                pieces.append(f"<mark>{shown}</mark>")
            else:
                pieces.append(f"<b class={kind}>{shown}</b>" if kind and shown.strip() else shown)
        at += len(text)
    return "".join(pieces)


def _pre(text: str) -> str:
    return f"<pre>{_html(shortened(text))}</pre>"


def _details(label: str, inside: str, kind: str, is_open: bool = False) -> str:
    state = " open" if is_open else ""
    return f"<details class={kind}{state}><summary>{_html(label)}</summary>{inside}</details>"


def _compaction(fact: Compacted, folded: Folded) -> str:
    undone = ", undone later" if fact.id in folded.undone else ""
    texts = {
        str(name): value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        for name, value in fact.report.items()
    }
    report = "".join(f"<dt>{_html(name)}</dt><dd>{_html(text)}</dd>" for name, text in texts.items())
    edits = "".join(f"<li>{_edit(edit)}</li>" for edit in fact.edits)
    label = f"Compaction {fact.id}: {compaction_words(fact)} ({fact.trigger}){undone}"
    inside = f"<dl>{report}</dl><p>Removed from the context:</p><ul>{edits}</ul>"
    return f"<article class=compaction id=r{fact.seq}>{_details(label, inside, 'compaction')}</article>"


def _edit(edit: Edit) -> str:
    match edit:
        case Clear():
            place = f"<a href=#r{edit.seq}>r{edit.seq}</a>"
            return f"{place}: {_html(edit.field)}, {edit.saves:,} tokens, now {_pre(edit.text)}"
        case Fold():
            stretch = f"<a href=#r{edit.first}>r{edit.first}</a> to <a href=#r{edit.last}>r{edit.last}</a>"
            return f"{stretch}, now {edit.tokens:,} tokens: {_pre(content_text(edit.blocks))}"
        case Unthink():
            return f"the thinking of r{edit.first} to r{edit.last}"
