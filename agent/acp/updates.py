"""The events of a session as updates of the protocol, sent in order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from acp import (
    Client,
    image_block,
    plan_entry,
    start_tool_call,
    text_block,
    tool_content,
    update_agent_message_text,
    update_agent_thought_text,
    update_plan,
    update_tool_call,
    update_user_message,
)
from acp.helpers import update_available_commands, update_current_mode
from acp.schema import (
    AgentMessageChunk,
    AgentPlanUpdate,
    AgentThoughtChunk,
    AvailableCommand,
    AvailableCommandsUpdate,
    Cost,
    CurrentModeUpdate,
    PlanEntryStatus,
    ToolCallLocation,
    ToolCallProgress,
    ToolCallStart,
    ToolKind,
    UsageUpdate,
    UserMessageChunk,
)

from agent import events
from agent.extensions.mcp import meant_call
from agent.loop import ActiveSession, TurnContext
from agent.ports import Status
from agent.session import Session
from agent.ui import plain_chart, retrying_message
from compact import is_result_id
from tools.base import Access, ToolError
from tools.files import FileError
from transcripts import (
    Block,
    Exchange,
    ImageBlock,
    Prompt,
    Reply,
    Result,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    map_strings,
)
from transcripts import ToolKind as OwnKind

from .contents import RESOURCE_TAG, CallContent, code_block, diff_contents, hunks, shown_blocks

Update = (
    UserMessageChunk
    | AgentMessageChunk
    | AgentThoughtChunk
    | ToolCallStart
    | ToolCallProgress
    | AgentPlanUpdate
    | AvailableCommandsUpdate
    | CurrentModeUpdate
    | UsageUpdate
)
TODO_TOOL = "todo"  # its calls are shown as the plan
MAX_PROGRESS_CHARS = 4_000  # of the newest output of a running call
PLAN_STATES: Mapping[str, PlanEntryStatus] = {"in_progress": "in_progress", "completed": "completed"}
KINDS: Mapping[OwnKind, ToolKind] = {
    "reads": "read",
    "searches": "search",
    "writes": "edit",
    "runs": "execute",
    "recalls": "read",
}


class Outbox:
    """Sends the updates of one session in order, none before `begin`."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._session = ""
        self._waiting: deque[tuple[str, Update]] = deque()
        self._sending: asyncio.Task[None] | None = None

    def begin(self, session: str) -> None:
        """Send the updates under this session id, those that wait first."""
        self._session = session
        self._send_waiting()

    def post(self, update: Update, replaces: str = "") -> None:
        """Send an update, replacing the last one if that still waits and is about the same thing."""
        if replaces and self._waiting and self._waiting[-1][0] == replaces:
            self._waiting.pop()
        self._waiting.append((replaces, update))
        self._send_waiting()

    async def flush(self) -> None:
        """Return when everything is sent."""
        while self._sending is not None and not self._sending.done():
            await asyncio.wait({self._sending})

    def _send_waiting(self) -> None:
        if self._session and (self._sending is None or self._sending.done()):
            self._sending = asyncio.ensure_future(self._send())

    async def _send(self) -> None:
        while self._waiting:
            _, update = self._waiting.popleft()
            try:
                await self._client.session_update(self._session, update)
            except ConnectionError:  # the editor is gone
                self._waiting.clear()


class DescribedCall(NamedTuple):
    """A call as an editor shows it."""

    title: str
    kind: ToolKind
    paths: tuple[str, ...] = ()


def described_call(use: ToolUseBlock, context: TurnContext) -> DescribedCall:
    """Describe a call that has not run yet."""
    tool = context.tools.get(use.name)
    if tool is None:
        return DescribedCall(meant_call(use.name, dict(use.input)).name, "other")
    access: Sequence[Access] = ()
    try:
        arguments = tool.parse(use.input)
        title = tool.title(arguments)
        access = tool.access(arguments, context.tool_context)
    except (ToolError, FileError, OSError):
        title = next((value for value in use.input.values() if isinstance(value, str)), "")
    paths = tuple(dict.fromkeys(each.target for each in access if each.kind in ("read", "write")))
    kind: ToolKind = KINDS.get(tool.kind, "other")
    if any(each.kind == "network" for each in access):
        kind = "fetch"
    return DescribedCall(named(use.name, title), kind=kind, paths=paths)


def named(tool: str, title: str) -> str:
    """Return the title of a call on one line, with its tool."""
    return " ".join(f"{tool} {title}".split())


