"""Append facts, fold them to a view, find them again. Every prefix of a transcript folds."""
# mypy: implicit-reexport

from typing import TYPE_CHECKING

from .lazy_door import lazy_door

if TYPE_CHECKING:
    from .answers import *
    from .channel import *
    from .data_tags import *
    from .edits import *
    from .entries import *
    from .errors import *
    from .facts import *
    from .file_states import *
    from .folding import *
    from .invisible import *
    from .listing import *
    from .load import *
    from .messages import *
    from .patches import *
    from .records_guard import *
    from .recovery import *
    from .render_text import *
    from .server_calls import *
    from .session_files import *
    from .session_lock import *
    from .store import *
    from .stored_outputs import *
    from .tool_kinds import *
    from .view import *

__getattr__ = lazy_door(
    __name__,
    {
        "answers": "answers_of joined_pieces newest_answer",
        "channel": "Channel",
        "data_tags": (
            "DataTag own_words paste_label quoted SKILL_START split_pastes unquoted_data with_paste_labels"
        ),
        "edits": "earliest_seq",
        "entries": "Entry Exchange Prompt",
        "errors": "FromElsewhere SessionInUse StoreError",
        "facts": (
            "Clear Closed Compacted Display Edit Fact Failed Fold Instructed Metadata Opened Reply "
            "RequestSent Result Rewound Started StoredOutput Undone Unthink User"
        ),
        "file_states": "RECORD_FOLDERS",
        "folding": "FactTrail Folded RequestSize fold",
        "invisible": "INVISIBLE JOINERS is_harmless",
        "listing": "ProjectRecords SessionSummary",
        "load": "LazyResults LoadedTranscript read_transcript without_garbage_collection",
        "messages": (
            "attached Block block_from_json blocks_from_json blocks_of_user CacheMiss "
            "ChannelBlock check_shape ImageBlock map_strings RedactedThinkingBlock "
            "replace_surrogates TextBlock ThinkingBlock ToolResultBlock ToolUseBlock UnknownBlock "
            "Usage"
        ),
        "patches": "PATCH_START file_patches",
        "records_guard": "RecordsGuard",
        "recovery": "recover_transcripts",
        "render_text": "block_text content_text fact_text first_words format_age",
        "server_calls": "finished_results server_call_of",
        "session_files": "SessionFiles",
        "session_lock": "RECORDS_FOLDER ensure_private_folder short_sid",
        "store": "Store",
        "stored_outputs": "OutputsFolder",
        "tool_kinds": ("ToolKind is_deferred_tool is_server_tool same_tools tool_kind visible_definition"),
        "view": "Message Part PartKind View to_json_bytes",
    },
)
