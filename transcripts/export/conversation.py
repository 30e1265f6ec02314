"""Convert the conversation of a session to text for the user.

Control characters are not escaped here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ..facts import Compacted, Fact, Reply, Result, User
from ..folding import Folded, fold
from ..importers import MAX_RECORDING_BYTES, UnreadableRecording, detect_format, import_session
from ..listing import ProjectRecords
from ..load import read_transcript
from ..messages import TextBlock, ToolUseBlock, typed_blocks
from ..render_text import block_text, content_text
from ..secrets.masking import SecretMasks
from ..storage.disk import read_regular
from .formats import masked_facts

MAX_OUTPUT_CHARS = 2_000  # of one output or input of a tool


def load_conversation(
    wanted: str, folder: Path, tell: Callable[[str], None] | None = None
) -> tuple[str, Folded]:
    """Load a session by id, name or file, which may be of another agent. Returns its id and its fold.

    `tell` receives a line about what was left out of another agent's file. Raises StoreError and ValueError.
    """
    path = Path(wanted).expanduser()
    if path.is_file() and ("/" in wanted or path.suffix):
        recording = read_regular(path, MAX_RECORDING_BYTES)
        try:
            is_own = detect_format(recording)[0] == "makeroom"
            imported = None if is_own else import_session(recording, lambda blocks: ())
        except UnreadableRecording as error:
            raise UnreadableRecording(f"cannot read {path}: {error}") from error
        if imported is not None:
            if tell is not None and imported.skipped_text:
                tell(f"skipped in {path.name}: {imported.skipped_text}")
            return path.stem, fold(imported.facts)
    else:
        path = ProjectRecords(folder).find(wanted)
    loaded = read_transcript(path)
    return loaded.sid, fold(loaded.facts)


def conversation_text(
    wanted: str,
    folder: Path,
    masks: SecretMasks,
    since: int = 0,
    tell: Callable[[str], None] | None = None,
) -> str:
    """Return a conversation after fact `since` as text, with `masks` applied.

    `tell` is that of `load_conversation`. Raises StoreError and ValueError.
    """
    sid, folded = load_conversation(wanted, folder, tell)
    facts = (fact for fact in folded.facts if fact.seq > since)
    return "\n\n".join(_passages(masked_facts(facts, sid, masks)))


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
