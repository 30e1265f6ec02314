"""Search files for a regular expression with ripgrep, or with regex_search.py if ripgrep cannot do it.

Both run under the session's supervisor, with limits on their time and output. ripgrep walks a whole directory
itself (`search_folder`), which takes a third of the time of searching a list of all files. Only results in
wanted files are kept.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from tools.files import MAX_WHOLE_BYTES, FileError, in_thread, is_inside, load_file
from tools.processes import CommandContext, command_runner, filter_environment
from tools.sandbox import SupervisorLost
from transcripts import RECORD_FOLDERS
from transcripts.patterns import lazy_pattern
from transcripts.storage import make_private_folders

from .checkout import Checkout
from .file_contents import begins_binary, detected_codecs, texts_with_nul, wide_codecs, with_lone_cr
from .found_lines import FoundReader, SearchOutput
from .listing import file_states, hidden_by_patterns, is_ignored
from .program import SEARCH_LIMIT_S, find_program, run_program, safe_path
from .project_files import IDLE_FOLDERS

_ENCODING_NAMES = (
    ("iso2022", "iso-2022"),
    ("cp866", "ibm866"),
    ("cp932", "shift_jis"),
    ("cp874", "windows-874"),
    ("cp", "windows-"),
)
_MAX_WIDE_FILES = 50  # of a search that are checked
_SMALL_BYTES = 256 * 1024  # of a file that is checked even if no line begins like that
_SIFT_LIMIT_S = 1.0  # of the search of a whole directory for NULs, which is remembered
_BESIDE_LIMIT_S = 0.2  # of that of a list of files, after a search that took no longer
_BESIDE_SHARE = 0.2  # of the time of a longer search
# Begins a line of a text in UTF-16 without a byte order mark, of letters that ASCII has.
_WIDE_START = r"(?-u)^(?:(?:[\t\r -~]\x00){4}|(?:\x00[\t\r -~]){4})"
_REMEMBERED_S = 600.0
_PART_REMEMBERED_S = 60.0
_MIN_REMEMBERED_S = 0.2  # of a search; a shorter one is repeated, as files may have changed
_NUL_FILES: dict[str, _NulFiles] = {}  # by directory
_ACROSS_LINES = lazy_pattern(r"\n|(?<!\\)(?:\\\\)*\\n|\(\?[a-z]*s")
# The names of files may exceed the limit of a command line, which is a megabyte on macOS. A call with many
# names is faster than many calls.
_XARGS = 'exec xargs -0 -s 900000 "$@" <"$0"'


class _NulFiles(Struct, frozen=True):
    """Files with a NUL, all of them if `complete`, and until when they are remembered."""

    names: Sequence[str] = ()
    complete: bool = True
    until: float = 0.0


class SearchRequest(Struct, frozen=True):
    """A search: the pattern and the files (names below a directory; None for all that git does not ignore).

    wanted         selects the files to show
    before, after  lines around each match
    first_only     only the first match of each file
    counting       only the number of matching lines of each file
    across_lines   dots match newlines
    encoding       of files without a byte order mark; "" for UTF-8
    lone_cr        a CR alone also ends a line, so copies are searched
    """

    pattern: str
    folder: str
    names: Sequence[str] | None = None
    wanted: Callable[[str], bool] = lambda name: True
    ignore_case: bool = False
    before: int = 0
    after: int = 0
    first_only: bool = False
    counting: bool = False
    across_lines: bool = False
    encoding: str = ""
    lone_cr: bool = False

    @property
    def spans_lines(self) -> bool:
        """Return whether a match may span several lines."""
        return self.across_lines or _ACROSS_LINES.search(self.pattern) is not None

    @property
    def heeds_line_ends(self) -> bool:
        """Return whether `$` also has to match before CR LF, unless the pattern contains CR."""
        return "$" in self.pattern and "\\r" not in self.pattern


def can_search_folders(context: CommandContext, folder: str) -> bool:
    """Return whether ripgrep is installed and can see the directory; programs cannot see our transcripts."""
    return find_program(context, "rg") is not None and not _is_record(context, folder)


async def search_folder(
    context: CommandContext, request: SearchRequest, limit_s: float = SEARCH_LIMIT_S
) -> SearchOutput:
    """Search all files below a directory that git does not ignore, with ripgrep. Raises FileError.

    The output contains a message if ripgrep rejects the pattern.
    """
    ripgrep = find_program(context, "rg")
    assert ripgrep is not None
    ignored = await is_ignored(context, request.folder)
    options = _walk_options(request.folder, ignored)
    walk = _run(context, request, [ripgrep, *options], limit_s)
    hidden: Sequence[str] = ()
    if ignored:
        output = await walk
    else:
        output, hidden = await asyncio.gather(walk, hidden_by_patterns(context, request.folder))
    if output.message or output.stopped:
        return output
    with_nul = await _with_nul(context, request, [ripgrep, *options], _SIFT_LIMIT_S)
    output = replace(output, unsifted=not with_nul.complete)
    if more := await _known_files(request.folder, [name for name in hidden if request.wanted(name)]):
        found = await _run(context, replace(request, names=[*more]), [ripgrep], limit_s)
        output = replace(_joined(output, found), binary=sorted({*output.binary, *found.binary}))
    odd = {*output.binary, *(name for name in with_nul.names if request.wanted(name))}
    output = await _in_texts_with_nul(context, replace(request, names=sorted(odd)), output, ripgrep, limit_s)
    output = await _in_other_encodings(context, request, output, [ripgrep, *options], limit_s)
    if not (output.lines or output.counts):
        wide = await _wide_candidates(context, request, [ripgrep, *options])
        output = await _in_wide_files(context, replace(request, names=wide), output, [ripgrep], limit_s)
    return await _completed(context, request, output, ripgrep, limit_s)


def _walk_options(folder: str, ignored: bool) -> list[str]:
    options = ["--no-ignore-dot", "--no-ignore-messages", "--no-require-git", "--glob=!.git"]
    options += [f"--glob=!{name}/" for name in sorted(IDLE_FOLDERS)]
    if Checkout.around(Path(folder)) is None:  # the user's own ignore patterns only apply to repositories
        options += ["--no-ignore-global", "--no-ignore-parent"]
    return [*options, "--no-ignore"] if ignored else options


async def search_files(
    context: CommandContext, request: SearchRequest, limit_s: float = SEARCH_LIMIT_S
) -> SearchOutput:
    """Search the files of a list, in Python if ripgrep rejects the pattern. Raises FileError."""
    assert request.names is not None
    states = await _known_files(request.folder, request.names)
    skipped = await in_thread(lambda abandoned: _large_binaries(request.folder, states))
    names = [name for name in states if name not in skipped]
    if not names:
        return SearchOutput(skipped=skipped, searched=0)
    request = replace(request, names=names)
    ripgrep = find_program(context, "rg")
    output = SearchOutput(message="ripgrep is not installed")
    with_nul = _NulFiles()
    if ripgrep is not None:
        began = time.monotonic()
        output = await _run(context, request, [ripgrep], limit_s)
        if len(names) > _MAX_WIDE_FILES and not (output.message or output.stopped):
            taken = time.monotonic() - began
            with_nul = await _with_nul(
                context, request, [ripgrep], max(_BESIDE_LIMIT_S, _BESIDE_SHARE * taken)
            )
    if output.message:
        ripgrep = None
        output = await _run(context, request, [], limit_s)
    if not output.message:
        program = [ripgrep] if ripgrep else []
        if ripgrep is not None:
            odd = {*output.binary, *with_nul.names}
            if request.counting:
                counted = replace(request, names=[*output.counts])
                odd |= {*(await _with_nul(context, counted, program, limit_s)).names}
            odd_files = replace(request, names=sorted(odd))
            output = await _in_texts_with_nul(context, odd_files, output, ripgrep, limit_s)
        output = await _in_other_encodings(context, request, output, program, limit_s)
        output = await _in_wide_files(context, request, output, program, limit_s)
    output = await _completed(context, request, output, ripgrep, limit_s)
    return replace(output, skipped=skipped, searched=len(names), unsifted=not with_nul.complete)


async def _known_files(folder: str, names: Sequence[str]) -> Mapping[str, os.stat_result]:
    return await in_thread(lambda abandoned: file_states(folder, names)) if names else {}


def _large_binaries(folder: str, states: Mapping[str, os.stat_result]) -> list[str]:
    """Return the large binary files. ripgrep skips them itself, except if they are named."""
    large = (name for name, state in states.items() if state.st_size >= 1024 * 1024)  # it may be binary
    return [name for name in large if begins_binary(f"{folder}/{name}")]


async def _completed(
    context: CommandContext, request: SearchRequest, output: SearchOutput, ripgrep: str | None, limit_s: float
) -> SearchOutput:
    """Correct the lines of files in which a CR alone ends lines, and the counts of binary files."""
    by_line = not (request.first_only or output.stopped or "\\r" in request.pattern)
    found = [*(output.lines or output.counts)] if by_line else []
    states = await _known_files(request.folder, found)
    sizes = {name: state.st_size for name, state in states.items()}
    if names := await asyncio.to_thread(with_lone_cr, request.folder, sizes):
        with suppress(FileError):  # a file was removed
            program = [ripgrep] if ripgrep else []
            more = await _run(context, replace(request, names=names, lone_cr=True), program, limit_s)
            if not more.stopped:
                lines = {**output.lines, **more.lines}
                counts = {**output.counts, **more.counts}
                output = replace(output, lines=lines, counts=counts)
    if request.counting:
        output = await asyncio.to_thread(_without_binary_counts, output, request.folder)
    return output


async def _in_other_encodings(
    context: CommandContext, request: SearchRequest, output: SearchOutput, program: list[str], limit_s: float
) -> SearchOutput:
    """Add the results in files that are not UTF-8, if letters of the pattern have other bytes in them.

    Each file is searched in the encoding in which `read` shows it: a file of mostly valid UTF-8 is not
    searched again, since its bytes would match as other letters.
    """
    if request.pattern.isascii() or output.stopped:
        return output
    inverted = [*program, "--line-regexp", "--invert-match"] if program else []
    # ESC is in ISO-2022-JP. A byte that is not UTF-8 becomes a surrogate in Python.
    pattern = r"[^\x1b]*" if program else r"[\udc80-\udcff\x1b]"
    invalid = SearchRequest(
        pattern, request.folder, names=request.names, wanted=request.wanted, first_only=True
    )
    odd = await _run(context, invalid, inverted, limit_s)
    states = await _known_files(request.folder, [*odd.lines])
    names = [name for name, state in states.items() if state.st_size <= MAX_WHOLE_BYTES]
    folder = request.folder.rstrip("/")
    seen_codecs = {
        name: seen.encoding.rstrip("?") for name in names if (seen := context.seen.get(f"{folder}/{name}"))
    }
    unread = [name for name in names if not seen_codecs.get(name)]
    codecs = seen_codecs | await asyncio.to_thread(detected_codecs, folder, unread)
    by_codec = defaultdict[str, list[str]](list)
    for name, codec in codecs.items():
        by_codec[codec].append(name)
    for codec in by_codec.keys() - {"", "utf-8"}:
        more = replace(request, names=by_codec[codec], encoding=codec)
        output = _joined(output, await _run(context, more, program[:1], limit_s))
        if output.stopped:
            break
    return output


async def _in_texts_with_nul(
    context: CommandContext, request: SearchRequest, output: SearchOutput, ripgrep: str, limit_s: float
) -> SearchOutput:
    """Add the results in the texts among files with a NUL. ripgrep takes them for binary data and stops."""
    if output.stopped:
        return output
    texts, wide = await asyncio.to_thread(texts_with_nul, request.folder, request.names or ())
    if wide:
        names = wide[:_MAX_WIDE_FILES]
        output = await _in_wide_files(context, replace(request, names=names), output, [ripgrep], limit_s)
    if not texts or output.stopped:
        return output
    more = await _run(context, replace(request, names=texts), [ripgrep, "--text"], limit_s)
    lines = {name: found for name, found in output.lines.items() if name not in texts}
    counts = {name: count for name, count in output.counts.items() if name not in texts}
    binary = [name for name in output.binary if name not in texts]
    return _joined(replace(output, lines=lines, counts=counts, binary=binary), more)


async def _in_wide_files(
    context: CommandContext, request: SearchRequest, output: SearchOutput, program: list[str], limit_s: float
) -> SearchOutput:
    """Add the results in UTF-16 without a byte order mark and in UTF-32, which ripgrep does not read.

    Checking each file of a directory takes longer than searching. If there are many and nothing else was
    found, which would be misleading, ripgrep finds those that may be such a text.
    """
    names = request.names or ()
    is_misleading = not (output.lines or output.counts)
    # Without ripgrep, searching takes so long that checking the files adds little.
    if output.stopped or (program and len(names) > _MAX_WIDE_FILES and not is_misleading):
        return output
    if len(names) > _MAX_WIDE_FILES:
        names = await _wide_candidates(context, request, program)
    codecs = await asyncio.to_thread(wide_codecs, request.folder, names)
    for codec in sorted({*codecs.values()}):
        wide = [name for name in names if codecs.get(name) == codec]
        able = program[:1] if codec.startswith("utf-16") else []  # ripgrep cannot decode UTF-32
        found = await _run(context, replace(request, names=wide, encoding=codec), able, limit_s)
        binary = [name for name in output.binary if name not in wide]
        output = _joined(replace(output, binary=binary), found)
        if output.stopped:
            break
    return output


async def _wide_candidates(
    context: CommandContext, request: SearchRequest, program: Sequence[str]
) -> list[str]:
    """Return files that may be UTF-16 without a byte order mark, likely ones first, as far as soon found."""
    if not program:  # Python searches slowly anyway
        return [*(request.names or ())][:2_000]  # without ripgrep
    with_nul = await _with_nul(context, request, program, _SIFT_LIMIT_S)
    names = [name for name in with_nul.names if request.wanted(name)]
    starts = SearchRequest(_WIDE_START, request.folder, names=names, first_only=True)
    likely = (await _run(context, starts, [program[0], "--text"], _SIFT_LIMIT_S)).lines
    states = await _known_files(request.folder, [name for name in names if name not in likely])
    small = [name for name, state in states.items() if state.st_size <= _SMALL_BYTES]
    return [*likely, *small][:_MAX_WIDE_FILES]


async def _with_nul(
    context: CommandContext, request: SearchRequest, program: Sequence[str], limit_s: float
) -> _NulFiles:
    """Return the files that contain a NUL, as far as they are found within the limit.

    This takes as long as a search, so those of a whole directory are remembered for some minutes.
    """
    known = _NUL_FILES.get(request.folder) if request.names is None else None
    if known is not None and time.monotonic() < known.until:
        return known
    holds_nul = SearchRequest(
        r"(?-u)\x00", request.folder, names=request.names, first_only=True, counting=True
    )
    began = time.monotonic()
    output = await _run(context, holds_nul, [*program, "--text"], limit_s)
    now = time.monotonic()
    until = now + (_PART_REMEMBERED_S if output.stopped else _REMEMBERED_S)
    found = _NulFiles([*output.counts], complete=not output.stopped, until=until)
    if request.names is None and (output.stopped or now - began >= _MIN_REMEMBERED_S):
        _NUL_FILES.clear()  # usually the same directory is searched
        _NUL_FILES[request.folder] = found
    return found


def _ripgrep_encoding(codec: str) -> str:
    for python_name, name in _ENCODING_NAMES:
        codec = codec.replace(python_name, name)
    return codec.replace("iso8859", "iso-8859").replace("utf-16-", "utf-16").replace("_", "-")


def _joined(output: SearchOutput, more: SearchOutput) -> SearchOutput:
    """Join the results of two searches. The first takes precedence for a file in both."""
    lines = {**more.lines, **output.lines}
    counts = {**more.counts, **output.counts}
    kept = {name: lines[name] for name in sorted(lines) if name not in output.binary}
    return replace(output, lines=kept, counts=dict(sorted(counts.items())), stopped=more.stopped)


def _without_binary_counts(output: SearchOutput, folder: str) -> SearchOutput:
    binary = {name for name in output.counts if begins_binary(f"{folder}/{name}")} | {*output.binary}
    counts = {name: count for name, count in output.counts.items() if name not in binary}
    return replace(output, counts=counts, binary=sorted(binary))


async def _run(
    context: CommandContext, request: SearchRequest, ripgrep: Sequence[str], limit_s: float
) -> SearchOutput:
    """Run one search: with ripgrep (its path and additional options), or in Python if there is none."""
    if request.names is not None and not request.names:
        return SearchOutput()  # without names, ripgrep would search the whole directory
    reader = FoundReader(request.wanted, counting=request.counting)
    environ = {**filter_environment(context.environ), "PATH": safe_path(context)}
    try:
        place = (await command_runner(context).supervisor()).private
        if copied := request.lone_cr or _is_record(context, request.folder):
            place = context.journals  # sandboxed commands cannot see the copies there
            make_private_folders(place)
        with tempfile.TemporaryDirectory(dir=place, prefix="search-") as own:
            names = str(Path(own, "names"))
            folder = await asyncio.to_thread(_prepare, request, Path(own), copied)
            argv = _ripgrep(request, names, ripgrep) if ripgrep else _python(request, names)
            end = await run_program(
                context,
                argv,
                environ=environ,
                folder=folder,
                take=reader.take,
                limit_s=limit_s,
                sandboxed=not copied and await _is_sandboxed(context, request, ripgrep),
            )
    except (SupervisorLost, OSError) as error:
        raise FileError(f"The search could not be started: {error}.\nTry again.") from error
    return reader.output(end.stopped)


async def _is_sandboxed(context: CommandContext, request: SearchRequest, ripgrep: Sequence[str]) -> bool:
    """Return whether a search runs in the sandbox: in the project, unless that hides what is searched.

    ripgrep follows links in the names that it is given. A command may make a file of the project a link to a
    secret after it was listed. What the sandbox hides and the user approved is searched outside.
    """
    runner = command_runner(context)
    level, _ = await runner.sandbox()
    names = request.names if request.names is not None and len(request.names) == 1 else ()
    searched = str(Path(request.folder, *names))
    if level == "none" or runner.profile is None or not is_inside(searched, str(context.folder)):
        return False
    hidden = [*map(str, runner.profile.hidden)]
    return not any(is_inside(needed, place) for needed in (searched, *ripgrep[:1]) for place in hidden)


def _is_record(context: CommandContext, folder: str) -> bool:
    records = (context.outputs, *(context.folder / name for name in RECORD_FOLDERS))
    return any(is_inside(folder, str(each)) for each in records)


def _prepare(request: SearchRequest, own: Path, copied: bool) -> str:
    """Write the list `own`/names; return the directory to search, a copy if it has our transcripts.

    Raises FileError if that would be too large, OSError.
    """
    if request.names is None:
        return request.folder
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


def _ripgrep(request: SearchRequest, names: str, program: Sequence[str]) -> list[str]:
    options = ["--no-config", "--no-messages", "--hidden", "--no-mmap"]
    options += ["--ignore-case"] if request.ignore_case else []
    across = request.spans_lines  # for these ripgrep would count matches
    options += ["--multiline"] if across else []
    options += ["--multiline-dotall"] if request.across_lines else []
    options += ["--count", "--null", "--with-filename"] if request.counting and not across else ["--json"]
    options += ["--crlf"] if request.heeds_line_ends else []
    options += [f"--encoding={_ripgrep_encoding(request.encoding)}"] if request.encoding else []
    options += ["--max-count=1"] if request.first_only else []
    if not request.first_only:
        options += [f"--before-context={request.before}", f"--after-context={request.after}"]
    if request.names is None:
        return [*program, *options, f"--regexp={request.pattern}", "--", "./"]
    search = [*program, *options, "--no-ignore", f"--regexp={request.pattern}", "--"]
    return ["bash", "--noprofile", "--norc", "-c", _XARGS, names, *search]


def _python(request: SearchRequest, names: str) -> list[str]:
    wanted = {
        "i": request.ignore_case,
        "m": request.spans_lines,
        "s": request.across_lines,
        "c": request.heeds_line_ends,
        "1": request.first_only,
    }
    flags = "".join(flag for flag, is_set in wanted.items() if is_set)
    script = str(Path(__file__).with_name("regex_search.py"))
    argv = [sys.executable, "-I", "-S", "-X", "utf8", script]
    around = (str(request.before), str(request.after))
    return [*argv, names, request.pattern, flags, *around, request.encoding or "utf-8"]
