"""Ask the hooks that an event is for, all at once, and join their answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from agent.ports import HookAnswer, HookEvent, Hooks

from .answers import HookFailed
from .inputs import hook_input, with_short_form
from .table import HookEntry, chosen

SESSION_END_TIMEOUT_S = 1.5  # for hooks at the end of a session: nobody waits longer to leave


@dataclass(frozen=True, slots=True)
class AskedHooks:
    """Implements ports.Hooks: the hooks of `entries`, all of one kind.

    ask            gives a hook its input; raises HookFailed and OSError
    about_session  gives what is the same for every hook: session, folder, mode
    label          what a hook is called where it fails
    tell           takes a line for the person
    """

    entries: Sequence[HookEntry]
    ask: Callable[[HookEntry, dict[str, Any]], Awaitable[HookAnswer]]
    about_session: Callable[[], Mapping[str, Any]]
    label: Callable[[HookEntry], str]
    tell: Callable[[str], None]
    _background: set[asyncio.Future[HookAnswer]] = field(default_factory=set)

    async def run(self, event: HookEvent, about: Mapping[str, Any]) -> HookAnswer:
        """The joined answer. A hook that fails is told of and says nothing, one that `blocks` vetoes.

        Those in the background are not waited for, and what they say does not count.
        """
        found = chosen(self.entries, event, about)
        if not found:
            return HookAnswer()
        told = {**self.about_session(), **hook_input(event, about)}
        asked = {
            entry: asyncio.ensure_future(self._answer(entry, with_short_form(entry, told, about)))
            for entry in found
        }
        for entry, answer in asked.items():
            if entry.background:
                self._background.add(answer)
                answer.add_done_callback(self._background.discard)
        waited = [answer for entry, answer in asked.items() if not entry.background]
        joined = reduce(HookAnswer.then, await asyncio.gather(*waited), HookAnswer())
        if joined.message:
            self.tell(f"a hook for {event} says: {joined.message}")
        return joined

    async def _answer(self, entry: HookEntry, told: dict[str, Any]) -> HookAnswer:
        ending = entry.event is HookEvent.SESSION_END
        limit = min(entry.timeout, SESSION_END_TIMEOUT_S) if ending else entry.timeout
        asked = False
        try:
            return await asyncio.wait_for(self.ask(entry, told), limit)
        except TimeoutError:  # an OSError too
            fault = f"took longer than {limit:g} s"
        except HookFailed as error:
            fault, asked = str(error), error.asked
        except OSError as error:
            fault = f"could not be started: {str(error).partition(chr(10))[0]}"
        words = f"{self.label(entry)} {fault}"
        if entry.blocks and not asked:
            return HookAnswer(veto=words)
        self.tell(words)
        return HookAnswer()


@dataclass(frozen=True, slots=True)
class JoinedHooks:
    """Several hooks as one: all are asked at once."""

    parts: tuple[Hooks, ...]

    async def run(self, event: HookEvent, about: Mapping[str, Any]) -> HookAnswer:
        """See ports.Hooks."""
        return reduce(HookAnswer.then, await asyncio.gather(*(part.run(event, about) for part in self.parts)))
