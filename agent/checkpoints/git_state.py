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

and `git log refs/makeroom/keep/s1` then lists one commit with the parents 8d1c and 0b4f.
"""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct, field

from tools.search import GitFailed
from transcripts.patterns import lazy_pattern

from .git_operation import Operation

GitRunner = Callable[[Path, str, Sequence[str]], Awaitable[str]]  # run_git_script for one session
KEPT_REFS = "refs/makeroom/"
STASH = "refs/stash"
_PASSING_REFS = (KEPT_REFS, "refs/bisect/", "refs/rewritten/", "refs/worktree/", "refs/prefetch/", STASH)
_ID = lazy_pattern(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")

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
# the two files that only make it faster, since it starts other programs to verify those. An error that it
# prints counts too: where a tree cannot be read, git 2.55 exits with 0.
_CHECK = """
limit=$(command -v timeout) && limit="$limit 2"
without="-c core.commitGraph=false -c core.multiPackIndex=false"
said=$(LC_ALL=C $limit "$0" $without fsck --connectivity-only --no-dangling --no-progress 2>&1 >/dev/null)
case $?,$said in *,*error:*) echo damaged ;; 0,* | 124,*) echo whole ;; *) echo damaged ;; esac
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
