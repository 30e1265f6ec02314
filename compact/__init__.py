"""Plan what leaves the context: `plan(situation, trigger)` returns edits. Pure."""

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .breakpoints import MAX_APPENDED_BLOCKS, cache_breakpoints
    from .clearing import call_label, is_placeholder, is_replaced, recall_id, strike_edits
    from .estimate import Calibration, calibrate, context_tokens, overhead_tokens, slope_of
    from .identifiers import MIN_LINE_CHARS, OLD_TEXT_ARGUMENTS, block_texts, joined_text, names, strings
    from .invariants import fact_at, problems
    from .layers.summary import SUMMARY_LAYER
    from .local_summary import pins_of
    from .page_references import pages_referred_to
    from .pipeline import MIN_SHOWN_COST_USD, REACTIVE_RUNGS, dry_run, plan, quiet_below
    from .prices import PRICE_TIERS, PriceList, Prices, Spending
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
    from .settings import (
        DEFAULTS,
        HOUR_TTL_S,
        POLICY_NAMES,
        CompactSettings,
        ContextWindow,
        WindowState,
        known_settings,
        percent,
        setting_form,
        settings_from,
        state_of,
        trigger_of,
    )
    from .situation import (
        CompactionPlan,
        Flow,
        Proposal,
        Situation,
        SummaryReply,
        SummaryRequest,
        Trigger,
        WorkedOut,
        finish_plan,
    )
    from .summary_prompt import TOO_LONG, summary_messages
    from .tokens import TokenCounter, load_counter
    from .trim import MIN_TRIMMED_CHARS, trim_page
    from .uncompact import CannotUndo, Evicted, evicted, in_force, plan_undo

__all__ = [
    "COMMANDS_HEADING",
    "DEFAULTS",
    "HOUR_TTL_S",
    "LAYERS_TOLD",
    "MAX_APPENDED_BLOCKS",
    "MIN_LINE_CHARS",
    "MIN_SHOWN_COST_USD",
    "MIN_TRIMMED_CHARS",
    "OLD_TEXT_ARGUMENTS",
    "PINS_HEADING",
    "POLICY_NAMES",
    "PRICE_TIERS",
    "REACTIVE_RUNGS",
    "SUMMARY_LAYER",
    "TOO_LONG",
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
    "WorkedOut",
    "block_texts",
    "cache_breakpoints",
    "calibrate",
    "call_label",
    "cleared_texts",
    "compaction_notice",
    "context_tokens",
    "dry_run",
    "evicted",
    "fact_at",
    "finish_plan",
    "in_force",
    "is_placeholder",
    "is_replaced",
    "is_told",
    "joined_text",
    "known_settings",
    "largest_blocks_sentence",
    "largest_parts",
    "load_counter",
    "names",
    "overhead_tokens",
    "pages_referred_to",
    "part_label",
    "percent",
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
    "setting_form",
    "settings_from",
    "shown_id",
    "slope_of",
    "state_of",
    "strike_edits",
    "strings",
    "summary_messages",
    "trigger_of",
    "trim_page",
]
__getattr__ = lazy_door(
    __name__,
    {
        "breakpoints": "MAX_APPENDED_BLOCKS cache_breakpoints",
        "clearing": "call_label is_placeholder is_replaced recall_id strike_edits",
        "page_references": "pages_referred_to",
        "identifiers": "MIN_LINE_CHARS OLD_TEXT_ARGUMENTS block_texts joined_text names strings",
        "invariants": "fact_at problems",
        "layers.summary": "SUMMARY_LAYER",
        "local_summary": "pins_of",
        "pipeline": "MIN_SHOWN_COST_USD REACTIVE_RUNGS dry_run plan quiet_below",
        "prices": "PRICE_TIERS PriceList Prices Spending",
        "report": (
            "LAYERS_TOLD compaction_notice is_told largest_blocks_sentence largest_parts part_label "
            "predicted_and_real_cost propose rewrite_told shown_id"
        ),
        "restoring": "ClearedText FileTouch PutBackRules cleared_texts put_back",
        "settings": (
            "CompactSettings ContextWindow DEFAULTS HOUR_TTL_S WindowState known_settings percent "
            "POLICY_NAMES setting_form settings_from state_of trigger_of"
        ),
        "situation": (
            "CompactionPlan Flow Proposal Situation SummaryReply SummaryRequest Trigger WorkedOut finish_plan"
        ),
        "summary_prompt": "TOO_LONG summary_messages",
        "replacement": "COMMANDS_HEADING PINS_HEADING",
        "estimate": "Calibration calibrate context_tokens overhead_tokens slope_of",
        "tokens": "TokenCounter load_counter",
        "trim": "MIN_TRIMMED_CHARS trim_page",
        "uncompact": "CannotUndo Evicted evicted in_force plan_undo",
    },
)
