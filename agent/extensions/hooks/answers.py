"""Read the answer of a hook: JSON as in Claude Code, an exit code, or our older form. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agent.ports import HookAnswer, HookEvent
from tools.text import printable
from transcripts.wording import shorten

from .entries import HookEntry

MAX_WORDS_CHARS = 10_000  # that one hook may add to the conversation
VETO_EXIT_CODE = 2


class HookFailed(Exception):
    """A hook gave no answer. `asked`: it ran and failed, which is only a warning and never a veto."""

    def __init__(self, fault: str, *, asked: bool = False) -> None:
        super().__init__(fault)
        self.asked = asked


def hook_answer(raw: Mapping[str, Any]) -> HookAnswer:
    """Return the answer in a JSON object; fields of an unexpected form are ignored."""
    specific = raw.get("hookSpecificOutput")
    specific = specific if isinstance(specific, dict) else {}
    decision = specific.get("permissionDecision")
    if decision is None and raw.get("decision") in ("approve", "allow"):
        decision = "allow"
    reason = specific.get("permissionDecisionReason") or raw.get("reason")
    stop = None
    if raw.get("continue") is False:
        stop = str(raw.get("stopReason") or reason or "a hook stopped the turn")
    changed = specific.get("updatedInput")
    return HookAnswer(
        veto=_veto(raw, decision, reason),
        words=_words(str(specific.get("additionalContext") or raw.get("words") or "")),
        decision=decision if decision in ("allow", "ask") else None,
        updated_input=changed if isinstance(changed, dict) else None,
        stop=stop,
        updated_output=_output(specific.get("updatedToolOutput", specific.get("updatedMCPToolOutput"))),
        message=shorten(str(raw.get("systemMessage") or ""), MAX_WORDS_CHARS),
    )


def _veto(raw: Mapping[str, Any], decision: object, reason: object) -> str | None:
    if decision == "deny" or raw.get("decision") in ("block", "deny"):
        return printable(str(reason or "no reason given"))
    older = raw.get("veto")
    return None if older is None else printable(str(older))


def answer_of_end(entry: HookEntry, code: int, out: str, err: str) -> HookAnswer:
    """Return the answer of a command from its exit code and outputs. Raises HookFailed."""
    # 126 and 127 are bash's exit codes for a command that cannot be run or does not exist. Interpreters use
    # any exit code for a missing script, and say so in words.
    lacks_script = any(words in err for words in ("can't open file", "Error: Cannot find module"))
    if code in (126, 127) or (code and lacks_script):
        raise HookFailed(f"could not be started: {_failure(code, err)}")
    if code == VETO_EXIT_CODE:
        return HookAnswer(veto=_words(err) or _words(out) or "no reason given")
    text = out.strip()
    if text.startswith("{"):
        try:
            answer = json.loads(text)
        except (ValueError, RecursionError) as error:
            if code == 0:
                raise HookFailed(f"answered with invalid JSON: {error}") from error
        else:
            return hook_answer(answer)
    if code != 0:
        raise HookFailed(f"failed: {_failure(code, err)}", asked=True)
    # At these events plain text on standard output is for the model.
    listens = entry.short_name or entry.event in (
        HookEvent.SESSION_START,
        HookEvent.PROMPT,
        HookEvent.PRE_COMPACT,
    )
    return HookAnswer(words=_words(text) if listens else "")


def _failure(code: int, err: str) -> str:
    how = f"exit code {code}" if code > 0 else f"ended by signal {-code}"
    reason = next(iter(err.strip().splitlines()), "it gave no reason")
    return f"{how}: {reason[:200]}"


def _words(text: str) -> str:
    """Return a text for the model: within the limit, and without terminal control sequences."""
    return shorten(printable(text).strip(), MAX_WORDS_CHARS)


def _output(given: object) -> str | None:
    if given is None:
        return None
    return printable(given if isinstance(given, str) else json.dumps(given, ensure_ascii=False))
