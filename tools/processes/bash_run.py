"""Run one command in the foreground, and put the outcome of any command into words.

A command runs until it ends, its time is up, or its output is too much. An output that is longer than a
result may be is kept in its file, which the text names.
"""

from __future__ import annotations

import asyncio
import codecs
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from tools.base import ToolContext, ToolResult, text_result
from tools.files.text_encoding import guess_codec, pluralize, seems_binary
from tools.truncate import (
    NO_OUTPUT,
    as_drawn,
    count_invisible,
    cut_at_lines,
    escaped,
    escaped_bytes,
    last_lines,
    printable,
    shown_chars,
)

from .command_hints import hint, is_answer, key_advice, looks_like_prompt
from .command_progress import ProgressThrottle, from_first_character
from .command_socket import CommandHandle
from .job_ports import port_note
from .jobs import DRAIN_LIMIT_S, BackgroundJob, CommandRequest, CommandRunner, exit_code, last_folder
from .output_folding import fold_output
from .spool import MAX_OUTPUT_BYTES, Spool

_MAX_SCREEN_CHARS = 10_000  # for the person, where a file has all
_SETTLE_LIMIT_S = 0.05  # for processes that end together with their shell (`>(tee log)`)
_LONG_RUN_S = 5.0  # from which on the model is told the time
_PROMPT_SAMPLE_BYTES = 2_000
_MIN_GUESSED_BYTES = 4  # beyond ASCII; fewer are spelled out
_MAX_ESCAPED_BYTES = 500  # of binary output that are shown byte by byte

Why = Literal["", "timeout", "output", "editor", "lost", "moved", "late"]
JOB_ADVICE = 'Look: bash(job="{id}"). End: bash(job="{id}", kill=true). You are told when it finishes'
_GOES_ON = ("moved", "late")  # what did not end it


class CommandLimits(Struct, frozen=True):
    """What a command may take."""

    timeout_s: float = 120.0  # this and the next as in Claude Code
    max_timeout_s: float = 600.0
    editor_s: float = 5.0  # for a program that would wait for keys
    quiet_s: float = 45.0  # without output, after which an unfinished line that asks counts as a prompt
    output_bytes: int = MAX_OUTPUT_BYTES
    disk_bytes: int = 1024**3


class CommandEnd(Struct, frozen=True):
    """How a command ended."""

    code: int | None  # as a shell tells it (128 + n for a signal); None when it is not known
    signal: str | None
    why: Why  # what ended it; "": it ended by itself
    took_s: float
    limit_s: float  # the time that it had
    folder: str | None = None  # where its shell was at last; None when it did not report that
    job: BackgroundJob | None = None  # what it left running
    left: tuple[tuple[int, str], ...] = ()  # (pid, command line) of these processes
    prompted: bool = False  # whether it seemed to wait for an answer
    disk_used: int = 0  # bytes of disk that were free before and are not now


async def run_foreground(
    runner: CommandRunner,
    request: CommandRequest,
    spool: Spool,
    limits: CommandLimits,
    progress: ProgressThrottle,
) -> CommandEnd:
    """Run a command line in the session's folder, for at most `limits.timeout_s`.

    Raises SupervisorLost or OSError when it cannot be started. When cancelled, all that it started is sent
    TERM before this returns, and KILL half a second later.
    """
    loop = asyncio.get_running_loop()
    began, free = loop.time(), _free_bytes(runner.context.folder)
    full: asyncio.Future[None] = loop.create_future()
    moved: asyncio.Future[None] = loop.create_future()  # the person wants it in the background
    last_output = began

    def take(data: bytes) -> None:
        nonlocal last_output
        last_output = loop.time()
        if not spool.feed(data) and not full.done():
            full.set_result(None)
        progress.take(data)

    line, walled = request.line, request.walled
    command, report = await runner.start(line, request.cwd or runner.context.cwd, take, walled=walled)
    runner.foreground.add(moved)
    try:
        may_go_on = runner.context.attended and not key_advice(line)
        limit = min(limits.timeout_s, limits.editor_s) if key_advice(line) else limits.timeout_s
        await _first_of(limit, command.exited, full, moved)
        took, quiet = loop.time() - began, loop.time() - last_output
        asks = quiet >= min(limits.quiet_s, limit / 2) and _ends_in_prompt(spool)
        if (moved.done() or (may_go_on and not asks)) and not (command.exited.done() or full.done()):
            going = runner.add(request, command, spool)
            going.began, going.shown = began, spool.total
            return CommandEnd(None, None, "moved" if moved.done() else "late", took, limit, job=going)
        why = await _finish(runner, command, full, "editor" if limit < limits.timeout_s else "timeout")
        job, left = await _keep_strays(runner, request, command, spool)
    except BaseException:
        command.drop()
        raise
    finally:
        runner.foreground.discard(moved)
        progress.stop()
    code, signal = exit_code(command.exited.result() if command.exited.done() else None)
    used = free - _free_bytes(runner.context.folder, unknown=free)
    prompted, folder = why == "timeout" and asks, last_folder(report)
    return CommandEnd(code, signal, why, took, limit, folder, job, left, prompted, used)


