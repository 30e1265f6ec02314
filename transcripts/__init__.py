"""Append facts, fold them to a view, find them again. Every prefix of a transcript folds."""

from typing import TYPE_CHECKING

from .lazy_door import lazy_door

if TYPE_CHECKING:
    from .edits import earliest_seq
    from .entries import Entry, Exchange, Prompt
    from .errors import SessionInUse, StoreError
    from .facts import (
        NEWS_TOPIC,
        Clear,
        Closed,
        Compacted,
        Edit,
        Fact,
        Failed,
        Fold,
        Instructed,
        Metadata,
        Opened,
        Reply,
        RequestSent,
        Result,
        Rewound,
        Started,
        StoredOutput,
        Undone,
        Unthink,
        User,
        about_changed,
        about_said,
    )
    from .file_states import RECORD_FOLDERS
    from .folding import Charge, Folded, RequestSize, fold
    from .listing import FORK_TOPIC, ProjectRecords, SessionSummary
    from .load import LazyResults, LoadedTranscript, read_transcript
    from .messages import (
        INVALID_JSON,
        PUT_BACK_START,
        SKILL_START,
        UNSIGNED,
        Block,
        ImageBlock,
        RedactedThinkingBlock,
        TextBlock,
        ThinkingBlock,
        ToolResultBlock,
        ToolUseBlock,
        UnknownBlock,
        Usage,
        attached,
        attachment_of,
        block_from_json,
        block_to_json,
        blocks_from_json,
        check_shape,
        hook_words,
        injected,
        injected_skill,
        injected_text,
        is_put_back,
        is_thinking,
        map_strings,
        own_words,
        replace_surrogates,
        said_by_user,
        without_injected,
    )
    from .originals import NOTHING_SAID, Originals, Scope, is_recall_id
    from .records_guard import RecordsGuard
    from .recovery import recover_transcripts
    from .render_text import (
        INVISIBLE,
        JOINERS,
        block_text,
        call_of,
        content_text,
        fact_text,
        first_words,
        format_age,
        is_harmless,
        speaker_of,
    )
    from .server_calls import finished_results, server_call_of
    from .session_lock import RECORDS_FOLDER, ensure_private_folder, lock_holder
    from .store import Store, create_store, resume_store
    from .stored_outputs import OutputsFolder
    from .tool_kinds import RECALLED_KEY, ToolKind, is_server_tool, same_tools, tool_kind, visible_definition
    from .view import CALL_ID_TOKENS, MESSAGE_TOKENS, Message, Part, PartKind, View, to_json_bytes
    from .view_renderer import image_tokens

__all__ = [
    "CALL_ID_TOKENS",
    "FORK_TOPIC",
    "INVALID_JSON",
    "INVISIBLE",
    "JOINERS",
    "MESSAGE_TOKENS",
    "NEWS_TOPIC",
    "NOTHING_SAID",
    "PUT_BACK_START",
    "RECALLED_KEY",
    "RECORDS_FOLDER",
    "RECORD_FOLDERS",
    "SKILL_START",
    "UNSIGNED",
    "Block",
    "Charge",
    "Clear",
    "Closed",
    "Compacted",
    "Edit",
    "Entry",
    "Exchange",
    "Fact",
    "Failed",
    "Fold",
    "Folded",
    "ImageBlock",
    "Instructed",
    "LazyResults",
    "LoadedTranscript",
    "Message",
    "Metadata",
    "Opened",
    "Originals",
    "OutputsFolder",
    "Part",
    "PartKind",
    "ProjectRecords",
    "Prompt",
    "RecordsGuard",
    "RedactedThinkingBlock",
    "Reply",
    "RequestSent",
    "RequestSize",
    "Result",
    "Rewound",
    "Scope",
    "SessionInUse",
    "SessionSummary",
    "Started",
    "Store",
    "StoreError",
    "StoredOutput",
    "TextBlock",
    "ThinkingBlock",
    "ToolKind",
    "ToolResultBlock",
    "ToolUseBlock",
    "Undone",
    "UnknownBlock",
    "Unthink",
    "Usage",
    "User",
    "View",
    "about_changed",
    "about_said",
    "attached",
    "attachment_of",
    "block_from_json",
    "block_text",
    "block_to_json",
    "blocks_from_json",
    "call_of",
    "check_shape",
    "content_text",
    "create_store",
    "earliest_seq",
    "ensure_private_folder",
    "fact_text",
    "finished_results",
    "first_words",
    "fold",
    "format_age",
    "hook_words",
    "image_tokens",
    "injected",
    "injected_skill",
    "injected_text",
    "is_harmless",
    "is_put_back",
    "is_recall_id",
    "is_server_tool",
    "is_thinking",
    "lock_holder",
    "map_strings",
    "own_words",
    "read_transcript",
    "recover_transcripts",
    "replace_surrogates",
    "resume_store",
    "said_by_user",
    "same_tools",
    "server_call_of",
    "speaker_of",
    "to_json_bytes",
    "tool_kind",
    "visible_definition",
    "without_injected",
]
__getattr__ = lazy_door(
    __name__,
    {
        "edits": "earliest_seq",
        "entries": "Entry Exchange Prompt",
        "errors": "SessionInUse StoreError",
        "facts": (
            "Clear Closed Compacted Edit Fact Failed Fold Instructed Metadata NEWS_TOPIC Opened Reply "
            "RequestSent Result Rewound Started StoredOutput Undone Unthink User about_changed about_said"
        ),
        "file_states": "RECORD_FOLDERS",
        "folding": "Charge Folded RequestSize fold",
        "listing": "FORK_TOPIC ProjectRecords SessionSummary",
        "load": "LazyResults LoadedTranscript read_transcript",
        "messages": (
            "Block INVALID_JSON ImageBlock PUT_BACK_START RedactedThinkingBlock SKILL_START TextBlock "
            "ThinkingBlock ToolResultBlock ToolUseBlock UNSIGNED UnknownBlock Usage attached attachment_of "
            "block_from_json block_to_json blocks_from_json check_shape hook_words injected injected_skill "
            "injected_text is_put_back is_thinking map_strings own_words replace_surrogates said_by_user "
            "without_injected"
        ),
        "originals": "NOTHING_SAID Originals Scope is_recall_id",
        "records_guard": "RecordsGuard",
        "recovery": "recover_transcripts",
        "render_text": (
            "INVISIBLE JOINERS block_text call_of content_text fact_text first_words format_age "
            "is_harmless speaker_of"
        ),
        "server_calls": "finished_results server_call_of",
        "session_lock": "RECORDS_FOLDER ensure_private_folder lock_holder",
        "store": "Store create_store resume_store",
        "stored_outputs": "OutputsFolder",
        "tool_kinds": "RECALLED_KEY ToolKind is_server_tool same_tools tool_kind visible_definition",
        "view": "CALL_ID_TOKENS MESSAGE_TOKENS Message Part PartKind View to_json_bytes",
        "view_renderer": "image_tokens",
    },
)
