"""Convert the conversation of a session to text for the user.

Control characters are not escaped here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from ..codec import holds_record
from ..facts import Compacted, Fact, Reply, Result, User
from ..folding import Folded, fold
from ..importers import MAX_RECORDING_BYTES, UnreadableRecording, detect_format, import_session
from ..importers.recording import ImportedSession
from ..listing import ProjectRecords
from ..load import LazyResults, read_transcript
from ..messages import TextBlock, ToolUseBlock, typed_blocks
from ..render_text import block_text, content_text
from ..secrets.masking import SecretMasks
from ..storage.disk import expand_home, opened_regular, read_regular
from .formats import fact_mask

MAX_OUTPUT_CHARS = 2_000  # of one output or input of a tool


class SavedConversation(NamedTuple):
    """A session as loaded: its id, its fold, and the results that were left in the file."""

    sid: str
    folded: Folded
    lazy_results: LazyResults


def load_conversation(
    wanted: str, folder: Path, tell: Callable[[str], None] | None = None
) -> SavedConversation:
    """Load a session by id, name or file, which may be of another agent.

    `tell` receives a line about what was left out of another agent's file. Raises StoreError and ValueError.
    """
    path = expand_home(wanted)
    if not (path.is_file() and ("/" in wanted or path.suffix)):
        path = ProjectRecords(folder).find(wanted)
    elif (imported := _imported(path)) is not None:
        if tell is not None and imported.skipped_text:
            tell(f"skipped in {path.name}: {imported.skipped_text}")
        return SavedConversation(path.stem, fold(imported.facts), LazyResults())
    loaded = read_transcript(path, defer=True)
    return SavedConversation(loaded.sid, fold(loaded.facts), loaded.lazy_results)


def _imported(path: Path) -> ImportedSession | None:
    """Return the session in a file of another agent, None for one of makeroom."""
    with opened_regular(path) as file:
        if holds_record(file.read(1 << 20)):
            return None
    recording = read_regular(path, MAX_RECORDING_BYTES)
    try:
        is_own = detect_format(recording)[0] == "makeroom"
        return None if is_own else import_session(recording, lambda blocks: ())
    except UnreadableRecording as error:
        raise UnreadableRecording(f"cannot read {path}: {error}") from error


def conversation_text(wanted: str, folder: Path, masks: SecretMasks, since: int = 0) -> str:
    """Return a conversation after fact `since` as text, with `masks` applied.

    Raises StoreError and ValueError.
    """
    return "".join(conversation_pieces(load_conversation(wanted, folder), masks, since))


def conversation_pieces(saved: SavedConversation, masks: SecretMasks, since: int = 0) -> Iterator[str]:
    """Yield a conversation after fact `since` as text in pieces, with `masks` applied."""
    shown = (User, Reply, Result, Compacted)
    facts = (fact for fact in saved.folded.facts if fact.seq > since and isinstance(fact, shown))
    separator = ""
    for passage in _passages(map(fact_mask(saved.sid, masks), map(saved.lazy_results.whole, facts))):
        yield separator + passage
        separator = "\n\n"


def _passages(facts: Iterable[Fact]) -> Iterator[str]:
    for fact in facts:
        match fact:
            case User():
                if prompt := content_text(typed_blocks(fact.blocks)):
                    yield f"> {prompt}".replace("\n", "\n> ")
            case Reply():
                for block in fact.blocks:
                    if isinstance(block, TextBlock):
                        yield block_text(block)
                    elif isinstance(block, ToolUseBlock):
                        yield f"[call] {block_text(block)[:MAX_OUTPUT_CHARS]}"
            case Result():
                text = content_text(fact.content)
                left = len(text) - MAX_OUTPUT_CHARS
                more = f"\n... {left:,} more characters" if left > 0 else ""
                yield f"[{fact.speaker} r{fact.seq}]\n{text[:MAX_OUTPUT_CHARS]}{more}"
            case Compacted():
                yield f"--- compaction {fact.id} ({fact.label}, {fact.trigger}) ---"
