"""Reading every file of a kind, one a turn, through any number of compactions.

Each reply notes where it stands ("Reading file 37 of 150: `path`") and, now and then, what comes next. So the
run goes on from any text that survives: a visible note, a summary that repeats it, or as a last resort the
paths that a record names. What is not in view is listed again from the right place, a page at a time.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch

from .reply import Block, Reply, calls, says, thinks
from .telling import is_denied, is_interrupted
from .view import Call, Step, calls_in, texts

PAGE = 100
AHEAD = 20

_REQUEST = re.compile(
    r"\b(?:read|look\s+at|go\s+through)\s+(?:every|each|all)(?:\s+of)?(?:\s+the)?\s+"
    r"(?P<what>[\w.*+#-]*?)\s*files?\b"
    r"(?:\s+(?:in|under|inside|within|from|of|below)\s+(?:the\s+)?"
    r"(?P<where>`[^`]+`|'[^']+'|\"[^\"]+\"|[^\s,;:!?]+))?",
    re.I,
)
_SUFFIXES = {
    "python": "*.py", "markdown": "*.md", "typescript": "*.ts", "javascript": "*.js", "rust": "*.rs",
    "text": "*.txt",
    "golang": "*.go", "ruby": "*.rb", "shell": "*.sh", "": "*", "source": "*", "single": "*",
}  # fmt: skip
_HERE = ("this", "here", "current", "project", "folder", "directory", "repo", "repository")


@dataclass(frozen=True, slots=True)
class Job:
    """Which files to read: those below `where` whose name fits `pattern`."""

    where: str
    pattern: str

    @property
    def listing(self) -> str:
        where, pattern = shlex.quote(self.where), shlex.quote(self.pattern)
        return f"find {where} -type f -name {pattern} | LC_ALL=C sort | sed -n "

    def page(self, start: int) -> str:
        """The command that prints the paths from number `start` on, and at last how many there are in all."""
        return f"{self.listing}'{start},{start + PAGE - 1}p;$='"

    def owns(self, path: str) -> bool:
        """Whether a path is one that this job's listing would print."""
        return path.startswith(f"{self.where.rstrip('/')}/") and fnmatch(
            path.rsplit("/", 1)[-1], self.pattern
        )


@dataclass(slots=True)
class Standing:
    """How far a job has come: files `done`, how many in all (0: not known), and the paths known by number.

    `noted` are the numbers whose paths stand in a note and so survive the clearing of results.
    `guessed`: only the paths in a record tell how far it has come, page by page.
    """

    done: int = 0
    total: int = 0
    last: str = ""
    paths: dict[int, str] = field(default_factory=dict)
    noted: set[int] = field(default_factory=set)
    guessed: bool = False


def job_in(text: str) -> Job | None:
    """The job that a text asks for."""
    match = _REQUEST.search(text)
    if match is None:
        return None
    what = match["what"].lower().strip("`'\"")
    pattern = _SUFFIXES.get(what) or (what if "*" in what else f"*.{what.lstrip('.')}")
    where = (match["where"] or ".").strip("`'\"")
    where = where if where in (".", "..") else where.rstrip(".").rstrip("/") or "/"
    return Job("." if where.lower() in _HERE else where, pattern)


_NOTE = re.compile(r"Reading file (\d+) of (\d+): (\S[^\n]*)")
_PROGRESS = re.compile(r"Progress: (\d+) of (\d+) files read; last: (\S[^\n]*)")
_AHEAD = re.compile(r"Up next \((\d+)-\d+\):\n((?:- [^\n]+\n?)+)")


def standing(job: Job, past: Sequence[Step], record: str = "") -> Standing:
    """Where the job stands by the notes, pages and calls in view. `record` may name paths without a note."""
    found = Standing()
    for text in texts(past):
        _take_notes(found, job, text)
    for call in calls_in(past):
        _take_page(found, job, call)
    if not found.done:
        found.guessed = True
        _take_names(found, job, past, record)
    return found


def _take_notes(found: Standing, job: Job, text: str) -> None:
    for pattern in (_NOTE, _PROGRESS):
        for number, total, path in pattern.findall(text):
            last = _bare(path)
            if last.startswith(f"{job.where.rstrip('/')}/") and int(number) >= found.done:
                found.done, found.total, found.last = int(number), int(total), last
                found.paths.setdefault(found.done, found.last)
    for start, listed in _AHEAD.findall(text):
        for place, line in enumerate(listed.strip().split("\n")):
            if job.owns(path := _bare(line.removeprefix("- "))):
                found.paths[int(start) + place] = path
                found.noted.add(int(start) + place)


