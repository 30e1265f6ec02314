"""The state of a git repository that a command could destroy, and a commit that keeps it from being pruned.

Read by one script of git calls, which also makes the objects of that state reachable: every commit that
branches, tags, stash entries, heads of worktrees and reflogs name becomes a parent of a commit, whose tree is
that of the index, under a ref of the session in `refs/makeroom/keep/`. Each such commit has the one before as
its parent, so it names only what is new. For a session "s1" the state may be

    ref 8d1c... commit refs/heads/main
    ref 77aa... tag refs/tags/v1
    stash 0b4f... WIP on main: 8d1c123 Add a parser
    worktree /p
    HEAD 8d1c...
    branch refs/heads/main
    index 5e2b...

and `git log refs/makeroom/keep/s1` then lists one commit with the parents 8d1c and 0b4f. The times of a few
files and directories show whether the state has changed since: git replaces refs by renaming.
"""

from __future__ import annotations

import os
import stat
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct, field

from tools.files import closing, safe_open
from tools.search import FILE_CLOCK_NS, Checkout, GitFailed
from transcripts.patterns import lazy_bytes_pattern, lazy_pattern

from .git_operation import OPERATION_FILES, OPERATION_FOLDERS, Operation, opened_git

GitRunner = Callable[[Path, str, Sequence[str]], Awaitable[str]]  # run_git_script for one session
KEPT_REFS = "refs/makeroom/"
STASH = "refs/stash"
STASH_LOG = f"logs/{STASH}"
_PASSING_REFS = (KEPT_REFS, "refs/bisect/", "refs/rewritten/", "refs/worktree/", "refs/prefetch/", STASH)
_ID = lazy_pattern(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_MAX_ENTRIES = 20_000  # looked at to see whether a repository has changed
_Stamp = tuple[str, int, int, int]  # a path in the git directory: time, inode number, size
_Object = tuple[str, int, int]  # a path in the git directory: inode number, size
_LOG_LINE = lazy_bytes_pattern(rb"[0-9a-f]{40,64} [0-9a-f]{40,64} [^\n]*\n")
_MAX_LOG_BYTES = 1 << 20  # of one
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK

# $1 is the ref of this session, $2 the time before which those of others are dropped, $3 the commit that the
# ref named last, "" if unknown: a command may have deleted the ref with all others; $4 is the time now. The
# shell does what it can itself, since each program that it starts takes more than a millisecond.
KEEP = r"""
set -u
exec 2>/dev/null
own=$(mktemp -d) || exit 3
trap 'rm -rf "$own"' EXIT
found=$("$0" rev-parse --revs-only --git-path objects "$1^{commit}" "$1^{tree}")
[ -n "$found" ] || exit 4
{ read -r objects; read -r kept; read -r kept_tree; } <<END
$found
END
# A ref that a command has moved to a tree has only one of the two.
[ -z "$kept" ] || [ -n "$kept_tree" ] || kept=$("$0" rev-parse -q --verify "$1^{commit}")
[ -w "$objects" ] || { echo readonly; exit 0; }
refs=$("$0" for-each-ref --format='ref %(objectname) %(objecttype) %(refname)') || exit 5
printf '%s\n' "$refs"
case "$refs
" in
    *' refs/stash
'*) "$0" reflog show --format='stash %H %gs' refs/stash -- || exit 6 ;;
esac
"$0" worktree list --porcelain || exit 7
case $objects in
    .git/objects) index=.git/index ;;  # not so in worktrees and submodules
    *) index=$("$0" rev-parse --git-path index) ;;
esac
tree=
if [ -f "$index" ]; then
    cp "$index" "$own/index" || exit 8
    export GIT_INDEX_FILE="$own/index"
    if tree=$("$0" write-tree); then
        echo "index $tree"
    else
        # The paths with conflicts, and a tree of the others.
        "$0" ls-files -u >"$own/conflicts"
        sed 's/^[0-7]* \([0-9a-f]*\) [123]/0 \1/' "$own/conflicts" | "$0" update-index --index-info
        if clean=$("$0" write-tree); then
            echo "clean $clean"
            sed 's/^/conflict /' "$own/conflicts"
            tab=$(printf '\t')
            tree=$({
                echo "040000 tree $clean${tab}clean"
                sed -n 's/^1[02]0[0-7]* \([0-9a-f]*\) .*/\1/p' "$own/conflicts" | sort -u |
                    sed "s/.*/100644 blob &$tab&/"
            } | "$0" mktree)
        fi
    fi
    unset GIT_INDEX_FILE
fi
[ -n "$tree" ] || tree=$("$0" mktree </dev/null) || exit 9
case $tree in
    # The empty tree: git knows it without storing it, but git fsck misses it in a commit.
    4b825dc642cb6eb9a060e54bf8d69288fbee4904 | \
        6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321)
        "$0" hash-object -t tree -w --stdin </dev/null >"$own/empty" || exit 9
        ;;
esac
list() {
    "$0" rev-list --ignore-missing --exclude='refs/makeroom/*' --all --reflog \
        ORIG_HEAD MERGE_HEAD CHERRY_PICK_HEAD REVERT_HEAD REBASE_HEAD BISECT_HEAD MERGE_AUTOSTASH \
        rebase-merge/autostash rebase-apply/autostash "$@" -- >"$own/list" || exit 10
}
if [ -z "$kept" ] && [ -n "$3" ] && ! "$0" rev-parse -q --verify "$1" >/dev/null; then
    "$0" update-ref "$1" "$3"
    kept=$("$0" rev-parse -q --verify "$1^{commit}")
    kept_tree=$("$0" rev-parse -q --verify "$1^{tree}")
fi
new=$own/list
if [ -n "$kept" ]; then
    list --not "$kept"
    if [ -s "$new" ]; then  # commits that are not kept yet: those that have a name become parents
        sort "$new" >"$own/unkept"
        list --no-walk=unsorted
        new=$own/new
        sort "$own/list" | comm -12 - "$own/unkept" >"$new"
    fi
    [ -s "$new" ] || [ "$tree" != "$kept_tree" ] || {
        echo "kept $kept"
        exit 0
    }
else
    list --no-walk=unsorted
    case $refs in
        *' refs/makeroom/keep/'*)
            "$0" for-each-ref --format='%(committerdate:unix) %(refname)' refs/makeroom/keep/ |
                while read -r time name; do
                    [ "$time" -ge "$2" ] || "$0" update-ref -d "$name"
                done
            ;;
    esac
fi
kept=$({
    echo "tree $tree"
    [ -z "$kept" ] || echo "parent $kept"
    while read -r id; do
        echo "parent $id"
    done <"$new"
    echo "author makeroom <makeroom@localhost> $4 +0000"
    echo "committer makeroom <makeroom@localhost> $4 +0000"
    echo
    echo "Keep what refs, reflogs, stash and index name, so that /rewind can restore it"
} | "$0" hash-object -t commit -w --stdin) && "$0" update-ref "$1" "$kept" || exit 11
echo "kept $kept"
"""
# The exit codes of that script.
_FAILED_STEPS = {
    3: "cannot make a temporary directory",
    4: "git cannot read the repository",
    5: "git cannot list the refs",
    6: "git cannot list the stash entries",
    7: "git cannot list the worktrees",
    8: "the index cannot be read",
    9: "git cannot write to the repository",
    10: "git cannot list the commits",
    11: "git cannot write a commit and its ref",
}
# Objects that neither a ref nor a reflog nor an index leads to: git prunes them.
_UNREACHABLE = """
exec 2>/dev/null
"$0" fsck --connectivity-only --unreachable --no-progress --no-dangling | head -n 1
"""
# Whether git finds all objects that it needs; in a large repository, it may not know in time. It leaves out
# the two files that only make it faster, since it starts other programs to verify those.
_CHECK = """
limit=$(command -v timeout) && limit="$limit 2"
without="-c core.commitGraph=false -c core.multiPackIndex=false"
$limit "$0" $without fsck --connectivity-only --no-dangling --no-progress >/dev/null 2>&1
case $? in 0 | 124) echo whole ;; *) echo damaged ;; esac
"""
TAG_OBJECTS = """
printf '%s\\n' "$@" | exec "$0" cat-file --batch
"""


class Head(NamedTuple):
    """The commit that a worktree has checked out, and its branch; "" if HEAD is detached."""

    commit: str
    branch: str


NO_HEAD = Head("", branch="")


class RepositoryState(Struct):
    """The state of a repository.

    refs   the object that each ref names
    tags   the ids of those that are annotated tags
    stash  the message of each stash entry by its commit, newest first
    heads  the HEAD of each worktree by its path
    index  the tree of the index, "" if it has conflicts or does not exist
    clean  the tree of an index with conflicts, without their paths
    conflicts  the lines of `git ls-files -u`
    files  the files of open operations (git_operation.py)
    logs   the lines of the reflogs of HEAD, branches, notes and the stash, by path in the git directory
    kept   the commit that keeps all of it
    """

    refs: dict[str, str] = field(default_factory=dict)
    tags: set[str] = field(default_factory=set)
    stash: dict[str, str] = field(default_factory=dict)
    heads: dict[str, Head] = field(default_factory=dict)
    index: str = ""
    clean: str = ""
    conflicts: str = ""
    files: dict[str, str] = field(default_factory=dict)
    logs: dict[str, str] = field(default_factory=dict)
    kept: str = ""

    @property
    def detached(self) -> dict[str, str]:
        """The commits of worktrees whose HEAD is on no branch."""
        return {path: head.commit for path, head in self.heads.items() if not head.branch}

    def operation(self, top: Path) -> Operation:
        """Return the open operation of a working tree; without files if there is none."""
        head = self.heads.get(str(top), NO_HEAD)
        return Operation(
            self.files,
            commit=head.commit,
            branch=head.branch,
            tree=self.index or self.clean,
            conflicts=self.conflicts,
        )


async def kept_state(
    git: GitRunner, top: Path, *, ref: str, dropped_before: int, last: str = ""
) -> RepositoryState | None:
    """Keep the state of a repository, and return it; None if commands cannot write there either.

    `last` is the commit that kept it last. Raises GitFailed with the reason.
    """
    try:
        output = await git(top, KEEP, [ref, str(dropped_before), last, str(int(time.time()))])
    except GitFailed as error:
        raise GitFailed(_FAILED_STEPS.get(error.code, str(error))) from error
    return None if output == "readonly\n" else parse_state(output)


def parse_state(output: str) -> RepositoryState:
    """Parse the output of the script. Lines that do not look like it are left out."""
    state = RepositoryState()
    worktree = head = ""
    for line in output.split("\n"):
        kind, _, rest = line.partition(" ")
        first, _, more = rest.partition(" ")
        if kind == "worktree":
            worktree = rest
        elif kind == "HEAD":
            head = rest
        elif kind == "conflict":
            state.conflicts += f"{rest}\n"
        elif (kind == "branch" or line == "detached") and _ID.fullmatch(head):
            state.heads[worktree] = Head(head, branch=rest)
        elif not _ID.fullmatch(first):
            continue
        elif kind == "ref":
            type_, _, name = more.partition(" ")
            if not name.startswith(_PASSING_REFS):
                state.refs[name] = first
                if type_ == "tag":
                    state.tags.add(first)
        elif kind == "stash":
            state.stash[first] = more
        elif kind in ("index", "clean", "kept"):
            setattr(state, kind, first)
    return state


def reflogs(top: Path, places: Sequence[str]) -> dict[str, str]:
    """Return the reflogs of HEAD, branches, notes and the stash, unless they are very long. Blocks.

    `places` are those of git directories (git_operation.py).
    """
    checkout = Checkout(top)
    found: dict[str, str] = {}
    shared = checkout.shared_folder
    kept = (
        (checkout.git_folder, "logs", "HEAD"),
        (shared, "logs/refs", "stash"),
        (shared, "logs/refs/heads", ""),
        (shared, "logs/refs/notes", ""),
        (shared, "logs/refs/remotes", ""),
    )
    for folder, start, only in kept:
        with suppress(OSError), closing(opened_git(folder, places)) as git:
            waiting = [start]
            # At most so many reflogs are kept.
            while waiting and len(found) < 100:
                name = waiting.pop()
                with suppress(OSError), closing(safe_open(name, _FOLDER_FLAGS, base=git)) as here:
                    for entry in sorted(os.listdir(here)):  # noqa: PTH208 - a descriptor
                        path = f"{name}/{entry}"
                        if only in ("", entry):
                            text = _lines_of_log(git, path)
                            waiting += [path] if text is None else []
                            found |= {path: text} if text else {}
    return found


def _lines_of_log(git: int, path: str) -> str | None:
    """Return the lines of a reflog, "" if it is none, unreadable or too long, None for a directory."""
    try:
        with closing(safe_open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY, base=git)) as file:
            state = os.fstat(file)
            if stat.S_ISDIR(state.st_mode):
                return None
            if not stat.S_ISREG(state.st_mode) or state.st_size > _MAX_LOG_BYTES:
                return ""
            lines = _LOG_LINE.findall(os.read(file, _MAX_LOG_BYTES))
    except OSError:  # such as a link
        return ""
    return b"".join(lines).decode("utf-8", "surrogateescape")


