"""What was said before, shown again in brief when a session is gone on with."""

from __future__ import annotations

from agent.events import CommandOutput, Emit, Notice
from transcripts.entries import Exchange, Prompt
from transcripts.injected_context import without_injected
from transcripts.messages import TextBlock

from .session import Session, text_of_reply

SHOWN = 6  # of the newest prompts and answers
LONGEST = 600  # characters of each


def show_briefly(session: Session, emit: Emit) -> None:
    """Tell the newest prompts and answers of a session, and how much came before."""
    lines: list[tuple[str, str]] = []
    for entry in session.folded.entries:
        if isinstance(entry, Prompt):
            lines.extend(("you", text) for text in prompt_texts(entry))
        elif isinstance(entry, Exchange) and not entry.uses and text_of_reply(entry.fact).strip():
            lines.append(("makeroom", text_of_reply(entry.fact)))
    if not lines:
        return
    shown = lines[-SHOWN:]
    if len(lines) > len(shown):
        emit(Notice(f"({len(lines) - len(shown)} earlier messages are in the transcript)"))
    for who, text in shown:
        cut = text.strip() if len(text) <= LONGEST else f"{text[:LONGEST].strip()} …"
        emit(CommandOutput(f"**{who}**\n\n{cut}", "markdown"))
    last = session.folded.exchange
    if last is not None and last.open:
        cut = ", ".join(use.name for index, use in last.uses.items() if index not in last.results)
        emit(Notice(f"the last run ended in the middle of: {cut}; it may have run in part", "warning"))
    emit(Notice(f"going on with {session.sid}"))


def prompt_texts(entry: Prompt) -> list[str]:
    """What the person wrote in a prompt, without what we put beside it."""
    if entry.fact.source != "user":
        return []
    return [block.text for block in without_injected(entry.fact.blocks) if isinstance(block, TextBlock)]