def _bare(path: str) -> str:
    """A path without the backticks that keep its underscores from being read as markdown."""
    return path.strip().removeprefix("`").removesuffix("`")


def _take_page(found: Standing, job: Job, call: Call) -> None:
    command = str(call.input.get("command", ""))
    start = re.fullmatch(re.escape(job.listing) + r"'(\d+),\d+p;\$='", command)
    if start is None or call.failed:
        return
    lines = [line.strip("\r") for line in call.result.split("\n")]
    owned = [line for line in lines if job.owns(line)]
    found.paths.update(enumerate(owned, int(start[1])))
    numbers = [line for line in lines if line.strip().isdigit()]
    if numbers and owned:
        found.total = int(numbers[-1])


def _take_names(found: Standing, job: Job, past: Sequence[Step], record: str) -> None:
    """Without any note: everything up to the greatest path that was named or read is taken as done."""
    words = [word.strip("`'\"(),;:") for word in record.split()]
    words += [str(call.input.get("file_path")) for call in calls_in(past) if call.name == "read"]
    named = [word.encode() for word in words if job.owns(word)]
    while named and found.done + 1 in found.paths and found.paths[found.done + 1].encode() <= max(named):
        found.done += 1
        found.last = found.paths[found.done]


def next_reply(job: Job, past: Sequence[Step], record: str = "") -> Reply:
    """List, read the next file, or tell the end. `past` follows the request or begins with its record."""
    latest = past[-1].call if past else None
    if latest is not None and latest.failed and is_denied(latest.result):
        return Reply([says(f"I was not allowed to do that, so I stop here.\n\n{_first_line(latest.result)}")])
    found = standing(job, past, record)
    made = calls_in(past)
    if made and made[-1].name == "read" and made[-1].failed and is_interrupted(made[-1].result):
        found.done = max(0, found.done - 1)
    if found.total and found.done >= found.total:
        return Reply([thinks("Every file has been read."), says(_ending(job, found, past))])
    following = found.paths.get(found.done + 1)
    if following is None or not found.total:
        return _list(job, found, latest)
    return _read(found, following, latest)


def _list(job: Job, found: Standing, latest: Call | None) -> Reply:
    command = job.page(found.done + 1)
    if latest is not None and latest.input.get("command") == command:
        if latest.failed:
            return Reply([says(f"I could not list the files: {_first_line(latest.result)}")])
        if found.total or latest.result.strip().startswith(("<", "[")):
            return Reply(
                [says(f"I could not make out the files from number {found.done + 1} on, so I stop here.")]
            )
        return Reply([says(f"There is no file that fits `{job.pattern}` in `{job.where}`.")])
    note = f"I list the files from number {found.done + 1} on."
    if found.done and not found.guessed:
        note += f" Progress: {found.done} of {found.total} files read; last: `{found.last}`"
    return Reply(
        [thinks("I need to know which files there are."), says(note), calls("bash", command=command)]
    )


def _read(found: Standing, path: str, latest: Call | None) -> Reply:
    number = found.done + 1
    lines: list[str] = []
    if latest is not None and latest.name == "read" and latest.failed and not is_interrupted(latest.result):
        lines.append(f"Could not read `{latest.input.get('file_path')}`: {_first_line(latest.result)}")
    lines.append(f"Reading file {number} of {found.total}: `{path}`")
    if number + 1 not in found.noted:
        lines += ahead(found, number + 1)
    blocks: list[Block] = [thinks(f"The next file is `{path}`."), says("\n".join(lines))]
    return Reply([*blocks, calls("read", file_path=path)])


def ahead(found: Standing, start: int) -> Iterator[str]:
    """The lines that carry the next paths through a compaction."""
    paths: list[str] = []
    while len(paths) < AHEAD and start + len(paths) in found.paths:
        paths.append(found.paths[start + len(paths)])
    if paths:
        yield f"Up next ({start}-{start + len(paths) - 1}):"
        yield from (f"- `{path}`" for path in paths)


def _ending(job: Job, found: Standing, past: Sequence[Step]) -> str:
    failed = {path for text in texts(past) for path in re.findall(r"Could not read `?(\S+?)`?: ", text)}
    latest = {str(call.input.get("file_path")): call for call in calls_in(past) if call.name == "read"}
    failed |= {path for path, call in latest.items() if call.failed}
    read = found.total - len(failed)
    told = [
        f"I have gone through all {found.total} files that fit `{job.pattern}` in `{job.where}`, one by one. "
        f"{read} could be read. Progress: {found.total} of {found.total} files read; last: `{found.last}`"
    ]
    if failed:
        told.append("Could not be read: " + ", ".join(f"`{path}`" for path in sorted(failed)))
    return "\n".join(told)


def _first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0][:200]
