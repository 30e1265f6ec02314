"""Run an agent: a session within a tool call of another session. See tools.base.ToolContext.spawn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from agent.errors import BudgetExceeded
from agent.events import (
    AgentProgress,
    ContextCompacted,
    Event,
    Notice,
    RawStreamEvent,
    ReplyFinished,
    RequestStarted,
    Retrying,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallStarted,
    TurnFinished,
)
from agent.extensions.agents import find_agent
from agent.loop import (
    AGENT_TOPIC,
    LATE_HEAD,
    Agent,
    TurnContext,
    end_background_summary,
    late_report,
    run_turn,
)
from agent.session import Environment, Session, environment_context
from compact import Spending, TokenCounter, call_label
from tools.processes import BackgroundJob, command_runner
from tools.spawning import SpawnRequest, SpawnResult
from tools.text import printable
from transcripts import (
    Block,
    ChannelBlock,
    Exchange,
    Fact,
    Folded,
    ProjectRecords,
    Reply,
    Result,
    StoreError,
    TextBlock,
    Usage,
    User,
    newest_answer,
    read_transcript,
)
from transcripts.wording import pluralize

from .agent_fork import begin_fork, works_as_fork
from .follow_ups import run_agent_turns
from .nested_context import NestedCall, nested_context, preloaded_skills
from .services import Services

MAX_REPORT_TOKENS = 2_000  # the calling session gets at most this much of an agent's report
LAST_WORD = "This is your last request. Do not call a tool. Write your report now, from what you have."
_UNTOLD = (TextDelta, ThinkingDelta, ToolCallDelta, RawStreamEvent, TurnFinished)


async def run_agent(
    services: Services, parent: Session, context: TurnContext, agent: Agent, request: SpawnRequest
) -> SpawnResult:
    """Run an agent to its end; `parent` is charged for each of its requests.

    Raises ToolError if the request names a tool that the parent does not have.
    """
    definition = find_agent(services.agents, request.agent)
    call = NestedCall(
        services, parent=parent, context=context, agent=agent, request=request, definition=definition
    )
    call = replace(call, forked=works_as_fork(call))
    records = services.repository
    try:
        session = records.copy_for_agent(parent, call.about) if call.forked else records.new()
    except StoreError:  # the transcript has changed since it was read
        call = replace(call, forked=False)
        session = records.new()
    session.use_prices(parent.prices)
    if definition is not None and definition.isolated:
        return await _run_isolated(call, session)
    return await _work(call, session, await nested_context(call, session, partial(emit_status, call)))


async def _run_isolated(call: NestedCall, session: Session) -> SpawnResult:
    """Run an agent in a git worktree of its own."""
    from .agent_worktrees import open_worktree  # saves other agents 10 ms

    worktree = await open_worktree(call)
    context: TurnContext | None = None
    try:
        context = await nested_context(call, session, partial(emit_status, call))
        await worktree.enter(context)
        result = await _work(call, session, context, (worktree.introduction,))
    except BaseException:
        call.services.finish_later(worktree.abandon(context))
        raise
    await worktree.leave(context)
    return replace(result, place=await worktree.settle(), left="")


async def _work(
    call: NestedCall, session: Session, context: TurnContext, words: Sequence[Block] = ()
) -> SpawnResult:
    """Run an agent in its context; `words` come before its prompt."""
    run = NestedRun(call, session=session, context=context)
    run.begin((*words, *await preloaded_skills(call, context)))
    try:
        return await run.work()
    except asyncio.CancelledError:
        run.end_commands()
        raise
    finally:
        try:
            await end_background_summary(context, "the agent was done")
        finally:
            run.end()


def emit_status(call: NestedCall) -> None:
    """Emit the status of the agent that a call started."""
    call.services.emit(AgentProgress(call.agent.status))


class NestedRun(Struct):
    """One agent at work.

    charged  what its session had spent when the parent was last charged
    since    the seq of the last fact before its own work in the transcript
    """

    call: NestedCall
    session: Session
    context: TurnContext
    charged: dict[str, Spending] = field(default_factory=dict)
    since: int = 0

    def begin(self, skills: Sequence[Block]) -> None:
        """Record the prompt in a transcript linked to the parent's, and note the start in the parent's."""
        call = self.call
        agent = self.call.agent
        session = self.session
        agent.sid = session.sid
        self.since = session.folded.last_seq
        self.charged = dict(session.spending)
        if call.forked:
            begin_fork(call, session, list(self.context.tools))
        else:
            self._open(skills)
        begun: dict[str, Any] = {"number": agent.number, "agent": agent.name, "task": agent.task}
        begun |= {"session": agent.sid}
        if agent.background:  # it may be noted after the next prompt, so the reply with its call is noted too
            begun |= {"background": True, "reply": agent.place.reply}
        begun |= {"since": self.since} if call.forked else {}
        call.parent.add_metadata(AGENT_TOPIC, begun)
        agent.doing = "starting"
        emit_status(call)

    def _open(self, skills: Sequence[Block]) -> None:
        """Open a new transcript with the environment, the texts of skills and the prompt."""
        call = self.call
        settings = self.context.settings
        folder = self.context.tool_context.folder
        self.session.open(
            settings.system,
            settings.tools,
            model=settings.model,
            window=self.context.compaction.window.size,
            folder=str(folder),
            parent=call.parent.sid,
            about=call.about,
            tag=settings.tag,
        )
        environment = environment_context(Environment(folder, settings.model), self.context.clock.now())
        self.session.user((ChannelBlock(environment), *skills, TextBlock(call.request.prompt)))

    async def work(self) -> SpawnResult:
        """Run the agent until it has reported or reaches a limit."""
        context = self.context
        most = self.context.max_turns or 0
        keeps_last = most >= 3  # the last one is reserved for the report
        context.max_turns = most - keeps_last
        ended = await run_agent_turns(self.session, self.context, self.emit)
        turns = ended.turns
        if ended.reason == "max_turns" and keeps_last:
            self.session.user((ChannelBlock(LAST_WORD),), "harness")
            context.max_turns = 1
            last = await run_turn(self.session, context, self.emit)
            turns += last.turns
            ended = ended if last.reason == "done" else last
        return self._result(turns, self._why(ended, turns))

    @property
    def commands(self) -> list[BackgroundJob]:
        """The agent's background commands that are still running."""
        tools = self.context.tool_context
        return [job for job in command_runner(tools).running if job.inbox is tools.inbox]

    def end_commands(self) -> None:
        """End the agent's running commands, which no one else waits for, after an interruption."""
        for job in self.commands:
            job.stopped = job.stopped or "session"
            job.command.drop()

    def end(self) -> None:
        """Charge the remaining cost to the parent, and close the transcript."""
        self.context.tool_context.inbox.hand_over(self.call.context.tool_context.inbox)
        self._charge()
        self.session.close()

    def emit(self, event: Event) -> None:
        """Update the agent's status from an event of its session, and emit that as the agent's progress."""
        agent = self.call.agent
        match event:
            case Notice(text, level):
                self.call.services.emit(Notice(f"[{agent.label}] {text}", level))
                return
            case ReplyFinished(reply):
                agent.requests += 1
                agent.tokens = reply.usage.total
                self._charge()
            case ContextCompacted():
                self._charge()
            case RequestStarted("summary"):
                agent.doing = "compacting"
            case ToolCallStarted(_, _, name, title):
                agent.doing = f"{name} {title}"
            case Retrying(reason):
                agent.doing = reason
        if not isinstance(event, _UNTOLD):
            self.call.services.emit(AgentProgress(agent.status, event))

    def _charge(self) -> None:
        """Charge the parent for the spending since the last time."""
        for model, spent in self.session.spending.items():
            new = spent.since(self.charged.get(model, Spending()))
            if new.usage != Usage():
                self.call.parent.charge_nested(self.session.sid, model, new)
                self.call.agent.dollars += new.dollars
        self.charged = dict(self.session.spending)

    def _why(self, ended: TurnFinished, turns: int) -> str:
        """Return the reason why the agent ended early, in one line; "" if it did not."""
        if ended.reason == "max_turns":
            return f"stopped after {pluralize(turns, 'request')}, its limit"
        if ended.code == BudgetExceeded.code:
            return f"its share of the budget is spent (${self.call.agent.budget:.4f})"
        if ended.reason == "refused":
            return f"{ended.cause}. Rephrase its task, or do it yourself."
        return f"{ended.cause}. Give a new agent a smaller task." if ended.cause else ended.error

    def _result(self, turns: int, error: str) -> SpawnResult:
        agent = self.call.agent
        answer = newest_answer(self.session.folded.facts, self.since)
        whole = _without_controls(answer.text)
        shown = shortened_report(whole, self.call.services.counter)
        left = ", ".join(f"{job.id} ({' '.join(job.line.split())[:80]})" for job in self.commands)
        return SpawnResult(
            shown,
            session=self.session.sid,
            turns=turns,
            error=error,
            label=agent.label,
            recall=_ids(self.session.sid, answer.seqs) if shown != whole else "",
            dollars=agent.dollars,
            tokens=agent.tokens,
            stops=agent.stops,
            whole=whole,
            left=f"still running in the background, started by this agent: {left}" if left else "",
            remarks=tuple(_remarks_on(self.session.folded, agent.label, self.since)),
        )


