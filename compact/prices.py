"""What tokens cost, and whether a change of the history pays.

The prompt cache decides: everything behind a change is written anew (dear) where it would have been read
(cheap); what the change freed is not read any more on each later call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil

from transcripts.messages import Usage

MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Prices:
    """`input` and `output` in dollars a million tokens; the others as shares of `input`."""

    input: float = 3.0
    output: float = 15.0
    write: float = 1.25
    write_hour: float = 2.0
    read: float = 0.1

    def cost(self, usage: Usage) -> float:
        """Dollars for a usage, output included."""
        return self.dollars(self.plain(usage)) + usage.output * self.output / MILLION

    def plain(self, usage: Usage) -> float:
        """The input of a usage, in tokens at the plain price."""
        short = usage.cache_written - usage.cache_written_hour
        tokens = usage.input + self.read * usage.cache_read + self.write * short
        return tokens + self.write_hour * usage.cache_written_hour

    def dollars(self, tokens: float) -> float:
        """Of so many input tokens at the plain price."""
        return tokens * self.input / MILLION


TABLE: Mapping[
    str, Prices
] = {  # published prices, November 2026; the longest prefix of a model's name counts
    "claude-opus-5-5": Prices(4, 20, read=0.05),
    "claude-sonnet-5-5": Prices(2, 10, read=0.05),
    "claude-haiku-5-5": Prices(0.5, 2.5),  # the band above 100k tokens, where clearing is considered at all
    "claude-fable-5": Prices(10, 50, read=0.025),
    "claude-opus-5": Prices(5, 25),
    "claude-sonnet-5": Prices(2, 10),
    "claude-opus-4": Prices(5, 25),
    "claude-sonnet-4": Prices(3, 15),
    "claude-haiku-4": Prices(1, 5),
    "makeroom-offline": Prices(0, 0),
}
TIERS: Mapping[str, Prices] = {
    "standard": Prices(),
    "cheap": Prices(read=0.05),
    "cheapest": Prices(read=0.025),
    "hour": Prices(write=2.0),
}


def prices_for(model: str, override: Mapping[str, float] | None = None) -> Prices:
    """The prices of a model; those of an unknown one are a middling guess. `override` has Prices' names."""
    found = max((prefix for prefix in TABLE if model.startswith(prefix)), key=len, default="")
    prices = TABLE.get(found, Prices())
    return replace(prices, **override) if override else prices


@dataclass(frozen=True, slots=True)
class RewriteBill:
    """What one change of the history costs and brings, in the model's tokens.

    kept      before the change: still read from the cache
    rewritten behind it: written anew
    freed     no longer there
    """

    kept: int
    rewritten: int
    freed: int

    def extra(self, prices: Prices) -> float:
        """Plain input tokens that the next call costs more than without the change (cache warm)."""
        return self.rewritten * (prices.write - prices.read)

    def pays_back(self, prices: Prices) -> int:
        """The number of calls, the next one included, after which the change has paid for itself."""
        return max(0, ceil(self.extra(prices) / max(1e-9, self.freed * prices.read)))

    def warm(self, prices: Prices) -> float:
        """Dollars of the rewrite."""
        return prices.dollars(self.rewritten * prices.write)

    def cold(self, prices: Prices) -> float:
        """Dollars of writing everything, where the cache has gone."""
        return prices.dollars((self.kept + self.rewritten) * prices.write)


def pays(bill: RewriteBill, prices: Prices, calls: float) -> bool:
    """Whether the change pays within so many calls."""
    return bill.freed > 0 and bill.freed * prices.read * calls >= bill.extra(prices)
