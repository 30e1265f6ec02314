"""Describe the outcome of a command, for the model and for the screen.

Output that is too long for a result is kept in a file, which the text names.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from tools.processes import (
    STILL_RUNNING,
    BackgroundJob,
    CommandContext,
    CommandEnd,
    CommandLimits,
    Spool,
    awaits_keys,
    command_runner,
    decoded_output,
    ends_in_prompt,
    fold_output,
    hint,
    is_answer,
    port_note,
)
from tools.text import (
    NO_OUTPUT,
    as_drawn,
    count_invisible,
    cut_at_lines,
    escaped,
    escaped_bytes,
    guess_codec,
    last_lines,
    printable,
    seems_binary,
    shown_chars,
)
from transcripts import Display
from transcripts.wording import pluralize

from .base import Advice, ToolResult, text_result

_KEY_ADVICE: Mapping[str, str] = {
    "editor": "give git messages with -m (GIT_EDITOR is `true` here)",
    "watch": "run the command itself; to wait for something, use: until CHECK; do sleep 1; done",
}


def command_result(
    end: CommandEnd,
    line: str,
    spool: Spool,
    context: CommandContext,
    limits: CommandLimits,
    sandboxed: bool,
) -> ToolResult:
    """Return the result of a command that ran in the foreground, in the sandbox or not."""
    spool.flush()
    text = _output_text(spool, context, line, growing=end.job is not None)
    notes = list(_end_notes(end, limits, spool))
    if end.job is not None and end.why not in STILL_RUNNING:
        stored = spool.stored(context.folder)
        named = ", ".join(
            f"pid {each.pid} ({escaped(' '.join(each.line.split())[:80])})" for each in end.left[:8]
        )
        more = f" and {len(end.left) - 8} more" if len(end.left) > 8 else ""
        where = f"; its output continues in {stored.path}" if stored else ""
        notes.append(f"[still running in the background as job {end.job.id}: {named}{more}{where}]")
    if advice := _advice(end, line, text, context, sandboxed):
        notes.append(advice)
    if end.disk_used >= limits.disk_bytes:
        notes.append(f"[free disk space shrank by {end.disk_used / 1e9:.1f} GB during this command]")
    if not seems_binary(decoded_output(spool.head())) and (
        hidden := count_invisible(decoded_output(spool.tail()))
    ):
        number = pluralize(hidden, "invisible character was", "invisible characters were")
        notes.append(f"[{number} removed from this output]")
    parts = (text, *notes) if text else tuple(notes)
    if end.job is None:
        spool.close()
    how = {"timeout": "timed out", "output": "too much output", "editor": "waited for keys", "lost": "lost"}
    how |= dict.fromkeys(STILL_RUNNING, f"continues in the background as {end.job.id}" if end.job else "")
    ended = f"exit code {end.code}" if end.code else ""
    ended = f"killed by {end.signal}" if end.signal else ended
    return text_result(
        "\n".join(map(str, parts)) or NO_OUTPUT,
        error=end.why not in STILL_RUNNING and _has_failed(end, line),
        human=replace(_for_user(spool, context), note=how.get(end.why, ended)),
        about={
            "exit": end.code,
            **({"signal": end.signal} if end.signal else {}),
            **({"job": end.job.id} if end.job is not None else {}),
        },
        stored=spool.stored(context.folder) if end.job is None else None,
        parts=parts,
    )


def _has_failed(end: CommandEnd, line: str) -> bool:
    return bool(end.why) or (end.code != 0 and not is_answer(line, end.code or 0))


def output_so_far(spool: Spool, context: CommandContext) -> ToolResult:
    """Return the result of a command that was interrupted."""
    spool.flush()
    text = _output_text(spool, context, "", growing=False)
    spool.close()
    stored = spool.stored(context.folder)
    return text_result(text, error=True, human=_for_user(spool, context), stored=stored)


def _output_text(spool: Spool, context: CommandContext, line: str, growing: bool) -> str:
    """Return the output for the model. If that is not exact, a file keeps the output, and the text names it.

    If it is exact, no file is kept, unless a background command continues to write to it (`growing`).
    """
    folder = context.folder
    uncut, (first_chars, last_chars) = shown_chars(context.environ)
    head = spool.head()
    tail = spool.tail()
    codec = _codec_of(spool)
    if codec == "" and seems_binary(decoded_output(head)):
        spool.keep()
        binary = f"[binary output, {spool.total:,} bytes{_kept_in(spool, folder)}]"
        is_short = spool.total <= 500  # bytes: each of them is shown
        return f"{escaped_bytes(tail)}\n{binary}" if is_short else binary
    if codec != "utf-8":
        spool.keep()
    if spool.whole:
        text = _plain(decoded_output(tail, codec))
        if codec == "utf-8" and len(folded := fold_output(text, line)) < len(text):
            spool.keep()
            if len(folded) <= uncut and (kept := _kept_in(spool, folder)):
                note = f"[repeated lines are collapsed; the full output is{kept.removeprefix(',')}]"
                return f"{folded.rstrip()}\n{note}"
        if len(text) <= uncut:
            if not growing and codec == "utf-8":
                spool.drop()
            return _with_codec(text.rstrip("\n"), codec, _kept_in(spool, folder))
        spool.keep()
        head = tail
    start = _plain(decoded_output(head[: 4 * first_chars], codec))[:first_chars]
    first, last = cut_at_lines(start, _plain(decoded_output(tail, codec))[-last_chars:])
    lines = f"{pluralize(spool.lines, 'line')}, {pluralize(spool.total, 'byte')}"
    if stored := spool.stored(folder):
        paging = ": page through it with read" if context.offers("read") else ""
        gap = f"the middle is omitted; all of it ({lines}) is in {stored.path}{paging}"
    else:
        gap = f"the middle of {lines} is omitted; no file could be kept: {spool.error}"
    return _with_codec(f"{first}\n[... {gap} ...]\n{last}".rstrip("\n"), codec, "")


def _codec_of(spool: Spool) -> str:
    """Return the encoding of the output: UTF-8, a likely legacy encoding, or "" if it is unknown."""
    head = spool.head()
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head, final=len(head) == spool.total)
    except UnicodeDecodeError:
        few = sum(byte > 0x7F for byte in head) < 4  # fewer bytes beyond ASCII are spelled out
        return "" if few else guess_codec(head)[0]
    return "" if seems_binary(decoded_output(head)) else "utf-8"


def _kept_in(spool: Spool, folder: Path) -> str:
    stored = spool.stored(folder)
    return f", kept in {stored.path}" if stored else ""


def _with_codec(text: str, codec: str, kept: str) -> str:
    """Return the text with a note about bytes that are not UTF-8."""
    if codec == "utf-8":
        return text
    how = f"decoded as {codec} (a guess)" if codec else "shown as \\xNN (unknown encoding)"
    return f"{text}\n[some bytes are not UTF-8: {how}{kept}]"


def _plain(text: str) -> str:
    """Return the text for the model: without control sequences, but with visible NULs (`find -print0`)."""
    return printable(text.replace("\0", "\u2400"))


def _end_notes(end: CommandEnd, limits: CommandLimits, spool: Spool) -> Iterator[str | Advice]:
    match end.why:
        case "timeout":
            yield (
                f"[timed out after {end.limit_s:g} s; the command and everything it started were killed. Set "
                f"`timeout` (milliseconds, at most {limits.max_timeout_s * 1000:.0f}) or use "
                "run_in_background]"
            )
        case "moved" | "late" if end.job is not None:
            id = end.job.id
            limit = f"still running after its time limit of {end.limit_s:g} s: it"
            why = limit if end.why == "late" else "moved to the background by the user: it"
            yield Advice(
                "job",
                f'Status: bash(job="{id}"). Stop: bash(job="{id}", kill=true). You are notified when it ends',
                fact=f"{why} continues as background job {id}. ",
                subject=id,
            )
        case "output":
            yield f"[killed at the output limit of {spool.total:,} bytes. Filter it or write it to a file]"
        case "editor":
            yield f"[killed after {end.limit_s:g} s: it was waiting for keyboard input from a terminal]"
        case "lost":
            yield "[the supervisor process was killed, and this command with it. Try again]"
        case "":
            if end.code:
                yield f"[exit code {end.code}{f': killed by {end.signal}' if end.signal else ''}]"
            if end.took_s > 5.0:
                yield f"[took {end.took_s:.1f} s]"


def _advice(
    end: CommandEnd, line: str, text: str, context: CommandContext, sandboxed: bool
) -> str | Advice | None:
    if end.prompted:
        advice = "the last line looks like a prompt, which no one can answer: use a non-interactive option"
        return f"[hint: {advice}]"
    if end.why == "editor" and (program := awaits_keys(line)):
        changing = " or ".join(filter(context.offers, ("edit", "write")))
        instead = f"change files with {changing}; " if program == "editor" and changing else ""
        return Advice(program, f"{instead}{_KEY_ADVICE[program]}", fact="hint: ")
    may_hint = end.why == "timeout" or end.code != 0 or not text
    return f"[hint: {found}]" if may_hint and (found := hint(line, text, sandboxed)) else None


def _for_user(spool: Spool, context: CommandContext) -> Display:
    """Return the end of the output; if it is longer, the number of lines above and the file with all."""
    stored = spool.stored(context.folder)
    # The user is shown this many characters if a file has all of the output.
    most = max(10_000, 0 if stored else shown_chars(context.environ)[0])
    text = as_drawn(decoded_output(spool.tail(), _codec_of(spool)))
    if spool.whole and len(text) <= most:
        return Display(text=escaped(text))
    shown = last_lines(text, most)
    above = max(spool.lines - shown.count("\n"), 0)
    return Display(text=escaped(shown), above=above, file=stored.path if stored else "")


def job_result(
    job: BackgroundJob, ports: Sequence[int], context: CommandContext, now: float, limits: CommandLimits
) -> ToolResult:
    """Return the status and the new output of a background command. `now` is the event loop's time.

    `ports` are those on which it listens in the sandbox.
    """
    job.spool.flush()
    data, missing = job.spool.since(job.shown)
    job.shown = job.spool.total
    text = decoded_output(data)
    shown = f"[binary output, {len(data):,} bytes]" if seems_binary(text) else _plain(text).rstrip("\n")
    stored = job.spool.stored(context.folder)
    size = f"{pluralize(job.spool.lines, 'line')}, {pluralize(stored.size, 'byte')}" if stored else ""
    where = f" in {stored.path} ({size})" if stored else ""
    uncut, (first_chars, last_chars) = shown_chars(context.environ)
    if len(shown) > uncut or missing:
        first, last = cut_at_lines(shown[:first_chars], shown[-last_chars:])
        shown = last if missing else f"{first}\n[...]\n{last}"
        everything = f"; the full output is{where}" if where else ""
        shown = f"[older output is omitted{everything}]\n{shown}"
    took = (job.ended if job.ended is not None else now) - job.began
    output = f"output{where}"
    if not where and job.spool.total:
        output = f"its output is not stored: {job.spool.error}"
    elif not where:
        output = "no output" if job.ended is not None else "no output so far"
    notes = [f"[job {job.id}: {job.state}, {took:.1f} s; {output}]"]
    runner = command_runner(context)
    notes += [f"[{port_note(port, runner)}]" for port in ports]
    if refusal := runner.blocked_access_of(job):
        notes.append(f"[{refusal}: access cannot be changed while a command runs]")
    if job.ended is None and now - job.last_output >= limits.quiet_s and ends_in_prompt(job.spool):
        notes.append(
            "[hint: it seems to be waiting for input, which no one can give: stop it and use a "
            "non-interactive option]"
        )
    failed = job.ended is not None and job.stopped != "asked" and not job.left_over and job.status != 0
    human = replace(_for_user(job.spool, context), note=f"{job.id} {job.state}")
    body = "\n".join(part for part in (shown, *notes) if part)
    return text_result(body, error=failed, human=human, about={"job": job.id, "ended": job.ended is not None})
