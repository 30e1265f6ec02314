"""Put the outcome of a command into words: for the model, for the person, for the record.

Pure but for one thing: an output that is longer than a result may be is kept in its file.
"""

from __future__ import annotations

import re
from pathlib import Path

from .base import ToolContext, ToolResult, text_result
from .bash_run import CommandEnd, CommandLimits
from .command_hints import hint, is_answer, looks_like_prompt
from .jobs import BackgroundJob
from .spool import Spool
from .text_encoding import pluralize
from .truncate import escaped, printable, unseen

WHOLE = 30_000  # characters up to which an output is shown whole, as Claude Code does
_HEAD, _TAIL = 4_000, 25_000  # of a longer one: with the notes it stays below WHOLE
_ON_SCREEN = 10_000  # characters for the person; the screen shows fewer still
_LONG_RUN = 5.0  # seconds from which on the time is worth a line
_ODD = re.compile(r"[\x00-\x06\x0e-\x1a\x1c-\x1f\x7f\ufffd]")


def output_text(spool: Spool, folder: Path) -> str:
    """The output as the model gets it. What does not fit is kept in a file, which the text names."""
    head, tail = _decoded(spool.head()), _decoded(spool.tail())
    if is_binary(head[:8_000]):
        if spool.total > WHOLE:
            spool.keep()
        where = f", kept in {_where(spool, folder)}" if spool.written else ""
        return f"[binary output, {spool.total:,} bytes{where}]"
    if spool.whole:
        text = plain(tail)
        if len(text) <= WHOLE:
            return text.rstrip("\n")
        spool.keep()
        head = tail
    first, last = _cut(plain(head[: 4 * _HEAD])[:_HEAD], plain(tail)[-_TAIL:])
    lines = f"{pluralize(spool.lines, 'line')}, {pluralize(spool.total, 'byte')}"
    if spool.written:
        gap = f"the middle is left out; all of it ({lines}) is in {_where(spool, folder)}: page it with read"
    else:
        gap = f"the middle is left out of {lines}; no file could be kept: {spool.error}"
    return f"{first}\n[... {gap} ...]\n{last}".rstrip("\n")


def _decoded(data: bytes) -> str:
    """The bytes as text; a character that was cut at either end is left out."""
    start = 0
    while start < min(3, len(data)) and 0x80 <= data[start] < 0xC0:
        start += 1
    return data[start:].decode("utf-8", "replace")


def plain(text: str) -> str:
    """For the model: without control sequences; a NUL between names (`find -print0`) is to be seen."""
    return printable(text.replace("\0", "\u2400"))


def is_binary(text: str) -> bool:
    """Whether more than a tenth is no text: control characters, or bytes that are no UTF-8."""
    return len(text) > 0 and len(_ODD.findall(text)) > len(text) / 10


def _cut(first: str, last: str) -> tuple[str, str]:
    """Whole lines at the cut, where lines are short."""
    at = first.rfind("\n")
    if at >= len(first) * 3 // 4:
        first = first[:at]
    at = last.find("\n")
    if 0 <= at <= len(last) // 4:
        last = last[at + 1 :]
    return first, last


def _where(spool: Spool, folder: Path) -> str:
    stored = spool.stored(folder)
    return stored.path if stored else "no file"


def outcome(
    end: CommandEnd, line: str, spool: Spool, context: ToolContext, limits: CommandLimits
) -> ToolResult:
    """The result of a command in the foreground."""
    spool.flush()
    text = output_text(spool, context.folder)
    fine = is_answer(line, end.code or 0)
    notes = [*_ending(end, limits, spool), *_left(end, spool, context)]
    if advice := _advice(end, line, text):
        notes.append(f"[hint: {advice}]")
    if end.used >= limits.disk:
        notes.append(f"[{end.used / 1e9:.1f} GB less disk is free than before this command]")
    if hidden := unseen(_decoded(spool.tail())):
        notes.append(f"[{pluralize(hidden, 'invisible character')} were taken out of this output]")
    if text and notes:
        text += "\n"
    error = bool(end.why) or (end.code != 0 and not fine)
    if end.job is None:
        spool.close()
        if spool.written and spool.whole and len(plain(_decoded(spool.tail()))) <= WHOLE:
            spool.drop()
    return text_result(
        (text + "\n".join(notes)) or "[no output]",
        error=error,
        human={"text": escaped(_screen(spool)), "note": _note(end)},
        about={"exit": end.code, **({"signal": end.signal} if end.signal else {})},
        stored=spool.stored(context.folder) if end.job is None else None,
    )


