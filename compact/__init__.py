"""Plan what leaves the context: `plan(situation, trigger)` returns edits. Pure."""
# mypy: implicit-reexport

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .breakpoints import cache_breakpoints
    from .clearing import call_label, clear_candidates, placeholder_edit
    from .context_figures import ContextReport, context_report
    from .dropping import plan_drop
    from .estimate import Calibration
    from .identifiers import MIN_LINE_CHARS, OLD_TEXT_ARGUMENTS, block_texts, joined_text, names, strings
    from .invariants import fact_at, problems
    from .layers.summary import SUMMARY_LAYER
    from .local_summary import (
        AccountsMissing,
        pins_of,
        without_long_accounts,
    )
    from .page_references import (
        is_result_id,
        pages_referred_to,
        with_resolved_references,
        with_result_id,
    )
    from .patches import old_texts, patched_text
    from .pipeline import REACTIVE_RUNGS, dry_run, plan, quiet_below
    from .preparation import Preparation
    from .prices import NEVER_PAYS_BACK, PriceList, Prices, Spending
    from .replacement import COMMANDS_HEADING, DIRECTORY_HEADING, PINS_HEADING
    from .report import ANNOUNCED_LAYERS, COLD_RETURN, compaction_notice, is_announced, propose, rewrite_note
    from .request_bills import UNUSED_SUMMARY, BilledAgain, RequestBill, explain_requests
    from .restoring import FileTouch, NeededText, PutBackRules
    from .server_cache import learned_prices
    from .settings import POLICY_NAMES, CompactSettings, ContextWindow, WindowState
    from .shown_blocks import ShownBlock, largest_blocks, largest_blocks_sentence
    from .situation import (
        BackgroundSummary,
        CannotChange,
        CompactionPlan,
        Flow,
        Proposal,
        Situation,
        SummaryReply,
        SummaryRequest,
        Trigger,
        finish_plan,
    )
    from .summary_prompt import summary_messages, summary_usage
    from .tokens import TokenCounter, load_counter
    from .trim import trim_page
    from .uncompact import Evicted, evicted, in_force, plan_undo

__getattr__ = lazy_door(
    __name__,
    {
        "breakpoints": "cache_breakpoints",
        "clearing": "call_label clear_candidates placeholder_edit",
        "context_figures": "ContextReport context_report",
        "dropping": "plan_drop",
        "estimate": "Calibration",
        "identifiers": "MIN_LINE_CHARS OLD_TEXT_ARGUMENTS block_texts joined_text names strings",
        "invariants": "fact_at problems",
        "layers.summary": "SUMMARY_LAYER",
        "local_summary": ("AccountsMissing pins_of without_long_accounts"),
        "patches": "old_texts patched_text",
        "page_references": "is_result_id pages_referred_to with_resolved_references with_result_id",
        "pipeline": "REACTIVE_RUNGS dry_run plan quiet_below",
        "preparation": "Preparation",
        "prices": "NEVER_PAYS_BACK PriceList Prices Spending",
        "replacement": "COMMANDS_HEADING DIRECTORY_HEADING PINS_HEADING",
        "report": "COLD_RETURN ANNOUNCED_LAYERS compaction_notice is_announced propose rewrite_note",
        "request_bills": "UNUSED_SUMMARY BilledAgain RequestBill explain_requests",
        "restoring": "FileTouch NeededText PutBackRules",
        "server_cache": "learned_prices",
        "settings": "POLICY_NAMES CompactSettings ContextWindow WindowState",
        "shown_blocks": "ShownBlock largest_blocks largest_blocks_sentence",
        "situation": (
            "BackgroundSummary CannotChange CompactionPlan Flow Proposal Situation SummaryReply "
            "SummaryRequest Trigger finish_plan"
        ),
        "summary_prompt": "summary_messages summary_usage",
        "tokens": "TokenCounter load_counter",
        "trim": "trim_page",
        "uncompact": "Evicted evicted in_force plan_undo",
    },
)
