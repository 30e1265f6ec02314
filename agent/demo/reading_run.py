"""Read every file of a kind, one per reply, through any number of compactions.

Each reply notes the position ("Reading file 37 of 150: `path`") and sometimes the next files, so that the run
can resume from any text that survives: a reply, a summary that repeats it, or at least the paths in a record.
Files that are no longer in the view are listed again from the right place, a page at a time.
"""

import re
import shlex
from collections.abc import Sequence
from fnmatch import fnmatch
from itertools import takewhile

from msgspec import Struct, field

from transcripts.patterns import lazy_pattern

from .conversation import Answer, Step, calls_in, own_text, tool_call

_READ_ALL = (
    r"(?i)\b(read|look at|go through) (every|each|all)( of)?( the)? (?P<what>[\w.*+#-]*?)\s*files?\b"
    r"( (in|under|inside|within|from|of|below) (the )?(?P<where>`[^`]+`|'[^']+'|\"[^\"]+\"|[^\s,;:!?]+))?"
).replace(" ", r"\s+")
_KEEP_READING = (
    r"(?i)\b(keep( on)?|continue|go on|carry on) reading( (?!files?\b)[\w*.]+){0,3} files?\b"
    r"( (in|under|inside|within|from|of|below) (the )?(?P<where>`[^`]+`|'[^']+'|\"[^\"]+\"|[^\s,;:!?]+))?"
).replace(" ", r"\s+")
_KINDS = {
    "python": "*.py", "markdown": "*.md", "typescript": "*.ts", "javascript": "*.js", "rust": "*.rs",
    "text": "*.txt", "golang": "*.go", "ruby": "*.rb", "shell": "*.sh", "": "*", "source": "*", "single": "*",
}  # fmt: skip
_WHOLE_PROJECT = ("this", "here", "current", "project", "folder", "directory", "repo", "repository")
_POSITION = lazy_pattern(r"[Ff]ile (\d+) of (\d+): (\S[^\n]*)")
_UP_NEXT = lazy_pattern(r"Up next \((\d+)-\d+\):\n((?:- [^\n]+\n?)+)")


class ReadingRun(Struct, frozen=True):
    """The files below `where` whose names match `pattern`, without hidden ones.

    With `until_compacted`, the run ends when the context is compacted.
    """

    where: str
    pattern: str
    until_compacted: bool = False

    def page(self, start: int) -> str:
        """Return the command that prints a page of paths from number `start` on, and the total number."""
        where = shlex.quote(self.where)
        pattern = shlex.quote(self.pattern)
        pages = f"{start},{start + 99}p;$="
        return (
            f"find {where} -type f -name {pattern} -not -path '*/.[!.]*' | LC_ALL=C sort | sed -n '{pages}'"
        )

    def owns(self, path: str) -> bool:
        """Return whether the listing would print the path."""
        below = path.startswith(self.where.rstrip("/") + "/") and re.search(r"/\.[^.]", path) is None
        return below and fnmatch(path.split("/")[-1], self.pattern)


class ReadingProgress(Struct):
    """The progress of a run."""

    done: int = 0
    total: int = 0  # 0: not known
    noted: bool = False  # otherwise the progress follows from the paths in a record
    paths: dict[int, str] = field(default_factory=dict)  # the known paths by number

    @property
    def position(self) -> str:
        return f"file {self.done} of {self.total}: `{self.paths[self.done]}`"

    def up_next(self) -> list[str]:
        """Return the lines that preserve the next paths through a compaction."""
        numbers = range(self.done + 1, self.done + 21)
        paths = [self.paths[number] for number in takewhile(self.paths.__contains__, numbers)]
        head = [f"Up next ({numbers[0]}-{numbers[0] + len(paths) - 1}):"] if paths else []
        return [*head, *(f"- `{path}`" for path in paths)]


_UNTIL_COMPACTED = r"(?i)\buntil\b.{0,40}\b(compress|compact|room|context|window)"


