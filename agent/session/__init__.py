"""One session: its facts, prompts and environment, and the sessions on disk."""
# mypy: implicit-reexport

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .deferred_results import *
    from .environment import *
    from .late_news import *
    from .memory_files import *
    from .plan_and_todo import *
    from .repository import *
    from .repository_state import *
    from .session import *
    from .session_replay import *
    from .skill_texts import *
    from .system_prompts import *

__getattr__ = lazy_door(
    __name__,
    {
        "deferred_results": "fetch_deferred fetch_results prepare_rewind",
        "environment": (
            "Environment environment_context environment_news is_told_environment post_command_text "
            "post_planning"
        ),
        "late_news": "note_news restore_news telling_facts",
        "memory_files": (
            "cut_after memory_above memory_below memory_of memory_path_of memory_text MemoryPlaces "
            "repository_folders"
        ),
        "plan_and_todo": "newest_plan newest_todos todo_lines",
        "repository": "SessionRepository",
        "repository_state": "BranchWatch git_state",
        "session": "Session record_opening",
        "session_replay": "show_replayed show_rewound",
        "skill_texts": "hidden_instructions instructions_text kept_chars kept_instructions skills_section",
        "system_prompts": (
            "agent_prompt channel_rules command_text prompt_part system_prompt with_command_text"
        ),
    },
)
