"""/rewind: restore the conversation, the files, or both, as they were before an earlier prompt.

Changes to files are listed first, with line counts, and made only after the user confirms them in a menu or
by typing. Files that others have changed since are only restored if the user confirms that as well. The
prompt is returned to the input for editing.
"""

from __future__ import annotations

import asyncio
from functools import partial

from msgspec import Struct

from agent.app import Controller, rewind_to, start_command
from agent.checkpoints import (
    Action,
    Checkpoints,
    GitRunner,
    RefStep,
    RestoreStep,
    RewindPlan,
    changed_files_since,
    plan_rewind,
    restore_rewind,
)
from agent.events import CommandOutput, Event, Notice, PromptRestored
from agent.menus import Menu, MenuRow, question_menu
from agent.ports import Chooser
from agent.session import prepare_rewind, show_rewound
from tools.files import one_line_path
from tools.processes import command_runner
from tools.search import run_git_script
from transcripts import Folded, Prompt, Result, format_age, short_sid, with_paste_labels
from transcripts.wording import pluralize, shorten

from .running import usage_notice
from .table import usage_of

SCOPES = ("conversation", "files", "both")
_THEIRS_OR_KEEP = "add `theirs` to restore such files as well, or `keep` to leave them as they are"
_BY_UNSEEN = "by an interrupted or background command"
MAX_LISTED_STEPS = 200
MAX_PROMPT_TITLE_CHARS = 400  # of a prompt in a list
ACTION_LABELS: dict[Action, str] = {
    "restore": "would restore",
    "create": "would create",
    "remove": "would remove",
    "mode": "would set the mode of",
    "lost": "cannot restore",
}


class RewindPoint(Struct, frozen=True):
    """A prompt before which the session can be rewound: its number from 1, its time since the epoch in s."""

    number: int
    seq: int
    at: float
    text: str

    @property
    def title(self) -> str:
        beginning = " ".join(with_paste_labels(self.text)[: 4 * MAX_PROMPT_TITLE_CHARS].split())
        return shorten(beginning, MAX_PROMPT_TITLE_CHARS)


async def rewind(controller: Controller, argument: str) -> Event | None:
    """Run /rewind."""
    points = rewind_points(controller.in_use.session.folded)
    if not points:
        return Notice("nothing to rewind: no earlier prompts")
    if checkpoints := checkpoints_of(controller):
        checkpoints.use_git(controller.in_use.context.tool_context)
        await asyncio.to_thread(checkpoints.catch_up)
    if argument:
        return await _rewind(controller, points, argument)
    if controller.chooser is None:
        controller.emit(CommandOutput("\n".join(_points_menu(controller, points).keyed_lines())))
        return Notice(usage_of("rewind"))
    chosen = await _choose(controller, points, controller.chooser)
    return await _rewind(controller, points, chosen) if chosen else None


def rewind_points(folded: Folded) -> list[RewindPoint]:
    """Return the prompts before which the session can be rewound, oldest first."""
    points: list[RewindPoint] = []
    for entry in folded.entries:
        if isinstance(entry, Prompt) and (texts := entry.texts):
            # A call of a server's prompt is followed by the text that it expands to.
            calls = [text for text in texts if text.startswith("/mcp__")]
            points.append(
                RewindPoint(len(points) + 1, seq=entry.seq, at=entry.fact.ts, text=(calls or texts)[-1])
            )
    return points


def checkpoints_of(controller: Controller) -> Checkpoints | None:
    """Return the checkpoints of the session in use, None if it has no transcript."""
    return controller.in_use.context.checkpoints


def why_no_files(controller: Controller) -> str:
    """Return the reason why no files can be compared or restored, "" if they can be."""
    folder = controller.in_use.context.tool_context.folder
    if checkpoints_of(controller) is None:
        return "cannot compare or restore files: sessions with --no-session have no checkpoints"
    return "" if folder.is_dir() else f"cannot compare or restore files: the project {folder} does not exist"