def call_id(of: int, block: int) -> str:
    """Return the id of a call for editors: the id that makeroom shows for it elsewhere."""
    return f"r{of}.{block}"


class SessionUpdates:
    """Turns the events of a session into updates. `show` may be called in any thread.

    in_use  returns the session and its context
    status  returns the current status
    mask    masks secrets in a text
    """

    def __init__(self, client: Client, mask: Callable[[str], str]) -> None:
        self.outbox = Outbox(client)
        self.in_use: Callable[[], ActiveSession]
        self.status: Callable[[], Status]
        self._mask = mask
        self._loop = asyncio.get_running_loop()
        self._streamed = False  # text of the current reply was sent as it arrived
        self._calls: dict[str, str] = {}  # id of a call of the newest reply -> its id for editors
        self._paths: dict[str, tuple[str, ...]] = {}  # of the running calls
        self._progress: dict[str, str] = {}
        self._mode = ""
        self._todos: tuple[tuple[str, str], ...] = ()

    def call_known(self, use_id: str) -> str:
        """Return the id for editors of a call that they were shown, "" for any other."""
        return self._calls.get(use_id, "")

    def show(self, event: events.Event) -> None:
        """Send the updates for an event."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self._loop.call_soon_threadsafe(self._show, event)
        else:
            self._show(event)

    def _show(self, event: events.Event) -> None:  # noqa: C901  one case for each kind
        match event:
            case events.RequestStarted():
                self._streamed = False
            case events.TextDelta(text):
                self._streamed = True
                self.say(text)
            case events.ThinkingDelta(text):
                self.outbox.post(update_agent_thought_text(self._mask(text)))
            case events.StreamAborted():
                self.say("\n\n")
            case events.ReplyFinished(reply):
                self._show_reply(reply)
            case events.ToolCallStarted(of, block, name, title) if name != TODO_TOOL:
                shown = self._mask(named(name, title))
                update = update_tool_call(call_id(of, block), status="in_progress", title=shown)
                self.outbox.post(update)
            case events.ToolCallProgress(of, block, text):
                self._show_progress(call_id(of, block), text)
            case events.ToolCallFinished():
                self._finish_call(event)
            case events.AgentProgress(agent):
                self._show_agent(agent)
            case events.CommandOutput(text, form):
                self.say(f"{text if form == 'markdown' else code_block(text)}\n\n")
            case events.ContextChart():
                self.say(f"{code_block(plain_chart(event))}\n\n")
            case events.Notice(text, level):
                self.say(quotation(text if level == "info" else f"{level}: {text}"))
            case events.ContextCompacted(notice):
                self.say(quotation(notice))
            case events.Retrying():
                self.say(quotation(retrying_message(event)))

    def say(self, text: str) -> None:
        """Send text of the agent."""
        if text:
            self.outbox.post(update_agent_message_text(self._mask(text)))

    def send_state(self) -> None:
        """Send the permission mode and the to-do list, each if it has changed."""
        status = self.status()
        if status.mode != self._mode:
            if self._mode:
                self.outbox.post(update_current_mode(status.mode))
            self._mode = status.mode
        if status.todos != self._todos:
            self._todos = status.todos
            entries = [
                plan_entry(self._mask(text), status=PLAN_STATES.get(state, "pending"))
                for state, text in status.todos
            ]
            self.outbox.post(update_plan(entries))

    def send_commands(self, commands: Sequence[AvailableCommand]) -> None:
        """Send the slash commands of the session."""
        self.outbox.post(update_available_commands(commands))

    def replay(self, session: Session, context: TurnContext) -> None:
        """Send the conversation so far."""
        for entry in session.folded.entries:
            if isinstance(entry, Prompt):
                for update in self._replayed_prompt(entry):
                    self.outbox.post(update)
            elif not entry.superseded:
                for update in self._replayed_exchange(entry, session, context):
                    self.outbox.post(update)

    def _replayed_prompt(self, prompt: Prompt) -> Iterator[Update]:
        if prompt.fact.source != "user":
            return
        for block in prompt.fact.blocks:
            if isinstance(block, ImageBlock):
                yield update_user_message(image_block(block.data, block.media_type))
        for text in prompt.texts:
            if not text.startswith(f"<{RESOURCE_TAG} uri="):  # a file of the editor, which the words name
                yield update_user_message(text_block(self._mask(text)))

    def _replayed_exchange(
        self, exchange: Exchange, session: Session, context: TurnContext
    ) -> Iterator[Update]:
        for index, block in enumerate(exchange.fact.blocks):
            use = exchange.uses.get(index)
            if isinstance(block, TextBlock):
                yield update_agent_message_text(self._mask(block.text))
            elif isinstance(block, ThinkingBlock) and block.thinking:
                yield update_agent_thought_text(self._mask(block.thinking))
            elif use is not None and use.name != TODO_TOOL:
                begun = self._begun_call(call_id(exchange.seq, index), use, context)
                result = exchange.results.get(index)
                begun.status = "failed" if result is None or result.error else "completed"
                if result is not None and result.seq not in session.deferred:
                    begun.content = list(self._content(result))
                yield begun

    def _show_reply(self, reply: Reply) -> None:
        _, context = self.in_use()
        self._calls.clear()
        for index, block in enumerate(reply.blocks):
            if isinstance(block, TextBlock) and not self._streamed:
                self.say(block.text)
            if isinstance(block, ToolUseBlock) and block.name != TODO_TOOL:
                ident = self._calls[block.id] = call_id(reply.seq, index)
                begun = self._begun_call(ident, block, context)
                self._paths[ident] = tuple(each.path for each in begun.locations or ())
                self.outbox.post(begun)
        self._send_usage()

    def _send_usage(self) -> None:
        """Send the size of the context and the cost of the session, if they are known."""
        status = self.status()
        if status.tokens is not None:
            cost = Cost(amount=status.cost, currency="USD") if status.priced else None
            used = UsageUpdate(
                session_update="usage_update", used=status.tokens, size=status.window, cost=cost
            )
            self.outbox.post(used, "usage")

    def _begun_call(self, ident: str, use: ToolUseBlock, context: TurnContext) -> ToolCallStart:
        call = described_call(use, context)
        return start_tool_call(
            ident,
            self._mask(call.title),
            kind=call.kind,
            status="pending",
            locations=[ToolCallLocation(path=path) for path in call.paths],
            raw_input=map_strings(dict(use.input), self._mask, keys=False),
        )

    def _show_progress(self, ident: str, text: str) -> None:
        """Show the newest output of a running call."""
        shown = (self._progress.get(ident, "") + text)[-MAX_PROGRESS_CHARS:]
        self._progress[ident] = shown
        content = [tool_content(text_block(code_block(self._mask(shown))))]
        self.outbox.post(update_tool_call(ident, content=content), replaces=ident)

    def _show_agent(self, agent: events.AgentStatus) -> None:
        """Show the activity of an agent in the call that started it."""
        ident = call_id(*agent.place)
        if ident in self._paths and not agent.background and not agent.ended:
            shown = self._mask(f"{agent.label}: {agent.doing or agent.task} ({agent.requests} requests)")
            content = [tool_content(text_block(shown))]
            self.outbox.post(update_tool_call(ident, content=content), replaces=ident)

    def _finish_call(self, event: events.ToolCallFinished) -> None:
        ident = call_id(event.of, event.block)
        self._progress.pop(ident, None)
        paths = self._paths.pop(ident, ())
        if event.name != TODO_TOOL:
            result = event.result
            line = next((part.line for part in hunks(result.human.diff)), None)
            self.outbox.post(
                update_tool_call(
                    ident,
                    title=self._mask(named(event.name, event.title)),
                    status="failed" if result.error else "completed",
                    content=self._content(result),
                    locations=[ToolCallLocation(path=path, line=line) for path in paths] or None,
                )
            )
        self.send_state()

    def _content(self, result: Result) -> list[CallContent]:
        """Return the result of a call for the user: its diff, the reason for a denial, or its output."""
        human = result.human
        if human.diff:
            return diff_contents(str(result.about.get("path", "")), self._mask(human.diff))
        if human.denied:
            return [tool_content(text_block(self._mask(human.denied)))]
        blocks = [
            TextBlock(self._mask(block.text)) if isinstance(block, TextBlock) else block
            for block in _output(result)
        ]
        return shown_blocks(blocks)


def _output(result: Result) -> Sequence[Block]:
    """Return what a call returned, without what makeroom added for the model."""
    if result.human.text:
        return (TextBlock(result.human.text),)
    added = (block for block in result.content[1:] if block.injected_text is None and not is_result_id(block))
    return (*result.content[:1], *added)


def quotation(text: str) -> str:
    """Return lines of makeroom itself as a quotation of Markdown."""
    return "\n" + "\n".join(f"> {line}" for line in text.splitlines()) + "\n\n"
