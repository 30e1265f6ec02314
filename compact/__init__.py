"""Plan what leaves the context: `plan(situation, trigger)` returns edits. Pure."""

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .breakpoints import cache_breakpoints
    from .clearing import call_label, is_placeholder, is_replaced, recall_id, strike_edits
    from .estimate import Calibration
    from .identifiers import MIN_LINE_CHARS, OLD_TEXT_ARGUMENTS, block_texts, joined_text, names, strings
    from .invariants import fact_at, problems
    from .layers.summary import SUMMARY_LAYER
    from .local_summary import pins_of
    from .page_references import pages_referred_to
    from .pipeline import REACTIVE_RUNGS, dry_run, plan, quiet_below
    from .prices import PriceList, Prices, Spending
    from .replacement import COMMANDS_HEADING, PINS_HEADING
    from .report import (
        LAYERS_TOLD,
        compaction_notice,
        is_told,
        largest_blocks_sentence,
        largest_parts,
        part_label,
        predicted_and_real_cost,
        propose,
        rewrite_told,
        shown_id,
    )
    from .restoring import ClearedText, FileTouch, PutBackRules, cleared_texts, put_back
    from .settings import POLICY_NAMES, CompactSettings, ContextWindow, WindowState
    from .situation import (
        CompactionPlan,
        Flow,
        Proposal,
        Situation,
        SummaryReply,
        SummaryRequest,
        Trigger,
        finish_plan,
    )
    from .summary_prompt import summary_messages
    from .tokens import TokenCounter, load_counter
    from .trim import trim_page
    from .uncompact import CannotUndo, Evicted, evicted, in_force, plan_undo

__all__ = [
    "COMMANDS_HEADING",
    "LAYERS_TOLD",
    "MIN_LINE_CHARS",
    "OLD_TEXT_ARGUMENTS",
    "PINS_HEADING",
    "POLICY_NAMES",
    "REACTIVE_RUNGS",
    "SUMMARY_LAYER",
    "Calibration",
    "CannotUndo",
    "ClearedText",
    "CompactSettings",
    "CompactionPlan",
    "ContextWindow",
    "Evicted",
    "FileTouch",
    "Flow",
    "PriceList",
    "Prices",
    "Proposal",
    "PutBackRules",
    "Situation",
    "Spending",
    "SummaryReply",
    "SummaryRequest",
    "TokenCounter",
    "Trigger",
    "WindowState",
    "block_texts",
    "cache_breakpoints",
    "call_label",
    "cleared_texts",
    "compaction_notice",
    "dry_run",
    "evicted",
    "fact_at",
    "finish_plan",
    "in_force",
    "is_placeholder",
    "is_replaced",
    "is_told",
    "joined_text",
    "largest_blocks_sentence",
    "largest_parts",
    "load_counter",
    "names",
    "pages_referred_to",
    "part_label",
    "pins_of",
    "plan",
    "plan_undo",
    "predicted_and_real_cost",
    "problems",
    "propose",
    "put_back",
    "quiet_below",
    "recall_id",
    "rewrite_told",
    "shown_id",
    "strike_edits",
    "strings",
    "summary_messages",
    "trim_page",
]
__getattr__ = lazy_door(
    __name__,
    {
        "breakpoints": "cache_breakpoints",
        "clearing": "call_label is_placeholder is_replaced recall_id strike_edits",
        "estimate": "Calibration",
        "identifiers": "MIN_LINE_CHARS OLD_TEXT_ARGUMENTS block_texts joined_text names strings",
        "invariants": "fact_at problems",
        "layers.summary": "SUMMARY_LAYER",
        "local_summary": "pins_of",
        "page_references": "pages_referred_to",
        "pipeline": "REACTIVE_RUNGS dry_run plan quiet_below",
        "prices": "PriceList Prices Spending",
        "replacement": "COMMANDS_HEADING PINS_HEADING",
        "report": (
            "LAYERS_TOLD compaction_notice is_told largest_blocks_sentence largest_parts part_label "
            "predicted_and_real_cost propose rewrite_told shown_id"
        ),
        "restoring": "ClearedText FileTouch PutBackRules cleared_texts put_back",
        "settings": "POLICY_NAMES CompactSettings ContextWindow WindowState",
        "situation": "CompactionPlan Flow Proposal Situation SummaryReply SummaryRequest Trigger finish_plan",
        "summary_prompt": "summary_messages",
        "tokens": "TokenCounter load_counter",
        "trim": "trim_page",
        "uncompact": "CannotUndo Evicted evicted in_force plan_undo",
    },
)
