"""Run a command line in the foreground, and rerun it with more access if the user approves.

Nothing is rerun without approval, since the first run may have had effects.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from msgspec import Struct
from msgspec.structs import replace

from tools.base import ToolCall, ToolContext, ToolError, ToolInterrupted, ToolResult
from tools.bash_result import command_result, output_so_far
from tools.processes import (
    CommandLimits,
    CommandRequest,
    HostQuestions,
    ProgressThrottle,
    Spool,
    command_runner,
    run_foreground,
)
from tools.sandbox import MAX_SCANNED_CHARS, BlockedAccess, SupervisorLost, UnblockDecision
from transcripts import TextBlock
from transcripts.wording import cause_of

NOBODY = UnblockDecision("no", "no one can be asked")
ADVICE = "Say what you need instead of working around the sandbox."


class CommandAttempt(Struct, frozen=True):
    """One run of a command line: its result, the last directory of its shell, and the blocked access.

    If the line succeeded anyway, no question is asked, and a `note` reports the blocked access. `denied` is
    the user's answer if they were asked about it while the line ran.
    """

    result: ToolResult
    spool: Spool
    folder: str | None
    refusal: BlockedAccess | None
    note: str | None = None
    denied: UnblockDecision | None = None


async def run_attempts(
    call: ToolCall, request: CommandRequest, limits: CommandLimits
) -> tuple[CommandAttempt, str | None]:
    """Return the last run, and a note for the model about accesses blocked before. Raises ToolError."""
    attempt = await _attempt(call, request, limits)
    refused: list[BlockedAccess] = []
    note = None
    while attempt.refusal is not None:
        if attempt.refusal in refused or len(refused) == 3:  # enough questions about one call
            why = str(attempt.refusal)
            return _refused(attempt, attempt.refusal, why), f"[{why}. {ADVICE}]"
        refused.append(attempt.refusal)
        decision = attempt.denied or NOBODY
        if attempt.denied is None and call.ask_to_leave is not None:
            decision = await call.ask_to_leave(attempt.refusal)
        if decision.answer == "no":
            why = f"{attempt.refusal}: {decision.why.strip().rstrip('.')}"
            return _refused(attempt, attempt.refusal, why), f"[{why}. {ADVICE}]"
        attempt.spool.drop()
        how = "outside the sandbox" if decision.answer == "once" else "with that access allowed"
        note = f"[the user approved a rerun {how}; first run: {attempt.refusal}]"
        attempt = await _attempt(call, replace(request, sandboxed=decision.answer == "allow"), limits)
    return attempt, note or attempt.note


ADVICE_IF_NEEDED = "If that matters, say what you need instead of working around the sandbox."


async def _attempt(call: ToolCall, request: CommandRequest, limits: CommandLimits) -> CommandAttempt:
    context = call.context
    runner = command_runner(call.context)
    spool = spool_of(call, limits)
    began = asyncio.get_running_loop().time()
    profile = runner.profile if request.sandboxed else None
    questions = host_questions(call, request.sandboxed)
    request = replace(request, questions=questions)
    waited_s = questions.waited_s if questions is not None else float
    with start_errors_explained(context, spool), runner.asking(questions):
        try:
            progress = ProgressThrottle(call.progress)
            end = await run_foreground(runner, request, spool, limits, progress, waited_s)
        except asyncio.CancelledError as error:
            if spool.total == 0:
                raise
            raise ToolInterrupted(output_so_far(spool, context)) from error
    spool.flush()
    guarded = await runner.guard.settle()
    output = spool.tail(MAX_SCANNED_CHARS).decode("utf-8", "replace")
    refusal = None
    if profile is not None and end.why in ("", "timeout"):
        refusal = runner.blocked_access(
            request, profile=profile, output=output, since=began, failed=bool(end.code)
        )
    unreached = [f"[no connection: {why}; the host is allowed]" for why in runner.unreached_hosts(began)]
    if profile is not None and end.why in ("", "timeout") and refusal is None:
        why = runner.unnamed_refusal(request, profile, output, failed=bool(end.code))
        unreached += [f"[{why}]"] if why else []
    result = command_result(
        end, request.line, spool=spool, context=context, limits=limits, sandboxed=profile is not None
    )
    result = _with_lines(result, [*guarded, *unreached])
    if refusal is None or (end.code and not end.why):
        denied = questions.denied(refusal.target) if questions is not None and refusal is not None else None
        return CommandAttempt(result, spool=spool, folder=end.folder, refusal=refusal, denied=denied)
    passed = "" if end.why else ", although the command exited with code 0"
    note = f"[{refusal}{passed}. {ADVICE_IF_NEEDED}]"
    return CommandAttempt(
        _with_note(result, refusal), spool=spool, folder=end.folder, refusal=None, note=note
    )


def _with_lines(result: ToolResult, reports: Sequence[str]) -> ToolResult:
    """Return the result with lines about guarded files and unreachable hosts, for the model and the user."""
    if not reports:
        return result
    text = "\n".join(reports)
    shown = "\n".join(filter(None, (result.human.text, text)))
    human = replace(result.human, text=shown.strip("\n"))
    return replace(
        result, human=human, content=(*result.content, TextBlock(text)), parts=(*(result.parts or ()), text)
    )


def _refused(attempt: CommandAttempt, refusal: BlockedAccess, why: str) -> CommandAttempt:
    """Return the attempt as one that was denied, with the refusal on the user's line."""
    result = _with_note(attempt.result, refusal)
    result = replace(result, error=True, human=replace(result.human, denied=why))
    return replace(attempt, result=result)


def _with_note(result: ToolResult, refusal: BlockedAccess) -> ToolResult:
    note = "; ".join(filter(None, (result.human.note, str(refusal))))
    return replace(result, human=replace(result.human, note=note, blocked=str(refusal)))


def host_questions(call: ToolCall, sandboxed: bool) -> HostQuestions | None:
    """Return the questions about hosts of a command of this call; None if none can be asked."""
    return HostQuestions(call.ask_to_leave) if sandboxed and call.ask_to_leave is not None else None


def spool_of(call: ToolCall, limits: CommandLimits) -> Spool:
    """Return the spool for the output of a run of this call."""
    context = call.context
    name = f"{context.session}-{call.ident}.txt".replace(os.sep, "_")
    return Spool(context.outputs / name, max_bytes=limits.output_bytes, masks=context.masks)


@contextmanager
def start_errors_explained(context: ToolContext, spool: Spool) -> Iterator[None]:
    """Drop the output file if the command has no result. Raises ToolError with the reason."""
    try:
        yield
    except ToolInterrupted:
        raise
    except asyncio.CancelledError:
        spool.drop()
        raise
    except (SupervisorLost, OSError) as error:
        spool.drop()
        raise ToolError(_cannot_start(error, context)) from error


def _cannot_start(error: Exception, context: ToolContext) -> str:
    if isinstance(error, FileNotFoundError) and context.cwd.is_dir():
        return "bash was not found on PATH.\nThe user has to install it, or add its directory to PATH."
    if isinstance(error, OSError):
        what = cause_of(error)
        return f"The command could not be started: {what}.\nTry a shorter command, or stop running ones."
    return f"{error}.\nTry again; if it fails again, tell the user."
