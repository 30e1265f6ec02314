"""Commands that take something out of the conversation: /copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.events import ClipboardCopy, Notice
from agent.session.session import text_of_reply
from transcripts.entries import Exchange

from .clipboard import OSC52_MOST, hand_over

if TYPE_CHECKING:
    from agent.app.controller import Controller

NOTHING = "If pasting brings nothing, the terminal does not take that; tmux needs `set -g set-clipboard on`"


async def copy(agent: Controller, argument: str) -> None:
    """Copy the newest answer to the clipboard. With a number, the N-th newest."""
    entries = agent.in_use[0].folded.entries
    answers = [
        text_of_reply(one.fact).strip() for one in entries if isinstance(one, Exchange) and not one.uses
    ]
    answers = [answer for answer in reversed(answers) if answer]
    if not answers:
        agent.emit(Notice("there is no answer to copy yet"))
        return
    number = int(argument) if argument.isdigit() else 0 if argument else 1
    if not 1 <= number <= len(answers):
        agent.emit(Notice(f"/copy N, with N from 1 (the newest answer) to {len(answers)}", "warning"))
        return
    text = answers[number - 1]
    what = f"{len(text):,} characters ({_beginning(text)})"
    if by := await hand_over(text, agent.setup.environ):
        agent.emit(Notice(f"copied {what} with {by}"))
    elif len(text.encode()) <= OSC52_MOST:
        agent.emit(ClipboardCopy(text, f"gave {what} to the terminal's clipboard (OSC 52). {NOTHING}"))
    else:
        words = f"{what} are too long for a terminal's clipboard; /export writes the session to a file"
        agent.emit(Notice(words, "warning"))


def _beginning(text: str) -> str:
    words = " ".join(text.split())
    return repr(words if len(words) <= 30 else f"{words[:29]}…")