async def _first_of(timeout_s: float, *futures: asyncio.Future[Any]) -> None:
    if not futures[0].done():
        await asyncio.wait(set(futures), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)


def move_to_background(runner: CommandRunner) -> int:
    """Have the commands in the foreground go on in the background; how many there are."""
    moving = [moved for moved in runner.foreground if not moved.done()]
    for moved in moving:
        moved.set_result(None)
    return len(moving)


async def _finish(
    runner: CommandRunner, command: CommandHandle, full: asyncio.Future[None], late: Why
) -> Why:
    """End what is not over, take the last of its output, and tell why it ended (`late`: its time was up)."""
    if command.exited.done():
        await _first_of(DRAIN_LIMIT_S, command.closed, full)
        if not full.done():
            return "lost" if command.exited.result() is None else ""
    why = "output" if full.done() else late
    await runner.end(command)
    if not command.closed.done() and why != "output":
        await asyncio.wait({command.closed}, timeout=DRAIN_LIMIT_S)
    return why


async def _keep_strays(
    runner: CommandRunner, request: CommandRequest, command: CommandHandle, spool: Spool
) -> tuple[BackgroundJob | None, tuple[tuple[int, str], ...]]:
    """What the command left running becomes a command in the background, so that it can be seen and ended."""
    if command.strays and not command.over.done():
        await asyncio.wait({command.over}, timeout=_SETTLE_LIMIT_S)
        left = tuple(await command.what_is_left())
        if left and not command.over.done():
            return runner.add(request, command, spool, left_over=True), left
    command.close()
    return None, ()


def _ends_in_prompt(spool: Spool) -> bool:
    return looks_like_prompt(_decoded(spool.tail(_PROMPT_SAMPLE_BYTES)))


def _free_bytes(folder: Path, unknown: int = 0) -> int:
    with suppress(OSError):
        return shutil.disk_usage(folder).free
    return unknown


def command_result(
    end: CommandEnd, line: str, spool: Spool, context: ToolContext, limits: CommandLimits
) -> ToolResult:
    """The result of a command that ran in the foreground."""
    spool.flush()
    text = _output_text(spool, context, line, growing=end.job is not None)
    notes = list(_end_notes(end, limits, spool))
    if end.job is not None and end.why not in _GOES_ON:
        stored = spool.stored(context.folder)
        named = ", ".join(f"pid {pid} ({' '.join(words.split())[:80]})" for pid, words in end.left[:8])
        more = f" and {len(end.left) - 8} more" if len(end.left) > 8 else ""
        where = f", its output goes on in {stored.path}" if stored else ""
        notes.append(f"[still running in the background as job {end.job.id}: {named}{more}{where}]")
    if advice := _advice(end, line, text):
        notes.append(f"[hint: {advice}]")
    if end.disk_used >= limits.disk_bytes:
        notes.append(f"[{end.disk_used / 1e9:.1f} GB less disk is free than before this command]")
    if not seems_binary(_decoded(spool.head())) and (hidden := count_invisible(_decoded(spool.tail()))):
        number = pluralize(hidden, "invisible character was", "invisible characters were")
        notes.append(f"[{number} taken out of this output]")
    if text and notes:
        text += "\n"
    if end.job is None:
        spool.close()
    how = {"timeout": "timed out", "output": "too much output", "editor": "waits for keys", "lost": "lost"}
    how |= dict.fromkeys(_GOES_ON, f"goes on in the background as {end.job.id}" if end.job else "")
    ended = f"killed by {end.signal}" if end.signal else f"exit {end.code}" if end.code else ""
    return text_result(
        (text + "\n".join(notes)) or NO_OUTPUT,
        error=end.why not in _GOES_ON and _has_failed(end, line),
        human={**_for_people(spool, context), "note": how.get(end.why, ended)},
        about={
            "exit": end.code,
            **({"signal": end.signal} if end.signal else {}),
            **({"job": end.job.id} if end.job is not None else {}),
        },
        stored=spool.stored(context.folder) if end.job is None else None,
    )


