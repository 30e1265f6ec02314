"""Run a turn: `run_turn(session, context, emit)`, its executor, and compaction of a live session."""
# mypy: implicit-reexport

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .agent_pool import *
    from .compaction import *
    from .context import *
    from .cost_preview import *
    from .embedded_commands import *
    from .model_call import *
    from .session_sandbox import *
    from .summary_call import *
    from .touched_files import *
    from .turn import *
    from .unknown_tools import *

__getattr__ = lazy_door(
    __name__,
    {
        "agent_pool": "AGENT_TOPIC Agent AgentPool LATE_HEAD Place late_report",
        "compaction": (
            "CompactionRequest begin_summary_if_due compact_context off_loop request_compaction situation_of "
            "tokens_when_cold"
        ),
        "context": "ActiveSession CompactionState TurnContext",
        "cost_preview": "OTHER_MODEL show_resumed show_cold_cost show_prompt_cost",
        "embedded_commands": "StoppedByUser embedded_output",
        "model_call": "prompt_tokens",
        "session_sandbox": "SessionSandbox",
        "summary_call": "end_background_summary",
        "touched_files": (
            "ATTACHED_TOPIC NO_ADDITIONS PromptAdditions attached_files memory_sent_below "
            "note_files post_memory_below text_named track_blocks"
        ),
        "turn": "run_turn",
        "unknown_tools": "same_tool",
    },
)