def _remarks_on(folded: Folded, label: str, since: int) -> Iterator[tuple[str, str]]:
    """Yield (call label, words) for what the user said about calls of an agent after fact `since`."""
    for exchange in (entry for entry in folded.entries if isinstance(entry, Exchange) and entry.seq > since):
        for index, result in exchange.results.items():
            yield from (
                (f"{label}: {call_label(exchange.uses[index])}", words) for _, words in result.remarks
            )


class UndeliveredReport(NamedTuple):
    """The report of a background agent whose call is in the reply `since`."""

    label: str
    since: int
    block: TextBlock


def undelivered_reports(
    session: Session, home: Path, counter: TokenCounter, tell: Callable[[str], None]
) -> list[UndeliveredReport]:
    """Return the reports of background agents that ended with or in an earlier run and were not delivered.

    `tell` takes a line for the user about each agent that ended before it could report.
    """
    notes = {note.seq: note.about for note in session.folded.metadata if note.topic == AGENT_TOPIC}
    delivered = _late_reports(session)
    reports = list[UndeliveredReport]()
    for seq, about in notes.items():
        began = int(about.get("reply") or seq)
        label = f"{about.get('agent')} #{about.get('number')}"
        head = f"{LATE_HEAD.format(label)} "
        if not about.get("background") or any(text.startswith(head) for text in delivered):
            continue
        try:
            facts = read_transcript(ProjectRecords(home).path_of(str(about.get("session")))).facts
        except StoreError as error:
            report = late_report(label, str(about.get("task")), f"(no report: {error})")
            reports.append(UndeliveredReport(label, began, report))
            continue
        since = int(about.get("since") or 0)
        sid = str(about.get("session"))
        answer = newest_answer(facts, since)
        whole = _without_controls(answer.text)
        text = shortened_report(whole, counter)
        is_whole = text == whole
        if not _has_reported(facts, since):
            last = " Its last message:" if text else ""
            text = f"(no report: it ended before it could report.{last})\n{text}"
            tell(f"{label} ({about.get('task')}) ended before it could report, in an earlier run")
        source = (
            f"its session is {sid}"
            if is_whole
            else f"truncated: recall {_ids(sid, answer.seqs)} for all of it"
        )
        text = f"{text.rstrip()}\n[it ended in an earlier run of makeroom; {source}]"
        report = late_report(label, str(about.get("task")), text)
        reports.append(UndeliveredReport(label, began, report))
    return reports


