"""Send the memory files of directories below the project when the model sees a file there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from agent.events import Emit, Notice
from agent.session import Session, kept_chars, memory_below, memory_of, memory_path_of, memory_text
from tools.files import FileError, in_thread
from transcripts import Block, Channel, Exchange, ToolResultBlock

from .context import TurnContext
from .prompt_additions import ATTACHED_TOPIC, attached_files

LOOK_TIMEOUT_S = 2.0  # for the memory files of all directories


async def post_memory_below(
    session: Session, context: TurnContext, files: Iterable[Mapping[str, Any]], emit: Emit
) -> None:
    """Give the model the memory files of the directories of `files`, unless the view shows them.

    They are sent with the next result or before the prompt, so that the system prompt does not change. A
    memory file that this session changed applies from the next session on, since its text may be the model's.
    """
    tools = context.tool_context
    system = memory_of(context.settings.system)
    paths = [Path(path) for about in files if isinstance(path := about.get("path"), str)]
    if not context.follows_memory or not paths:
        return
    found: dict[Path, str] = {}
    with suppress(FileError):
        look = partial(
            memory_below, tools.folder, known=tuple(system), may_read=partial(tools.may_read, "read")
        )
        found = await in_thread(
            lambda gone: {path: text for each in map(look, paths) for path, text in each.items()},
            LOOK_TIMEOUT_S,
        )
    if not found:
        return
    blocks = (part.block for message in session.folded.view for part in message.parts)
    shown = {path for path, _ in _memory_in(blocks, session.folded.tag)}
    changed = {each.path for each in context.checkpoints.log.changes} if context.checkpoints else set()
    most = kept_chars(context.compaction.window.size)
    for path, text in found.items():
        content = memory_text(path, text, most)
        head = content.partition("\n")[0]
        name = path.relative_to(tools.folder).as_posix() if path.is_relative_to(tools.folder) else str(path)
        if str(path) not in shown and head not in tools.inbox.waiting and name not in changed:
            # It is sent with the file that is being read.
            tools.inbox.post(content, head, session.folded.last_seq + 1)
            tokens = context.compaction.counter.text(content)
            emit(Notice(f"now following {name} ({tokens:,} tokens)"))


def _memory_in(blocks: Iterable[Block], tag: str) -> Iterator[tuple[str, str]]:
    """Yield (path, text) of the memory files that were added to results and prompts."""
    for block in blocks:
        for part in block.content if isinstance(block, ToolResultBlock) else (block,):
            text = Channel(tag).words(part) or ""
            if (path := memory_path_of(text)) is not None:
                yield path, text


class SentMemory(NamedTuple):
    """The newest text of a memory file that was sent, and the file with which it was; "" if it is unknown."""

    text: str
    beside: str


def memory_sent_below(session: Session) -> dict[str, SentMemory]:
    """Return the memory files of subdirectories that the model was given, by path."""
    attached = {
        note.about.get("prompt"): note.about
        for note in session.folded.metadata
        if note.topic == ATTACHED_TOPIC
    }
    newest: dict[str, SentMemory] = {}
    for entry in session.folded.entries:
        if isinstance(entry, Exchange):
            results = entry.results.values()
            blocks = [block for result in results for block in result.content]
            files = [str(result.about.get("path") or "") for result in results]
        else:
            blocks = [*entry.fact.blocks]
            files = [str(about.get("path") or "") for about in attached_files(attached.get(entry.seq, {}))]
        for path, text in _memory_in(blocks, session.folded.tag):
            beside = (file for file in files if Path(file).is_relative_to(Path(path).parent))
            newest[path] = SentMemory(text, next(beside, next(filter(None, files), "")))
    return newest