def lost_lines(before: str, after: str) -> str:
    """Return the lines of a reflog that a later state lacks; of equal lines, the newest."""
    left = Counter(after.split("\n"))
    missing = []
    for line in before.split("\n"):
        left[line] -= 1
        missing += [f"{line}\n"] if left[line] < 0 and line else []
    return "".join(missing)


def restored_log(name: str, before: str, after: str) -> str:
    """Return the lines of a reflog before and those added since; "" if it has lost none.

    Where a stash entry is dropped, git writes the line of the next one again, with another old commit.
    """
    if not lost_lines(before, after):
        return ""
    added = lost_lines(after, before)
    if name == STASH_LOG:
        ids = {line.split(" ")[1] for line in before.splitlines()}
        added = "".join(line for line in added.splitlines(keepends=True) if line.split(" ")[1] not in ids)
    return before + added


async def tag_objects(git: GitRunner, top: Path, ids: Sequence[str]) -> dict[str, str]:
    """Return the contents of annotated tags by their ids. Raises GitFailed."""
    data = os.fsencode(await git(top, TAG_OBJECTS, ids))
    found: dict[str, str] = {}
    at = 0
    while (end := data.find(b"\n", at)) >= 0:
        head = data[at:end].decode().split(" ")
        if len(head) != 3 or not head[2].isdigit():
            raise GitFailed("a tag is missing")
        at = end + 1 + int(head[2]) + 1
        found[head[0]] = os.fsdecode(data[end + 1 : at - 1])
    return found


