"""A session as one HTML page that needs nothing else: readable on a phone, in the dark, and offline.

The page forbids itself the network (its policy allows only what is in it). Calls, results and diffs fold;
the size of the context is drawn over time, with a mark for each compaction; words can be searched for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from html import escape

from .export_markdown import drawn
from .export_style import SCRIPT, STYLE
from .export_words import moment, shortened, title
from .facts import Clear, Compacted, Edit, Failed, Fold, Opened, Reply, Result, Unthink, User
from .fold import Folded
from .injected_context import is_injected
from .messages import Block, ImageBlock, TextBlock, ToolUseBlock, is_thinking
from .render_text import block_text, call_of, content_text

PROGRAM = "From the program"
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_IMAGES = {"image/png", "image/jpeg", "image/gif", "image/webp"}
WIDTH, HEIGHT = 900, 180  # of the drawing, in its own units


def page(folded: Folded, sid: str) -> str:
    """The whole page."""
    name = text(title(folded, sid))
    return "".join(
        (
            "<!doctype html>\n<html lang=en><head><meta charset=utf-8>",
            f'<meta http-equiv=Content-Security-Policy content="{_POLICY}">',
            '<meta name=viewport content="width=device-width,initial-scale=1">',
            f"<meta name=color-scheme content='light dark'><title>{name}</title><style>{STYLE}</style>",
            f"</head><body><header><h1>{name}</h1>{_opening(folded)}</header>{_search()}",
            f"<main>{_drawing(folded)}",
            *_conversation(folded),
            f"</main><script>{SCRIPT}</script></body></html>\n",
        )
    )


def text(words: str) -> str:
    """Words as HTML: markup and invisible characters shown as what they are."""
    return escape(_visible(words))


def _visible(words: str) -> str:
    shown = _HIDDEN.sub(lambda match: f"⟨U+{ord(match[0]):04X}⟩", words.replace("\r\n", "\n"))
    return shown.encode("utf-8", "replace").decode()


def _opening(folded: Folded) -> str:
    opened = folded.opened
    if opened is None:
        return ""
    prompts = sum(isinstance(fact, User) and fact.source == "user" for fact in folded.facts)
    return (
        f"<p class=about>{text(opened.model)} in <code>{text(opened.folder)}</code>, {moment(opened.ts)}, "
        f"{_count(prompts, 'prompt')}, {_count(len(folded.compactions), 'compaction')}</p>"
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _search() -> str:
    return (
        "<p class=search><input id=find type=search placeholder='search (press /)' aria-label=Search>"
        "<output id=found></output><button id=open type=button>open all</button></p>"
    )


def _conversation(folded: Folded) -> Iterator[str]:
    replies: dict[int, Reply] = {}
    for fact in folded.facts:
        match fact:
            case User():
                who = "You" if fact.source == "user" else PROGRAM
                yield _article("user", fact.seq, who, fact.ts, map(_said, fact.blocks))
            case Reply():
                replies[fact.seq] = fact
                yield _article("reply", fact.seq, "Model", fact.ts, _reply(fact))
            case Result():
                yield _result(fact, replies.get(fact.of))
            case Compacted():
                yield _compaction(fact, folded)
            case Failed():
                words = f"{fact.what} failed: {fact.reason}"
                yield _article("note", fact.seq, "Note", fact.ts, [f"<p>{text(words)}</p>"])
            case Opened() if fact is not folded.facts[0]:
                words = f"opened again with {fact.model}"
                yield _article("note", fact.seq, "Note", fact.ts, [f"<p>{text(words)}</p>"])
            case _:
                pass


def _article(kind: str, seq: int, who: str, ts: float, inside: Iterable[str]) -> str:
    when = f" <time>{moment(ts)}</time>" if ts else ""  # other agents' recordings need not tell it
    head = f"<h2>{who} <a href=#r{seq}>r{seq}</a>{when}</h2>"
    return f"<article class={kind} id=r{seq}>{head}{''.join(inside)}</article>"


def _reply(fact: Reply) -> Iterator[str]:
    for block in fact.blocks:
        if isinstance(block, ToolUseBlock):
            yield _folded(_call(block), _plain(block_text(block)), "call")
        elif is_thinking(block):
            if thought := block_text(block):
                yield _folded("thinking", _plain(thought), "thinking")
        elif isinstance(block, TextBlock):
            yield drawn(_visible(block.text))
        else:
            yield _block(block)
    if not fact.complete:
        yield f"<p class=cut>(interrupted) {text(fact.partial[:2000])}</p>"


def _said(block: Block) -> str:
    """A block of a prompt; what we put beside the person's words is folded and named as ours."""
    return _folded(PROGRAM, _plain(block_text(block)), "about") if is_injected(block) else _block(block)


def _call(use: ToolUseBlock) -> str:
    """The tool and its first argument that is a text, on one line: the path, the command."""
    first = next((value for value in use.input.values() if isinstance(value, str)), "")
    return f"{use.name} {' '.join(first.split())[:120]}"


def _block(block: Block) -> str:
    if isinstance(block, ImageBlock) and block.media_type in _IMAGES and _is_base64(block.data):
        return f'<img alt="image" src="data:{block.media_type};base64,{block.data}">'
    words = block_text(block)
    return f"<p>{text(words.strip())}</p>" if isinstance(block, TextBlock) else _plain(words)


