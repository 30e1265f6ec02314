"""Ask the person whether a command may leave the wall, once it was refused something there."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from shlex import quote

from msgspec import Struct

from agent.errors import AgentError
from agent.events import Emit, Notice
from agent.permissions import OPENING, REACHING, Rule, parse_rules
from agent.ports import Deny, PermissionQuestion
from tools.guarded import steers_git, worktree_places
from tools.sandbox import BlockedAccess, SandboxProfile, UnblockDecision, host_name, short_path

from .call_permission import ParsedCall, grant_always
from .context import TurnContext

WHY = "It ran in part: yes runs it again"


class Passage(Struct, frozen=True):
    """An access that the sandbox would allow: to "write" or "read" the path `target`, or to "reach" the
    host.

    `parts` are paths in the target, where it is only those.
    """

    action: str
    target: str
    parts: tuple[str, ...] = ()

    def shown(self, folder: str) -> str:
        """Describe the access in a few words, for a user who works in the project `folder`."""
        parts = ", ".join(part.removeprefix(f"{self.target}/") for part in self.parts)
        return f"{self.action} {short_path(self.target, folder)}{f' ({parts})' if parts else ''}"


class Leaving(Struct):
    """The questions of one call whether it may leave the wall.

    `denied` tells that it may not; `stop` that the person wants the turn to end; `waited` are the seconds
    that the answers took; `said` is the person's reason for a no.
    """

    context: TurnContext
    emit: Emit
    call: ParsedCall
    denied: bool = False
    stop: bool = False
    waited: float = 0.0
    said: str = ""

    async def ask(self, refusal: BlockedAccess) -> UnblockDecision:
        """Return the user's answer to a refusal; the access that they allow is in force when this returns."""
        store = self.context.permissions
        if not store.rules.may_leave:
            return self._no(f"the mode is {store.rules.mode}: nothing leaves the wall")
        question, passage = self._question(refusal)
        began = self.context.clock.monotonic()
        answer = await self.context.approver.ask(question)
        self.waited += self.context.clock.monotonic() - began
        if isinstance(answer, Deny):
            self.stop = answer.stop
            if answer.unattended:
                return self._no(answer.reason)
            self.said = answer.reason
            return self._no(f"the person said no{f', and: {answer.reason}' if answer.reason else ''}")
        if answer.scope == "through" and passage is not None:
            self._let_through(passage)
            if self.context.sandbox is not None:
                await self.context.sandbox.settle()
            return UnblockDecision("allow")
        if answer.scope == "always" and question.prefix is not None:
            self._keep(*parse_rules(question.prefix))
        return UnblockDecision("once")

    def _no(self, words: str) -> UnblockDecision:
        self.denied = True
        use = self.call.use
        self.context.permissions.denied.append(
            {"tool_name": self.call.tool.name, "tool_use_id": use.id, "tool_input": dict(use.input)}
        )
        return UnblockDecision("no", words)

    def _question(self, refusal: BlockedAccess) -> tuple[PermissionQuestion, Passage | None]:
        call = self.call
        sandbox = self.context.sandbox
        passage = passage_for(refusal, sandbox.profile(), sandbox.home) if sandbox is not None else None
        if (
            passage is not None
            and passage.action == "reach"
            and sandbox is not None
            and not sandbox.has_network
        ):
            passage = None  # no rule opens a network where the wall has none
        folder = str(self.context.tool_context.folder)
        rule = opening_rule(call.access[0].target)
        reaching = passage is not None and passage.action == "reach"
        remedy = f"--allowedTools {quote(f'{REACHING}({passage.target})')}" if passage and reaching else ""
        question = PermissionQuestion(
            call.tool.name,
            title=call.title,
            access=call.access,
            why=WHY,
            prefix=str(rule) if rule is not None else None,
            preview={"text": call.access[0].target, "said": refusal.said},
            refused=str(refusal),
            through=passage.shown(folder) if passage is not None else "",
            remedy=remedy or ("" if rule is not None else "--sandbox off"),
            call=call.use.id,
            input=call.use.input,
        )
        return question, passage

    def _let_through(self, passage: Passage) -> None:
        """Let it through from now on in this project."""
        if passage.action == "reach":
            return self._keep(Rule(REACHING, passage.target))
        store = self.context.permissions
        shown = passage.shown(str(self.context.tool_context.folder))
        for part in passage.parts:
            with suppress(OSError):
                Path(part).mkdir(exist_ok=True)  # what is not there yet cannot be let through
        try:
            store.let_through(passage.action, *(passage.parts or (passage.target,)))
        except (AgentError, OSError) as error:
            self.emit(Notice(f"{shown}: for this session only, as it cannot be kept: {error}", "warning"))
        else:
            self.emit(Notice(f"Commands may {shown} in this project from now on; /sandbox takes it back"))

    def _keep(self, *rules: Rule) -> None:
        for rule in rules:
            grant_always(self.context, self.emit, rule, self.call.access[0].cwd)


def opening_rule(line: str) -> Rule | None:
    """The rule that lets exactly this line out of the wall; None where it cannot be written down."""
    rule = Rule(OPENING, line.strip())
    try:
        return rule if parse_rules(str(rule)) == (rule,) else None
    except ValueError:
        return None


def passage_for(refusal: BlockedAccess, profile: SandboxProfile, home: Path) -> Passage | None:
    """Return the access that would prevent this refusal; None where that would allow too much.

    To write a file its folder is needed, for a commit in a worktree what commits write of the repository.
    Never let through are a home, what lies directly below the root, our records, and files that grant rights
    later.
    """
    target = Path(refusal.target)
    if refusal.action == "reach":
        return _way_to_host(refusal.target)
    if any(target.is_relative_to(place) for place in (*profile.records, *profile.read_only)):
        return None
    if refusal.action == "read":
        place = next((place for place in profile.hidden if target.is_relative_to(place)), None)
        return None if place is None or _is_too_much(place, home) else Passage("read", str(place))
    if steers_git(str(target)):
        return None
    parts = worktree_places(str(profile.folder))
    if any(target.is_relative_to(part) for part in parts):
        shared = str(Path(parts[0]).parent)
        return (
            None if _is_too_much(Path(shared), home) else Passage("write", target=shared, parts=tuple(parts))
        )
    there = next(place for place in (target, *target.parents) if place.exists())
    folder = there if there.is_dir() else there.parent
    place = there if _is_too_much(folder, home) else folder
    return None if _is_too_much(place, home) else Passage("write", str(place))


def _way_to_host(host: str) -> Passage | None:
    with suppress(ValueError):
        return Passage("reach", host_name(host))
    return None  # no name, or an address


def _is_too_much(place: Path, home: Path) -> bool:
    return len(place.parts) <= 2 or home.is_relative_to(place)
