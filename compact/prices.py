"""What tokens cost, and whether a change of the history pays for the cache entries that it rewrites.

Everything behind a change is written to the prompt cache anew, where it would have been read at a tenth of
the price or less; what the change freed is not read any more, on every later call.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from transcripts.messages import Usage

MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Prices:
    """`input` and `output` in dollars per million tokens; the others as multiples of `input`."""

    input: float = 3.0
    output: float = 15.0
    write: float = 1.25
    write_hour: float = 2.0
    read: float = 0.1

    def cost(self, usage: Usage) -> float:
        """Dollars for a usage, output included."""
        return self.dollars(self.plain(usage)) + usage.output * self.output / MILLION

    def plain(self, usage: Usage) -> float:
        """The input of a usage, in tokens at the full input price."""
        short = usage.cache_written - usage.cache_written_hour
        tokens = usage.input + self.read * usage.cache_read + self.write * short
        return tokens + self.write_hour * usage.cache_written_hour

    def dollars(self, tokens: float) -> float:
        """Dollars for input tokens at the full price."""
        return tokens * self.input / MILLION


# List prices as published in November 2026; the longest prefix of a model's name counts.
PRICES_BY_MODEL: Mapping[str, Prices] = {
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
PRICE_TIERS: Mapping[str, Prices] = {
    "standard": Prices(),
    "cheap": Prices(read=0.05),
    "cheapest": Prices(read=0.025),
    "hour": Prices(write=2.0),
}


def prices_for(model: str) -> Prices:
    """The prices of a model; an unknown one has the defaults of `Prices`, a middling guess."""
    prefix = max((each for each in PRICES_BY_MODEL if model.startswith(each)), key=len, default="")
    return PRICES_BY_MODEL.get(prefix, Prices())


@dataclass(frozen=True, slots=True)
class RewriteBill:
    """What one change of the history costs and frees, in the model's tokens."""

    kept: int  # in front of the change: still read from the cache
    rewritten: int  # behind the change: written anew
    freed: int  # no longer in the prompt

    def extra(self, prices: Prices) -> float:
        """What the next call costs more than without the change, in full-price tokens (warm cache)."""
        return self.rewritten * (prices.write - prices.read)

    def pays_back(self, prices: Prices) -> int:
        """The number of calls, the next one included, after which the change has paid for itself."""
        return max(0, ceil(self.extra(prices) / max(1e-9, self.freed * prices.read)))

    def warm(self, prices: Prices) -> float:
        """Dollars of the rewrite while the cache is warm."""
        return prices.dollars(self.rewritten * prices.write)

    def cold(self, prices: Prices) -> float:
        """Dollars of writing the whole prompt, once the cache has expired."""
        return prices.dollars((self.kept + self.rewritten) * prices.write)


def pays(bill: RewriteBill, prices: Prices, calls: float) -> bool:
    """Whether the change pays for itself within `calls` calls."""
    return bill.freed > 0 and bill.freed * prices.read * calls >= bill.extra(prices)
