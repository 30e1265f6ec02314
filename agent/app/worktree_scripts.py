"""The scripts of git calls that make, compare, merge and remove worktrees.

git runs no program that the repository's own settings name: hooks and signatures are off, and a repository
that defines filters or merge drivers of its own is refused. For a repository within a worktree, git would run
another git with settings that commands may have changed. Such a worktree is not merged, and its state is read
without entering the repository.
"""

from __future__ import annotations

from pathlib import Path

from agent.checkpoints import GitRunner
from agent.errors import UsageError
from tools.search import GitFailed

# A script prints "ok" as its last line; if it does not, its output is the reason, before "taken" if another
# branch or worktree has the name. $1 is the worktree.
CHECKED = r"""
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
WITHOUT_REPOSITORIES = r"""
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
ADD = f"""{CHECKED}
"$0" rev-parse -q --verify 'HEAD^0' >/dev/null || {{ echo "the repository has no commits"; exit 0; }}
if "$0" rev-parse -q --verify "refs/heads/$2" >/dev/null; then
    echo "a branch named '$2' already exists"
    echo taken
elif ! mkdir "$1" 2>/dev/null; then  # the name belongs to the process that makes its directory
    [ -e "$1" ] || mkdir "$1" || exit 0
    echo "$1 already exists"
    echo taken
elif "$0" -c checkout.workers=0 worktree add -q -b "$2" "$1" HEAD; then
    echo ok
else
    rmdir "$1" 2>/dev/null
fi
exit 0
"""
# $1 is a worktree, $2 the commit that its branch began at; the other arguments leave out copies.
WORK = f"""{CHECKED}{WITHOUT_REPOSITORIES}
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
HEAD = """
exec 2>&1
"$0" -C "$1" rev-parse HEAD && echo ok
exit 0
"""
UNTRACKED = """
exec 2>&1
"$0" -C "$1" ls-files -z --others --exclude-standard && printf '\\nok\\n'
exit 0
"""
# $1 is the worktree; the other arguments leave out copies. Its tree is written with an index of its own, so
# that the real one does not change.
STATE = f"""{CHECKED}
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
UNCOMMITTED = f"""{CHECKED}
changed=$("$0" status --porcelain --ignore-submodules=dirty | wc -l) && printf '%s\\n' "$changed" ok
exit 0
"""
DIFF = f"""{CHECKED}{WITHOUT_REPOSITORIES}
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
MERGE = f"""{CHECKED}{WITHOUT_REPOSITORIES}
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
REMOVE = """
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
IGNORED = """
exec 2>&1
cd "$1" && "$0" ls-files -z --others --ignored --exclude-standard --directory && printf '\\nok\\n'
exit 0
"""
INCLUDED = """
exec 2>&1
"$0" ls-files -z --others --ignored --exclude-from="$1" && printf '\\nok\\n'
exit 0
"""


class NameTaken(UsageError):
    """Another branch or worktree has the name."""


async def run_script(git: GitRunner, folder: Path, script: str, *arguments: str) -> str:
    """Return the output of a script of this module. Raises UsageError with the words of git."""
    try:
        output = await git(folder, script, arguments)
    except GitFailed as error:
        raise UsageError(f"{error} (in {folder})") from error
    text, _, end = output.rstrip("\n").rpartition("\n")
    if end == "taken":
        raise NameTaken(" ".join(text.removeprefix("fatal: ").split()))
    if end != "ok":
        raise UsageError(" ".join(output.removeprefix("fatal: ").split()) or "git failed")
    return text


async def listed_names(git: GitRunner, folder: Path, script: str, *arguments: str) -> list[str]:
    """Return the names that such a script prints, each with a NUL behind it. Raises UsageError."""
    output = await run_script(git, folder, script, *arguments)
    return [name for name in output.rstrip("\n").split("\0") if name]
