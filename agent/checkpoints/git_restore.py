"""Restore what commands changed in git: branches, tags, stash, HEAD, reflogs, open merges and the index.

A branch that was moved is put back only if its old commit is not part of the new one: commits that were added
stay, commits that were replaced (by a reset, an amend or a rebase) come back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from tools.search import GitFailed

from .change_log import UNSURE, RefChange
from .git_keeper import RefKeeper, Repository
from .git_operation import Operation, write_operation
from .git_state import NO_HEAD, STASH, GitRunner, Head, RepositoryState
from .recorder import Checkpoints
from .reflogs import STASH_LOG

RECOVERED = "refs/heads/makeroom-"  # branches for commits that no branch had
_LOGS = "logs/"
_MAX_ARGUMENT_CHARS = 30_000  # of the 128 KB that Linux allows
_GROWING = ("refs/heads/", "refs/notes/")  # refs that move to descendants, unlike tags


class RefStep(Struct, frozen=True):
    """One step of a restore in a git repository.

    name           the ref, refs/stash for an entry of the stash, HEAD, index, or operation for an open one
    target         the object that it names afterwards
    now            the object that it names now, "" for none
    changed_since  others have changed it after the session did
    note           the message of a stash entry, the hash of the content of an annotated tag, the branch that
                   is checked out again ("": none), the kind of an operation, or the lines of a reflog
    """

    repository: str
    name: str
    action: Literal["restore", "create"]
    target: str
    now: str = ""
    changed_since: bool = False
    note: str = ""

    @property
    def title(self) -> str:
        """The thing that the step restores, in words."""
        kinds = {"refs/heads/": "branch", "refs/tags/": "tag"}
        kind = next((kind for prefix, kind in kinds.items() if self.name.startswith(prefix)), "")
        short = self.target[:9]
        within = f" of {self.repository}" if self.repository else ""
        if self.name == "index":
            return f"the staged changes{within}"
        if self.name == "operation":
            return f"{f'the open {self.note}' if self.note else 'the message of the next commit'}{within}"
        if self.name == "HEAD" and not self.note:
            return f"HEAD at {short}{within}"
        if self.name == "HEAD":
            return f"HEAD at branch {self.note.removeprefix('refs/heads/')}{within}"
        if self.name == STASH:
            return f"the stash entry '{self.note}' ({short}){within}"
        if self.name == STASH_LOG:
            return f"the order of the stash entries{within}"
        if self.name.startswith(_LOGS):
            return f"the reflog of {self.name.removeprefix(_LOGS).removeprefix('refs/heads/')}{within}"
        name = f"{kind} {self.name.split('/', 2)[2]}" if kind else self.name
        moved = f", now {self.now[:9]}" if self.now else ""
        return f"{name} at {short}{moved}{within}"


async def plan_refs(checkpoints: Checkpoints, to_seq: int, git: GitRunner) -> list[RefStep]:
    """Return the steps that bring back what commands destroyed since fact `to_seq`. Changes nothing.

    A repository where git fails has no steps.
    """
    keeper = checkpoints.recording.keeper
    if keeper.unsure:
        await keeper.look(git, checkpoints.recording.nested, checkpoints.seq(), is_own=False)
    await keeper.check(git)
    by_repository: dict[str, list[RefChange]] = {}
    for change in checkpoints.log.refs:
        if change.seq >= to_seq:
            name = _repository_of(change, keeper.root)
            by_repository.setdefault(name, []).append(replace(change, repository=name))
    steps: list[RefStep] = []
    checked_out: dict[str, _CheckedOut] = {}
    for name, changes in sorted(by_repository.items()):
        try:
            repository = await keeper.repository(name)
            state = await keeper.state(git, repository)
            if state is not None:
                found = await _steps(repository, git, state, changes)
                steps += _with_lost_lines(keeper, state, found)
                opened = next((step.target for step in found if step.name == "operation"), "")
                checked_out[name] = _CheckedOut(
                    repository.shared,
                    head=state.heads.get(str(repository.top), NO_HEAD),
                    refs=state.refs,
                    operation=keeper.operation(opened),
                )
        except GitFailed as error:
            keeper.unkept[name] = str(error)
    return list(_fitting(steps, checked_out))


def _repository_of(change: RefChange, root: Path) -> str:
    """Return the name of the repository in which a change is restored: for a HEAD, its own worktree."""
    tree = Path(change.note)
    if change.name == "HEAD" and tree != root and tree.is_relative_to(root) and (tree / ".git").exists():
        return str(tree.relative_to(root))
    return change.repository


def _with_lost_lines(
    keeper: RefKeeper, state: RepositoryState, steps: Iterable[RefStep]
) -> Iterator[RefStep]:
    """Yield the steps; those of reflogs with all of their lines as the note, unless none is missing."""
    for step in steps:
        if not step.name.startswith(_LOGS):
            yield step
        elif (text := keeper.restored_log(step.name, step.target, state)) and not (
            step.name == STASH_LOG and _is_in_order(text, state)
        ):
            yield replace(step, note=text)


def _is_in_order(log: str, state: RepositoryState) -> bool:
    """Return whether adding the missing stash entries one after another gives the order in the log."""
    wanted = [line.split(" ")[1] for line in log.splitlines()]
    there = [line.split(" ")[1] for line in state.logs.get(STASH_LOG, "").splitlines()]
    return [*there, *(entry for entry in wanted if entry not in there)] == wanted


class _CheckedOut(NamedTuple):
    """The HEAD of a working tree, the git directory that has its branch, and the refs there.

    operation  the one that may be open again
    """

    shared: Path
    head: Head
    refs: Mapping[str, str]
    operation: Operation | None

    def after(self, moved: RefStep | None, targets: Mapping[tuple[Path, str], str]) -> Head:
        """Return its HEAD after the step for it, and after the refs have been restored."""
        branch = self.head.branch
        commit = self.head.commit
        if moved is not None:
            branch = moved.note
            commit = "" if branch else moved.target
        return Head(targets.get((self.shared, branch), self.refs.get(branch, commit)), branch)


def _fitting(steps: Sequence[RefStep], checked_out: Mapping[str, _CheckedOut]) -> Iterator[RefStep]:
    """Yield the steps: HEAD only if its branch will exist, an index only if HEAD will be at its commit.

    An operation contains the index. It is open again only if HEAD will be where it was, unless the operation
    itself checks out commits.
    """
    # Worktrees have branches in common; other repositories have branches of the same name.
    targets = {(checked_out[step.repository].shared, step.name): step.target for step in steps}
    moved = {step.repository: step for step in steps if step.name == "HEAD"}
    for name, tree in checked_out.items():
        head = tree.after(moved.get(name), targets)
        operation = tree.operation
        if operation is not None and operation.moves_head:
            head = Head(operation.commit, branch="")
        elif operation is not None and head != (operation.commit, operation.branch):
            operation = None
        mine = [step for step in steps if step.repository == name]
        is_kept = any(step.changed_since for step in mine if step.name in ("HEAD", "operation"))
        for step in mine:
            if step.name == "operation":
                fits = operation is not None
                step = replace(step, note="" if operation is None else operation.kind)
            elif step.name == "index":
                fits = operation is None and step.note == head.commit
                step = replace(step, note="")
            elif step.name == "HEAD":
                fits = bool(head.commit) and not (operation is not None and operation.moves_head)
            else:
                is_head = not head.branch and step.target == head.commit and not is_kept
                fits = not (is_head and step.name.startswith(RECOVERED))
            if fits:
                yield step


# For each three arguments: "yes" if the first commit is part of the second one ("" for any ref). Notes that
# were removed or changed since are not part of the newer ones, unlike the history of a branch.
_CONTAINED = """
exec 2>/dev/null
while [ $# -gt 0 ]; do
    lost=
    case $3 in
        refs/notes/*) lost=$("$0" diff-tree -r --no-renames --diff-filter=DM "$1" "$2") ;;
    esac
    if [ -n "$lost" ]; then
        echo no
    elif [ -n "$2" ]; then
        "$0" merge-base --is-ancestor "$1" "$2" && echo yes || echo no
    elif [ -n "$("$0" for-each-ref --count=1 --contains "$1" refs/heads refs/tags refs/remotes)" ]; then
        echo yes
    else
        echo no
    fi
    shift 3
done
"""


async def _steps(
    repository: Repository, git: GitRunner, state: RepositoryState, changes: Sequence[RefChange]
) -> list[RefStep]:
    first: dict[tuple[str, str, str], RefChange] = {}
    last: dict[tuple[str, str, str], RefChange] = {}
    for change in changes:
        first.setdefault(change.key, change)
        last[change.key] = change
    head = state.heads.get(str(repository.top), NO_HEAD)
    data = state.operation(repository.top).encode()
    opened = sha256(data).hexdigest() if data else ""
    possible = [step for key in first for step in _possible(first[key], last[key], state, head, opened)]
    back: list[RefStep] = []
    moved = last.get((repository.name, "HEAD", str(repository.top)))
    if moved is not None and not head.branch:
        back = list(_moved_back(first[moved.key], moved, head))
        possible += back
    # Commits that a branch still has, or any ref if no branch had them, are not lost.
    pairs = {
        step: (step.target, step.now, step.name)
        for step in possible
        if step.name.startswith(RECOVERED) or (step.now and (step.name.startswith(_GROWING) or step in back))
    }
    contained: set[RefStep] = set()
    if pairs:
        answers = (
            await git(repository.top, _CONTAINED, [word for pair in pairs.values() for word in pair])
        ).split()
        contained = {step for step, answer in zip(pairs, answers, strict=False) if answer == "yes"}
    return [step for step in possible if step not in contained]


def _possible(
    first: RefChange, last: RefChange, state: RepositoryState, head: Head, opened: str
) -> Iterator[RefStep]:
    """Yield the step for one thing that changed, if it may have to be restored.

    `opened` is the hash of the open operation.
    """
    if first.name == "branch":
        yield from _checkout(first, last, head)
        return
    target = first.before
    name = first.name
    note = first.note
    now = state.refs.get(name, "")
    if name == STASH:
        now = target if target in state.stash else ""
    elif name == "HEAD":
        name = f"{RECOVERED}{target[:9]}"
        note = ""
        now = target if target in state.detached.values() else state.refs.get(name, "")
    elif name == "index":
        now = state.index
    elif name == "operation":
        now = opened
    if target in ("", now) or (now and name.startswith("refs/remotes/")):
        return
    may_grow = first.name == "HEAD" or name.startswith(_LOGS)  # what was added since stays
    yield RefStep(
        first.repository,
        name=name,
        action="create" if name.startswith(RECOVERED) and not now else "restore",
        target=target,
        now=now,
        changed_since=last.after == UNSURE if may_grow else now != last.after,
        note=note,
    )


def _checkout(first: RefChange, last: RefChange, head: Head) -> Iterator[RefStep]:
    """Yield the step that makes HEAD name its former branch; nothing is checked out."""
    branch = first.note.partition(" ")[0]
    if branch != head.branch and (branch.startswith("refs/heads/") or (not branch and first.before)):
        changed_since = head.branch != last.note.partition(" ")[2]
        yield _of_head(first, head, changed_since=changed_since, branch=branch)


def _moved_back(first: RefChange, last: RefChange, head: Head) -> Iterator[RefStep]:
    """Yield the step that moves a HEAD on no branch to its former commit; nothing is checked out."""
    if first.before not in ("", head.commit):
        yield _of_head(first, head, changed_since=head.commit != last.after)


def _of_head(first: RefChange, head: Head, *, changed_since: bool, branch: str = "") -> RefStep:
    """Return the step that restores HEAD as it was before a change: on a branch, or on a commit alone."""
    return RefStep(
        first.repository,
        name="HEAD",
        action="restore",
        target=first.before,
        now=head.commit,
        changed_since=changed_since,
        note=branch,
    )


# For each four arguments: "ok", or an error of git.
_RESTORE = """
while [ $# -gt 0 ]; do
    case $1 in
        ref) error=$("$0" update-ref --no-deref -m 'makeroom: restored' "$2" "$3" "$4" 2>&1) ;;
        stash)
            # Where the reflog has lost the newest entry, the ref still names it, and it would not be added
            # again. Deleting the ref deletes the reflog too.
            tip=$("$0" rev-parse -q --verify refs/stash)
            place=$("$0" rev-parse --git-path logs/refs/stash)
            if [ "$tip" = "$3" ] && { [ -f "$place" ] || [ -z "$("$0" reflog show refs/stash --)" ]; }; then
                mv -f "$place" "$place.restored"
                "$0" update-ref -d refs/stash "$3"
            elif [ -z "$tip" ]; then
                rm -f "$place"  # without the ref, it would contain each entry a second time
            fi 2>/dev/null
            error=$("$0" stash store -q -m "$2" "$3" 2>&1 &&
                { [ ! -f "$place.restored" ] || cat "$place" >>"$place.restored"; } &&
                { [ ! -f "$place.restored" ] || mv -f "$place.restored" "$place"; })
            ;;
        tag) error=$(printf %s "$2" | "$0" hash-object -t tag -w --stdin 2>&1 >/dev/null) ;;
        head) error=$("$0" symbolic-ref -m 'makeroom: restored' HEAD "$2" 2>&1) ;;
        commit) error=$("$0" update-ref --no-deref -m 'makeroom: restored' HEAD "$2" 2>&1) ;;
        conflicts) error=$(printf %s "$2" | "$0" update-index --index-info 2>&1) ;;
        log)
            place=$("$0" rev-parse --git-path "$2")
            [ -z "$3" ] || "$0" update-ref refs/stash "$3"  # which adds a line
            error=$(mkdir -p "${place%/*}" && mv "$place.restored" "$place" 2>&1)
            ;;
        part)  # of a reflog; the first one begins it
            place=$("$0" rev-parse --git-path "$2").restored
            [ "$4" != first ] || { mkdir -p "${place%/*}"; rm -f "$place"; }
            error=$( (printf %s "$3" >>"$place") 2>&1)
            ;;
        index) error=$("$0" read-tree "$3" 2>&1) ;;
    esac
    if [ $? = 0 ]; then echo ok; else printf '%s\\n' "${error:-git failed}" | head -n 1; fi
    shift 4
done
"""


async def restore_refs(
    checkpoints: Checkpoints, plan: Sequence[RefStep], with_changed: bool, git: GitRunner
) -> dict[RefStep, str]:
    """Carry out a plan. Returns the reason for each step that was not done.

    The current state is kept and recorded, so that restoring can be undone in the same way.
    """
    keeper = checkpoints.recording.keeper
    failures: dict[RefStep, str] = {}
    by_repository: dict[str, list[RefStep]] = {}
    operations = {step: keeper.own_operation(step.target) for step in plan if step.name == "operation"}
    for step in plan:
        if step.changed_since and not with_changed:
            failures[step] = "kept, since it was changed outside this session"
        elif step in operations and operations[step] is None:
            failures[step] = "its list of commits contains commands, and an earlier run recorded it"
        else:
            by_repository.setdefault(step.repository, []).append(step)
    if not by_repository:
        return failures
    nested = [repository for repository in by_repository if repository]
    await keeper.look(git, nested, checkpoints.seq(), is_own=False)
    for name, steps in by_repository.items():
        last = [step for step in steps if step.name in ("index", "operation") or step.name.startswith(_LOGS)]
        order = [*(step for step in reversed(steps) if step not in last), *last]
        calls = [call for step in order for call in _calls(keeper, step, operations.get(step))]
        try:
            repository = await keeper.repository(name)
            lines = await git(repository.top, _RESTORE, [word for _, *words in calls for word in words])
        except GitFailed as error:
            failures |= dict.fromkeys(steps, str(error))
            continue
        for (step, *_), answer in zip(calls, lines.splitlines(), strict=False):
            if answer != "ok":
                failures.setdefault(step, answer)
        for step in steps:
            if (operation := operations.get(step)) is not None and step not in failures:
                try:
                    await asyncio.to_thread(write_operation, repository.top, operation.files, keeper.places)
                except OSError as error:
                    failures[step] = str(error)
    await keeper.look(git, nested, checkpoints.seq(), is_own=True)
    return failures


def _calls(
    keeper: RefKeeper, step: RefStep, operation: Operation | None
) -> Iterator[tuple[RefStep, str, str, str, str]]:
    """Yield the arguments of the script for a step; `operation` is the one that is open again after it."""
    if step.name == STASH:
        yield (step, "stash", step.note, step.target, "")
    elif step.name == "HEAD":
        yield (step, "head", step.note, "", "") if step.note else (step, "commit", step.target, "", "")
    elif step.name == "index":
        yield (step, "index", "", step.target, "")
    elif step.name.startswith(_LOGS):
        for at in range(0, len(step.note), _MAX_ARGUMENT_CHARS):
            part = step.note[at : at + _MAX_ARGUMENT_CHARS]
            yield (step, "part", step.name, part, "" if at else "first")
        newest = step.note.splitlines()[-1].split(" ")[1] if step.name == STASH_LOG else ""
        yield (step, "log", step.name, newest, "")
    elif operation is not None:
        if operation.moves_head:
            yield (step, "commit", operation.commit, "", "")
        if operation.tree:
            yield (step, "index", "", operation.tree, "")
        lines = operation.conflicts.splitlines(keepends=True)
        for at in range(0, len(lines), 100):
            yield (step, "conflicts", "".join(lines[at : at + 100]), "", "")
    else:
        if content := keeper.tag_content(step.note).get(step.target):
            yield (step, "tag", content, "", "")
        yield (step, "ref", step.name, step.target, step.now)