def gaps_of(controller: Controller) -> list[str]:
    """Return the changes in this session that /diff and /rewind do not cover, one line each."""
    checkpoints = checkpoints_of(controller)
    session, context = controller.in_use
    if checkpoints is None:
        return []
    gaps = checkpoints.uncovered()
    for folder in context.tool_context.added:
        gaps.append(f"changes in the added directory {folder}")
    abouts = (fact.about for fact in session.folded.facts if isinstance(fact, Result))
    jobs = dict.fromkeys(job for about in abouts if isinstance(job := about.get("job"), str))
    if earlier := [job for job in jobs if job not in command_runner(context.tool_context).jobs]:
        gaps.append(f"what background commands of earlier runs changed in git ({', '.join(earlier)})")
    return gaps


async def _choose(controller: Controller, points: list[RewindPoint], chooser: Chooser) -> str | None:
    """Let the user choose in menus; returns the choices as typed arguments, None if cancelled."""
    row = await chooser.choose(_points_menu(controller, points))
    if row is None:
        return None
    point = points[int(row.value) - 1]
    plan = await _plan(controller, point)
    if plan or gaps_of(controller):
        controller.emit(_described_plan(controller, plan))
    scope = await chooser.choose(_scope_menu(point, plan))
    if scope is None or scope.value == "cancel":
        return None
    if scope.value == "conversation" or not plan.changed_since:
        return f"{point.number} {scope.value} yes"
    choice = await chooser.choose(_changed_files_menu(plan))
    if choice is None or choice.value == "cancel":
        return None
    return f"{point.number} {scope.value} yes {choice.value}"


async def _rewind(controller: Controller, points: list[RewindPoint], argument: str) -> Event | None:
    """Rewind by `N [conversation|files|both] [yes] [theirs|keep]`; without `yes` only show file changes."""
    number, *words = argument.split()
    if not number.isdecimal() or not 1 <= int(number) <= len(points):
        return usage_notice("rewind", f"cannot rewind to {number!r}: N must be from 1 to {len(points)}")
    if unknown := [word for word in words if word not in (*SCOPES, "yes", "theirs", "keep")]:
        return usage_notice("rewind", f"unknown word {unknown[0]!r}")
    point = points[int(number) - 1]
    scope = next((word for word in words if word in SCOPES), "conversation")
    if scope != "conversation":
        if why := why_no_files(controller):
            return Notice(why, "warning")
        plan = await _plan(controller, point)
        if plan and "yes" not in words:
            controller.emit(_described_plan(controller, plan))
            choice = f" ({_THEIRS_OR_KEEP})" if plan.changed_since else ""
            return Notice(f"run /rewind {number} {scope} yes to make these changes{choice}")
        if scope == "both" and plan.changed_since and not {"theirs", "keep"} & set(words):
            # Once the prompt is gone, its number no longer leads to these files.
            return Notice(f"nothing was rewound: {_changed_outside(plan)}; {_THEIRS_OR_KEEP}", "warning")
        controller.emit(await _restore_files(controller, plan, "theirs" in words))
    if scope == "files":
        return None
    session, context = controller.in_use
    await prepare_rewind(session, point.seq)
    newest = session.folded.last_seq
    rewind_to(session, context, point.seq, {"prompt": point.text[:200]})
    title = shorten(point.title, 60)
    controller.emit(Notice(f"rewound the conversation to before prompt {point.number}: {title}"))
    if controller.services.repository.keep:
        program = start_command(controller.setup.options)
        way_back = f"{program}-r {short_sid(session.sid)} --at r{newest}"
        controller.emit(Notice(f"the removed part is kept; continue from it in a copy with {way_back}"))
    show_rewound(session, context.tools, controller.emit, context.compaction.settings.policy)
    return PromptRestored(point.text)


async def _plan(controller: Controller, point: RewindPoint) -> RewindPlan:
    """Return the steps that restore the files; empty if no file can be restored."""
    checkpoints = None if why_no_files(controller) else checkpoints_of(controller)
    if checkpoints is None:
        return RewindPlan([], [])
    return await plan_rewind(checkpoints, point.seq, _git_of(controller))


def _git_of(controller: Controller) -> GitRunner:
    return partial(run_git_script, controller.in_use.context.tool_context)


