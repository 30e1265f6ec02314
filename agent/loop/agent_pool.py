"""The agents of a session, with limits on their number, on how many work at once, and on their budgets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from msgspec import Struct, field

from agent.events import AgentStatus
from agent.session import Session
from tools.base import ToolError, ToolInterrupted, text_result
from tools.files import FileError
from tools.processes import Inbox
from tools.spawning import CallPlace, SpawnRequest, SpawnResult
from transcripts import DataTag, TextBlock, quoted
from transcripts.wording import pluralize

MAX_AGENTS_AT_ONCE = 4
MAX_AGENTS_OF_SESSION = 20
AGENT_BUDGET_SHARE = 0.2  # of the remaining budget, per agent
AGENT_BUDGET_USD = 1.0  # per agent, if the session has no budget
AGENT_TOPIC = "agent"  # of metadata about one that begins: {"number", "agent", "task", "session", ...}
WAITING = "waiting for a free slot"
ASKING = "waiting for your answer"
STARTED = (
    "{} works in the background. Its report arrives with a later result or prompt. Continue with other work"
    " or end your turn; do not wait for it, and do not start it again."
)
LATE_HEAD = "The agent {} that you started in the background"


class Agent(Struct, eq=False):
    """A nested session at work for a call of this one.

    number    counts the agents of the session
    name      of its definition
    call      the id of the call that started it
    sid       the id of its session, "" until it has begun
    budget    dollars that it may spend
    doing     its current activity in a few words
    asks      it waits for an answer of the user
    stops     the user's answer ends the turn
    may_ask   set when it may ask the user from the background
    answered  set when it has no open question
    error     the reason why it ended early
    stopped   it was interrupted
    """

    number: int
    name: str
    task: str
    call: str = ""
    place: CallPlace = CallPlace()
    background: bool = False
    sid: str = ""
    budget: float = 0.0
    doing: str = WAITING
    asks: bool = False
    stops: bool = False
    requests: int = 0
    tokens: int = 0
    dollars: float = 0.0
    ended: bool = False
    error: str = ""
    stopped: bool = False
    may_ask: asyncio.Event = field(default_factory=asyncio.Event)
    answered: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def label(self) -> str:
        """The name by which users know the agent."""
        return f"{self.name} #{self.number}"

    @property
    def status(self) -> AgentStatus:
        """The state of the agent that a face shows."""
        return AgentStatus(
            self.label,
            task=self.task,
            call=self.call,
            place=self.place,
            doing=ASKING if self.asks else self.doing,
            requests=self.requests,
            tokens=self.tokens,
            dollars=self.dollars,
            background=self.background,
            ended=self.ended,
            session=self.sid,
            error=self.error,
            stopped=self.stopped,
        )


Place = tuple[str, str]  # kind and target of an access
RunAgent = Callable[[Agent, SpawnRequest], Awaitable[SpawnResult]]


class AgentPool(Struct, eq=False):
    """Starts the agents of `session`.

    max_cost       dollars that the session may cost
    run            runs an agent to its end
    tell           emits the status of an agent
    notify         shows the user a line
    inbox          takes the reports of agents in the background
    attending      a user is at the screen: agents in the background ask when `/agents` lets them
    agents         those of this run of the program, the oldest first
    asking         held while one of them asks the user
    refused        accesses that the user denied to agents since the prompt `refused_since`
    """

    session: Session
    max_cost: float | None
    run: RunAgent
    tell: Callable[[Agent], None] = lambda agent: None
    notify: Callable[[str], None] = lambda text: None
    inbox: Inbox = field(default_factory=Inbox)
    attending: bool = False
    agents: list[Agent] = field(default_factory=list)
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    refused: set[Place] = field(default_factory=set)
    refused_since: int = 0
    _tasks: dict[asyncio.Task[None], Agent] = field(default_factory=dict)  # of those in the background
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_AGENTS_AT_ONCE))

    @property
    def running(self) -> list[Agent]:
        return [agent for agent in self.agents if not agent.ended]

    @property
    def in_background(self) -> list[Agent]:
        """The agents that work in the background."""
        return [agent for agent in self.running if agent.background]

    async def spawn(self, request: SpawnRequest) -> SpawnResult:
        """See tools.base.ToolContext."""
        agent = self._new(request)
        self.agents.append(agent)
        self.tell(agent)
        if not request.background:
            return await self._run(agent, request)
        task = asyncio.ensure_future(self._run_in_background(agent, request))
        self._tasks[task] = agent
        task.add_done_callback(self._ended)
        return SpawnResult(STARTED.format(agent.label), session="", turns=0, label=agent.label)

    def interrupt(self, agent: Agent | None = None) -> int:
        """Cancel an agent in the background, or all of them, and return their number without waiting."""
        tasks = [task for task, each in self._tasks.items() if agent in (None, each)]
        for task in tasks:
            task.cancel()
        return len(tasks)

    async def close(self) -> None:
        """End all agents; returns when they have ended."""
        self.interrupt()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def let_ask(self) -> None:
        """Let agents in the background ask their waiting questions; returns when these are answered."""
        asking = [agent for agent in self.running if agent.asks]
        for agent in asking:
            agent.may_ask.set()
        await asyncio.gather(*(agent.answered.wait() for agent in asking))

    async def _run_in_background(self, agent: Agent, request: SpawnRequest) -> None:
        """Run an agent in the background; its report is put into the inbox."""
        try:
            report = (await self._run(agent, request)).report()
        except (FileError, ToolError) as error:
            report = str(error)
        self.inbox.post(late_report(agent.label, agent.task, report), agent.label, agent.place.reply)
        self.notify(f"{agent.label} has finished; its report is sent with the next request")

    def _ended(self, task: asyncio.Task[None]) -> None:
        agent = self._tasks.pop(task)
        error = None if task.cancelled() else task.exception()
        if task.cancelled() or error is not None:
            why = "the user interrupted it" if error is None else f"internal error: {error!r}"
            report = late_report(agent.label, agent.task, f"(no report: {why})")
            self.inbox.post(report, agent.label, agent.place.reply)

    def _new(self, request: SpawnRequest) -> Agent:
        number = 1 + self._started()
        if number > MAX_AGENTS_OF_SESSION:
            raise ToolError(
                f"Cannot start another agent: the limit of {MAX_AGENTS_OF_SESSION} per session is reached.\n"
                "Do the rest yourself."
            )
        place = request.place
        exchange = self.session.folded.conversation.exchange_of(place.reply)
        use = exchange.use(place.block) if exchange is not None else None
        call = use.id if use is not None else ""
        return Agent(
            number,
            name=request.agent or "agent",
            task=request.task,
            call=call,
            place=place,
            background=request.background,
        )

    def _started(self) -> int:
        """Return the number of agents that the session has started, including earlier runs of the program."""
        noted = (
            note.about.get("number") for note in self.session.folded.metadata if note.topic == AGENT_TOPIC
        )
        numbers = [number for number in noted if isinstance(number, int)]
        return max((*numbers, *(agent.number for agent in self.agents)), default=0)

    async def _run(self, agent: Agent, request: SpawnRequest) -> SpawnResult:
        try:
            async with self._slots:
                agent.budget = self._share()
                result = await self.run(agent, request)
            agent.error = result.error
            return result
        except (FileError, ToolError) as error:
            agent.error = str(error).partition("\n")[0]
            raise
        except asyncio.CancelledError as error:
            agent.error = "interrupted"
            agent.stopped = True
            if not agent.sid:
                raise
            text = f"[{agent.label} was interrupted after {pluralize(agent.requests, 'request')}"
            text = f"{text}; its session is {agent.sid}]"
            raise ToolInterrupted(text_result(text, error=True)) from error
        finally:
            agent.ended = True
            self.tell(agent)

    def _share(self) -> float:
        """Return the budget of the next agent in dollars. Raises ToolError if nothing is left."""
        if self.max_cost is None:
            return AGENT_BUDGET_USD
        promised = sum(max(0.0, agent.budget - agent.dollars) for agent in self.running)
        left = self.max_cost - self.session.cost
        if left <= 0:
            raise ToolError("Cannot start an agent: the budget of this run is spent.\nEnd with a report.")
        return max(0.0, left - promised) * AGENT_BUDGET_SHARE


def late_report(label: str, task: str, report: str) -> TextBlock:
    """Return the news for the model about an agent in the background that has ended."""
    text = f"{LATE_HEAD.format(label)} ({task}) has ended. Its report:\n{report}"
    return TextBlock(quoted(text, DataTag.AGENT_REPORT))
