"""Rewind a project: its files, then what commands destroyed in git, since git looks at the files."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from msgspec import Struct

from transcripts.wording import pluralize

from .file_restore import RestoreStep, count_steps, plan_restore, restore
from .git_restore import RefStep, plan_refs, restore_refs
from .git_state import GitRunner
from .recorder import Checkpoints


class RewindPlan(Struct, frozen=True):
    """The steps that restore the files, and those that restore branches, tags and stash entries."""

    files: list[RestoreStep]
    refs: list[RefStep]

    def __bool__(self) -> bool:
        return bool(self.files or self.refs)

    @property
    def changed_since(self) -> int:
        """The number of steps for what others have changed since."""
        steps: list[RestoreStep | RefStep] = [*self.files, *self.refs]
        return sum(step.changed_since for step in steps)

    @property
    def summary(self) -> str:
        """The things that it restores, counted in words."""
        refs = pluralize(len(self.refs), "item in git", "items in git") if self.refs else ""
        return " and ".join(filter(None, (count_steps(self.files), refs)))

    def without(self, steps: Mapping[RestoreStep | RefStep, str]) -> RewindPlan:
        """Return the plan without the steps that failed."""
        return RewindPlan(
            [step for step in self.files if step not in steps],
            [step for step in self.refs if step not in steps],
        )


async def plan_rewind(checkpoints: Checkpoints, to_seq: int, git: GitRunner | None) -> RewindPlan:
    """Return the steps that bring back the state before fact `to_seq`; without `git` only those of the files.

    Changes nothing, but finishes the recording of pending changes: call it between two tool calls.
    """
    files = await asyncio.to_thread(plan_restore, checkpoints, to_seq)
    return RewindPlan(files, await plan_refs(checkpoints, to_seq, git) if git is not None else [])


async def restore_rewind(
    checkpoints: Checkpoints, plan: RewindPlan, with_changed: bool, git: GitRunner
) -> dict[RestoreStep | RefStep, str]:
    """Carry out a plan. Returns the reason for each step that was not done.

    Steps for what others have changed since are only done if `with_changed`.
    """
    files = await asyncio.to_thread(restore, checkpoints, plan.files, with_changed)
    refs = await restore_refs(checkpoints, plan.refs, with_changed, git)
    return dict([*files.items(), *refs.items()])
