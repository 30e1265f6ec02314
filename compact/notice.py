"""The line that tells the person what a compaction brought and cost."""

from __future__ import annotations

from collections.abc import Sequence

from .plan import Proposal


def notice(proposals: Sequence[Proposal], trigger: str = "") -> str:
    """The notice of what was made together, "" for nothing; `trigger` names it otherwise than its maker."""
    if not proposals:
        return ""
    name = trigger or proposals[0].trigger
    before, after = proposals[0].report["before"], proposals[-1].report["after"]
    share = round(100 * (before - after) / before) if before else 0
    text = f"[{name} compact] {_thousands(before)} -> {_thousands(after)} tokens (-{share} %)"
    return f"{text}, {_price(proposals)}; /uncompact undoes it"


def _price(proposals: Sequence[Proposal]) -> str:
    dearest = max(
        (proposal.report for proposal in proposals), key=lambda report: report["predicted_cost_usd"]
    )
    if not dearest["rewritten"]:
        return "nothing cached is rewritten"
    if dearest["cold"]:
        return "no rewrite beyond what the cold cache costs anyway"
    calls = dearest["pays_back_calls"]
    times = "call" if calls == 1 else "calls"
    return f"one cache rewrite ~${dearest['predicted_cost_usd']:.2f}, pays back in {calls} {times}"


def _thousands(tokens: int) -> str:
    return f"{tokens / 1000:.0f}k" if tokens >= 1_000 else str(tokens)
