"""The files that a call shows: name their pages, and show cleared lines that are needed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from agent.events import Emit, Notice, TurnFinished
from agent.session import (
    Session,
    fetch_results,
    kept_chars,
    memory_below,
    memory_of,
    memory_path_of,
    memory_text,
)
from compact import FileTouch, NeededText, Preparation, PutBackRules, with_resolved_references, with_result_id
from tools.base import ToolContext, ToolResult
from tools.files import FileError, in_thread, load_file, resolve_path
from tools.text import decode_text, unify_newlines
from transcripts import (
    Block,
    Channel,
    DataTag,
    Exchange,
    Fact,
    LazyResults,
    StoreError,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    quoted,
)

from .context import CompactionState, TurnContext

# The topic of metadata about attached files: {"prompt": seq, "files": the facts about each file}.
ATTACHED_TOPIC = "attached"
MAX_FILE_BYTES = 1024 * 1024  # of a file that is read here
LOOK_TIMEOUT_S = 2.0  # for all files together


def content_of(session: Session, use: ToolUseBlock, result: ToolResult) -> tuple[Block, ...]:
    """Return the content of a result; a recalled one without references to pages that are not in the view."""
    is_recalled = session.folded.kind_of(use.name) == "recalls"
    return with_resolved_references(session.folded, result.content) if is_recalled else result.content


def with_own_id(
    session: Session, use: ToolUseBlock, result: ToolResult, content: tuple[Block, ...]
) -> tuple[Block, ...]:
    """Return the content of a result with its id, where it shows a file and later results may refer to it."""
    shows_file = session.folded.kind_of(use.name) == "reads" and "sha256" in result.about
    if result.error or not shows_file or "unchanged" in result.about:
        return content
    return with_result_id(content, session.folded.last_seq + 1)


async def needed_text(
    session: Session, context: TurnContext, use: ToolUseBlock, result: ToolResult
) -> NeededText | None:
    """Return the cleared text that a call with this result needs; None if there is none."""
    state = context.compaction
    real = partial(_real_path, context.tool_context)
    prompt = state.overhead + session.folded.view.tokens
    return await _needed(
        session, state, FileTouch(use, content=result.content, error=result.error, prompt=prompt, real=real)
    )


def _real_path(context: ToolContext, name: str) -> str:
    """Return the real path of a file of the project; "" if it does not exist."""
    with suppress(FileError, OSError):
        path = resolve_path(context, name)
        return path if Path(path).is_file() else ""
    return ""


async def text_named(session: Session, state: CompactionState, content: Sequence[Block]) -> list[TextBlock]:
    """Return the cleared or summarized text of files that a prompt names, to precede the prompt."""
    prompt = state.overhead + session.folded.view.tokens
    needed = await _needed(
        session, state, FileTouch(None, content=tuple(content), error=False, prompt=prompt)
    )
    blocks = needed.blocks(session.folded) if needed else ()
    return [TextBlock(quoted(block.text, DataTag.PUT_BACK)) for block in blocks]


async def track_blocks(session: Session) -> None:
    """Update what compaction keeps about a session, in slices between which keys are handled.

    That is the tracker of its blocks and the accounts of a local summary. After a long session was resumed,
    all entries have to be processed.
    """
    await _fetch_read(session)
    await _in_slices(Preparation(session.folded).between_turns())


async def read_for_plan(session: Session) -> None:
    """Read the parts of a session that every plan needs, in slices between which keys are handled."""
    await _fetch_read(session)
    await _in_slices(Preparation(session.folded).of_plan())


async def account_for_all(session: Session) -> None:
    """Prepare a local summary of the whole session, in slices between which keys are handled.

    After a long session was resumed, that takes seconds.
    """
    await _in_slices(Preparation(session.folded).of_local_summary())


async def _fetch_read(session: Session) -> None:
    """Load the results that summaries read, before anything is made of them."""
    if session.deferred:
        with suppress(StoreError):  # the summary says less
            await fetch_results(session, Preparation(session.folded).results_read())


SLICE_S = 0.01  # of work between which other tasks run


async def _in_slices(steps: Iterator[None]) -> None:
    now = asyncio.get_running_loop().time
    began = now()
    for _ in steps:
        if now() - began >= SLICE_S:
            await asyncio.sleep(0)
            began = now()


async def _needed(session: Session, state: CompactionState, touch: FileTouch) -> NeededText | None:
    if not state.settings.automatic:
        return None
    await _fetch_read(session)
    await _in_slices(Preparation(session.folded).of_put_back(in_turn=touch.use is not None))
    rules = PutBackRules(
        state.settings,
        prices=state.prices_in(session.folded),
        count=state.counter.text,
        whole=partial(_with_content, session.deferred),
    )
    needed = rules.needed_by(session.folded, touch)
    if not needed.texts:
        return None
    with suppress(FileError):
        present = await in_thread(LOOK_TIMEOUT_S, lambda gone: _load(needed.paths, gone))
        return replace(needed, present=present)
    return None


def _with_content(deferred: LazyResults, fact: Fact | None) -> Fact | None:
    """Return a fact with its content, loaded from the transcript if necessary and unchanged there."""
    if fact is not None and fact.seq in deferred:
        with suppress(StoreError):
            return next(deferred.fetch(fact.seq))
    return fact


def _load(paths: Iterable[str], abandoned: threading.Event) -> dict[str, str]:
    """Return the texts of the readable files by path, with unified line endings. Blocking."""
    found = {}
    for path in paths:
        if abandoned.is_set():
            break
        with suppress(FileError, OSError):
            if decoded := decode_text(load_file(path, MAX_FILE_BYTES).data):
                found[path] = unify_newlines(decoded[0])
    return found


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
        found = await in_thread(LOOK_TIMEOUT_S, lambda gone: dict(chain.from_iterable(map(look, paths))))
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


def memory_sent_below(session: Session) -> dict[str, tuple[str, str]]:
    """Return the memory files of subdirectories that the model was given, by path.

    The values are the newest text, and the file with which it was sent; "" if that is unknown.
    """
    attached = {
        note.about.get("prompt"): note.about
        for note in session.folded.metadata
        if note.topic == ATTACHED_TOPIC
    }
    newest: dict[str, tuple[str, str]] = {}
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
            newest[path] = (text, next(beside, next(filter(None, files), "")))
    return newest


class PromptAdditions(Struct, frozen=True):
    """The additions to a prompt.

    blocks  the files that it mentions, placed before it
    files   the facts to record about these files
    after   the instructions of the command or skill that it calls, placed after it
    ended   the end of the turn, if the prompt does not begin one
    """

    blocks: tuple[Block, ...] = ()
    files: tuple[Mapping[str, Any], ...] = ()
    after: tuple[Block, ...] = ()
    ended: TurnFinished | None = None


NO_ADDITIONS = PromptAdditions()


def note_files(
    session: Session, context: ToolContext, prompt: int, files: Sequence[Mapping[str, Any]]
) -> None:
    """Record that the prompt with this seq shows files: they count as read, also in a resumed session."""
    session.add_metadata(ATTACHED_TOPIC, {"prompt": prompt, "files": [dict(about) for about in files]})
    note_attached(files, context, prompt)


def note_attached(files: Sequence[Mapping[str, Any]], context: ToolContext, prompt: int) -> None:
    """Mark files as read by the prompt with this seq."""
    for about in files:
        context.restore_seen(about, prompt, attached=True)


def attached_files(about: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the files listed in metadata of ATTACHED_TOPIC."""
    files = about.get("files")
    return [each for each in files if isinstance(each, Mapping)] if isinstance(files, list | tuple) else []
