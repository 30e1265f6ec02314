"""Git worktrees of a project, so that several sessions can work side by side.

Each is a checkout of its own in `.makeroom/worktrees`, which git ignores, on a branch of the same name:

    /p                              the project, on branch main
    /p/.makeroom/worktrees/parser   a worktree, on branch parser
    /p/.git/worktrees/parser        its HEAD and index
"""

from __future__ import annotations

import re
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from msgspec import Struct

from agent.checkpoints import GitRunner
from agent.errors import UsageError
from tools.files import FileError
from tools.processes import CommandContext, command_runner
from tools.search import Checkout, run_git_script
from transcripts import RECORD_FOLDERS, RECORDS_FOLDER, ProjectRecords, ensure_private_folder
from transcripts.wording import pluralize

from .included_files import WORKTREES, copy_included, unchanged_copies
from .worktree_scripts import (
    ADD,
    DIFF,
    HEAD,
    IGNORED,
    MERGE,
    REMOVE,
    STATE,
    UNCOMMITTED,
    WORK,
    NameTaken,
    listed_names,
    run_script,
)

IGNORE_FILES = (".gitignore", ".ignore")


class WorktreeState(Struct, frozen=True):
    """The state of a worktree.

    changed  the number of files with changes that are not committed
    ahead    the number of commits that the project's branch, `onto`, does not contain
    """

    changed: int
    ahead: int
    onto: str

    @property
    def clean(self) -> bool:
        """Return whether removing the worktree loses nothing but ignored files."""
        return not self.changed and not self.ahead

    def __str__(self) -> str:
        parts = [pluralize(self.changed, "changed file")] if self.changed else []
        parts += [f"{pluralize(self.ahead, 'commit')} not in {self.onto}"] if self.ahead else []
        return " and ".join(parts) or "no changes"


class Worktree(Struct, frozen=True):
    """A worktree of the checkout at `project`, a real path. Its branch has its name.

    All methods raise UsageError if git fails.
    """

    project: Path
    name: str

    @property
    def path(self) -> Path:
        return self.project / WORKTREES / self.name

    @property
    def exists(self) -> bool:
        return (self.path / ".git").is_file()

    async def state(self, git: GitRunner) -> WorktreeState:
        """Return the state of the worktree."""
        left_out = await self._left_out(git)
        lines = (await run_script(git, self.project, STATE, str(self.path), *left_out)).split("\n")
        changed, ahead, onto = lines[-3:]  # after warnings
        return WorktreeState(int(changed), ahead=int(ahead), onto=onto)

    async def diff(self, git: GitRunner) -> str:
        """Return what merging the worktree would change, new files included, as a diff."""
        return await run_script(git, self.project, DIFF, str(self.path), *await self._left_out(git))

    async def head(self, git: GitRunner) -> str:
        """Return the commit that is checked out."""
        return await run_script(git, self.project, HEAD, str(self.path))

    async def work_since(self, git: GitRunner, base: str) -> str:
        """Return what has changed since a commit, as `git diff --stat` prints it; "" for nothing."""
        left_out = await self._left_out(git)
        return (await run_script(git, self.project, WORK, str(self.path), base, *left_out)).rstrip()

    async def merge(self, git: GitRunner) -> None:
        """Commit the changes in the worktree, and merge its commits into the project's branch.

        If they conflict, the project is not changed.
        """
        try:
            message = f"Add the work of worktree {self.name}"
            left_out = await self._left_out(git)
            await run_script(git, self.project, MERGE, str(self.path), message, *left_out)
        except UsageError as error:
            raise UsageError(f"cannot merge the worktree {self.name}: {error}") from error

    async def remove(self, git: GitRunner) -> None:
        """Remove the worktree and its branch, if it is clean; its transcripts are moved to the project."""
        listed = await listed_names(git, self.project, IGNORED, str(self.path))
        records = [name.rstrip("/") for name in listed if Path(name).name in RECORD_FOLDERS]
        for name in records:
            if ProjectRecords((self.path / name).parent).holder() is not None:
                raise UsageError(f"cannot remove the worktree {self.name}: a session is open in it")
        state = await self.state(git)
        if not state.clean:
            raise UsageError(f"cannot remove the worktree {self.name}: it has {state}")
        for name in records:
            _move_records(self.path / name, self.project / name)
        try:
            await self.discard(git, self.project)
        except UsageError as error:
            raise UsageError(f"cannot remove the worktree {self.name}: {error}") from error

    async def discard(self, git: GitRunner, start: Path) -> None:
        """Remove the worktree, in which nothing has changed, and its branch, which began in `start`."""
        copies = await unchanged_copies(git, self.project, self.path)
        names = (f":(top,literal){name}" for name in copies)
        await run_script(git, start, REMOVE, str(self.path), self.name, *names)

    async def _left_out(self, git: GitRunner) -> list[str]:
        """Return pathspecs with which git excludes the copies that do not count as work."""
        copies = await unchanged_copies(git, self.project, self.path)
        return [f":(top,exclude,literal){name}" for name in copies]


