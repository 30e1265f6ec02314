"""Git worktrees of a project, so that several sessions can work side by side.

Each is a checkout of its own in `.makeroom/worktrees`, which git ignores, on a branch of the same name:

    /p                              the project, on branch main
    /p/.makeroom/worktrees/parser   a worktree, on branch parser
    /p/.git/worktrees/parser        its HEAD and index

git runs no program that the repository's own settings name: hooks and signatures are off, and a repository
that defines filters or merge drivers of its own is refused. For a repository within a worktree, git would run
another git with settings that commands may have changed. Such a worktree is not merged, and its state is read
without entering the repository.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import shutil
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from msgspec import Struct

from agent.errors import UsageError
from tools.files import FileError, closing, safe_open
from tools.processes import CommandContext, command_runner
from tools.search import Checkout, GitFailed, run_git_script
from transcripts import RECORD_FOLDERS, RECORDS_FOLDER, ProjectRecords, ensure_private_folder, lock_holder
from transcripts.wording import cause_of, pluralize

GitRunner = Callable[[Path, str, Sequence[str]], Awaitable[str]]  # run_git_script for one context
WORKTREES = Path(".makeroom", "worktrees")
IGNORE_FILES = (".gitignore", ".ignore")
# A script prints "ok" as its last line; if it does not, its output is the reason, before "taken" if another
# branch or worktree has the name. $1 is the worktree.
_CHECKED = r"""
exec 2>&1
programs='^(filter[.].*[.](clean|smudge|process)|merge[.].*[.]driver)$'
for place in . "$1"; do
    if [ -d "$place" ] && "$0" -C "$place" config --show-scope --get-regexp "$programs" |
        grep -qE '^(local|worktree)'
    then
        echo "the repository's own settings define filters or merge drivers, which makeroom does not run"
        exit 0
    fi
done
"""
_WITHOUT_REPOSITORIES = r"""
tab=$(printf '\t')
within=$(
    "$0" -C "$1" -c core.quotePath=false ls-files -s | sed -n "s/^160000 [^$tab]*$tab//p" |
        while IFS= read -r name; do
            # A quoted name contains special characters.
            if [ "${name#\"}" != "$name" ] || [ -e "$1/$name/.git" ] || [ -L "$1/$name/.git" ]; then
                printf '%s\n' "$name"
            fi
        done
    "$0" -C "$1" -c core.quotePath=false ls-files --others --exclude-standard | grep '/"\{0,1\}$'
)
[ -z "$within" ] || { echo "it contains other repositories:" $within; exit 0; }
"""
_ADD = f"""{_CHECKED}
"$0" rev-parse -q --verify 'HEAD^0' >/dev/null || {{ echo "the repository has no commits"; exit 0; }}
if "$0" rev-parse -q --verify "refs/heads/$2" >/dev/null; then
    echo "a branch named '$2' already exists"
    echo taken
elif "$0" -c checkout.workers=0 worktree add -q -b "$2" "$1" HEAD; then
    echo ok
elif [ -e "$1/.git" ]; then  # another process was first
    echo taken
