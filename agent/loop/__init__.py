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
    from .prompt_additions import *
    from .put_back import *
    from .sent_memory import *
    from .session_sandbox import *
    from .sliced_reading import *
    from .summary_call import *
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
        "prompt_additions": "ATTACHED_TOPIC NO_ADDITIONS PromptAdditions attached_files note_files",
        "put_back": "text_named",
        "sent_memory": "memory_sent_below post_memory_below",
        "session_sandbox": "SessionSandbox",
        "sliced_reading": "track_blocks",
        "summary_call": "end_background_summary",
        "turn": "run_turn",
        "unknown_tools": "same_tool",
    },
)
