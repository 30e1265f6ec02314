"""Ask the hooks for an event, all at once, and join their answers.

Those of settings are commands: they get JSON on standard input, and answer with an exit code and text or
JSON.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import reduce
from typing import Any

from agent.permissions import OPENING, Rule
from agent.ports import HookAnswer, HookEvent, Hooks
from tools.processes import OwnCommandEnd
from tools.sandbox import short_path

from .answers import VETO_EXIT_CODE, HookFailed, answer_of_end
from .entries import HookEntry, chosen
from .inputs import hook_input, with_short_form
from .notices import IdleNotices

SESSION_END_TIMEOUT_S = 1.5  # for hooks at the end of a session: exiting must not take longer


class AskedHooks:
    """A ports.Hooks: the hooks of `entries`, all of one kind.

    ask            passes a hook its input; raises HookFailed and OSError
    about_session  returns the part of the input that is the same for every hook: session, directory, mode
    label          names a hook in the report of its failure
    tell           shows a line to the user
    """

    def __init__(
        self,
        entries: Sequence[HookEntry],
        *,
        ask: Callable[[HookEntry, dict[str, Any]], Awaitable[HookAnswer]],
        about_session: Callable[[], Mapping[str, Any]],
        label: Callable[[HookEntry], str],
        tell: Callable[[str], None],
    ) -> None:
        self.entries = entries
        self._ask = ask
        self._about_session = about_session
        self._label = label
        self._tell = tell
        self._background: set[asyncio.Future[HookAnswer]] = set()
        self._hinted: set[str] = set()  # lines of hooks whose failure was explained

    async def run(self, event: HookEvent, about: Mapping[str, Any]) -> HookAnswer:
        """Return the joined answer. The failure of a hook is reported, and is a veto if the hook `blocks`.

        Hooks in the background are not waited for, and their answers are ignored.
        """
        if not self.entries:
            return HookAnswer()
        session = self._about_session()
        found = chosen(self.entries, event, about, str(session.get("cwd") or "/"))
        if not found:
            return HookAnswer()
        payload = {**session, **hook_input(event, about)}
        waited = []
        for entry in found:
            answer = asyncio.ensure_future(self._answer(entry, with_short_form(entry, payload, about)))
            if entry.background:
                self._background.add(answer)
                answer.add_done_callback(self._background.discard)
            else:
                waited.append(answer)
        joined = reduce(HookAnswer.then, await asyncio.gather(*waited), HookAnswer())
        if joined.message:
            self._tell(f"a hook for {event} says: {joined.message}")
        return joined

    async def _answer(self, entry: HookEntry, payload: dict[str, Any]) -> HookAnswer:
        limit = entry.timeout
        if entry.event is HookEvent.SESSION_END:
            limit = min(limit, SESSION_END_TIMEOUT_S)
        asked = False
        try:
            return await asyncio.wait_for(self._ask(entry, payload), limit)
        except TimeoutError:  # an OSError too
            fault = f"took longer than {limit:g} s"
        except HookFailed as error:
            fault = str(error)
            asked = error.asked
        except OSError as error:
            fault = f"could not be started: {str(error).partition(chr(10))[0]}"
        words = f"{self._label(entry)} {fault}"
        if entry.blocks and not asked:
            if entry.origin and entry.line not in self._hinted:
                self._hinted.add(entry.line)
                remedy = f'fix it in {short_path(entry.origin)}, or set its onFailure to "continue"'
                self._tell(f"a hook does not work, so the calls that it guards are denied: {remedy}")
            return HookAnswer(veto=words)
        self._tell(words)
        return HookAnswer()


class JoinedHooks:
    """Several hooks as one, which are all asked at once. Implements ports.Hooks."""

    def __init__(self, *parts: Hooks) -> None:
        self.parts = parts

    async def run(self, event: HookEvent, about: Mapping[str, Any]) -> HookAnswer:
        """See ports.Hooks."""
        return reduce(HookAnswer.then, await asyncio.gather(*(part.run(event, about) for part in self.parts)))


RunCommand = Callable[[str, str], Awaitable[OwnCommandEnd]]  # a command line and its input; raises OSError


def command_hooks(
    entries: Sequence[HookEntry],
    run_command: RunCommand,
    about_session: Callable[[], Mapping[str, Any]],
    tell: Callable[[str], None],
    *,
    first: Hooks | None = None,
    attended: bool = False,
) -> Hooks:
    """Return the hooks of `entries`, which are commands that `run_command` runs, joined with the `first`.

    An access that the sandbox blocks repeatedly is explained once. Where a user is present (`attended`),
    those that want notices are also notified that makeroom waits.
    """
    blocked = set[tuple[str, str]]()

    async def ask(entry: HookEntry, payload: dict[str, Any]) -> HookAnswer:
        end = await run_command(entry.line, json.dumps(payload, default=str))
        err = end.err
        if end.refusal is not None and end.code != VETO_EXIT_CODE:
            key = (entry.line, str(end.refusal))
            remedy = (
                f"; to run it outside the sandbox, allow {Rule(OPENING, entry.line)} in your settings\n{err}"
            )
            err = f"{end.refusal}, as before" if key in blocked else f"{end.refusal}{remedy}"
            blocked.add(key)
        if end.cut and end.out.lstrip().startswith("{"):
            raise HookFailed(f"answered with more than {len(end.out)} characters of JSON")
        return answer_of_end(entry, end.code, end.out, err)

    own: Hooks = AskedHooks(entries, ask=ask, about_session=about_session, label=_label, tell=tell)
    if attended and any(entry.event is HookEvent.NOTIFICATION for entry in entries):
        own = IdleNotices(own)
    return own if first is None else JoinedHooks(first, own)


def _label(entry: HookEntry) -> str:
    plugin = f" of the plugin in {short_path(entry.origin)}" if entry.start else ""
    return f"the hook {entry.moment} ({entry.run}){plugin}"