fi
exit 0
"""
# $1 is a worktree, $2 the commit that its branch began at; the other arguments leave out copies.
_WORK = f"""{_CHECKED}{_WITHOUT_REPOSITORIES}
index=$(mktemp) || exit 0
trap 'rm -f "$index"' EXIT
base=$2
commits=$("$0" -C "$1" rev-list --count "$base..HEAD") || exit 0
cd "$1" || exit 0
shift 2
cp "$("$0" rev-parse --git-path index)" "$index" || exit 0
export GIT_INDEX_FILE="$index"
"$0" add -A -- . "$@" 2>/dev/null || exit 0
"$0" diff --cached --no-ext-diff --no-textconv --no-color --stat=100 "$base" || exit 0
[ "$commits" = 0 ] || printf '%s\\n' " commits: $commits"
echo ok
exit 0
"""
_HEAD = """
exec 2>&1
"$0" -C "$1" rev-parse HEAD && echo ok
exit 0
"""
_UNTRACKED = """
exec 2>&1
"$0" -C "$1" ls-files -z --others --exclude-standard && printf '\\nok\\n'
exit 0
"""
# $1 is the worktree; the other arguments leave out copies. Its tree is written with an index of its own, so
# that the real one does not change.
_STATE = f"""{_CHECKED}
place=$1
shift
# Without files that are left out, a new directory counts as one.
[ $# = 0 ] && files=normal || files=all
changed=$(
    "$0" -C "$place" status --porcelain --ignore-submodules=dirty -u"$files" -- . "$@" | wc -l
) || exit 0
head=$("$0" -C "$place" rev-parse HEAD) || exit 0
ahead=$("$0" rev-list --count "$head" --not HEAD) || exit 0
onto=$("$0" symbolic-ref -q --short HEAD || echo "a detached HEAD")
printf '%s\\n' "$changed" "$ahead" "$onto" ok
"""
# $1 is the worktree. Prints the number of changed files of the project, a new directory counted as one.
_UNCOMMITTED = f"""{_CHECKED}
changed=$("$0" status --porcelain --ignore-submodules=dirty | wc -l) && printf '%s\\n' "$changed" ok
exit 0
"""
_DIFF = f"""{_CHECKED}{_WITHOUT_REPOSITORIES}
index=$(mktemp) || exit 0
trap 'rm -f "$index"' EXIT
base=$("$0" merge-base HEAD "$("$0" -C "$1" rev-parse HEAD)") || exit 0
cd "$1" || exit 0
shift
cp "$("$0" rev-parse --git-path index)" "$index" || exit 0
export GIT_INDEX_FILE="$index"
"$0" add -A -- . "$@" 2>/dev/null || exit 0
"$0" diff --cached --no-ext-diff --no-textconv --no-color "$base" && echo ok
exit 0
"""
# $1 is the worktree, $2 the message of a commit; the other arguments leave out copies. Conflicts are found
# before a file of the project changes.
_MERGE = f"""{_CHECKED}{_WITHOUT_REPOSITORIES}
top=$PWD
for name in MERGE_HEAD CHERRY_PICK_HEAD REVERT_HEAD; do
    [ ! -e "$("$0" rev-parse --git-path "$name")" ] || {{ echo "$top has an unfinished merge"; exit 0; }}
done
cd "$1" || exit 0
message=$2
shift 2
"$0" add -A -- . "$@" || exit 0
"$0" diff --cached --quiet || "$0" commit -q --no-gpg-sign -m "$message" || exit 0
head=$("$0" rev-parse HEAD) || exit 0
cd "$top" || exit 0
if ! "$0" merge-base --is-ancestor HEAD "$head"; then
    "$0" merge-tree --write-tree --name-only HEAD "$head" >/dev/null || {{
        echo "it conflicts with $("$0" symbolic-ref -q --short HEAD || echo HEAD)"
        exit 0
    }}
fi
"$0" merge -q --no-edit --no-gpg-sign "$head" && {{ echo ok; exit 0; }}
[ ! -e "$("$0" rev-parse --git-path MERGE_HEAD)" ] || "$0" merge --abort
"""
# Without --force git removes no worktree with changes, and no branch with commits that are nowhere else. $1
# is the worktree, $2 its branch; the other arguments are copies.
_REMOVE = """
exec 2>&1
place=$1
branch=$2
shift 2
[ $# = 0 ] || "$0" -C "$place" clean -f -q -- "$@" || exit 0
"$0" worktree remove "$place" || exit 0
# Another agent's git may hold the lock of all refs: git waits a second, too short for a slow disk.
"$0" -c core.packedRefsTimeout=10000 -c core.filesRefLockTimeout=10000 branch -q -d "$branch" || true
echo ok
"""
_IGNORED = """
exec 2>&1
cd "$1" && "$0" ls-files -z --others --ignored --exclude-standard --directory && printf '\\nok\\n'
exit 0
"""


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
        left_out = _left_out(await self._copies(git))
        lines = (await _run(git, self.project, _STATE, str(self.path), *left_out)).split("\n")
        changed, ahead, onto = lines[-3:]  # after warnings
        return WorktreeState(int(changed), ahead=int(ahead), onto=onto)

    async def diff(self, git: GitRunner) -> str:
        """Return what merging the worktree would change, new files included, as a diff."""
        return await _run(git, self.project, _DIFF, str(self.path), *_left_out(await self._copies(git)))

    async def head(self, git: GitRunner) -> str:
        """Return the commit that is checked out."""
        return await _run(git, self.project, _HEAD, str(self.path))

    async def work_since(self, git: GitRunner, base: str) -> str:
        """Return what has changed since a commit, as `git diff --stat` prints it; "" for nothing."""
        left_out = _left_out(await self._copies(git))
        return (await _run(git, self.project, _WORK, str(self.path), base, *left_out)).rstrip()

    async def merge(self, git: GitRunner) -> None:
        """Commit the changes in the worktree, and merge its commits into the project's branch.

        If they conflict, the project is not changed.
        """
        try:
            message = f"Add the work of worktree {self.name}"
            left_out = _left_out(await self._copies(git))
            await _run(git, self.project, _MERGE, str(self.path), message, *left_out)
        except UsageError as error:
            raise UsageError(f"cannot merge the worktree {self.name}: {error}") from error

    async def remove(self, git: GitRunner) -> None:
        """Remove the worktree and its branch, if it is clean; its transcripts are moved to the project."""
        listed = (await _run(git, self.project, _IGNORED, str(self.path))).rstrip("\n").split("\0")
        records = [name.rstrip("/") for name in listed if Path(name).name in RECORD_FOLDERS]
        for name in records:
            if session_holder(self.path / name) is not None:
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
        copies = (f":(top,literal){name}" for name in await self._copies(git))
        await _run(git, start, _REMOVE, str(self.path), self.name, *copies)

    async def _copies(self, git: GitRunner) -> list[str]:
        """Return the copies that `.worktreeinclude` asked for, if git does not ignore them there.

        They do not count as work of the session while the project has the same file, untracked there too.
        """
        named = await _included(git, self.project)
        if not named:
            return []
        listed = await _run(git, self.project, _UNTRACKED, str(self.path))
        untracked = set(listed.rstrip("\n").split("\0"))
        both = [name for name in named if name in untracked][:1_000]  # each is compared
        return await asyncio.to_thread(
            lambda: [name for name in both if _is_same(self.project / name, self.path / name)]
        )


def _left_out(names: Sequence[str]) -> list[str]:
    """Return pathspecs with which git excludes these files."""
    return [f":(top,exclude,literal){name}" for name in names]


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
                await _run(git, start or self.project, _ADD, str(found.path), each)
                return found, await _copy_included(git, found)
            except _NameTaken as error:
                why = str(error)
            except UsageError as error:
                why = str(error)
                break
        raise UsageError(f"cannot create the worktree{f' {name}' if name else ''}: {why}")

    async def left_behind(self, git: GitRunner, worktree: Worktree) -> int:
        """Return the number of files whose changes in the project are not committed. Raises UsageError."""
        return int(await _run(git, self.project, _UNCOMMITTED, str(worktree.path)))

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


def session_holder(records: Path) -> int | None:
    """Return the pid of a process that has a session here open, 0 if unknown; None if there is none."""
    holders = (lock_holder(path.with_suffix(".jsonl")) for path in records.glob("*.lock"))
    return next((pid for pid in holders if pid is not None), None)


def _require_name(name: str) -> None:
    """Raise UsageError if a name is not valid for both a directory and a branch."""
    named = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*", name)
    if not named or name.endswith(".lock") or len(name) > 64:
        raise UsageError(
            f"invalid worktree name {name!r}: use at most 64 letters, digits, dots, dashes and underscores"
        )


async def _copy_included(git: GitRunner, worktree: Worktree) -> list[str]:
    """Copy the untracked files that `.worktreeinclude` names; return a warning for each that cannot be."""
    warnings = []
    for name in await _included(git, worktree.project):
        source = worktree.project / name
        target = worktree.path / name
        if source.is_symlink() or target.exists():
            continue
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.parent.resolve().is_relative_to(worktree.path):
                warnings.append(f"{name} was not copied to the worktree: a link leads out of it")
                continue
            _copy_file(source, target)
        except OSError as error:
            warnings.append(f"{name} was not copied to the worktree: {cause_of(error)}")
    return warnings


_INCLUDED = """
exec 2>&1
"$0" ls-files -z --others --ignored --exclude-from="$1" && printf '\\nok\\n'
exit 0
"""


async def _included(git: GitRunner, project: Path) -> list[str]:
    """Return the untracked files of the project that `.worktreeinclude` names."""
    include = project / ".worktreeinclude"
    if not include.is_file():
        return []
    names = (await _run(git, project, _INCLUDED, str(include))).rstrip("\n").split("\0")
    ours = (f"{WORKTREES}/", *(f"{folder}/" for folder in RECORD_FOLDERS))
    return [name for name in names if name and not name.startswith(ours)]


def _is_same(one: Path, other: Path) -> bool:
    """Return whether both are regular files with the same content, without following links."""
    try:
        with (
            closing(safe_open(str(one), os.O_RDONLY | os.O_NONBLOCK)) as first,
            closing(safe_open(str(other), os.O_RDONLY | os.O_NONBLOCK)) as second,
        ):
            states = [os.fstat(first), os.fstat(second)]
            if not all(stat.S_ISREG(each.st_mode) for each in states):
                return False
            left = states[0].st_size
            is_same = left == states[1].st_size
            while is_same and left > 0:
                pieces = [os.read(each, 1 << 20) for each in (first, second)]
                is_same = pieces[0] == pieces[1] != b""
                left -= len(pieces[0])
            return is_same
    except OSError:
        return False


def _copy_file(source: Path, target: Path) -> None:
    """Copy a regular file with its mode to a new one, without following links. Raises OSError.

    A command of another session may exchange either path, and let the file grow, in the meantime.
    """
    with closing(safe_open(str(source), os.O_RDONLY | os.O_NONBLOCK)) as found:
        state = os.fstat(found)
        if not stat.S_ISREG(state.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        left = state.st_size
        with (
            closing(safe_open(str(target), os.O_WRONLY | os.O_CREAT | os.O_EXCL)) as made,
            open(made, "wb", closefd=False) as copy,
        ):
            os.fchmod(made, stat.S_IMODE(state.st_mode))
            while left > 0 and (piece := os.read(found, min(left, 1 << 20))):
                copy.write(piece)
                left -= len(piece)


def _move_records(source: Path, target: Path) -> None:
    """Move transcripts or stored outputs. Checkpoints stay behind: their files are gone."""
    ensure_private_folder(target)
    for path in source.iterdir():
        if path.suffix == ".jsonl" or (source.name != RECORDS_FOLDER and path.name not in IGNORE_FILES):
            shutil.move(path, target / path.name)


class _NameTaken(UsageError):
    """Another branch or worktree has the name."""


async def _run(git: GitRunner, folder: Path, script: str, *arguments: str) -> str:
    """Return the output of a script of this module. Raises UsageError with the words of git."""
    try:
        output = await git(folder, script, arguments)
    except GitFailed as error:
        raise UsageError(f"{error} (in {folder})") from error
    text, _, end = output.rstrip("\n").rpartition("\n")
    if end == "taken":
        raise _NameTaken(" ".join(text.removeprefix("fatal: ").split()))
    if end != "ok":
        raise UsageError(" ".join(output.removeprefix("fatal: ").split()) or "git failed")
    return text
