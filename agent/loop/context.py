"""The parts that a turn works with, chosen and joined in build.py and handed over as one value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agent.model.anthropic.request import RequestFrame
from agent.permissions.permission_store import PermissionStore
from agent.ports import Approver, CheckpointRecorder, Clock, Hooks, Model
from agent.session.session import Session
from compact.plan import Situation
from compact.prices import Prices
from compact.settings import CompactSettings
from compact.tokens import TokenCounter, calibrate
from compact.window import ContextWindow
from tools.base import Tool, ToolContext


@dataclass(slots=True)
class CompactionState:
    """What the pipeline needs to know beside the conversation. Changes when the server teaches us.

    overhead  our count of system prompt and tools, in tokens
    binds     whether the model binds thinking to its prefix
    learned   called with a window that an error told, to remember it for this model and base URL
    """

    settings: CompactSettings
    window: ContextWindow
    prices: Prices
    counter: TokenCounter
    overhead: int
    binds: bool
    learned: Callable[[int], None] = lambda window: None
    reported: int = 0  # the size that the server named when it refused the last request, in tokens
    focus: str | None = None  # a compaction the model asked for, with its focus
    told: str = ""  # what was last told of the automatic summary, so that it is told once
    live: Callable[[], tuple[str, ...]] = tuple


@dataclass(slots=True)
class TurnContext:
    """Everything a turn needs of the world. `frame` changes only when the server refuses a field."""

    model: Model
    frame: RequestFrame
    tools: Mapping[str, Tool]
    tool_context: ToolContext
    approver: Approver
    hooks: Hooks
    clock: Clock
    permissions: PermissionStore
    compaction: CompactionState
    max_turns: int | None = None
    max_cost: float | None = None  # dollars that the session may have cost before another request goes out
    jitter: Callable[[], float] = lambda: 0.5
    checkpoints: CheckpointRecorder | None = None

    def situation(self, session: Session) -> Situation:
        """The session as the pipeline sees it now."""
        room = self.compaction
        return Situation(
            folded=session.folded,
            settings=room.settings,
            window=room.window,
            prices=room.prices,
            now=self.clock.now(),
            overhead=room.overhead,
            fit=calibrate(session.folded.measures),
            binds=room.binds,
            count=room.counter,
            live=room.live(),
            outputs=self._outputs(session.sid),
            reported=room.reported,
        )

    def _outputs(self, sid: str) -> str:
        """How the paths of this session's stored outputs begin, as the tools find them.

        Numbers of facts begin anew in each session, and all sessions of a project share the folder.
        """
        folder, ours = self.tool_context.folder, self.tool_context.outputs
        shown = ours.relative_to(folder) if ours.is_relative_to(folder) else ours
        return f"{shown / sid}-"
