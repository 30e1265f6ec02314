"""Search listed files for a regular expression: by ripgrep, or by regex_search.py where that cannot.

Either runs under the session's supervisor, and is ended after its time or its output.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tools.base import ToolContext, ToolError
from tools.processes.command_socket import CommandHandle, SupervisorLost
from tools.processes.env_filter import filter_environment
from tools.processes.jobs import DRAIN_LIMIT_S, CommandRunner, command_runner
from tools.truncate import cut_around
from transcripts.disk import make_private_folders
from transcripts.record_files import RECORD_FOLDERS

from .resolve_path import canonical_path, is_inside
from .safe_open import MAX_WHOLE_BYTES, begins_binary, load_file, with_lone_cr

SEARCH_LIMIT_S = 20.0
OTHER_ENCODING = "windows-1252"  # of old files, in which letters of a pattern are other bytes than in UTF-8
_ENCODING_NAMES = (("cp866", "ibm866"), ("cp932", "shift_jis"), ("cp874", "windows-874"), ("cp", "windows-"))
_MIN_LARGE_BYTES = 1024 * 1024  # of a file that is looked into before it is searched: it may be binary
MAX_SEARCH_BYTES = 8 * 1024 * 1024  # of lines that a search keeps; what was found by then is shown
MAX_FOUND_LINE_BYTES = 16 * 1024 * 1024  # of the JSON of one line up to the end of its first match
_LINE_COST_BYTES = 150  # of memory for a line besides its text
_KEPT_HEAD_BYTES = 32_768  # of a line that is too long: with the path, in base64 at worst
_KEPT_TAIL_BYTES = 128  # as long as what is sought in the JSON at most
# Within a text of JSON each quote has a backslash before it, so that these are found outside of texts alone.
_FIRST_MATCH = re.compile(rb'"start":\d+,"end":\d+\}')
_NUMBER_FIELD = re.compile(rb'"line_number": ?(\d+),')
_KIND_AND_PATH = re.compile(r'\{"type": ?"(match|context)", ?"data": ?\{"path": ?')
_ACROSS_LINES = re.compile(r"\n|(?<!\\)(?:\\\\)*\\n|\(\?[a-z]*s")
_XARGS = 'exec xargs -0 "$@" <"$0"'  # the names of files may be more than one command line holds


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """What is sought in which files (names below a folder), and how much of it.

    context     lines around each match
    first_only  no more than the first match of each file
    counting    only how many lines of each file match
    encoding    of files without a byte order mark; "" for UTF-8
    lone_cr     a CR alone ends a line, too: copies are searched
    """

    pattern: str
    folder: str
    names: Sequence[str]
    ignore_case: bool = False
    context: int = 0
    first_only: bool = False
    counting: bool = False
    encoding: str = ""
    lone_cr: bool = False


@dataclass(frozen=True, slots=True)
class FoundLine:
    """What is shown of a line of a file: where in the line the match begins, None for one of the context."""

    number: int
    text: str
    start: int | None


@dataclass(frozen=True, slots=True)
class SearchOutput:
    """What was found, by the file's name; why nothing could be sought; why the search was ended early.

    counts   how many lines match; `lines` are then empty
    binary   files that are no text and match somewhere
    skipped  large files that are no text, and were not searched
    """

    lines: Mapping[str, Sequence[FoundLine]]
    message: str = ""
    stopped: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    binary: Sequence[str] = ()
    skipped: Sequence[str] = ()


async def search_files(
    context: ToolContext, request: SearchRequest, limit_s: float = SEARCH_LIMIT_S
) -> SearchOutput:
    """Search; a pattern that ripgrep does not take (look-around) is tried by Python. Raises ToolError."""
    sizes = await asyncio.to_thread(_searchable_sizes, request)
    skipped = [name for name in request.names if name not in sizes]
    request = replace(request, names=[*sizes])
    output = SearchOutput({}, "there is no ripgrep")
    if not request.names:
        return SearchOutput({}, skipped=skipped)
    if ripgrep := shutil.which("rg", path=_safe_path(context)):
        output = await _run(context, request, ripgrep, limit_s)
        for other in _in_other_encodings(context, request, sizes):
            if not (output.message or output.stopped):
                output = _joined(output, await _run(context, other, ripgrep, limit_s))
    if output.message:
        ripgrep, output = None, await _run(context, request, None, limit_s)
    by_line = not (request.first_only or output.stopped or "\\r" in request.pattern)
    found = {name: sizes.get(name, 0) for name in output.lines or output.counts} if by_line else {}
    if names := await asyncio.to_thread(with_lone_cr, request.folder, found):
        with suppress(ToolError):  # a file is gone by now
            more = await _run(context, replace(request, names=names, lone_cr=True), ripgrep, limit_s)
            lines, counts = {**output.lines, **more.lines}, {**output.counts, **more.counts}
            output = output if more.stopped else replace(output, lines=lines, counts=counts)
    if request.counting:
        output = await asyncio.to_thread(_without_binary_counts, output, request.folder)
    return replace(output, skipped=skipped)


def _searchable_sizes(request: SearchRequest) -> Mapping[str, int]:
    """The sizes of the files in bytes, without large ones that are binary, which take long.

    ripgrep leaves these out itself, but not where they are named.
    """
    sizes = dict[str, int]()
    for name in request.names:
        path = f"{request.folder}/{name}"
        try:
            size = os.stat(path).st_size  # noqa: PTH116 - names of many files
        except OSError:
            size = 0
        if size < _MIN_LARGE_BYTES or not begins_binary(path):
            sizes[name] = size
    return sizes


def _in_other_encodings(
    context: ToolContext, request: SearchRequest, sizes: Mapping[str, int]
) -> Iterator[SearchRequest]:
    """The same search in the encodings that files may have, where letters of the pattern differ in them.

    Which ones some files have was told when these were read.
    """
    if request.pattern.isascii():
        return
    told = defaultdict[str, list[str]](list)
    for name, size in sizes.items():
        seen = context.seen.get(f"{request.folder.rstrip('/')}/{name}")
        encoding = seen.encoding.rstrip("?") if seen is not None else ""
        for codec, spelling in _ENCODING_NAMES:
            encoding = encoding.replace(codec, spelling)
        if size <= MAX_WHOLE_BYTES:
            told[encoding.replace("iso8859", "iso-8859").replace("_", "-") or OTHER_ENCODING].append(name)
    for encoding, names in told.items():
        if encoding != "utf-8":
            yield replace(request, names=names, encoding=encoding)


def _joined(output: SearchOutput, more: SearchOutput) -> SearchOutput:
    """What two searches of the same files found; the first counts where both found something."""
    lines, counts = {**more.lines, **output.lines}, {**more.counts, **output.counts}
    kept = {name: lines[name] for name in sorted(lines) if name not in output.binary}
    return replace(output, lines=kept, counts=dict(sorted(counts.items())), stopped=more.stopped)


def _without_binary_counts(output: SearchOutput, folder: str) -> SearchOutput:
    binary = {name for name in output.counts if begins_binary(f"{folder}/{name}")} | {*output.binary}
    counts = {name: count for name, count in output.counts.items() if name not in binary}
    return replace(output, counts=counts, binary=sorted(binary))


def _safe_path(context: ToolContext) -> str:
    """PATH without folders of the project and relative ones: nobody was asked about what runs here."""
    folders = filter_environment(context.environ)["PATH"].split(os.pathsep)
    absolute = [each for each in folders if each.startswith("/")]
    return os.pathsep.join(
        each for each in absolute if not is_inside(canonical_path(each), str(context.folder))
    )


async def _run(
    context: ToolContext, request: SearchRequest, ripgrep: str | None, limit_s: float
) -> SearchOutput:
    runner = command_runner(context)
    try:
        supervisor = await runner.supervisor()
        place = supervisor.private
        if copied := request.lone_cr or _is_record(context, request.folder):
            place = context.journals  # walled commands do not see what is copied there
            make_private_folders(place)
        with tempfile.TemporaryDirectory(dir=place, prefix="search-") as own:
            names = str(Path(own, "names"))
            folder = await asyncio.to_thread(_prepare, request, Path(own), copied)
            argv = _python(request, names) if ripgrep is None else _ripgrep(request, names, ripgrep)
            environ = {**filter_environment(context.environ), "PATH": _safe_path(context)}
            reader, full = _FoundReader(request.counting), asyncio.get_running_loop().create_future()

            def take(data: bytes) -> None:
                if not full.done() and not reader.take(data):
                    full.set_result(None)

            path = shutil.which(argv[0], path=environ["PATH"]) or argv[0]
            command = supervisor.run(take, path=path, argv=argv, env=environ, cwd=folder)
            stopped = await _ended(runner, command, full, limit_s)
    except (SupervisorLost, OSError) as error:
        raise ToolError(f"The search could not be started: {error}.\nTry again, or use bash.") from error
    return reader.output(stopped)


def _is_record(context: ToolContext, folder: str) -> bool:
    records = (context.outputs, *(context.folder / name for name in RECORD_FOLDERS))
    return any(is_inside(folder, str(each)) for each in records)


def _prepare(request: SearchRequest, own: Path, copied: bool) -> str:
    """Write the list `own`/names; the folder to search. Commands do not see our records: they get a copy.

    Raises ToolError where that would be too large, OSError.
    """
    (own / "names").write_bytes(b"".join(os.fsencode(each) + b"\0" for each in request.names))
    if not copied:
        return request.folder
    room = MAX_WHOLE_BYTES
    for name in request.names:
        copy = own / "copies" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        data = load_file(f"{request.folder}/{name}", room).data
        copy.write_bytes(re.sub(rb"\r\n?", b"\n", data) if request.lone_cr else data)
        room -= len(data)
    return str(own / "copies")


async def _ended(
    runner: CommandRunner, command: CommandHandle, full: asyncio.Future[None], limit_s: float
) -> str:
    """Wait for the end; where it was ended early, why. Raises OSError where it could not start."""
    try:
        pid = await command.pid
        if isinstance(pid, OSError):
            raise pid
        await asyncio.wait({full, command.closed}, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        if command.closed.done():
            await asyncio.wait({command.over}, timeout=DRAIN_LIMIT_S)
            return ""
        command.close()
        await runner.end(command)
    finally:
        command.drop()
    return "too much was found" if full.done() else f"it took longer than {limit_s:g} s"


def _ripgrep(request: SearchRequest, names: str, program: str) -> list[str]:
    options = ["--no-config", "--no-messages", "--no-ignore", "--hidden", "--no-mmap"]
    options += ["--ignore-case"] if request.ignore_case else []
    across = _ACROSS_LINES.search(request.pattern) is not None  # of which ripgrep would count the matches
    options += ["--multiline"] if across else []
    options += ["--count", "--null", "--with-filename"] if request.counting and not across else ["--json"]
    options += ["--crlf"] if _heeds_line_ends(request.pattern) else []
    options += [f"--encoding={request.encoding}"] if request.encoding else []
    options += ["--max-count=1"] if request.first_only else [f"--context={request.context}"]
    search = [program, *options, f"--regexp={request.pattern}", "--"]
    return ["bash", "--noprofile", "--norc", "-c", _XARGS, names, *search]


def _heeds_line_ends(pattern: str) -> bool:
    """Whether `$` has to stand before CR LF too: not where the pattern names CR itself."""
    return "$" in pattern and "\\r" not in pattern


def _python(request: SearchRequest, names: str) -> list[str]:
    wanted = {
        "i": request.ignore_case,
        "m": _ACROSS_LINES.search(request.pattern),
        "c": _heeds_line_ends(request.pattern),
        "1": request.first_only,
    }
    flags = "".join(flag for flag, is_set in wanted.items() if is_set)
    script = str(Path(__file__).with_name("regex_search.py"))
    argv = [sys.executable, "-I", "-S", "-W", "ignore", "-X", "utf8", script]
    return [*argv, names, request.pattern, flags, str(request.context)]


class _FoundReader:
    """Takes what a search writes, as it comes, and keeps what is shown of it.

    A line of a minified file can be megabytes, with a hundred thousand matches that ripgrep tells in full: of
    these the first is kept, and of the line what is around it.
    """

    def __init__(self, counting: bool = False) -> None:
        self.room = MAX_SEARCH_BYTES
        self._counting, self._counts = counting, dict[str, int]()
        self._found: dict[str, list[FoundLine]] = defaultdict(list)
        self._messages, self._binary = list[str](), list[str]()
        self._line = bytearray()  # that is not at its end yet
        self._known = False  # what is needed of that line: the rest is passed over
        self._oversized = False  # the middle of that line was dropped

    def take(self, data: bytes) -> bool:
        """Whether there is room for more."""
        *ended, last = data.split(b"\n")
        for part in ended:
            self._extend(part)
            self._end_line()
            if self.room <= 0:
                return False
        self._extend(last)
        return True

    def output(self, stopped: str) -> SearchOutput:
        """What was found; where the search was `stopped`, of the line that it was at no more than a match."""
        if self._known or not stopped:
            self._end_line()
        lines = {name: self._found[name] for name in sorted(self._found)}
        message = "" if lines or self._counts or stopped else "\n".join(self._messages).strip()
        counts = {name: self._counts[name] for name in sorted(self._counts)}
        return SearchOutput(lines, message, stopped, counts, sorted(self._binary))

    def _extend(self, part: bytes) -> None:
        if self._known:
            return
        start = max(0, len(self._line) - _KEPT_TAIL_BYTES)  # what is sought may have come in two parts
        self._line += part
        if first := None if self._oversized else _FIRST_MATCH.search(self._line, start):
            self._line[first.end() :] = b"]}}"
            self._known = True
        elif self._oversized or len(self._line) > MAX_FOUND_LINE_BYTES:
            self._known = _NUMBER_FIELD.search(self._line, start if self._oversized else 0) is not None
            self._oversized = True
            if not self._known:
                del self._line[_KEPT_HEAD_BYTES:-_KEPT_TAIL_BYTES]

    def _end_line(self) -> None:
        raw, oversized = bytes(self._line), self._oversized
        self._line.clear()
        self._known = self._oversized = False
        counted, mark, count = raw.partition(b"\0")  # as ripgrep counts lines
        if mark and count.isdigit():
            self._counts[os.fsdecode(counted)] = int(count)
            return
        if not raw.startswith(b"{"):
            self._messages.append(raw.decode("utf-8", "replace"))
            self.room -= len(raw)
            return
        if oversized:
            self._keep_oversized(raw)
            return
        try:
            line = json.loads(raw)
        except ValueError:
            return
        about = line["data"]
        if line["type"] in ("match", "context"):
            self._keep(_text(about["path"]), _found_lines(about))
        elif line["type"] == "end" and about["binary_offset"] is not None:
            self._binary.append(_text(about["path"]))
            self._found.pop(self._binary[-1], None)

    def _keep(self, name: str, lines: Iterable[FoundLine]) -> None:
        if self._counting:
            self._counts[name] = self._counts.get(name, 0) + sum(1 for _ in lines)
            return
        for line in lines:
            self._found[name].append(line)
            self.room -= len(line.text) + _LINE_COST_BYTES

    def _keep_oversized(self, raw: bytes) -> None:
        head = raw[:_KEPT_HEAD_BYTES].decode("utf-8", "replace")
        about, number = _KIND_AND_PATH.match(head), _NUMBER_FIELD.search(raw)
        if about is not None and number is not None:
            name = _text(json.JSONDecoder().raw_decode(head, about.end())[0])
            text = f"[too long to be shown: more than {MAX_FOUND_LINE_BYTES:,} bytes]"
            self._keep(name, [FoundLine(int(number[1]), text, 0 if about[1] == "match" else None)])


def _found_lines(about: Mapping[str, Any]) -> Iterator[FoundLine]:
    text = _text(about["lines"]).removesuffix("\n")
    start = about["submatches"][0]["start"] if about["submatches"] else None
    if start:
        start = len(text.encode("utf-8", "surrogateescape")[:start].decode("utf-8", "replace"))
    for at, line in enumerate(text.split("\n")):
        begin = 0 if start and at else start
        yield FoundLine(about["line_number"] + at, cut_around(line.removesuffix("\r"), begin or 0), begin)


def _text(value: Mapping[str, str]) -> str:
    """A text as ripgrep writes it: as it is, or its bytes where they are no UTF-8."""
    if "text" in value:
        return value["text"]
    return base64.b64decode(value["bytes"]).decode("utf-8", "surrogateescape")
