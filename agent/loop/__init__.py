"""Run a turn: `run_turn(session, context, emit)`, its executor, and compaction of a live session."""
# mypy: implicit-reexport

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .agent_pool import AGENT_TOPIC, LATE_HEAD, Agent, AgentPool, Place, late_report
    from .compaction import (
        CompactionRequest,
        begin_summary_if_due,
        compact_context,
        off_loop,
        request_compaction,
        situation_of,
        tokens_when_cold,
    )
    from .context import ActiveSession, CompactionState, TurnContext
    from .cost_preview import OTHER_MODEL, show_cold_cost, show_prompt_cost, show_resumed
    from .embedded_commands import StoppedByUser, embedded_output
    from .model_call import prompt_tokens
    from .session_sandbox import SessionSandbox
    from .summary_call import end_background_summary
    from .touched_files import (
        ATTACHED_TOPIC,
        NO_ADDITIONS,
        PromptAdditions,
        attached_files,
        memory_sent_below,
        note_files,
        post_memory_below,
        text_named,
        track_blocks,
    )
    from .turn import run_turn
    from .unknown_tools import same_tool

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
