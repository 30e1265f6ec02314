"""Ask whether a command may run outside the sandbox, and again if what it would run changed meanwhile.

A command in the background can wait until the user looks at `make install`, and then rewrite the Makefile.
The answer would be about the old one. The files that are compared are those that a rule for the line
remembers (steering_files.py). A file that was changed and changed back counts too, since it may change again.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from msgspec.structs import replace

from agent.ports import Allow, Deny, PermissionQuestion
from agent.shell import KnownPrograms

from .context import TurnContext


class _State(NamedTuple):
    """The files and programs that steer the commands of a question, and when the files were last changed."""

    known: tuple[KnownPrograms, ...]
    changed_ns: Mapping[str, int]

    def difference(self, now: _State) -> str:
        """Return a name for what is not as it was; "" if all is."""
        for old, new in zip(self.known, now.known, strict=True):
            if changed := old.changed_file(new):
                return changed
            if old.programs != new.programs:
                return "a program of the project"
        names = (name for name, at in now.changed_ns.items() if self.changed_ns.get(name) != at)
        return next(names, "")


async def ask_steadily(context: TurnContext, question: PermissionQuestion) -> Allow | Deny:
    """Return the user's answer, about the files as they are now."""
    reruns = bool(question.refused) and not question.waits
    while True:
        before = _state(context, question) if question.outside or reruns else None
        answer = await context.approver.ask(question)
        if before is None or isinstance(answer, Deny):
            return answer
        changed = before.difference(_state(context, question))
        if not changed:
            return answer
        question = replace(question, why=f"{changed} was changed while the question was open")


def _state(context: TurnContext, question: PermissionQuestion) -> _State:
    rules = context.permissions.rules
    runs = (access for access in question.access if access.kind == "run")
    known = tuple(filter(None, map(rules.known_programs, runs)))
    changed_ns = {}
    for name in sorted({name for each in known for name in each.files}):
        with suppress(OSError):  # there is none, or a command is just replacing it
            changed_ns[name] = (context.tool_context.folder / name).lstat().st_ctime_ns
    return _State(known, changed_ns)