async def has_unreachable(git: GitRunner, top: Path) -> bool:
    """Return whether a repository has objects that only their ids lead to. Raises GitFailed."""
    return (await git(top, _UNREACHABLE, [])).startswith("unreachable ")


async def is_damaged(git: GitRunner, top: Path) -> bool:
    """Return whether objects that a repository needs are missing or damaged. Raises GitFailed."""
    return await git(top, _CHECK, []) == "damaged\n"


class Fingerprint(Struct, frozen=True):
    """The times of what changes with the state of a repository; `newest_ns` is the last of them.

    complete  False if there are too many refs or reflogs to look at all of them
    special   a pipe, device or socket among them, where git would wait forever; "" for none
    """

    stamps: tuple[_Stamp, ...]
    newest_ns: int
    complete: bool
    special: str = ""

    def hides_changes(self, now_ns: int) -> bool:
        """Return whether there may be another change since, which it or the file system's clock hides."""
        return not self.complete or self.newest_ns > now_ns - FILE_CLOCK_NS


def fingerprint(top: Path) -> Fingerprint | None:
    """Return the fingerprint of a repository, None if there is none.

    No link is followed below the git directory, and nothing is read but names and times.
    """
    checkout = Checkout(top)
    found: list[_Stamp] = []
    special: list[str] = []
    complete = True
    for folder in dict.fromkeys((checkout.git_folder, checkout.shared_folder)):
        with suppress(OSError), closing(safe_open(os.path.realpath(folder), _FOLDER_FLAGS)) as fd:
            complete = _add_stamps(fd, found, special) and complete
    if not found:
        return None
    newest_ns = max(each[1] for each in found)
    return Fingerprint(tuple(found), newest_ns=newest_ns, complete=complete, special="".join(special[:1]))