class Worktrees(Struct, frozen=True):
    """The worktrees of the checkout at `project`, a real path."""

    project: Path

    @classmethod
    def around(cls, folder: Path) -> Worktrees | None:
        """Return the worktrees for a directory, those of its project if it is in one; None without git."""
        checkout = Checkout.around(folder)
        if checkout is None:
            return None
        top = checkout.top
        return cls(top.parents[2] if top.parent.parts[-2:] == WORKTREES.parts else top)

    def inside(self, folder: Path) -> Path:
        """Return the path of a directory within its checkout: the project's, or that of a worktree."""
        path = folder.relative_to(self.project)
        return Path(*path.parts[3:]) if path.parts[:2] == WORKTREES.parts else path

    def listed(self) -> list[Worktree]:
        """Return the worktrees that exist, by name."""
        paths = sorted((self.project / WORKTREES).glob("*/.git"))
        return [Worktree(self.project, path.parent.name) for path in paths if path.is_file()]

    async def open(
        self, git: GitRunner, name: str, prefix: str = "work", start: Path | None = None
    ) -> tuple[Worktree, list[str]]:
        """Return the worktree of that name, created if it does not exist, and warnings.

        Without a name, a new one is made, named after the prefix: work-1, work-2, ... Its branch begins at
        HEAD of the checkout `start`, by default the project's. Raises UsageError.
        """
        if name:
            _require_name(name)
            if (found := Worktree(self.project, name)).exists:
                return found, []
        self._prepare()
        names = [name] if name else (f"{prefix}-{number}" for number in range(1, 1_000))
        why = "too many exist"
        for each in names:
            found = Worktree(self.project, each)
            if found.path.exists():
                why = f"{found.path} already exists"
                continue
            try:
                await run_script(git, start or self.project, ADD, str(found.path), each)
                return found, await copy_included(git, self.project, found.path)
            except NameTaken as error:
                why = str(error)
            except UsageError as error:
                why = str(error)
                break
        raise UsageError(f"cannot create the worktree{f' {name}' if name else ''}: {why}")

    async def left_behind(self, git: GitRunner, worktree: Worktree) -> int:
        """Return the number of files whose changes in the project are not committed. Raises UsageError."""
        return int(await run_script(git, self.project, UNCOMMITTED, str(worktree.path)))

    def _prepare(self) -> None:
        """Create the directory of worktrees, and exclude it from git. Raises UsageError."""
        place = self.project / WORKTREES
        try:
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            if place.resolve() != place:
                raise UsageError(f"cannot create a worktree in {place}: a symbolic link leads elsewhere")
            Checkout(self.project).exclude(place)
        except (FileError, OSError) as error:
            raise UsageError(f"cannot create a worktree in {place}: {error}") from error


@asynccontextmanager
async def git_outside_session(folder: Path, environ: Mapping[str, str]) -> AsyncIterator[GitRunner]:
    """Yield a function that runs git where there is no session, outside the sandbox."""
    outputs = ProjectRecords(folder).outputs
    context = CommandContext(folder, cwd=folder, outputs=outputs, journals=outputs, environ=environ)
    try:
        # a checkout of a large project on a slow disk
        yield partial(run_git_script, context, limit_s=300.0, outside=True)
    finally:
        await command_runner(context).close()


def _require_name(name: str) -> None:
    """Raise UsageError if a name is not valid for both a directory and a branch."""
    named = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*", name)
    if not named or name.endswith(".lock") or len(name) > 64:
        raise UsageError(
            f"invalid worktree name {name!r}: use at most 64 letters, digits, dots, dashes and underscores"
        )


def _move_records(source: Path, target: Path) -> None:
    """Move transcripts or stored outputs. Checkpoints stay behind: their files are gone."""
    ensure_private_folder(target)
    for path in source.iterdir():
        if path.suffix == ".jsonl" or (source.name != RECORDS_FOLDER and path.name not in IGNORE_FILES):
            shutil.move(path, target / path.name)
