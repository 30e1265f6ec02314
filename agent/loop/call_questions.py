"""The questions of a running call to the user: those of its tool, and those about blocked accesses."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from shlex import quote

from msgspec import Struct
from msgspec.structs import replace

from agent.errors import AgentError
from agent.events import Emit, Notice
from agent.permissions import REACHING, Rule, barring_rule, opening_rule, outside_warning, parse_rules
from agent.ports import Allow, Deny, PermissionQuestion
from tools.sandbox import BlockedAccess, Passage, UnblockDecision, local_port, passage_for
from tools.user_questions import Preview, UserAnswer

from .call_permission import ParsedCall, follow_update, grant_always, preview_of, remark_note
from .context import TurnContext
from .steady_question import ask_steadily

WHY = "the command already ran partially; approving runs it again"
WAITING = "the command is running, and its connection is waiting for your answer"


class CallQuestions(Struct):
    """The questions of one running call, and what the answers mean for it.

    denied  the user denied the access
    stop    the user ends the turn
    waited  seconds that the answers took
    reason  the user's reason for denying the access
    remark  the user's words with an approval; `notes` gives them to the model
    """

    context: TurnContext
    emit: Emit
    call: ParsedCall
    denied: bool = False
    stop: bool = False
    waited: float = 0.0
    reason: str = ""
    remark: str = ""
    notes: tuple[str, ...] = ()

    async def ask_for_tool(self) -> UserAnswer:
        """Return the user's answer to the call, whose preview contains the question.

        Changes to the permissions that come with a yes are in force when this returns.
        """
        call = self.call
        question = PermissionQuestion(
            call.tool.name,
            title=call.title,
            access=(),
            why="",
            prefix=None,
            preview=preview_of(self.context, call),
            call=call.use.id,
            input=call.use.input,
        )
        answer = await self._answer_to(question)
        if isinstance(answer, Deny):
            self.stop = answer.stop
            return UserAnswer("nobody" if answer.unattended else "no", reason=answer.reason)
        self._note_remark(answer)
        for update in answer.updates:
            follow_update(self.context.permissions, update)
        return UserAnswer("yes", answer.updated_input or {})

    async def ask_about_access(self, refusal: BlockedAccess) -> UnblockDecision:
        """Return the user's answer about a blocked access; an access that they allow is in force then."""
        store = self.context.permissions
        if not store.rules.may_leave:
            return self._no(f"the mode is {store.rules.mode}: access outside the sandbox is denied")
        sandbox = self.context.sandbox
        matching = sandbox.matching_paths() if sandbox is not None else ()
        rule = barring_rule(store.rules, refusal.action, refusal.target, matching)
        if rule in store.rules.deny:
            return self._no(f"the rule {rule} denies this")
        question, passage = self._question(refusal)
        answer = await self._answer_to(question)
        if isinstance(answer, Deny):
            self.stop = answer.stop
            if answer.unattended:
                return self._no(answer.reason)
            self.reason = answer.reason
            return replace(self._no("the user declined"), reason=answer.reason, stop=answer.stop)
        self._note_remark(answer)
        hosts = passage.parts if passage is not None and refusal.waiting else ()
        in_session = question.port or answer.scope == "session"
        if passage is not None and (answer.scope == "through" or (passage.hosts and in_session)):
            if answer.scope == "through":
                self._allow_permanently(passage)
            else:
                for host in passage.hosts:
                    store.allow(Rule(REACHING, host))
            if self.context.sandbox is not None:
                await self.context.sandbox.settle()
            return UnblockDecision("allow", hosts=hosts)
        if answer.scope == "always" and question.prefix is not None:
            self._keep(*parse_rules(question.prefix))
        return UnblockDecision("once", hosts=hosts)

    async def _answer_to(self, question: PermissionQuestion) -> Allow | Deny:
        began = self.context.clock.monotonic()
        answer = await ask_steadily(self.context, question)
        self.waited += self.context.clock.monotonic() - began
        return answer

    def _note_remark(self, answer: Allow) -> None:
        """Keep the words that the user approved with, for the model."""
        if answer.remark:
            self.remark = answer.remark
            self.notes = (*self.notes, remark_note(answer.remark))

    def _no(self, words: str) -> UnblockDecision:
        self.denied = True
        self.context.permissions.denied.append(replace(self.call.use, name=self.call.tool.name))
        return UnblockDecision("no", words)

    def _question(self, refusal: BlockedAccess) -> tuple[PermissionQuestion, Passage | None]:
        call = self.call
        passage = self._passage(refusal)
        rules = self.context.permissions.rules
        asks_each_time = (
            passage is not None and barring_rule(rules, passage.action, passage.target) is not None
        )
        if asks_each_time or refusal.has_private_address:
            passage = None  # a rule for a host allows only its public addresses, and those of a mirror
        if passage is not None and passage.hosts:
            others = passage.parts if refusal.waiting else ()
            others = tuple(host for host in others if barring_rule(rules, "reach", host) is None)
            passage = replace(passage, parts=others)
            refusal = replace(refusal, others=others)
        folder = str(self.context.tool_context.folder)
        host = passage.target if passage is not None and passage.hosts else ""
        port = host if local_port(host) else ""
        rule = opening_rule(call.access[0].target)
        remedy = f"--allowedTools {quote(f'{REACHING}({host})')}" if host else ""
        warning = outside_warning(call.access[0], rules)
        question = PermissionQuestion(
            call.tool.name,
            title=call.title,
            access=call.access,
            why=WAITING if refusal.waiting else ", and ".join(filter(None, (WHY, warning))),
            prefix=str(rule) if rule is not None and not refusal.waiting and not port else None,
            preview=Preview(text=call.access[0].target, output=refusal.output),
            refused=str(refusal),
            through=passage.shown(folder) if passage is not None else "",
            remedy=remedy or ("" if rule is not None else "--sandbox off"),
            call=call.use.id,
            input=call.use.input,
            once=asks_each_time,
            waits=refusal.waiting,
            port=port,
        )
        return question, passage

    def _passage(self, refusal: BlockedAccess) -> Passage | None:
        """Return the access that the user can allow in the sandbox; None if there is none."""
        sandbox = self.context.sandbox
        if sandbox is None:
            return None
        passage = passage_for(refusal, sandbox.profile(), sandbox.home)
        if passage is not None and passage.hosts and not sandbox.has_network:
            return None  # no rule opens a network in a sandbox without one
        return passage

    def _allow_permanently(self, passage: Passage) -> None:
        """Allow the access permanently in this project."""
        if passage.hosts:
            return self._keep(*(Rule(REACHING, host) for host in passage.hosts))
        store = self.context.permissions
        shown = passage.shown(str(self.context.tool_context.folder))
        for part in passage.parts:
            with suppress(OSError):
                Path(part).mkdir(exist_ok=True)  # only an existing path can be allowed
        try:
            store.let_through(passage.action, *(passage.parts or (passage.target,)))
        except (AgentError, OSError) as error:
            text = f"cannot save the permission to {shown}, which is valid for this session only: {error}"
            self.emit(Notice(text, "warning"))
        else:
            self.emit(Notice(f"commands may {shown} in this project from now on (revoke with /sandbox)"))

    def _keep(self, *rules: Rule) -> None:
        for rule in rules:
            grant_always(self.context, self.emit, rule, self.call.access[0].cwd)
