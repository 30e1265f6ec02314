"""The state of the project's repository: its branch, and when a session begins, what git says about it.

The branch is read from files: git would run programs that the repository's configuration names, before the
user has allowed anything. Names and subjects come with the repository and may say anything. What git says is
therefore sent as quoted data, a line each, and few of them.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from tools.base import SMALL_WINDOW_TOKENS
from tools.files import FileError, canonical_path, load_file
from tools.processes import CommandContext
from tools.search import Checkout, GitFailed, run_git_script
from tools.text import escaped, mark_stray_bytes
from transcripts import DataTag, TextBlock, quoted
from transcripts.wording import pluralize, shorten

BRANCH_INTERVAL_S = 2.0  # between two looks for the status line
MAX_HEAD_BYTES = 4_096  # of the file that names the branch
MAX_SETTINGS_BYTES = 65_536  # of a repository
MAX_NAME_CHARS = 200  # of a folder or branch: the name comes with the project and may be anything
MAX_FILES = 8
MAX_LINE_CHARS = 100
LIMIT_S = 1.0  # the first request waits for it
# `git status` may run filters that the repository's own settings define, so it is skipped if there may be
# any; submodules have settings of their own.
_SCRIPT = """
exec 2>/dev/null
if [ "$2" ]
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
    has_status = "" if _may_have_filters(checkout) else "yes"
    arguments = [str(5 // share), has_status]
    try:
        output = await run_git_script(context, context.folder, _SCRIPT, arguments, limit_s=LIMIT_S)
    except GitFailed:
        return []
    return [TextBlock(quoted("\n".join(_lines(output, MAX_FILES // share)), DataTag.GIT_STATE))]


def _may_have_filters(checkout: Checkout) -> bool:
    """Return whether the repository's own settings may define filters, in their files or in included ones."""
    texts = list[bytes]()
    try:
        for file in (checkout.shared_folder / "config", checkout.git_folder / "config.worktree"):
            with suppress(FileNotFoundError):
                texts.append(load_file(canonical_path(str(file)), MAX_SETTINGS_BYTES).data.lower())
    except (OSError, FileError, ValueError):
        return True
    return any(word in text for text in texts for word in (b"filter", b"include"))


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


def branch(folder: Path) -> str:
    """Return the branch that is checked out with its repository, or a description if there is neither."""
    checkout = Checkout.around(folder)
    if checkout is None:
        return "no repository"
    kind = "worktree or submodule" if (checkout.top / ".git").is_file() else "repository"
    where = f"{kind} at {shown_name(checkout.top)}"
    name = _checked_out(checkout)
    return f"{name} ({where})" if name else f"a {where}"


def _checked_out(checkout: Checkout) -> str:
    """Return the name of the branch, or the commit without one; "" if it is unknown."""
    text = _head(checkout)
    if text.startswith("ref:"):
        return shown_name(text.removeprefix("ref: refs/heads/"))
    return f"detached at {text[:12]}" if text else ""


def _head(checkout: Checkout) -> str:
    """Return the text of HEAD, "" if it cannot be read or does not look like one.

    Commands can make it, or a directory on the way to it, a link to a file that they cannot read themselves.
    """
    try:
        path = f"{canonical_path(str(checkout.git_folder))}/HEAD"
        text = load_file(path, MAX_HEAD_BYTES).data.decode("utf-8", "replace").strip()
    except (OSError, FileError, ValueError):  # a NUL in what the file names
        return ""
    return text if re.fullmatch(r"ref: refs/\S+|[0-9a-f]{40}(?:[0-9a-f]{24})?", text) else ""


class BranchWatch:
    """The name of the branch of a folder's repository, looked for at most every two seconds.

    next_look  the moment of a monotonic clock from which it is looked for again
    last       the name that was found last
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.next_look = float("-inf")
        self.last = ""

    @property
    def is_unread(self) -> bool:
        """True if the name was never looked for."""
        return self.next_look == float("-inf")

    def name(self, now: float) -> str:
        """The name at the moment `now`, in seconds of a monotonic clock; "" where there is none."""
        if now >= self.next_look:
            self.next_look = now + BRANCH_INTERVAL_S
            checkout = Checkout.around(self._folder)
            self.last = _checked_out(checkout) if checkout is not None else ""
        return self.last


def shown_name(text: str | Path) -> str:
    """The name on one line, unable to close the surrounding tags or to control a terminal."""
    plain = repr(str(text))[1:-1].replace("<", "‹").replace(">", "›")
    return shorten(plain, MAX_NAME_CHARS)
