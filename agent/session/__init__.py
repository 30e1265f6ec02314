"""One session: its facts, prompts and environment, and the sessions on disk."""

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .conversation import conversation_text, load_conversation, prompt_texts
    from .environment import (
        OPEN_MODE,
        TYPED_LINE,
        BranchWatch,
        environment_context,
        news_of_environment,
        news_of_pins,
        note_news,
        post_planning,
        restore_news,
    )
    from .memory_files import (
        MAX_MEMORY_CHARS,
        MEMORY_HEAD,
        is_cut,
        memory_below,
        memory_of,
        memory_paths,
        memory_text,
        passed_over,
        read_memory,
        repository_folders,
        unread_memory,
    )
    from .mentions import AttachLimits, attach, find_mentions
    from .plan_and_todo import newest_plan, newest_todos, todo_lines
    from .repository import SessionRepository, load_deferred
    from .session import NESTED_TOPIC, Session, calls_of, record_opening, text_of_reply
    from .session_replay import show_replayed
    from .skill_texts import (
        KEPT_CHARS_PER_TOKEN,
        MAX_KEPT_SHARE,
        SKILL_TOOL,
        SKILLS_HEAD,
        instructions_text,
        kept_instructions,
        skills_in_use,
        skills_section,
    )
    from .system_prompts import (
        RECORDS_TEXT,
        SAFETY_RULES,
        SANDBOX_AND_RECORDS_TEXT,
        SANDBOX_TEXT,
        TEXTS_WITHOUT_SANDBOX,
        system_prompt,
        tool_contracts,
        with_command_text,
    )

__all__ = [
    "KEPT_CHARS_PER_TOKEN",
    "MAX_KEPT_SHARE",
    "MAX_MEMORY_CHARS",
    "MEMORY_HEAD",
    "NESTED_TOPIC",
    "OPEN_MODE",
    "RECORDS_TEXT",
    "SAFETY_RULES",
    "SANDBOX_AND_RECORDS_TEXT",
    "SANDBOX_TEXT",
    "SKILLS_HEAD",
    "SKILL_TOOL",
    "TEXTS_WITHOUT_SANDBOX",
    "TYPED_LINE",
    "AttachLimits",
    "BranchWatch",
    "Session",
    "SessionRepository",
    "attach",
    "calls_of",
    "conversation_text",
    "environment_context",
    "find_mentions",
    "instructions_text",
    "is_cut",
    "kept_instructions",
    "load_conversation",
    "load_deferred",
    "memory_below",
    "memory_of",
    "memory_paths",
    "memory_text",
    "newest_plan",
    "newest_todos",
    "news_of_environment",
    "news_of_pins",
    "note_news",
    "passed_over",
    "post_planning",
    "prompt_texts",
    "read_memory",
    "record_opening",
    "repository_folders",
    "restore_news",
    "show_replayed",
    "skills_in_use",
    "skills_section",
    "system_prompt",
    "text_of_reply",
    "todo_lines",
    "tool_contracts",
    "unread_memory",
    "with_command_text",
]
__getattr__ = lazy_door(
    __name__,
    {
        "conversation": "conversation_text load_conversation prompt_texts",
        "environment": (
            "BranchWatch OPEN_MODE TYPED_LINE environment_context news_of_environment news_of_pins "
            "note_news post_planning restore_news"
        ),
        "memory_files": (
            "MAX_MEMORY_CHARS MEMORY_HEAD is_cut memory_below memory_of memory_paths memory_text "
            "passed_over read_memory repository_folders unread_memory"
        ),
        "mentions": "AttachLimits attach find_mentions",
        "plan_and_todo": "newest_plan newest_todos todo_lines",
        "repository": "SessionRepository load_deferred",
        "session": "NESTED_TOPIC Session calls_of record_opening text_of_reply",
        "session_replay": "show_replayed",
        "skill_texts": (
            "KEPT_CHARS_PER_TOKEN MAX_KEPT_SHARE SKILLS_HEAD SKILL_TOOL instructions_text "
            "kept_instructions skills_in_use skills_section"
        ),
        "system_prompts": (
            "RECORDS_TEXT SAFETY_RULES SANDBOX_AND_RECORDS_TEXT SANDBOX_TEXT TEXTS_WITHOUT_SANDBOX "
            "system_prompt tool_contracts with_command_text"
        ),
    },
)
