"""Show cleared text again that a call or a prompt needs, and refer to results that show files."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from agent.session import Session
from compact import FileTouch, NeededText, Preparation, PutBackRules, with_resolved_references, with_result_id
from tools.base import ToolContext, ToolResult
from tools.files import FileError, in_thread, load_file, resolve_path
from tools.text import decode_text, unify_newlines
from transcripts import Block, DataTag, Fact, LazyResults, StoreError, TextBlock, ToolUseBlock, quoted

from .context import CompactionState, TurnContext
from .sliced_reading import in_slices, read_results

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


async def _needed(session: Session, state: CompactionState, touch: FileTouch) -> NeededText | None:
    if not state.settings.automatic:
        return None
    await read_results(session)
    await in_slices(Preparation(session.folded).of_put_back(in_turn=touch.use is not None))
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
        present = await in_thread(lambda gone: _load(needed.paths, gone), LOOK_TIMEOUT_S)
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
