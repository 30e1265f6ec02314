"""The context of a turn, made in the composition root and passed as one value."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from agent.checkpoints import Checkpoints
from agent.events import Reason
from agent.model import MAX_TRIES
from agent.model_port import Model, RequestSettings, output_room
from agent.permissions import PermissionStore
from agent.ports import Approver, Clock, Hooks
from agent.session import Session
from compact import (
    BackgroundSummary,
    CompactSettings,
    ContextWindow,
    Prices,
    TokenCounter,
    Trigger,
    learned_prices,
    quiet_below,
)
from tools.base import Tool, ToolContext
from transcripts import Folded

from .agent_pool import AgentPool
from .session_sandbox import SessionSandbox

PAGE_SHARE = 0.2  # of the window
BYTES_A_TOKEN = 3.5  # of code, as counted by the supported models
STOPPED = "the turn was stopped at a permission question"
MIN_TOLD_DOLLARS = 0.05  # a request that costs at least as much is announced before it is sent


class TurnStopped(Exception):
    """The turn ends after a call: the user or a hook stops it, or the call's result is the answer."""

    def __init__(self, reason: Reason = "denied", error: str = STOPPED) -> None:
        super().__init__(error)
        self.reason: Reason = reason
        self.error = error


class CompactionState(Struct):
    """The inputs of compaction besides the conversation. They change when the server corrects them.

    overhead         our count of system prompt and tools, in tokens
    binds            the model binds thinking to its prefix
    learn_window     called with the window size in an error, to remember it for this model and server
    window_source    the source of the window size in words; "": it is a guess
    cuts_silently    the server truncates a prompt that is too long, and answers the rest
    requested_focus  the focus of a compaction that the model requested; None: no request
    shown_reason     the last reason shown for not making an automatic summary, so that it is shown once
    billed           the seq of the newest request after which the cost of the next one was shown
    quiet_below      the sizes of the prompt and of its messages below which no layer acts automatically
    page_bytes       the size of a page of a tool's result, so that a few pages fit into the window
    """

    settings: CompactSettings
    window: ContextWindow
    prices: Prices
    counter: TokenCounter
    overhead: int
    binds: bool
    learn_window: Callable[[int], None] = lambda window: None
    window_source: str = ""
    cuts_silently: bool = False
    requested_focus: str | None = None
    shown_reason: str = ""
    billed: int = 0
    quiet_below: tuple[int, int] = (0, 0)
    page_bytes: int = 0

    def __post_init__(self) -> None:
        self.use_window(self.window)

    def prices_in(self, folded: Folded) -> Prices:
        """Return the prices to plan with in a session, by what its server was seen to cache.

        Ollama reports no cached tokens, although it keeps the prefix of the newest prompt.
        """
        return self.prices if self.cuts_silently else learned_prices(folded, self.prices)

    def use_window(self, window: ContextWindow) -> None:
        """Plan for another window from now on."""
        self.window = window
        self.quiet_below = quiet_below(self.settings, window)
        self.page_bytes = int(PAGE_SHARE * BYTES_A_TOKEN * window.size)


class SummaryInBackground(Protocol):
    """A model summary that is written while the conversation continues; `trigger` is the reason."""

    trigger: Trigger

    @property
    def is_running(self) -> bool: ...

    def stands(self, folded: Folded) -> bool:
        """Return whether the conversation still begins with the messages that are summarized."""

    def state(self) -> BackgroundSummary:
        """Return its state for the pipeline."""

    def drop(self, why: str) -> None:
        """Cancel it, and record why it is not used."""

    async def end(self, why: str) -> None:
        """Drop it, and wait until its request has ended and is charged."""


class TurnContext(Struct):
    """The dependencies of a turn.

    settings          change only when the server rejects a feature or the user changes the model
    max_cost          no request is sent once the session has cost this many dollars
    jitter            a random number in 0..1 for the wait before a retry
    max_tries         attempts of a request that may succeed later
    summary_model     the model that writes summaries; "": the session's model
    fall_back         switches to the fallback model if this one stays overloaded; returns its id, used once
    sandbox           for commands; None: commands are judged as if there were no sandbox
    agents            starts agents; None: the session may not start any
    advises           a user at a terminal can follow the advice in a notice
    between_requests  awaited before a request that answers calls, to add prompts written in the meantime
    follows_memory    memory files in subdirectories are added when a file there is read
    asking            held during a request and a compaction; the model changes only in between
    background_summary  is written while the conversation continues; None: there is none
    """

    model: Model
    settings: RequestSettings
    tools: Mapping[str, Tool]
    tool_context: ToolContext
    approver: Approver
    hooks: Hooks | None
    clock: Clock
    permissions: PermissionStore
    compaction: CompactionState
    max_turns: int | None = None
    max_cost: float | None = None
    jitter: Callable[[], float] = lambda: 0.5
    max_tries: int = MAX_TRIES
    summary_model: str = ""
    fall_back: Callable[[], Awaitable[str]] | None = None
    checkpoints: Checkpoints | None = None
    sandbox: SessionSandbox | None = None
    agents: AgentPool | None = None
    advises: bool = True
    between_requests: Callable[[], Awaitable[None]] | None = None
    follows_memory: bool = True
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    background_summary: SummaryInBackground | None = None

    def __post_init__(self) -> None:
        self.asking = asyncio.Lock()  # a copy also has its own
        self.background_summary = None

    def limit_window(self, tokens: int) -> None:
        """Plan for a window that the server reports to be smaller than assumed, and remember its size."""
        state = self.compaction
        if tokens < state.window.size:
            most = min(self.settings.max_tokens, output_room(tokens))
            self.settings = replace(self.settings, max_tokens=most)
            state.use_window(ContextWindow(tokens, most))
            state.learn_window(tokens)
            state.window_source = "the server's response"


class ActiveSession(NamedTuple):
    """A session and the context of its turns."""

    session: Session
    context: TurnContext
