"""Keep news for the model across runs: what was not sent yet, and commands that ended with an earlier run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec import field

from compact import EnvironmentHeading
from tools.processes import Inbox
from transcripts import (
    Block,
    FactTrail,
    Folded,
    Metadata,
    Prompt,
    Result,
    TextBlock,
    replace_surrogates,
)
from transcripts.patterns import lazy_pattern
from transcripts.wording import shorten

from .session import Session

_TELLS_OF_COMMANDS = ("[Background", EnvironmentHeading.COMMANDS)
_COMMAND_ENDED = lazy_pattern(r"^(?:\[|- )?Background command (b\d+) \(", re.MULTILINE)


def note_news(session: Session, inbox: Inbox) -> None:
    """Record what became of late news, for the next run of makeroom."""
    for about in inbox.notes():
        session.add_metadata(Metadata.NEWS, replace_surrogates(about))


class _TellingTrail(FactTrail):
    """The facts so far that `telling_facts` returns."""

    found: list[Result | Metadata] = field(default_factory=list)


def telling_facts(folded: Folded) -> Sequence[Result | Metadata]:
    """Return the metadata, and the results that tell of a file or of a command in the background, in order.

    Most results of a long session tell of neither. Each fact is read once.
    """
    trail = folded.memo(_TellingTrail)
    unread = trail.unread(folded, Result, Metadata)
    trail.found += (
        fact
        for fact in unread
        if isinstance(fact, Metadata)
        or (isinstance(fact, Result) and ("sha256" in fact.about or "job" in fact.about))
    )
    return trail.found


def restore_news(folded: Folded, inbox: Inbox) -> None:
    """Fill the inbox with the notes of earlier runs, and the commands that ended with them."""
    notes = [note for note in folded.metadata if note.topic == Metadata.NEWS]
    inbox.restore(note.about for note in notes)
    if inbox.waiting:
        _forget_sent(folded, notes, inbox)
    if ended := news_of_ended_commands(folded):
        inbox.post(ended[1], "ended commands", ended[0])


def _forget_sent(folded: Folded, notes: Sequence[Metadata], inbox: Inbox) -> None:
    """Count news as sent if a later prompt contains them.

    A fork or a kill may have ended the transcript before the note about that.
    """
    for entry in folded.entries:
        blocks = entry.fact.blocks if isinstance(entry, Prompt) else ()
        texts = {block.text for block in blocks if isinstance(block, TextBlock)}
        texts |= {block.injected_text or "" for block in blocks}  # without the tags of old sessions
        for note in notes if texts else ():
            if note.seq < entry.seq and str(note.about["text"]) in texts:
                inbox.count_as_told(str(note.about["key"]), entry.seq)


def news_of_ended_commands(folded: Folded) -> tuple[int, str] | None:
    """Report the background commands that ended with an earlier run and that the model takes for running."""
    running, first = _left_running(folded)
    lines = [
        f"- Background command {job} ({shorten(line, 200)}) was killed when makeroom exited"
        for job, line in running.items()
    ]
    return (first, "\n".join((EnvironmentHeading.COMMANDS, *lines))) if lines else None


def ended_commands(folded: Folded) -> list[str]:
    """Return those commands for the user: `b1 (npm run dev)`."""
    running, _ = _left_running(folded)
    return [f"{job} ({shorten(line, 60)})" for job, line in running.items()]


def _left_running(folded: Folded) -> tuple[dict[str, str], int]:
    """Return the lines of the commands that are not known to have ended by id, and the fact of the first."""
    if not any(isinstance(fact, Result) and "job" in fact.about for fact in telling_facts(folded)):
        return {}, 0  # mostly, which spares a long session 0.1 s
    running = dict[str, str]()
    begun = dict[str, int]()  # id -> seq of what began it
    for entry in folded.entries:
        if isinstance(entry, Prompt):
            _forget_ended(running, entry.fact.blocks)
            continue
        for at, result in sorted(entry.results.items(), key=lambda item: item[1].seq):
            if isinstance(job := result.about.get("job"), str):
                running[job] = str(entry.uses[at].input.get("command") or running.get(job, ""))
                begun.setdefault(job, entry.seq)
                if result.about.get("ended"):
                    del running[job]
            _forget_ended(running, result.content)
    first = min((begun[job] for job in running), default=0)
    return {job: " ".join(line.split()) for job, line in running.items()}, first


def _forget_ended(running: dict[str, str], blocks: Iterable[Block]) -> None:
    """Forget the commands of which one of the blocks says that they have ended."""
    for block in blocks:
        if not (running and isinstance(block, TextBlock)):
            continue
        text = block.injected_text or block.text
        if text.startswith(_TELLS_OF_COMMANDS):
            for job in _COMMAND_ENDED.findall(text):
                running.pop(job, None)
