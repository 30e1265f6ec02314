"""The context of a turn, chosen in the composition root and handed over as one value."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from agent.checkpoints import Checkpoints
from agent.model import MAX_TRIES
from agent.model_port import Model, RequestSettings, output_room
from agent.permissions import PermissionStore
from agent.ports import Approver, Clock, Hooks
from agent.session import Session
from compact import CompactSettings, ContextWindow, Prices, TokenCounter, quiet_below
from tools.base import Tool, ToolContext

from .agent_pool import AgentPool
from .session_sandbox import SessionSandbox

PAGE_SHARE = 0.2  # of the window
BYTES_A_TOKEN = 3.5  # of code, by the counts of the models that are served
MIN_TOLD_DOLLARS = 0.05  # of a request, from which on it is told of before it is sent


class CompactionState(Struct):
    """The circumstances of compaction besides the conversation. They change when the server corrects them.

    overhead         our count of system prompt and tools, in tokens
    binds            whether the model binds thinking to its prefix
    learn_window     called with a window that an error told, to remember it for this model and server
    window_source    in words, what told the size of the window; "" where it is a guess
    cuts_silently    the server cuts a prompt that is too long, and answers what is left
    requested_focus  the focus of a compaction that the model asked for; None: it asked for none
    told             the newest reason given for going without an automatic summary, so that it is given once
    billed           seq of the newest request after which what the next one costs was told already
    quiet_below      the sizes of the prompt and of its messages below which no layer acts unasked
    page_bytes       of what a tool that pages shows at once: a few pages stand side by side in the window
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
    told: str = ""
    billed: int = 0
    quiet_below: tuple[int, int] = (0, 0)
    page_bytes: int = 0

    def __post_init__(self) -> None:
        self.use_window(self.window)

    def request(self, focus: str) -> None:
        """Have a compaction made before the next request; `focus` is what to keep in detail."""
        self.requested_focus = focus

    def use_window(self, window: ContextWindow) -> None:
        """Plan for another window from now on."""
        self.window = window
        self.quiet_below = quiet_below(self.settings, window)
        self.page_bytes = int(PAGE_SHARE * BYTES_A_TOKEN * window.size)


class TurnContext(Struct):
    """The dependencies of a turn.

    settings    changes only when the server rejects a feature, or the person asks for another model
    fall_back   changes to the model that is there for when this one stays overloaded, and says which; once
    summary_model  the model that writes summaries; "" for the one that is talked to
    max_tries   of a request that may succeed later
    max_cost    dollars that the session may have cost before another request goes out
    jitter      a random number in 0..1 for the wait before a retry
    advises     somebody at a terminal could do what a notice advises
    wall        around commands; None: they are judged as if there were none
    agents      that the session may start; None: it may start none
    between_requests  awaited before a request that answers calls: what was said meanwhile goes with it
    follows_memory  whether memory files of folders below the project's are told with what is read there
    asking      held while a request is answered or room is made: the model changes only between
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

    def __post_init__(self) -> None:
        self.asking = asyncio.Lock()  # a copy has one of its own, too

    def limit_window(self, tokens: int) -> None:
        """A server told that its window is smaller than was thought: plan for it, and remember it."""
        state = self.compaction
        if tokens < state.window.size:
            most = min(self.settings.max_tokens, output_room(tokens))
            self.settings = replace(self.settings, max_tokens=most)
            state.use_window(ContextWindow(tokens, most))
            state.learn_window(tokens)
            state.window_source = "what the server answered"


ActiveSession = tuple[Session, TurnContext]
"""A session and what its turns work with."""
