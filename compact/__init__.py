"""Plan what leaves the context: `plan(situation, trigger)` returns edits. Pure."""
# mypy: implicit-reexport

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .breakpoints import *
    from .clearing import *
    from .context_report import *
    from .estimate import *
    from .identifiers import *
    from .invariants import *
    from .layers.summary import *
    from .local_summary import *
    from .notices import *
    from .page_references import *
    from .patches import *
    from .pipeline import *
    from .preparation import *
    from .prices import *
    from .replacement import *
    from .report import *
    from .request_bills import *
    from .restoring import *
    from .server_cache import *
    from .settings import *
    from .shown_blocks import *
    from .situation import *
    from .summary_prompt import *
    from .tokens import *
    from .uncompact import *

__getattr__ = lazy_door(
    __name__,
    {
        "breakpoints": "cache_breakpoints",
        "clearing": "call_label clear_candidates placeholder_edit",
        "context_report": "ContextReport",
        "estimate": "estimate_prompt overall_slope text_slope",
        "identifiers": "MIN_LINE_CHARS block_texts joined_text names strings",
        "invariants": "problems",
        "layers.summary": "SUMMARY_LAYER",
        "local_summary": ("AccountsMissing pins_of without_long_accounts"),
        "notices": "ANNOUNCED_LAYERS compaction_notice is_announced rewrite_note",
        "patches": "old_texts other_texts",
        "page_references": "is_result_id pages_referred_to with_resolved_references with_result_id",
        "pipeline": "REACTIVE_RUNGS dry_run plan quiet_below",
        "preparation": "Preparation",
        "prices": "PriceList Prices Spending",
        "replacement": "EnvironmentHeading",
        "report": "COLD_RETURN propose",
        "request_bills": "UNUSED_SUMMARY BilledAgain RequestBill",
        "restoring": "FileTouch NeededText PutBackRules",
        "server_cache": "describe_server_cache learned_prices",
        "settings": "POLICY_NAMES CompactSettings ContextWindow WindowState",
        "shown_blocks": "ShownBlock",
        "situation": (
            "BackgroundSummary CannotChange CompactionPlan Flow Proposal Situation SummaryReply "
            "SummaryRequest Trigger finish_plan"
        ),
        "summary_prompt": "summary_messages summary_usage",
        "tokens": "TokenCounter",
        "uncompact": "Evicted in_force plan_drop plan_undo",
    },
)
