"""The facts about OpenAI's models, which its endpoint does not report: windows, output limits, end dates."""

from __future__ import annotations

from typing import NamedTuple

from agent.model_port import ModelFacts
from transcripts.patterns import lazy_pattern


class _Family(NamedTuple):
    """The models whose ids begin with `prefix`; `window` is the largest prompt, in tokens."""

    prefix: str
    window: int
    max_output: int
    reasons: bool = True


# From OpenAI's pages about its models, November 2026. The first prefix that fits counts.
_FAMILIES = (
    _Family("gpt-6", 922_000, 128_000),
    _Family("gpt-5.6", 922_000, 128_000),
    _Family("gpt-5.5", 922_000, 128_000),
    _Family("gpt-5.4-mini", 272_000, 128_000),
    _Family("gpt-5.4-nano", 272_000, 128_000),
    _Family("gpt-5.4", 922_000, 128_000),
    _Family("gpt-5", 272_000, 128_000),
    _Family("gpt-4.1", 1_047_576, 32_768, reasons=False),
    _Family("gpt-4o", 128_000, 16_384, reasons=False),
    _Family("o3", 200_000, 100_000),
    _Family("o4", 200_000, 100_000),
)
# Shutdown dates that OpenAI has announced.
_RETIREMENTS = {
    **dict.fromkeys(("gpt-5", "gpt-5-mini", "gpt-5-nano", "o3"), "2026-12-11"),
    **dict.fromkeys(("gpt-4.1", "gpt-4.1-mini", "gpt-4o", "gpt-4o-mini"), "2027-01-14"),
    **dict.fromkeys(("gpt-5.1", "gpt-5.4-nano"), "2027-04-01"),
}
_DATE_SUFFIX = lazy_pattern(r"-\d{4}-\d\d-\d\d$")


def openai_facts(model: str) -> ModelFacts | None:
    """Return the facts about one of OpenAI's models, whose id may begin with a gateway's; None for others."""
    name = model.rpartition("/")[2]
    for family in _FAMILIES:
        if name.startswith(family.prefix):
            return ModelFacts(
                model,
                window=family.window,
                max_output=family.max_output,
                thinking=family.reasons,
                binds=False,
                effort=family.reasons,
                retires_on=_RETIREMENTS.get(_DATE_SUFFIX.sub("", name), ""),
            )
    return None


def reasons(model: str) -> bool:
    """Return whether a model reasons before it answers; unknown models are assumed to."""
    facts = openai_facts(model)
    return facts is None or facts.thinking