async def _restore_files(controller: Controller, plan: RewindPlan, with_changed: bool) -> Notice:
    checkpoints = checkpoints_of(controller)
    if checkpoints is None or not plan:
        gaps = gaps_of(controller)
        for gap in gaps:
            controller.emit(Notice(f"not covered: {gap}", "warning"))
        return Notice("no recorded changes to restore" if gaps else "no files to restore")
    failures = await restore_rewind(checkpoints, plan, with_changed, _git_of(controller))
    for step, reason in failures.items():
        controller.emit(Notice(f"{one_line_path(step.title)}: {reason}", "warning"))
    done = plan.without(failures)
    return Notice(_done_words(done) or "no files were restored")


def _done_words(done: RewindPlan) -> str:
    """Describe what a rewind did with the files: `restored 2 files, removed 1 file`."""
    removals = RewindPlan([step for step in done.files if step.action == "remove"], [])
    others = RewindPlan([step for step in done.files if step.action != "remove"], done.refs)
    words = {"restored": others, "removed": removals}
    return ", ".join(f"{what} {plan.summary}" for what, plan in words.items() if plan)


def _points_menu(controller: Controller, points: list[RewindPoint]) -> Menu:
    """Return a menu of the points, newest first; its values are their numbers."""
    checkpoints = checkpoints_of(controller)
    now = controller.in_use.context.clock.now()
    changes = checkpoints.log.changes if checkpoints else []
    counts = changed_files_since(changes, (point.seq for point in points))
    qualifier = "known to have " if checkpoints and checkpoints.uncovered() else ""
    rows = []
    for point in reversed(points):
        count = counts[point.seq]
        files = f"{pluralize(count, 'file') if count else 'no files'} {qualifier}changed since"
        facts = (format_age(point.at, now), *([files] if checkpoints else []))
        rows.append(MenuRow(str(point.number), title=point.title, facts=facts, key=str(point.number)))
    return Menu("Rewind to before which prompt?", tuple(rows))


def _scope_menu(point: RewindPoint, plan: RewindPlan) -> Menu:
    """Return a menu of what to restore: only the conversation if no file has to change."""
    unchanged = "" if plan else " (no file is known to have changed)"
    answers = {"conversation": f"The conversation{unchanged}, and edit the prompt"}
    if plan:
        added = sum(step.added for step in plan.files)
        removed = sum(step.removed for step in plan.files)
        files = f"{plan.summary}, +{added} -{removed}" if plan.files else plan.summary
        answers |= {"files": f"The files: {files}", "both": f"Both: the conversation, and {files}"}
    return question_menu(f"Rewind to before: {point.title}", **answers, cancel="Cancel")


def _changed_files_menu(plan: RewindPlan) -> Menu:
    return question_menu(
        _changed_outside(plan),
        keep="Keep those changes",
        theirs="Restore those files as well, and lose those changes",
        cancel="Cancel",
    )


def _changed_outside(plan: RewindPlan) -> str:
    count = plan.changed_since
    verb = "was" if count == 1 else "were"
    by = f"{_BY_UNSEEN}, or " if any(step.interrupted for step in plan.files) else ""
    return f"{pluralize(count, 'file')} {verb} changed {by}outside this session since"


def _described_plan(controller: Controller, plan: RewindPlan) -> CommandOutput:
    lines = [*map(_step_line, plan.refs), *map(_step_line, plan.files)]
    more = [f"... and {len(lines) - MAX_LISTED_STEPS} more"] if len(lines) > MAX_LISTED_STEPS else []
    gaps = gaps_of(controller)
    steps = lines[:MAX_LISTED_STEPS]
    return CommandOutput("\n".join([*steps, *more, *(f"not covered: {gap}" for gap in gaps)]))


def _step_line(step: RestoreStep | RefStep) -> str:
    counts = ""
    if isinstance(step, RestoreStep):
        counts = f"  +{step.added} -{step.removed}" if step.added or step.removed else "  "
    mark = ""
    if isinstance(step, RestoreStep) and step.interrupted:
        mark = f"  (changed {_BY_UNSEEN}, or outside this session since)"
    elif step.changed_since:
        mark = "  (changed outside this session since)"
    if isinstance(step, RestoreStep) and step.link:
        mark += f"  (as a file of its own, no longer a hard link to {one_line_path(step.link)})"
    return f"{ACTION_LABELS[step.action]:<14} {one_line_path(step.title)}{counts}{mark}"
