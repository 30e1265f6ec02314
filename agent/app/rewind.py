"""Going back to before an earlier prompt: the conversation, the files, or both.

What would happen to files is shown first, with line counts, and only done on a yes: chosen from a menu, or
typed. Files that somebody else changed since are left alone unless that is said as well. The prompt itself
is given back to be edited.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.checkpoints.file_restore import Action, RestoreStep
from agent.checkpoints.recorder import Checkpoints
from agent.dates import when
from agent.events import CommandOutput, Notice, PromptRestored
from agent.menus import Menu, MenuRow, question
from agent.session.repository import load_deferred
from agent.session.scrollback import prompt_texts
from tools.text_encoding import pluralize
from transcripts.entries import Prompt
from transcripts.fold import Folded

if TYPE_CHECKING:
    from agent.ports import Chooser

    from .controller import Controller

WHAT = ("conversation", "files", "both")
SHOWN = 200  # files of a plan that are listed
TITLE = 400  # characters of a prompt in a list
WOULD: dict[Action, str] = {
    "restore": "would restore",
    "create": "would create",
    "remove": "would remove",
    "mode": "would set the mode of",
    "lost": "cannot restore",
}
NO_CHECKPOINTS = "there are no checkpoints of files without a record (--no-session)"


@dataclass(frozen=True, slots=True)
class RewindPoint:
    """A prompt that one can go back to before. `at` in seconds since the epoch, `number` from 1."""

    number: int
    seq: int
    at: float
    text: str

    @property
    def title(self) -> str:
        return " ".join(self.text[:TITLE].split())


def points(folded: Folded) -> list[RewindPoint]:
    """The prompts that one can go back to before, oldest first."""
    found: list[RewindPoint] = []
    for entry in folded.entries:
        if isinstance(entry, Prompt) and (texts := prompt_texts(entry)):
            found.append(RewindPoint(len(found) + 1, entry.seq, entry.fact.ts, texts[-1]))
    return found


def menu(agent: Controller, listed: list[RewindPoint]) -> Menu:
    """The points to choose from, the newest first; values are their numbers."""
    keeper, now = _keeper(agent), agent.in_use[1].clock.now()
    touched = keeper.touched(point.seq for point in listed) if keeper else {}
    rows = [
        MenuRow(
            str(point.number),
            point.title,
            (when(point.at, now), *([_files_since(touched[point.seq])] if keeper else [])),
            key=str(point.number),
        )
        for point in reversed(listed)
    ]
    return Menu("Go back to before which prompt?", tuple(rows))


async def rewind_by_choice(agent: Controller, chooser: Chooser, listed: list[RewindPoint]) -> None:
    """Let the person choose the point and what goes back, and do it."""
    row = await chooser.choose(menu(agent, listed))
    if row is None:
        return
    point = listed[int(row.value) - 1]
    plan = await _plan(agent, point)
    if plan:
        agent.emit(CommandOutput("\n".join(_listed(agent, plan))))
    answer = await chooser.choose(_what(point, plan))
    if answer is None or answer.value == "cancel":
        return
    theirs = False
    if answer.value != "conversation" and (changed := [step for step in plan if step.by_user]):
        how = await chooser.choose(_whose(len(changed)))
        if how is None or how.value == "cancel":
            return
        theirs = how.value == "theirs"
    if answer.value != "conversation":
        await _restore(agent, plan, theirs)
    if answer.value != "files":
        _take_back(agent, point)


async def rewind_to(agent: Controller, argument: str, listed: list[RewindPoint]) -> None:
    """Go back to before a prompt: `N [conversation|files|both] [yes] [theirs]`."""
    number, *words = argument.split()
    what = next((word for word in words if word in WHAT), "conversation")
    unknown = [word for word in words if word not in (*WHAT, "yes", "theirs")]
    if unknown or not number.isdecimal() or not 1 <= int(number) <= len(listed):
        agent.emit(
            Notice(
                f"/rewind N, with N from 1 to {len(listed)}; then files or both; then yes, and theirs",
                "warning",
            )
        )
        return
    point = listed[int(number) - 1]
    if what != "conversation":
        if _keeper(agent) is None:
            agent.emit(Notice(NO_CHECKPOINTS, "warning"))
            return
        plan = await _plan(agent, point)
        if plan and "yes" not in words:
            _tell(agent, plan, f"/rewind {number} {what}")
            return
        await _restore(agent, plan, "theirs" in words)
    if what != "files":
        _take_back(agent, point)


def _take_back(agent: Controller, point: RewindPoint) -> None:
    session, _ = agent.in_use
    load_deferred(session)
    session.rewound(point.seq, {"prompt": point.text[:200]})
    agent.emit(Notice(f"the conversation is as it was before: {point.title[:60]!r}"))
    agent.emit(PromptRestored(point.text))


def _keeper(agent: Controller) -> Checkpoints | None:
    keeper = agent.in_use[1].checkpoints
    return keeper if isinstance(keeper, Checkpoints) else None


async def _plan(agent: Controller, point: RewindPoint) -> list[RestoreStep]:
    """What has to happen to the files; nothing without checkpoints."""
    keeper = _keeper(agent)
    return await asyncio.to_thread(keeper.plan_restore, point.seq) if keeper else []


async def _restore(agent: Controller, plan: list[RestoreStep], theirs: bool) -> None:
    keeper = _keeper(agent)
    if keeper is None or not plan:
        agent.emit(Notice("no file had to change"))
        return
    left = await asyncio.to_thread(keeper.restore, plan, lambda step: theirs)
    for step, why in left:
        agent.emit(Notice(f"{step.path}: {why}", "warning"))
    done = len(plan) - len(left)
    told = f"{pluralize(done, 'file')} {'is' if done == 1 else 'are'} as before"
    agent.emit(Notice(told if done else "no file was changed"))


def _tell(agent: Controller, plan: list[RestoreStep], command: str) -> None:
    theirs = " (add theirs for the files that were changed since)" if any(s.by_user for s in plan) else ""
    agent.emit(CommandOutput("\n".join(_listed(agent, plan))))
    agent.emit(Notice(f"{command} yes does this{theirs}"))


def _listed(agent: Controller, plan: list[RestoreStep]) -> list[str]:
    keeper = _keeper(agent)
    more = [f"... and {len(plan) - SHOWN} more"] if len(plan) > SHOWN else []
    uncovered = keeper.uncovered() if keeper else []
    return [*map(_line, plan[:SHOWN]), *more, *(f"not covered: {line}" for line in uncovered)]


def _what(point: RewindPoint, plan: list[RestoreStep]) -> Menu:
    """What is to go back. Without files to change only the conversation can."""
    title = f"Back to before: {point.title}"
    if not plan:
        return question(
            title,
            conversation="The conversation (no file has to change); the prompt comes back to be edited",
            cancel="Cancel",
        )
    files = f"{pluralize(len(plan), 'file')}, +{sum(s.added for s in plan)} -{sum(s.removed for s in plan)}"
    return question(
        title,
        conversation="The conversation; the prompt comes back to be edited",
        files=f"The files: {files}",
        both=f"Both: the conversation, and {files}",
        cancel="Cancel",
    )


def _whose(count: int) -> Menu:
    verb = "was" if count == 1 else "were"
    return question(
        f"{pluralize(count, 'file')} {verb} changed by somebody else since",
        keep="Leave those as they are now",
        theirs="Bring those back as well: what was changed in them since is lost from the files",
        cancel="Cancel",
    )


def _line(step: RestoreStep) -> str:
    counts = f"+{step.added} -{step.removed}" if step.added or step.removed else ""
    mark = "  changed by somebody else since" if step.by_user else ""
    return f"{WOULD[step.action]:<14} {step.path}  {counts}{mark}"


def _files_since(count: int) -> str:
    return f"{pluralize(count, 'file')} changed since" if count else "no files changed since"
