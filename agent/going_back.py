"""Going back to before an earlier prompt: the conversation, the files, or both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from transcripts.entries import Prompt
from transcripts.fold import Folded

from .events import Notice
from .scrollback import prompt_texts

if TYPE_CHECKING:
    from .driver import Agent

Listed = tuple[int, str]  # (seq, text) of a prompt


def prompts(folded: Folded) -> list[Listed]:
    """The prompts that one can go back to before, oldest first."""
    found: list[Listed] = []
    for entry in folded.entries:
        if isinstance(entry, Prompt) and (texts := prompt_texts(entry)):
            found.append((entry.seq, texts[-1]))
    return found


async def rewind_to(agent: Agent, argument: str, listed: list[Listed]) -> None:
    """Go back to before a prompt, by its number in the list."""
    session, _ = agent.in_use
    number, _, _what = argument.partition(" ")
    if not number.isdigit() or not 1 <= int(number) <= len(listed):
        agent.emit(Notice(f"give a number from 1 to {len(listed)}", "warning"))
        return
    seq, text = listed[int(number) - 1]
    agent.workshop.records.make_whole(session)
    session.rewound(seq, {"prompt": text[:200]})
    agent.emit(Notice(f"the conversation is as it was before: {' '.join(text.split())[:60]!r}"))
