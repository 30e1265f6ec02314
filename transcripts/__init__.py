"""Append facts, fold them to a view, find them again. Every prefix of a transcript folds."""
# mypy: implicit-reexport

from typing import TYPE_CHECKING

from .lazy_door import lazy_door

if TYPE_CHECKING:
    from .channel import Channel
    from .edits import earliest_seq
    from .entries import Entry, Exchange, Prompt
    from .errors import FromElsewhere, SessionInUse, StoreError
    from .facts import (
        NEWS_TOPIC,
        TAIL_TOPIC,
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
        about_remarks,
    )
    from .file_states import RECORD_FOLDERS
    from .folding import FactTrail, Folded, RequestSize, fold
    from .listing import FORK_TOPIC, ProjectRecords, SessionSummary
    from .load import (
        KnownStart,
        LazyResults,
        LoadedTranscript,
        ReadStart,
        read_transcript,
        without_garbage_collection,
    )
    from .load_cache import CacheThread, read_known_start
    from .messages import (
        INVALID_JSON,
        PHASE,
        PUT_BACK_START,
        SKILL_START,
        UNSIGNED,
        Block,
        CacheMiss,
        ChannelBlock,
        DataTag,
        ImageBlock,
        RedactedThinkingBlock,
        TextBlock,
        ThinkingBlock,
        ToolResultBlock,
        ToolUseBlock,
        UnknownBlock,
        Usage,
        attached,
        block_from_json,
        blocks_from_json,
        blocks_of_user,
        check_shape,
        hook_words,
        injected,
        map_strings,
        own_words,
        paste_label,
        quoted,
        replace_surrogates,
        split_pastes,
        unquoted_data,
        with_paste_labels,
        without_injected,
    )
    from .originals import NOTHING_SAID, Originals, Scope, is_recall_id
    from .patches import PATCH_START, file_patches
    from .records_guard import RecordsGuard
    from .recovery import recover_transcripts
    from .render_text import (
        INVISIBLE,
        JOINERS,
        block_text,
        content_text,
        fact_text,
        first_words,
        format_age,
        is_harmless,
    )
    from .server_calls import finished_results, server_call_of
    from .session_key import SessionKey
    from .session_lock import RECORDS_FOLDER, ensure_private_folder, lock_holder
    from .store import Store
    from .stored_outputs import OutputsFolder
    from .tool_kinds import (
        RECALLED_KEY,
        ToolKind,
        is_deferred_tool,
        is_server_tool,
        same_tools,
        tool_kind,
        visible_definition,
    )
    from .view import CALL_ID_TOKENS, MESSAGE_TOKENS, Message, Part, PartKind, View, to_json_bytes

__getattr__ = lazy_door(
    __name__,
    {
        "channel": "Channel",
        "edits": "earliest_seq",
        "entries": "Entry Exchange Prompt",
        "errors": "FromElsewhere SessionInUse StoreError",
        "facts": (
            "Clear Closed Compacted Edit Fact Failed Fold Instructed Metadata NEWS_TOPIC Opened Reply "
            "TAIL_TOPIC "
            "RequestSent Result Rewound Started StoredOutput Undone Unthink User about_changed about_remarks"
        ),
        "file_states": "RECORD_FOLDERS",
        "folding": "FactTrail Folded RequestSize fold",
        "listing": "FORK_TOPIC ProjectRecords SessionSummary",
        "load": (
            "KnownStart LazyResults LoadedTranscript ReadStart read_transcript without_garbage_collection"
        ),
        "load_cache": "CacheThread read_known_start",
        "messages": (
            "attached Block block_from_json blocks_from_json "
            "CacheMiss ChannelBlock DataTag "
            "check_shape hook_words ImageBlock injected INVALID_JSON "
            "map_strings own_words paste_label "
            "PUT_BACK_START quoted RedactedThinkingBlock replace_surrogates blocks_of_user "
            "SKILL_START split_pastes TextBlock ThinkingBlock ToolResultBlock ToolUseBlock UnknownBlock "
            "unquoted_data PHASE UNSIGNED Usage with_paste_labels without_injected"
        ),
        "originals": "NOTHING_SAID Originals Scope is_recall_id",
        "patches": "PATCH_START file_patches",
        "records_guard": "RecordsGuard",
        "recovery": "recover_transcripts",
        "render_text": (
            "INVISIBLE JOINERS block_text content_text fact_text first_words format_age is_harmless"
        ),
        "server_calls": "finished_results server_call_of",
        "session_key": "SessionKey",
        "session_lock": "RECORDS_FOLDER ensure_private_folder lock_holder",
        "store": "Store",
        "stored_outputs": "OutputsFolder",
        "tool_kinds": (
            "RECALLED_KEY ToolKind is_deferred_tool is_server_tool same_tools tool_kind visible_definition"
        ),
        "view": "CALL_ID_TOKENS MESSAGE_TOKENS Message Part PartKind View to_json_bytes",
    },
)
