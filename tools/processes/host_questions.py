"""Ask the user about hosts that a running command wants to reach. Its connections wait for the answers.

Each command has its own questions, also in the background. The proxy reports the port from which a program
connects, and the sandbox which command that program belongs to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import PurePosixPath

from tools.sandbox import BlockedAccess, CommandHandle, UnblockDecision, is_mirror, short_path
from transcripts.patterns import lazy_pattern

_INTERPRETER = lazy_pattern(r"(?:python|pypy|node|nodejs|ruby|perl|php|bash|dash|sh)[\d.]*")
_TEMPORARY = ("/tmp/", "/var/tmp/", "/dev/shm/")
_PLAIN = lazy_pattern(r"[\w.+@/~-]{1,80}")


class HostQuestions:
    """The questions of one command, each host once, one question at a time.

    command  the command, once it runs
    job      its id in the background, "" in the foreground
    tell     takes the refusals of a background command, for the model
    """

    def __init__(self, ask: Callable[[BlockedAccess], Awaitable[UnblockDecision]]) -> None:
        self.command: CommandHandle | None = None
        self.job = ""
        self.tell: Callable[[str], None] = lambda words: None
        self._ask = ask
        self._answers: dict[tuple[str, str], asyncio.Task[UnblockDecision]] = {}
        self._turn = asyncio.Lock()
        self._asked_at: float | None = None  # the time of the question that is open
        self._waited_s = 0.0

    async def may_reach(self, host: str, address: str, program: str = "") -> bool:
        """Return whether the user allows a host, or that private address of it, to a program."""
        key = (host, address)
        if self._is_allowed_with_another(host, address):
            return True
        if key not in self._answers:
            self._answers[key] = asyncio.create_task(self._answer(host, address, program))
        return (await asyncio.shield(self._answers[key])).answer != "no"

    async def _answer(self, host: str, address: str, program: str) -> UnblockDecision:
        loop = asyncio.get_running_loop()
        async with self._turn:
            if self._is_allowed_with_another(host, address):
                return UnblockDecision("allow")
            self._asked_at = loop.time()
            try:
                decision = await self._ask(
                    BlockedAccess("reach", host, program=program, waiting=True, address=address, job=self.job)
                )
            finally:
                self._waited_s += loop.time() - self._asked_at
                self._asked_at = None
        if decision.answer == "no" and self.job:
            why = decision.why.strip().rstrip(".")
            self.tell(f"blocked: reach {host}: {why}{f': {decision.reason}' if decision.reason else ''}")
        if decision.stop and self.command is not None:
            self.command.end()
        return decision

    def _is_allowed_with_another(self, host: str, address: str) -> bool:
        if address and not is_mirror(host, address):
            return False
        answers = (task.result() for task in self._answers.values() if _is_answered(task))
        return any(host in answer.hosts and answer.answer != "no" for answer in answers)

    def waited_s(self) -> float:
        """Return the seconds that the command has waited for answers."""
        if self._asked_at is None:
            return self._waited_s
        return self._waited_s + asyncio.get_running_loop().time() - self._asked_at

    def denied(self, host: str) -> UnblockDecision | None:
        """Return the answer that denied a host; None if there is none."""
        answers = (
            task.result() for (name, _), task in self._answers.items() if name == host and _is_answered(task)
        )
        return next((answer for answer in answers if answer.answer == "no"), None)

    def close(self) -> None:
        """Withdraw an open question."""
        for task in self._answers.values():
            task.cancel()


def _is_answered(task: asyncio.Task[UnblockDecision]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None


def program_name(words: tuple[str, ...], folder: str) -> str:
    """Return a name for a program, given its file and its arguments: `curl`, `python3 setup.py`.

    A program that commands may have made has its path, any other a short name. An interpreter is named with
    its script. Words with unusual characters are left out, since a command chooses them.
    """
    path = "".join(words[:1])
    is_own = path.startswith((f"{folder}/", *_TEMPORARY))
    name = short_path(path, folder) if is_own else PurePosixPath(path).name
    shown = [name]
    if _INTERPRETER.fullmatch(PurePosixPath(path).name):
        if words[1:2] == ("-m",):
            shown += words[1:3]
        elif words[1:] and not words[1].startswith("-"):
            shown.append(PurePosixPath(words[1]).name)
    return " ".join(word for word in shown if _PLAIN.fullmatch(word))
