"""Going back to before an earlier prompt: the conversation, the files, or both.

What would happen to files is shown first, with line counts; only `yes` does it. Files that somebody else
changed since are left alone unless `theirs` is said as well.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from transcripts.entries import Prompt
from transcripts.fold import Folded

from .checkpoints import Checkpoints
from .events import Notice, Said
from .scrollback import prompt_texts
from .undoing import Step

if TYPE_CHECKING:
    from .driver import Agent

Listed = tuple[int, str]  # (seq, text) of a prompt
WHAT = ("conversation", "files", "both")


def prompts(folded: Folded) -> list[Listed]:
    """The prompts that one can go back to before, oldest first."""
    found: list[Listed] = []
    for entry in folded.entries:
        if isinstance(entry, Prompt) and (texts := prompt_texts(entry)):
            found.append((entry.seq, texts[-1]))
    return found


async def rewind_to(agent: Agent, argument: str, listed: list[Listed]) -> None:
    """Go back to before a prompt: `N [conversation|files|both] [yes] [theirs]`."""
    number, *words = argument.split()
    what = next((word for word in words if word in WHAT), "conversation")
    unknown = [word for word in words if word not in (*WHAT, "yes", "theirs")]
    if unknown or not number.isdigit() or not 1 <= int(number) <= len(listed):
        agent.emit(
            Notice(f"/rewind N, with N from 1 to {len(listed)}; then files or both; then yes", "warning")
        )
        return
    seq, text = listed[int(number) - 1]
    if what != "conversation" and not await _files(agent, seq, f"/rewind {number} {what}", words):
        return
    if what != "files":
        session, _ = agent.in_use
        agent.workshop.records.make_whole(session)
        session.rewound(seq, {"prompt": text[:200]})
        agent.emit(Notice(f"the conversation is as it was before: {' '.join(text.split())[:60]!r}"))


async def _files(agent: Agent, seq: int, command: str, words: list[str]) -> bool:
    """Show what going back does to the files, or do it. True when the rest may go on."""
    keeper = agent.in_use[1].keeper
    if not isinstance(keeper, Checkpoints):
        agent.emit(Notice("there are no checkpoints of files without a record (--no-session)", "warning"))
        return False
    plan = await asyncio.to_thread(keeper.plan_restore, seq)
    if not plan:
        agent.emit(Notice("no file has to change"))
        return True
    if "yes" not in words:
        lines = [_line(step) for step in plan] + [f"not covered: {line}" for line in keeper.uncovered()]
        agent.emit(Said("\n".join(lines)))
        theirs = " (add theirs for the files that were changed since)" if any(s.by_user for s in plan) else ""
        agent.emit(Notice(f"{command} yes does this{theirs}"))
        return False
    left = await asyncio.to_thread(keeper.restore, plan, lambda step: "theirs" in words)
    for step, why in left:
        agent.emit(Notice(f"{step.path}: {why}", "warning"))
    agent.emit(Notice(f"{len(plan) - len(left)} files are as they were"))
    return True


def _line(step: Step) -> str:
    counts = f"+{step.added} -{step.removed}" if step.added or step.removed else ""
    mark = "  changed by somebody else since" if step.by_user else ""
    return f"{step.action:<8} {step.path}  {counts}{mark}"