def _add_stamps(git: int, found: list[_Stamp], special: list[str]) -> bool:
    """Add the stamps of a git directory; return False if it has too many entries to look at them all."""
    for name in ("HEAD", "ORIG_HEAD", "packed-refs", "index", *OPERATION_FILES):
        with suppress(OSError):
            state = os.stat(name, dir_fd=git, follow_symlinks=False)
            found.append(_stamp(name, state))
            special += [] if stat.S_ISREG(state.st_mode) or stat.S_ISLNK(state.st_mode) else [name]
    left = _MAX_ENTRIES
    waiting = ["logs", "worktrees", *OPERATION_FOLDERS, "reftable", "refs"]  # the last one first
    while waiting and left > 0:
        name = waiting.pop()
        with suppress(OSError), closing(safe_open(name, _FOLDER_FLAGS, base=git)) as fd:
            found.append(_stamp(name, os.fstat(fd)))
            with os.scandir(fd) as entries:
                for entry in entries:
                    left -= 1
                    if f"{name}/{entry.name}/" == KEPT_REFS:
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(f"{name}/{entry.name}")
                    elif not (entry.is_symlink() or entry.is_file(follow_symlinks=False)):
                        special.append(f"{name}/{entry.name}")
                    elif name.startswith(OPERATION_FOLDERS) or (
                        name.startswith("worktrees/") and entry.name in ("HEAD", "index")
                    ):
                        found.append(_stamp(f"{name}/{entry.name}", entry.stat(follow_symlinks=False)))
    return not waiting


