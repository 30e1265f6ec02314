"""Export a session as Markdown."""

from collections.abc import Iterator

from ..facts import Compacted, Fact, Opened, Reply, Result, User
from ..folding import Folded
from ..messages import Block, ImageBlock, TextBlock, ToolUseBlock, is_added, without_added
from ..render_text import block_text, content_text, session_title, shortened, utc_time
from .formats import ExportedSession
from .size_chart import compaction_words


def session_markdown(session: ExportedSession) -> Iterator[str]:
    """Yield the conversation as Markdown: prompts with headings, calls and results in fences."""
    folded = session.folded
    yield f"# {session_title(folded.facts, session.sid)}"
    if (opened := folded.opened) is not None:
        yield f"\n\n{opened.model} in `{opened.folder}`, {utc_time(began_at(folded))}"
    for fact in session.facts:
        yield from (f"\n\n{piece}" for piece in _fact_markdown(fact, folded) if piece)
    yield "\n"


def began_at(folded: Folded) -> float:
    """Return the time at which a session was first opened, in seconds since the epoch; 0 if unknown."""
    return next((fact.ts for fact in folded.facts if isinstance(fact, Opened)), 0.0)


def _fact_markdown(fact: Fact, folded: Folded) -> Iterator[str]:
    match fact:
        case User(source="user"):
            yield from (blockquote(block) for block in fact.blocks if is_added(block))
            yield f"## You\n\n{content_text(without_added(fact.blocks))}"
        case User():
            yield from map(blockquote, fact.blocks)
        case Reply():
            for index, block in enumerate(fact.blocks):
                if isinstance(block, ToolUseBlock):
                    yield f"Call `r{fact.seq}.{index}`\n\n{fenced(shortened(block_text(block)))}"
                elif isinstance(block, TextBlock | ImageBlock):
                    yield block_text(block)
                elif block.is_thinking and block_text(block):
                    yield blockquote(block)
            yield "" if fact.complete else "*(interrupted)*"
        case Result():
            name = "Error" if fact.error else "Result"
            yield f"{name} of `r{fact.of}.{fact.block}`\n\n{fenced(shortened(content_text(fact.content)))}"
        case Compacted():
            undone = " (undone)" if fact.id in folded.undone else ""
            words = f"{compaction_words(fact)} ({fact.trigger}){undone}"
            yield f"---\n\n*Compaction {fact.id}: {words}*\n\n---"


def blockquote(block: Block) -> str:
    """Return a block as a quote, for text that neither the user nor the model wrote to the other."""
    return f"> {block_text(block)}".replace("\n", "\n> ")


def fenced(text: str) -> str:
    """Return the text in a fence that is longer than any within it."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"
