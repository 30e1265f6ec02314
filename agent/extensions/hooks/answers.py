"""What the answer of a hook means: JSON as in Claude Code, how a command ended, our older form. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agent.formatting import shorten
from agent.ports import HookAnswer, HookEvent
from tools.truncate import printable

from .table import HookEntry

MAX_WORDS_CHARS = 10_000  # of what one hook adds to the conversation
MAX_REASON_CHARS = 200
VETO_EXIT_CODE = 2
NOT_STARTED_EXIT_CODES = (126, 127)  # of bash: the command cannot be run, or does not exist
# What interpreters say, with any exit code, of a script that is not there.
_NO_SCRIPT = ("can't open file", "Error: Cannot find module")
# Whose plain text on standard output is for the model.
_LISTENED_TO = (HookEvent.SESSION_START, HookEvent.PROMPT, HookEvent.PRE_COMPACT)


class HookFailed(Exception):
    """A hook that gave no answer. `asked`: it was, and merely ended badly, so that nothing hangs on it."""

    def __init__(self, fault: str, *, asked: bool = False) -> None:
        super().__init__(fault)
        self.asked = asked


def hook_answer(raw: Mapping[str, Any]) -> HookAnswer:
    """The answer that a JSON object is; fields that are not as expected say nothing."""
    specific = raw.get("hookSpecificOutput")
    specific = specific if isinstance(specific, dict) else {}
    decision = specific.get("permissionDecision")
    reason = specific.get("permissionDecisionReason") or raw.get("reason")
    refused = decision == "deny" or raw.get("decision") in ("block", "deny")
    if decision is None and raw.get("decision") in ("approve", "allow"):
        decision = "allow"
    veto = printable(str(reason or "no reason given")) if refused else None
    if veto is None and raw.get("veto") is not None:  # the older form
        veto = printable(str(raw["veto"]))
    stop = None
    if raw.get("continue") is False:
        stop = str(raw.get("stopReason") or reason or "a hook stopped the turn")
    changed = specific.get("updatedInput")
    return HookAnswer(
        veto=veto,
        words=_words(str(specific.get("additionalContext") or raw.get("words") or "")),
        decision=decision if decision in ("allow", "ask") else None,
        updated_input=changed if isinstance(changed, dict) else None,
        stop=stop,
        updated_output=_output(specific.get("updatedToolOutput", specific.get("updatedMCPToolOutput"))),
        message=shorten(str(raw.get("systemMessage") or ""), MAX_WORDS_CHARS),
    )


def answer_of_end(entry: HookEntry, code: int, out: str, err: str) -> HookAnswer:
    """What a command said that ended with an exit code and these outputs. Raises HookFailed."""
    if code in NOT_STARTED_EXIT_CODES or (code and any(words in err for words in _NO_SCRIPT)):
        raise HookFailed(f"could not be started: {_failure(code, err)}")
    if code == VETO_EXIT_CODE:
        return HookAnswer(veto=_words(err) or _words(out) or "no reason given")
    text = out.strip()
    if text.startswith("{"):
        try:
            answer = json.loads(text)
        except (ValueError, RecursionError) as error:
            if code == 0:
                raise HookFailed(f"answered with JSON that cannot be read ({error})") from error
        else:
            return hook_answer(answer)
    if code != 0:
        raise HookFailed(f"failed: {_failure(code, err)}", asked=True)
    listens = entry.short_name or entry.event in _LISTENED_TO
    return HookAnswer(words=_words(text) if listens else "")


def _failure(code: int, err: str) -> str:
    how = f"exit code {code}" if code > 0 else f"ended by signal {-code}"
    reason = next(iter(err.strip().splitlines()), "it wrote no reason")
    return f"{how}: {reason[:MAX_REASON_CHARS]}"


def _words(text: str) -> str:
    """A text as the model gets it: as long as it may be, with nothing that only a terminal obeys."""
    return shorten(printable(text).strip(), MAX_WORDS_CHARS)


def _output(given: Any) -> str | None:
    if given is None:
        return None
    return printable(given if isinstance(given, str) else json.dumps(given, ensure_ascii=False))