class CheckedState(NamedTuple):
    """The state of a repository's objects, and of the names that lead to them, when git checked them."""

    refs: Fingerprint
    objects: frozenset[_Object]


def checked_state(top: Path) -> CheckedState | None:
    """Return what the completeness of a repository depends on; None if that is too much to look at.

    git never writes to the file of an object again, but sets its time when it would store the object anew.
    """
    refs = fingerprint(top)
    if refs is None or refs.special or refs.hides_changes(time.time_ns()):
        return None
    try:
        objects = _objects(top)
    except OSError:
        return None
    return None if objects is None else CheckedState(refs, objects)


def _objects(top: Path) -> frozenset[_Object] | None:
    """Return the files with objects; None if they are too many, or if another repository has some of them."""
    found = set[_Object]()
    waiting = ["objects"]
    with closing(safe_open(os.path.realpath(Checkout(top).shared_folder), _FOLDER_FLAGS)) as git:
        while waiting:
            name = waiting.pop()
            with closing(safe_open(name, _FOLDER_FLAGS, base=git)) as fd, os.scandir(fd) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(f"{name}/{entry.name}")
                    else:
                        about = entry.stat(follow_symlinks=False)
                        found.add((f"{name}/{entry.name}", about.st_ino, about.st_size))
            if len(found) > _MAX_ENTRIES or any(each[0] == "objects/info/alternates" for each in found):
                return None
    return frozenset(found)


def _stamp(name: str, found: os.stat_result) -> _Stamp:
    return (name, found.st_mtime_ns, found.st_ino, found.st_size)