def _is_base64(data: str) -> bool:
    return re.fullmatch(r"[A-Za-z0-9+/=]+", data) is not None


def _result(fact: Result, reply: Reply | None) -> str:
    """A result under the name of its call; where that is missing (a damaged record), by its first words."""
    name = "error" if fact.error else "result"
    use = call_of(reply, fact)
    inside = []
    if diff := fact.human.get("diff"):
        inside.append(f"<pre class=diff>{''.join(_diff_lines(str(diff)))}</pre>")
    inside += [_block(block) for block in fact.content if isinstance(block, ImageBlock)]
    words = content_text(tuple(block for block in fact.content if not isinstance(block, ImageBlock)))
    gist = f"of {_call(use)}" if use is not None else " ".join(words[:400].split())[:120]
    inside.append(_plain(words))
    if fact.stored is not None:
        inside.append(
            f"<p class=about>whole output: {text(fact.stored.path)}, {fact.stored.size:,} bytes</p>"
        )
    body = _folded(f"{name} {gist}", "".join(inside), name, opened=bool(diff))
    return f"<article class={name} id=r{fact.seq}>{body}</article>"


def _diff_lines(diff: str) -> Iterator[str]:
    kinds = {"+": "add", "-": "del", "@": "at"}
    heading = True  # until the first hunk: only there `---` and `+++` name files
    for line in shortened(diff).splitlines():
        heading = heading and not line.startswith("@@")
        named = heading and line.startswith(("---", "+++"))
        yield f'<span class="{"at" if named else kinds.get(line[:1], "same")}">{text(line)}\n</span>'


def _plain(words: str) -> str:
    return f"<pre>{text(shortened(words))}</pre>"


def _folded(label: str, inside: str, kind: str, opened: bool = False) -> str:
    state = " open" if opened else ""
    return f"<details class={kind}{state}><summary>{text(label)}</summary>{inside}</details>"


def _compaction(fact: Compacted, folded: Folded) -> str:
    undone = ", taken back later" if fact.id in folded.undone else ""
    why = "".join(
        f"<dt>{text(str(name))}</dt><dd>{text(_value(value))}</dd>" for name, value in fact.report.items()
    )
    left = "".join(f"<li>{piece}</li>" for piece in map(_edit, fact.edits))
    label = f"Room was made: {fact.id} by {fact.layer} ({fact.trigger}){undone}"
    inside = f"<dl>{why}</dl><p>What left:</p><ul>{left}</ul>"
    return f"<article class=compaction id=r{fact.seq}>{_folded(label, inside, 'compaction')}</article>"


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _edit(edit: Edit) -> str:
    match edit:
        case Clear():
            where = f"<a href=#r{edit.seq}>r{edit.seq}</a>"
            return f"{where}: {text(edit.field)}, {edit.saves:,} tokens, now {_plain(edit.text)}"
        case Fold():
            where = f"<a href=#r{edit.first}>r{edit.first}</a> to <a href=#r{edit.last}>r{edit.last}</a>"
            return f"{where}, now {edit.tokens:,} tokens: {_plain(content_text(edit.blocks))}"
        case Unthink():
            return f"the thinking of r{edit.first} to r{edit.last}"


def _drawing(folded: Folded) -> str:
    """The size of the context at each reply, in tokens, with a line where room was made."""
    sizes, estimated = _sizes(folded)
    if len(sizes) < 2:
        return ""
    first, last, top = sizes[0][0], sizes[-1][0], max(tokens for _, tokens in sizes)
    places = [
        ((seq - first) / (last - first) * WIDTH, HEIGHT - tokens / top * (HEIGHT - 20))
        for seq, tokens in sizes
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    marks = "".join(
        _mark((one.seq - first) / (last - first) * WIDTH, one)
        for one in folded.compactions
        if first <= one.seq <= last
    )
    return (
        f"<figure><svg viewBox='0 0 {WIDTH} {HEIGHT}' role=img aria-label='size of the context'>"
        f"<polygon class=area points='0,{HEIGHT} {line} {WIDTH},{HEIGHT}'/>"
        f"<polyline class=size points='{line}'/>{marks}</svg>"
        f"<figcaption>Size of the context at each reply, at most {top:,} tokens{estimated}. "
        "A line is a compaction.</figcaption></figure>"
    )


def _sizes(folded: Folded) -> tuple[list[tuple[int, int]], str]:
    """(seq, tokens) of each reply, as it was billed; where nobody told, by the length of the texts."""
    replies = [fact for fact in folded.facts if isinstance(fact, Reply)]
    if any(fact.usage.prompt for fact in replies):
        return [(fact.seq, fact.usage.prompt) for fact in replies if fact.usage.prompt], ""
    sizes, characters = [], 0
    for fact in folded.facts:
        match fact:
            case Reply():
                sizes.append((fact.seq, characters // 4))
                characters += len(content_text(fact.blocks))
            case User():
                characters += len(content_text(fact.blocks))
            case Result():
                characters += len(content_text(fact.content))
    return sizes, " (estimated: four characters a token)"


def _mark(x: float, one: Compacted) -> str:
    return (
        f"<a href=#r{one.seq}><line class=mark x1={x:.1f} y1=0 x2={x:.1f} y2={HEIGHT} />"
        f"<title>{text(f'{one.id} {one.layer} ({one.trigger})')}</title></a>"
    )
