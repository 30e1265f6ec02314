"""Every limit of the pipeline, settable by the user's [compact] table under the same names."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

Policy = Literal["thrifty", "classic", "off"]
POLICIES: tuple[Policy, ...] = ("thrifty", "classic", "off")


@dataclass(frozen=True, slots=True)
class CompactSettings:
    """`policy` says who decides; the rest are its limits, in tokens where nothing else is said.

    The reference constants of the classic pipeline are the defaults of budget, snip, micro, summary and
    restore; keep_cap, keep_share and ledger_tokens were measured on 82 recorded summaries.
    """

    policy: Policy = "thrifty"
    enabled: bool = True  # False: only /compact and reactive, as with policy "off"
    trigger: int | None = None  # size that starts a summary; None: by the policy and the window
    keep_recent_messages: int = 5  # stay as they are while they fit; the last rung of reactive shrinks them
    min_compact_size: int = 10_000  # below it no summary
    max_compact_size: int | None = None  # cap on what a compaction leaves
    reactive: bool = True
    collapse: bool = False

    budget_chars: int = 200_000
    budget_share: float = 0.25  # of the window
    budget_preview: int = 2_000  # characters
    budget_exempt: tuple[str, ...] = ("read", "recall", "Read")  # they page themselves

    snip_messages: int = 50
    snip_head: int = 3
    snip_tail: int = 47

    micro_keep: int = 3
    micro_min_chars: int = 120

    collapse_share: float = 0.5  # of the summary's trigger: above it old segments are folded
    collapse_segment: int = 10_000

    classic_trigger: int = 50_000
    classic_share: float = 0.80
    trigger_share: float = 0.92
    trigger_least: float = 0.60
    trigger_reserve: int = 13_000
    summary_max_output: int = 20_000
    summary_tries: int = 3
    least_gain: float = 0.10
    ledger_enough: float = 0.60  # of the trigger: a ledger that leaves no more makes the summary needless

    ledger_tokens: int = 2_000
    user_block_tokens: int = 2_000
    tail_tokens: int = 10_000
    keep_cap: int = 18_000
    keep_share: float = 0.30
    leave_share: float = (
        0.50  # of the trigger: what a thrifty compaction leaves in a small window, all in all
    )
    leave_least: float = 0.20  # of the trigger, for record and tail, however much system and tools take

    restore_files: int = 5
    restore_tokens: int = 5_000
    restore_cap: int = 25_000
    restore_share: float = 0.10

    breaker: int = 3
    thrash_summaries: int = 3
    thrash_calls: int = 10

    protect_tokens: int = 12_000
    batch_tokens: int = 20_000
    batch_calls: int = 30  # a batch that comes sooner after the last one has to free that much more
    batch_from: int = 80_000  # size of the prompt from which the first batch may take calls_ahead to pay
    calls_ahead: float = 16.0  # calls within which a batch has to pay for itself
    cache_ttl: int = 300  # seconds

    @property
    def automatic(self) -> bool:
        """Whether anything may happen that nobody asked for."""
        return self.enabled and self.policy != "off"


def settings_from(table: Mapping[str, Any]) -> CompactSettings:
    """The settings of a TOML table.

    Raises ValueError naming the key and what it takes.
    """
    made = CompactSettings()
    known = {field.name: getattr(made, field.name) for field in fields(made)}
    for key, value in table.items():
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(sorted(known))}"
            raise ValueError(f"[compact] has no setting {key!r}: {hint}")
        made = replace(made, **{key: _checked(key, value, known[key])})
    return made


def _checked(key: str, value: Any, default: Any) -> Any:
    if key == "policy":
        if value not in POLICIES:
            raise ValueError(f"[compact] policy must be one of {', '.join(POLICIES)}, not {value!r}")
        return value
    if isinstance(default, bool):
        return _of(key, value, bool, "true or false")
    if isinstance(default, tuple):
        if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
            raise ValueError(f"[compact] {key} must be a list of tool names, not {value!r}")
        return tuple(value)
    if isinstance(default, float):
        return float(_of(key, value, (int, float), "a number that is not negative"))
    return _of(key, value, int, "a whole number that is not negative")


def _of(key: str, value: Any, kind: Any, what: str) -> Any:
    good = isinstance(value, kind) and (kind is bool or (not isinstance(value, bool) and value >= 0))
    if not good:
        raise ValueError(f"[compact] {key} must be {what}, not {value!r}")
    return value