def _has_reported(facts: Sequence[Fact], since: int) -> bool:
    """Return whether the newest reply after fact `since` is whole and the last of its turn."""
    newest = next((fact for fact in reversed(facts) if isinstance(fact, Reply) and fact.seq > since), None)
    return newest is not None and newest.complete and not (newest.calls or newest.is_cut)


def _ids(sid: str, seqs: Iterable[int]) -> str:
    """Return the ids that recall facts of another session."""
    return " and ".join(f"{sid}/r{seq}" for seq in seqs)


def _without_controls(answer: str) -> str:
    """Return an answer as the calling model reads it: without terminal control sequences."""
    return printable(answer).strip()


def _late_reports(session: Session) -> list[str]:
    """Return makeroom's additions to prompts and results, among them the reports of background agents."""
    facts = (fact for fact in session.folded.facts if isinstance(fact, User | Result))
    contents = (fact.blocks if isinstance(fact, User) else fact.content for fact in facts)
    return [text for each in contents for block in each if (text := block.injected_text) is not None]


def shortened_report(text: str, counter: TokenCounter) -> str:
    """Return the beginning of a report, at most MAX_REPORT_TOKENS long."""
    tokens = counter.text(text)
    while tokens > MAX_REPORT_TOKENS:
        text = text[: int(len(text) * MAX_REPORT_TOKENS / tokens * 0.98)]
        tokens = counter.text(text)
    return text