def _has_failed(end: CommandEnd, line: str) -> bool:
    return bool(end.why) or (end.code != 0 and not is_answer(line, end.code or 0))


def output_so_far(spool: Spool, context: ToolContext) -> ToolResult:
    """The result of a command that was interrupted."""
    spool.flush()
    text = _output_text(spool, context, "", growing=False)
    spool.close()
    stored = spool.stored(context.folder)
    return text_result(text, error=True, human=_for_people(spool, context), stored=stored)


def _output_text(spool: Spool, context: ToolContext, line: str, growing: bool) -> str:
    """The output as the model gets it. What it does not show exactly is kept in a file, which the text names.

    Where it shows all, no file stays, unless a command in the background goes on writing (`growing`).
    """
    folder, uncut, (first_chars, last_chars) = context.folder, *shown_chars(context.environ)
    head, tail = spool.head(), spool.tail()
    codec = _codec_of(spool)
    if codec == "" and seems_binary(_decoded(head)):
        spool.keep()
        binary = f"[binary output, {spool.total:,} bytes{_kept_in(spool, folder)}]"
        return f"{escaped_bytes(tail)}\n{binary}" if spool.total <= _MAX_ESCAPED_BYTES else binary
    if codec != "utf-8":
        spool.keep()
    if spool.whole:
        text = _plain(_decoded(tail, codec))
        if codec == "utf-8" and len(folded := fold_output(text, line)) < len(text):
            spool.keep()
            if len(folded) <= uncut and (kept := _kept_in(spool, folder)):
                return f"{folded.rstrip()}\n[what only repeats is counted{kept} as it was]"
        if len(text) <= uncut:
            if not growing and codec == "utf-8":
                spool.drop()
            return _with_codec(text.rstrip("\n"), codec, _kept_in(spool, folder))
        spool.keep()
        head = tail
    start = _plain(_decoded(head[: 4 * first_chars], codec))[:first_chars]
    first, last = cut_at_lines(start, _plain(_decoded(tail, codec))[-last_chars:])
    lines = f"{pluralize(spool.lines, 'line')}, {pluralize(spool.total, 'byte')}"
    if stored := spool.stored(folder):
        gap = f"the middle is left out; all of it ({lines}) is in {stored.path}: page it with read"
    else:
        gap = f"the middle is left out of {lines}; no file could be kept: {spool.error}"
    return _with_codec(f"{first}\n[... {gap} ...]\n{last}".rstrip("\n"), codec, "")


def _codec_of(spool: Spool) -> str:
    """The encoding of the output: UTF-8, a legacy one that is likely, "" where it is none that is known."""
    head = spool.head()
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head, final=len(head) == spool.total)
    except UnicodeDecodeError:
        few = sum(byte > 0x7F for byte in head) < _MIN_GUESSED_BYTES
        return "" if few else guess_codec(head)[0]
    return "" if seems_binary(_decoded(head)) else "utf-8"


def _kept_in(spool: Spool, folder: Path) -> str:
    stored = spool.stored(folder)
    return f", kept in {stored.path}" if stored else ""


def _with_codec(text: str, codec: str, kept: str) -> str:
    """The text with a note about bytes that are not UTF-8."""
    if codec == "utf-8":
        return text
    how = f"read as {codec}, which is a guess" if codec else "shown as \\xNN: their encoding is unknown"
    return f"{text}\n[there are bytes that are not UTF-8, {how}{kept}]"


def _decoded(data: bytes, codec: str | None = None) -> str:
    """The bytes as text, without the rest of a character that was cut at the beginning.

    In `codec`, where it was found; "" spells out what is not UTF-8, which else becomes U+FFFD.
    """
    if codec and codec != "utf-8":
        return data.decode(codec, "replace")
    return from_first_character(data).decode("utf-8", "replace" if codec is None else "backslashreplace")


def _plain(text: str) -> str:
    """For the model: without control sequences, but a NUL between names (`find -print0`) stays visible."""
    return printable(text.replace("\0", "\u2400"))


