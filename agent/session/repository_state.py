"""Show the model what git says about the project when a session begins: changed files and recent commits.

Names and subjects come with the repository and may say anything. They are therefore sent as quoted data, a
line each, and few of them.
"""

from __future__ import annotations

from tools.base import SMALL_WINDOW_TOKENS
from tools.processes import CommandContext
from tools.search import Checkout, GitFailed, run_git_script
from tools.text import escaped, mark_stray_bytes
from transcripts import DataTag, TextBlock, quoted
from transcripts.wording import pluralize, shorten

MAX_FILES = 8
MAX_LINE_CHARS = 100
LIMIT_S = 1.0  # the first request waits for it
# `git status` may run the filters that a repository's own settings define, so it is skipped if there are any;
# submodules have settings of their own.
_SCRIPT = """
exec 2>/dev/null
if ! "$0" config --show-scope --get-regexp '^filter[.].*[.](clean|process)$' | grep -qE '^(local|worktree)'
then
    echo status
    "$0" status --porcelain --untracked-files=normal --ignore-submodules=all || exit
fi
echo
"$0" log --max-count="$1" --format='%h %s'
exit 0
"""


async def git_state(context: CommandContext, window: int) -> list[TextBlock]:
    """Return a block about the project's repository; none without one, or if git does not answer soon."""
    checkout = Checkout.around(context.folder)
    if checkout is None:
        return []
    share = 2 if window <= SMALL_WINDOW_TOKENS else 1  # half as much is shown in a small window
    try:
        output = await run_git_script(context, context.folder, _SCRIPT, [str(5 // share)], limit_s=LIMIT_S)
    except GitFailed:
        return []
    return [TextBlock(quoted("\n".join(_lines(output, MAX_FILES // share)), DataTag.GIT_STATE))]


def _lines(output: str, most: int) -> list[str]:
    """Return the lines about changed files, at most `most` of them by name, and commits."""
    lines = [_one_line(line) for line in output.rstrip("\n").split("\n")]
    at = lines.index("") if "" in lines else len(lines)
    has_status, *files = lines[:at] or [""]
    commits = lines[at + 1 :]
    status = "no changes" if has_status else "unknown"
    if files:
        status = f"{pluralize(len(files), 'changed file')}:"
    more = [f"... and {len(files) - most} more"] if len(files) > most else []
    shown = [f"git status when the session began: {status}", *files[:most], *more]
    return [*shown, "Recent commits:", *commits] if commits else shown


def _one_line(line: str) -> str:
    return shorten(escaped(mark_stray_bytes(line), keep=""), MAX_LINE_CHARS)