def find_run(text: str) -> ReadingRun | None:
    """Return the run that a text requests, None if it requests none."""
    match = re.search(_READ_ALL, text) or re.search(_KEEP_READING, text)
    if match is None:
        return None
    what = match.groupdict().get("what", "").lower()
    where = (match["where"] or ".").strip("`'\"")
    where = where if where in (".", "..") else where.rstrip(".").rstrip("/") or "/"
    pattern = _KINDS.get(what) or (what if "*" in what else f"*.{what.lstrip('.')}")
    until = re.search(_UNTIL_COMPACTED, text) is not None
    return ReadingRun(
        "." if where.lower() in _WHOLE_PROJECT else where, pattern=pattern, until_compacted=until
    )


def find_progress(run: ReadingRun, past: Sequence[Step]) -> ReadingProgress:
    """Find the progress of the run from the notes, listings and calls in the view."""
    found = ReadingProgress()
    text = own_text(past)
    calls = calls_in(past)
    for number, total, path in _POSITION.findall(text):
        if run.owns(path := path.strip("` ")) and int(number) >= found.done:
            found.done = int(number)
            found.total = int(total)
            found.noted = True
            found.paths[found.done] = path
    for start, listed in _UP_NEXT.findall(text):
        paths = [line.removeprefix("-").strip("` ") for line in listed.strip().split("\n")]
        found.paths |= {number: path for number, path in enumerate(paths, int(start)) if run.owns(path)}
    for call in calls:
        start = re.search(r"'(\d+),\d+p;\$='$", call.command)
        if start is None or call.failed or call.command != run.page(int(start[1])):
            continue
        lines = [line.strip() for line in call.text.split("\n")]
        if owned := [line for line in lines if run.owns(line)]:
            found.paths |= dict(enumerate(owned, int(start[1])))
            found.total = int(next((line for line in reversed(lines) if line.isdigit()), found.total))
    if not found.noted:  # all paths up to the greatest one that is named or was read are done
        names = [word.strip("`'\"(),;:") for word in text.split()]
        names += [call.path for call in calls if call.tool == "read" and not call.interrupted]
        last = max((name.encode() for name in names if run.owns(name)), default=b"")
        while found.done + 1 in found.paths and found.paths[found.done + 1].encode() <= last:
            found.done += 1
    elif calls and calls[-1].tool == "read":  # the newest call was interrupted, or is not that of the note
        found.done -= calls[-1].interrupted or calls[-1].path != found.paths[found.done]
    return found


def read_next(run: ReadingRun, past: Sequence[Step]) -> Answer:
    """List files, read the next one, or report the end. `past` begins after the request or with a record."""
    found = find_progress(run, past)
    notes = own_text(past)
    if run.until_compacted and any(
        step.kind == "record" or step.text.startswith("[cleared:") for step in past
    ):
        return Answer(
            "The context was compacted automatically, so I am stopping here. `/context` shows the "
            "compaction, `/recall` shows what was removed, and `/uncompact` undoes it."
        )
    latest = past[-1] if past else Step("reply")
    lines = []
    if latest.tool == "read" and latest.failed and not latest.interrupted:
        lines = [f"Could not read `{latest.path}`: {latest.text.strip().partition(chr(10))[0][:200]}"]
    if found.total and found.done >= found.total:
        failed = re.findall(r"Could not read `(.+?)`: ", "\n".join([notes, *lines]))
        return Answer(_ending(run, found, sorted(set(failed))))
    if not found.total or found.done + 1 not in found.paths:
        if latest.command == (command := run.page(found.done + 1)):
            return Answer(f"No files match `{run.pattern}` in `{run.where}`.")
        last = f" The last was {found.position}" if found.noted and found.done else ""
        reply = f"I will list the files from number {found.done + 1} on.{last}"
        return Answer(reply, (tool_call("bash", command=command),))
    found.done += 1
    lines.append(f"Reading {found.position}")
    if not {*found.up_next()[1:2]} & {*notes.split("\n")}:
        lines += ["", *found.up_next()]
    return Answer("\n".join(lines), (tool_call("read", file_path=found.paths[found.done]),))


def _ending(run: ReadingRun, found: ReadingProgress, failed: Sequence[str]) -> str:
    matching = f"all {found.total} files that match `{run.pattern}` in `{run.where}`"
    counts = f"{found.total - len(failed)} could be read. The last was {found.position}"
    missed = f"\nCould not be read: {', '.join(f'`{path}`' for path in failed)}" if failed else ""
    return f"I have read {matching} one by one. {counts}{missed}"
