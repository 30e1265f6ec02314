"""Define the limits of the compaction pipeline: settings, their [compact] table, and the context window."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

Policy = Literal["thrifty", "classic", "off"]
WARNING_PERCENT = 80
CRITICAL_PERCENT = 95
BLOCKING_PERCENT = 98
MIN_COMPACT_SHARE = 0.25  # of the window, below which no summary is made if min_compact_size is larger
POLICY_NAMES: tuple[Policy, ...] = get_args(Policy)


class CompactSettings(Struct, frozen=True):
    """Settings of the compaction pipeline: `policy` decides when the layers act, the rest are limits.

    The last word of a name is its unit: `_s` is seconds, tokens are the model's, a `_share` is a fraction
    of 1. "of the trigger" means of the size at which a summary is due.

    The defaults of budget, snip, micro, summary and restore are the constants of the classic reference
    pipeline. max_record_tokens and max_record_share were measured on 82 recorded summaries.
    """

    policy: Policy = "thrifty"
    enabled: bool = True  # False: only /compact and the reactive ladder, as with policy "off"
    trigger: int | None = None  # tokens at which a summary is due; None: by the policy and the window
    keep_recent_messages: int = 5  # kept verbatim as long as they fit; the last reactive rung shrinks them
    min_compact_size: int = 10_000  # tokens below which no summary is made; a quarter of a smaller window
    max_compact_size: int | None = None  # tokens that a compaction may leave
    reactive: bool = True
    collapse: bool = False

    budget_max_chars: int = 200_000  # of the results of one message
    budget_max_share: float = 0.25  # of the window, for the same results
    budget_preview_chars: int = 2_000
    budget_exempt: tuple[str, ...] = ()  # further tools; those that read or recall page by themselves

    snip_max_messages: int = 50
    snip_head_messages: int = 3
    snip_tail_messages: int = 47

    micro_keep_results: int = 3
    micro_min_chars: int = 120

    collapse_start_share: float = 0.5  # of the trigger, above which old segments are summarized
    collapse_segment_tokens: int = 10_000

    classic_trigger_tokens: int = 50_000
    classic_trigger_share: float = 0.80  # of the window
    trigger_max_share: float = 0.92  # of the window
    trigger_min_share: float = 0.60  # of the window
    trigger_small_tokens: int = 10_500  # lower limit of the trigger, as system prompt and tools count, too
    trigger_small_share: float = 0.75  # of the window: upper limit of trigger_small_tokens
    trigger_reserve_tokens: int = 13_000  # kept free besides the largest reply
    trigger_reserve_share: float = 0.065  # of the window, for the same where the model is never asked
    summary_max_output_tokens: int = 20_000
    service_summaries: bool = False  # written by the service's own compaction (beta), if it has one
    background_summaries: bool = True  # written while the conversation continues; False: the request waits
    summary_max_requests: int = 3  # for one summary, each omitting more of the oldest exchanges
    min_gain_share: float = 0.10  # of the prompt, that a compaction must free
    ledger_first_max_share: float = 0.60  # of the trigger: a local summary that leaves at most this is used

    ledger_only_max_window: int = 40_000  # up to which thrifty never asks the model: it fills again too soon

    ledger_max_tokens: int = 2_500  # of a local summary
    user_block_max_tokens: int = 2_000
    tail_max_tokens: int = 7_000
    max_record_tokens: int = 15_000  # of a replacement and the tail after it
    max_record_share: float = 0.30  # of the window, for the same
    max_left_share: float = 0.50  # of the trigger: the most that thrifty leaves, system and tools included
    # Of the trigger: the least for replacement and tail, however large the tools are.
    min_left_share: float = 0.20

    restore_max_files: int = 5
    restore_file_max_tokens: int = 5_000
    restore_max_tokens: int = 25_000  # of all restored files
    restore_max_share: float = 0.10  # of the window, for the same

    breaker_failures: int = 3  # summaries that fail in a row before none is requested
    thrash_summaries: int = 3  # summaries within thrash_window_calls, after which none is requested
    thrash_window_calls: int = 10

    protected_tail_tokens: int = 12_000  # that collapse never changes
    batch_min_tokens: int = 2_500  # that a batch of clears frees
    batch_interval_calls: int = 36  # expected calls between batches, at standard prices
    put_back_max_tokens: int = 2_000  # of cleared text shown again with one result; 0: none
    cache_ttl_s: int = 300
    cold_return_usd: float = 0.10  # of resending an expired history, above which it is summarized; 0: never

    @property
    def automatic(self) -> bool:
        """Return whether compactions may happen automatically."""
        return self.enabled and self.policy != "off"

    def waits_for_summary(self, trigger: str) -> bool:
        """Return whether a compaction with this trigger waits for the model to write its summary."""
        return not self.background_summaries or trigger not in ("auto", "tool")

    def trigger_in(self, window: ContextWindow) -> int:
        """Return the prompt size at which a summary is due, in the model's tokens."""
        if self.trigger is not None:
            return min(self.trigger, window.size)
        if self.policy == "classic":
            return min(self.classic_trigger_tokens, int(self.classic_trigger_share * window.size))
        is_asked = window.size > self.ledger_only_max_window
        share = int(self.trigger_reserve_share * window.size)
        free = window.size - window.max_output - (self.trigger_reserve_tokens if is_asked else share)
        highest = int(self.trigger_max_share * window.size)
        small = min(self.trigger_small_tokens, int(self.trigger_small_share * window.size))
        return max(min(free, highest), small, int(self.trigger_min_share * window.size))

    def min_compact_in(self, window: ContextWindow) -> int:
        """Return the prompt size below which no summary is made."""
        return min(self.min_compact_size, int(MIN_COMPACT_SHARE * window.size))

    def for_hour_cache(self) -> CompactSettings:
        """Return these settings for cache entries that are written for an hour."""
        return replace(self, cache_ttl_s=max(3_600, self.cache_ttl_s))

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> CompactSettings:
        """Return the settings of a [compact] table; unknown names are ignored.

        Raises ValueError with the name of an invalid setting and its valid values.
        """
        entries, _ = cls.known(table)
        return cls(**{name: _checked(name, value) for name, value in entries.items()})

    @classmethod
    def known(cls, table: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Return the settings in a [compact] table, and a warning for each unknown name in it."""
        fields = cls.__struct_fields__
        kept = {name: value for name, value in table.items() if name in fields}
        return kept, tuple(_unknown(name, fields) for name in table if name not in fields)

    @classmethod
    def form_of(cls, name: str) -> str:
        """Describe the values that a setting takes."""
        return _form(getattr(cls(), name))


def _unknown(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    hint = f"; did you mean `{near[0]}`?" if near else ""
    return f"unknown setting `{name}` in [compact]{hint} (ignored)"


def _checked(key: str, value: Any) -> Any:
    """Return the value of a setting in the type of its default. Raises ValueError."""
    default = getattr(CompactSettings(), key)
    number = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    match default:
        case str():
            good = value in POLICY_NAMES
        case bool():
            good = isinstance(value, bool)
        case tuple():
            good = isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)
            value = tuple(value) if good else value
        case float():
            good = number
        case _:
            good = number and isinstance(value, int)
    if not good:
        raise ValueError(f"[compact] {key} must be {_form(default)}, not {value!r}")
    return float(value) if isinstance(default, float) else value


def _form(default: object) -> str:
    match default:
        case str():
            return f"one of {', '.join(POLICY_NAMES)}"
        case bool():
            return "true or false"
        case tuple():
            return "a list of tool names"
        case float():
            return "a number of 0 or more"
    return "an integer of 0 or more"


class WindowState(StrEnum):
    NORMAL = "normal"
    WARNING = "warning"
    CRITICAL = "critical"
    BLOCKING = "blocking"
    EXHAUSTED = "exhausted"


class ContextWindow(Struct, frozen=True):
    """A context window: `size` input tokens fit, and a reply may have `max_output` tokens."""

    size: int
    max_output: int = 32_000

    def percent(self, tokens: int) -> float:
        """Return the share of `tokens` in percent, more than 100 if they do not fit."""
        return 100 * tokens / max(1, self.size)

    def state(self, tokens: int, settings: CompactSettings) -> WindowState:
        """Return the state of the window at `tokens`; BLOCKING only if automatic compaction is off."""
        used = self.percent(tokens)
        if used >= 100:
            return WindowState.EXHAUSTED
        if used >= BLOCKING_PERCENT and not settings.automatic:
            return WindowState.BLOCKING
        if used >= CRITICAL_PERCENT:
            return WindowState.CRITICAL
        return WindowState.WARNING if used >= WARNING_PERCENT else WindowState.NORMAL
