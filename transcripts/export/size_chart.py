"""Draw the size of the context over a session as SVG, with a scale and a label for each compaction."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from ..facts import Compacted, Reply
from ..folding import Folded
from ..render_text import fact_text

WIDTH = 900
HEIGHT = 252  # in the chart's own units
LEFT = 52
TOP = 66
BOTTOM = 230  # left, upper and lower edge of the plot
WORD_ROWS = 3
WORDS_WIDTH = 270  # maximum width of a label
WORDS_BY_LAYER = {
    "budget": "large results moved to files",
    "snip": "middle of the conversation omitted",
    "micro": "old output cleared",
    "collapse": "old steps summarized",
    "summary": "summarized by the model",
    "ledger": "summarized without the model",
    "reactive": "shortened after a request was too large",
    "unthink": "thinking dropped",
}


def compaction_words(fact: Compacted) -> str:
    """Describe a compaction in words, with the size of the context before and after it."""
    words = WORDS_BY_LAYER.get(fact.layer, fact.label)
    if (sizes := _before_and_after(fact)) is None:
        return words
    before, after = sizes
    return f"{words}, {_short(before)} → {_short(after)} tokens"


def _before_and_after(fact: Compacted) -> tuple[int, int] | None:
    """Return the tokens of the context before and after a compaction, None if they are not known."""
    before = fact.report.get("before")
    after = fact.report.get("after")
    return (before, after) if isinstance(before, int) and isinstance(after, int) else None


def _compacted_sizes(folded: Folded) -> Iterator[tuple[int, int]]:
    """Yield (seq, tokens) before and after each compaction."""
    for fact in folded.compactions:
        yield from ((fact.seq, tokens) for tokens in _before_and_after(fact) or ())


def size_chart(folded: Folded) -> str:
    """Return a chart of the context size in tokens; "" for fewer than two replies.

    It shows the size at each reply, and before and after each compaction, which is a vertical line.
    """
    sizes, estimated = _context_sizes(folded)
    if len(sizes) < 2:
        return ""
    if not estimated:  # which do not compare with the sizes of a compaction
        sizes = sorted([*sizes, *_compacted_sizes(folded)], key=lambda size: size[0])
    seqs = [*(seq for seq, _ in sizes), *(one.seq for one in folded.compactions)]
    first = min(seqs)
    last = max(seqs)
    most = max(1, *(tokens for _, tokens in sizes))
    step = scale_step(most)
    top = -(-most // step) * step

    def x(seq: int) -> float:
        return LEFT + (seq - first) / (last - first) * (WIDTH - LEFT)

    def y(tokens: float) -> float:
        return BOTTOM - tokens / top * (BOTTOM - TOP)

    line = " ".join(f"{x(seq):.1f},{y(tokens):.1f}" for seq, tokens in sizes)
    grid = "".join(
        f"<line class=grid x1={LEFT} y1={y(at):.1f} x2={WIDTH} y2={y(at):.1f} />"
        f"<text class=scale x={LEFT - 6} y={y(at) + 4:.1f} text-anchor=end>{_short(at)}</text>"
        for at in range(0, top + 1, step)
    )
    ends = "".join(
        f"<text class=scale x={at:.0f} y={HEIGHT - 6} text-anchor={anchor}>r{seq}</text>"
        for seq, at, anchor in ((first, LEFT, "start"), (last, WIDTH, "end"))
    )
    shown = [(one, x(one.seq)) for one in folded.compactions]
    places = "reply and compaction" if shown and not estimated else "reply"
    return (
        f"<figure><svg viewBox='0 0 {WIDTH} {HEIGHT}' role=img aria-label='size of the context'>{grid}{ends}"
        f"<polygon class=area points='{LEFT},{BOTTOM} {line} {WIDTH},{BOTTOM}'/>"
        f"<polyline class=size points='{line}'/>{''.join(_marks(shown))}</svg>"
        f"<figcaption>Size of the context at each {places}, at most {most:,} tokens{estimated}. "
        f"{'A dashed line is a compaction.' if shown else ''}</figcaption></figure>"
    )


def scale_step(most: int) -> int:
    """Return the distance of the lines of a scale up to `most` tokens: 1, 2 or 5 times a power of ten."""
    step = 1
    while most / step > 5:
        step = step * 5 // 2 if str(step).startswith("2") else step * 2
    return step


def _marks(shown: list[tuple[Compacted, float]]) -> Iterator[str]:
    """Yield a line for each compaction, then the labels that fit without overlapping, above the lines."""
    free = [0.0] * WORD_ROWS  # the x from which on each row is free
    labels = []
    for one, at in shown:
        words = escape(compaction_words(one))
        anchor, shift = ("end", -5) if at > WIDTH - WORDS_WIDTH else ("start", 5)
        begin = at - WORDS_WIDTH if anchor == "end" else at
        row = next((row for row, end in enumerate(free) if begin >= end), None)
        top = TOP - 8
        if row is not None:
            free[row] = begin + WORDS_WIDTH
            top = TOP - 12 - (WORD_ROWS - row) * 16 + 8
            labels.append(
                f"<text class=words x={at + shift:.1f} y={top + 8} text-anchor={anchor}>{words}</text>"
            )
        yield (
            f"<a href=#r{one.seq}><line class=mark x1={at:.1f} y1={top} x2={at:.1f} y2={BOTTOM} />"
            f"<title>{escape(one.id)}: {words} ({escape(one.trigger)})</title></a>"
        )
    yield from labels


def _short(tokens: int) -> str:
    """Format a number of tokens: `950`, `31k`, `1.5M`."""
    if tokens < 1_000:
        return str(tokens)
    if tokens < 1_000_000:
        return f"{tokens / 1_000:.3g}k" if tokens < 10_000 else f"{tokens / 1_000:.0f}k"
    return f"{tokens / 1_000_000:.3g}M"


def _context_sizes(folded: Folded) -> tuple[list[tuple[int, int]], str]:
    """Return (seq, tokens) of each reply, and a note if they are estimates because no usage is known."""
    replies = [fact for fact in folded.facts if isinstance(fact, Reply)]
    if sizes := [(fact.seq, fact.usage.prompt) for fact in replies if fact.usage.prompt]:
        return sizes, ""
    characters = 0
    for fact in folded.facts:
        if isinstance(fact, Reply):
            sizes.append((fact.seq, characters // 4))
        characters += len(fact_text(fact)) or 4 * sum(getattr(fact, "tokens", ()))
    return sizes, " (estimated: four characters per token)"