def _end_notes(end: CommandEnd, limits: CommandLimits, spool: Spool) -> Iterator[str]:
    match end.why:
        case "timeout":
            yield (
                f"[timed out after {end.limit_s:g} s; the command and everything it started were ended. Set "
                f"`timeout` (milliseconds, at most {limits.max_timeout_s * 1000:.0f}) or use "
                "run_in_background]"
            )
        case "moved" | "late" if end.job is not None:
            id, limit = end.job.id, f"not over after {end.limit_s:g} s, its time limit: it"
            why = limit if end.why == "late" else "the person moved this command, which"
            yield f"[{why} goes on in the background as job {id}. {JOB_ADVICE.format(id=id)}]"
        case "output":
            yield f"[ended after {spool.total:,} bytes of output, the limit. Filter it or send it to a file]"
        case "editor":
            yield f"[ended after {end.limit_s:g} s: a program in it waits for keys, and there is no terminal]"
        case "lost":
            yield "[the process that watches commands was killed, and this command with it. Try again]"
        case "":
            if end.code:
                yield f"[exit code {end.code}{f': killed by {end.signal}' if end.signal else ''}]"
            if end.took_s > _LONG_RUN_S:
                yield f"[took {end.took_s:.1f} s]"


def _advice(end: CommandEnd, line: str, text: str) -> str | None:
    if end.prompted:
        return "the last line looks like a question, and nobody can answer: use an option that answers it"
    if end.why == "editor":
        return key_advice(line)
    if end.why == "timeout" or end.code != 0 or not text:
        return hint(line, text)
    return None


def _for_people(spool: Spool, context: ToolContext) -> dict[str, Any]:
    """The end of the output; of one that is longer how many lines stand `above`, and the `file` with all."""
    stored = spool.stored(context.folder)
    most = max(_MAX_SCREEN_CHARS, 0 if stored else shown_chars(context.environ)[0])
    text = as_drawn(_decoded(spool.tail(), _codec_of(spool)))
    if spool.whole and len(text) <= most:
        return {"text": escaped(text)}
    shown = last_lines(text, most)
    above = {"above": max(spool.lines - shown.count("\n"), 0)}
    return {"text": escaped(shown), **above, **({"file": stored.path} if stored else {})}


def job_result(
    job: BackgroundJob, ports: Sequence[int], context: ToolContext, now: float, limits: CommandLimits
) -> ToolResult:
    """The status and the new output of a background command. `now` is the event loop's time.

    `ports` are those on which it listens within the wall.
    """
    job.spool.flush()
    data, missing = job.spool.since(job.shown)
    job.shown = job.spool.total
    text = _decoded(data)
    shown = f"[binary output, {len(data):,} bytes]" if seems_binary(text) else _plain(text).rstrip("\n")
    stored = job.spool.stored(context.folder)
    size = f"{pluralize(job.spool.lines, 'line')}, {pluralize(stored.size, 'byte')}" if stored else ""
    where = f" in {stored.path} ({size})" if stored else ""
    uncut, (first_chars, last_chars) = shown_chars(context.environ)
    if len(shown) > uncut or missing:
        first, last = cut_at_lines(shown[:first_chars], shown[-last_chars:])
        shown = last if missing else f"{first}\n[...]\n{last}"
        shown = f"[older output is left out; all of it is{where}]\n{shown}"
    took = (job.ended if job.ended is not None else now) - job.began
    notes = [
        f"[job {job.id}: {job.state}, {took:.1f} s; "
        f"{f'output{where}' if where else 'no output' if job.ended is not None else 'no output so far'}]"
    ]
    notes += [f"[{port_note(port, job.runner)}]" for port in ports]
    if refusal := job.refusal():
        notes.append(f"[{refusal}: the wall holds for a command as long as it runs]")
    if job.ended is None and now - job.last_output >= limits.quiet_s and _ends_in_prompt(job.spool):
        notes.append(
            "[hint: it seems to wait for an answer that nobody can give; stop it and use an option instead]"
        )
    failed = job.ended is not None and job.stopped != "asked" and not job.left_over and job.status != 0
    human = {**_for_people(job.spool, context), "note": f"{job.id} {job.state}"}
    body = "\n".join(part for part in (shown, *notes) if part)
    return text_result(body, error=failed, human=human, about={"job": job.id, "ended": job.ended is not None})