def _ending(end: CommandEnd, limits: CommandLimits, spool: Spool) -> list[str]:
    notes = []
    if end.why == "timeout":
        notes.append(
            f"[timed out after {end.limit:g} s; the command and everything it started were ended. Set "
            f"`timeout` (milliseconds, at most {limits.longest * 1000:.0f}) or use run_in_background]"
        )
    elif end.why == "output":
        notes.append(
            f"[ended after {spool.total:,} bytes of output, the limit. Filter it or send it to a file]"
        )
    elif end.why == "editor":
        notes.append(f"[ended after {end.limit:g} s: an editor waits for keys, and there is no terminal]")
    elif end.why == "lost":
        notes.append("[the process that watches commands was killed, and this command with it. Try again]")
    if not end.why and end.signal:
        notes.append(f"[exit code {end.code}: killed by {end.signal}]")
    elif end.code and not end.why:
        notes.append(f"[exit code {end.code}]")
    if end.took > _LONG_RUN and not end.why:
        notes.append(f"[took {end.took:.1f} s]")
    return notes


def _left(end: CommandEnd, spool: Spool, context: ToolContext) -> list[str]:
    if end.job is None:
        return []
    named = ", ".join(f"pid {pid} ({' '.join(words.split())[:80]})" for pid, words in end.left[:8])
    more = f" and {len(end.left) - 8} more" if len(end.left) > 8 else ""
    stored = spool.stored(context.folder)
    where = f", its output goes on in {stored.path}" if stored else ""
    return [f"[still running in the background as job {end.job.id}: {named}{more}{where}]"]


def _advice(end: CommandEnd, line: str, text: str) -> str | None:
    if end.prompted:
        return "the last line looks like a question, and nobody can answer: use an option that answers it"
    if end.why == "editor":
        return "change files with edit or write; give git messages with -m (GIT_EDITOR is `true` here)"
    if end.why == "timeout" or end.code != 0 or not text:
        return hint(line, text)
    return None


def _screen(spool: Spool) -> str:
    return _decoded(spool.tail(4 * _ON_SCREEN)).replace("\r\n", "\n")[-_ON_SCREEN:]


def _note(end: CommandEnd) -> str:
    how = {"timeout": "timed out", "output": "too much output", "editor": "waits for keys", "lost": "lost"}
    word = how.get(end.why) or (f"killed by {end.signal}" if end.signal else f"exit {end.code}")
    return f"{word}, {end.took:.1f} s"


def job_outcome(job: BackgroundJob, context: ToolContext, now: float, limits: CommandLimits) -> ToolResult:
    """Status and new output of a background command."""
    job.spool.flush()
    data, missing = job.spool.since(job.seen)
    text = _decoded(data)
    job.seen = job.spool.total
    shown = f"[binary output, {len(data):,} bytes]" if is_binary(text[:8_000]) else plain(text).rstrip("\n")
    stored = job.spool.stored(context.folder)
    size = f"{pluralize(job.spool.lines, 'line')}, {pluralize(stored.size, 'byte')}" if stored else ""
    where = f" in {stored.path} ({size})" if stored else ""
    if len(shown) > WHOLE or missing:
        first, last = _cut(shown[:_HEAD], shown[-_TAIL:])
        shown = last if missing else f"{first}\n[...]\n{last}"
        shown = f"[older output is left out; all of it is{where}]\n{shown}"
    took = (job.ended if job.ended is not None else now) - job.began
    status = f"[job {job.id}: {job.state}, {took:.1f} s; {'output' + where if where else 'no output so far'}]"
    notes = [status]
    if job.ended is not None:
        job.announced = True
    elif looks_stuck(job, now, limits.quiet):
        notes.append(
            "[hint: it seems to wait for an answer that nobody can give; stop it and use an option instead]"
        )
    body = "\n".join(part for part in (shown, *notes) if part)
    code = job.command.exited.result() if job.command.exited.done() else None
    human = {"text": escaped(_screen(job.spool)), "note": f"{job.id} {job.state}"}
    failed = job.ended is not None and job.stopped != "asked" and not job.left_over and code != 0
    return text_result(body, error=failed, human=human, about={"job": job.id})


def looks_stuck(job: BackgroundJob, now: float, quiet: float) -> bool:
    """Whether a background command is silent for `quiet` seconds behind an unfinished line that asks."""
    return now - job.last_output >= quiet and looks_like_prompt(_decoded(job.spool.tail(2_000)))
