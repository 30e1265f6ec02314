"""Compute the cost of tokens, and whether a change of the history pays for the cache that it rewrites.

Everything after a change is written to the prompt cache again, where it would have been read at a tenth of
the price or less. In return, the freed tokens are not read on any later call.
"""

from collections.abc import Mapping
from functools import lru_cache
from math import ceil, inf

from msgspec import Struct, field
from msgspec.structs import replace

from transcripts import Usage
from transcripts.patterns import lazy_pattern

MILLION = 1_000_000
NEVER_PAYS_BACK = 100_000  # calls, which no session makes
SEARCH_DOLLARS = 0.01  # per web search by the service; page fetches are free


class Prices(Struct, frozen=True):
    """`input` and `output` in dollars per million tokens; the others as multiples of `input`.

    long      prompts of more tokens than this cost twice the input and half as much again for the output
    is_guess  the model's prices are unknown: these serve for planning, and are not shown
    """

    input: float = 3.0
    output: float = 15.0
    write: float = 1.25
    write_hour: float = 2.0
    read: float = 0.1
    long: float = inf
    is_guess: bool = False

    def cost(self, usage: Usage) -> float:
        """Return the dollars of a usage, output included."""
        tokens = self.dollars(self.plain(usage)) + usage.output * self.output / MILLION
        return tokens + usage.searches * SEARCH_DOLLARS

    def plain(self, usage: Usage) -> float:
        """Return the input of a usage, in tokens at the full input price."""
        short = usage.cache_written - usage.cache_written_hour
        tokens = usage.input + self.read * usage.cache_read + self.write * short
        return tokens + self.write_hour * usage.cache_written_hour

    @property
    def caching(self) -> bool:
        """Return whether tokens that are read from a cache cost less than others."""
        return self.read < 1.0

    def dollars(self, tokens: float) -> float:
        """Return the dollars of input tokens at the full price."""
        return tokens * self.input / MILLION

    def for_prompt(self, tokens: int) -> "Prices":
        """Return the prices of a request whose prompt has this number of tokens."""
        if tokens <= self.long:
            return self
        return replace(self, input=2 * self.input, output=1.5 * self.output)


def _openai(input: float, output: float, read: float = 0.1, long: float = 272_000) -> Prices:
    """Return the prices of an OpenAI model; the older ones never report tokens written to the cache."""
    return Prices(input, output=output, write_hour=1.25, read=read, long=long)


# List prices as published in November 2026, by the beginning of model names.
PRICES_BY_MODEL: Mapping[str, Prices] = {
    "claude-opus-5-5": Prices(4, 20, read=0.05),
    "claude-sonnet-5-5": Prices(2, 10, read=0.05),
    "claude-haiku-5-5": Prices(0.5, 2.5),  # the band above 100k tokens, where clearing matters
    "claude-fable-5-1": Prices(10, 50, read=0.025),
    "claude-opus-5": Prices(5, 25),
    "claude-sonnet-5": Prices(2, 10),
    **{f"claude-opus-4-{minor}": Prices(5, 25) for minor in (5, 6, 7, 8)},
    "claude-sonnet-4-6": Prices(3, 15),
    "claude-sonnet-4-5": Prices(3, 15),
    "claude-haiku-4-5": Prices(1, 5),
    "gpt-6.2-sol": _openai(2, 10, read=0.05),
    "gpt-6.1-sol": _openai(2, 10, read=0.05),
    "gpt-6.1-terra": _openai(1, 5, read=0.05),
    "gpt-6-astra": _openai(10, 50),
    "gpt-6-sol": _openai(2, 10),
    "gpt-6-luna": _openai(0.1, 0.5),
    **dict.fromkeys(("gpt-5.6", "gpt-5.6-sol"), _openai(4, 20)),
    "gpt-5.6-terra": _openai(2, 12),
    "gpt-5.6-luna": _openai(0.2, 1.2),
    "gpt-5.5": _openai(5, 30),
    "gpt-5.4": _openai(2.5, 15),
    "gpt-5.4-mini": _openai(0.75, 4.5, long=inf),
    "gpt-5.4-nano": _openai(0.2, 1.25, long=inf),
    **dict.fromkeys(("gpt-5.3-codex", "gpt-5.2", "gpt-5.2-codex"), _openai(1.75, 14, long=inf)),
    **dict.fromkeys(("gpt-5", "gpt-5.1", "gpt-5-codex", "gpt-5.1-codex-max"), _openai(1.25, 10, long=inf)),
    "gpt-5-mini": _openai(0.25, 2, long=inf),
    "gpt-5-nano": _openai(0.05, 0.4, long=inf),
    "gpt-4.1": _openai(2, 8, read=0.25, long=inf),
    "gpt-4.1-mini": _openai(0.4, 1.6, read=0.25, long=inf),
    "gpt-4o": _openai(2.5, 10, read=0.5, long=inf),
    "gpt-4o-mini": _openai(0.15, 0.6, read=0.5, long=inf),
    "o3": _openai(2, 8, read=0.25, long=inf),
    "o4-mini": _openai(1.1, 4.4, read=0.25, long=inf),
    "makeroom-offline": Prices(0, 0),
}
# Prices by the maximum number of prompt tokens.
LOW_BANDS: Mapping[str, tuple[int, Prices]] = {"claude-haiku-5-5": (100_000, Prices(0.1, 0.5))}
_OTHER_GPT = lazy_pattern(r"\.|-(?!\d{4}-)[a-z0-9]|[a-z]")  # "gpt-5" includes only "gpt-5-2025-08-07"
_OTHER_VERSION = lazy_pattern(r"-\d{1,2}(?!\d)")  # after a name: "claude-opus-5" does not include "-5-6"


class Spending(Struct, frozen=True):
    """The usage of requests and its cost in US dollars; `unpriced` is set if some prices are unknown."""

    usage: Usage = field(default=Usage())
    dollars: float = 0.0
    unpriced: bool = False

    def __add__(self, other: "Spending") -> "Spending":
        unpriced = self.unpriced or other.unpriced
        return Spending(self.usage + other.usage, dollars=self.dollars + other.dollars, unpriced=unpriced)

    def since(self, earlier: "Spending") -> "Spending":
        """Return the spending after an earlier state."""
        return Spending(
            self.usage - earlier.usage, dollars=self.dollars - earlier.dollars, unpriced=self.unpriced
        )


class PriceList(Struct, frozen=True):
    """The published prices, and the user's own by model id, which take precedence."""

    own: Mapping[str, Prices] = field(default_factory=dict)

    def known(self, model: str, prompt: int | None = None) -> Prices | None:
        """Return the prices of a model for a prompt of that size, None if they are unknown."""
        if model in self.own:
            return self.own[model]
        name = _listed_name(model)
        most, low = LOW_BANDS.get(name, (0, Prices()))
        prices = PRICES_BY_MODEL.get(name)
        if prices is None or prompt is None:
            return prices
        return low if prompt <= most else prices.for_prompt(prompt)

    def planning(self, model: str) -> Prices:
        """Return the prices to plan with: for an unknown model the defaults of `Prices`, a middling guess."""
        return self.known(model) or Prices(is_guess=True)

    def spending(self, model: str, usage: Usage) -> Spending:
        """Return the cost of one request.

        Price bands apply per request, so the usage of several must not be summed first.
        """
        prices = self.known(model, usage.prompt)
        return (
            Spending(usage, prices.cost(usage))
            if prices
            else Spending(usage, dollars=0.0, unpriced=usage.total > 0)
        )


@lru_cache(maxsize=64)
def _listed_name(model: str) -> str:
    """Return the longest listed name that a model's name begins with, after a cloud's region and vendor."""
    name = model[max(0, model.find("claude-")) :]
    fitting = (each for each in PRICES_BY_MODEL if name.startswith(each))
    found = max(fitting, key=len, default="")
    other = _OTHER_GPT if found.startswith(("gpt-", "o")) else _OTHER_VERSION
    return "" if other.match(name[len(found) :]) else found


class RewriteBill(Struct, frozen=True):
    """The costs and savings of one change of the history, in the model's tokens."""

    kept: int  # before the change: still read from the cache
    rewritten: int  # after the change: written again
    freed: int  # no longer in the prompt

    def extra(self, prices: Prices) -> float:
        """Return the additional cost of the next call with the change, in full-price tokens (warm cache)."""
        return self.rewritten * (prices.write - prices.read)

    def pays_back(self, prices: Prices) -> int:
        """Return the number of calls, the next one included, after which the change has paid for itself.

        NEVER_PAYS_BACK if no call becomes cheaper, or by too little.
        """
        extra = self.extra(prices)
        saved = self.freed * prices.read
        if extra <= 0:
            return 0
        return min(ceil(extra / saved), NEVER_PAYS_BACK) if saved > 0 else NEVER_PAYS_BACK

    def warm(self, prices: Prices) -> float:
        """Return the dollars of the rewrite while the cache is warm."""
        return prices.dollars(self.rewritten * prices.write)

    def cold(self, prices: Prices) -> float:
        """Return the dollars of writing the whole prompt after the cache has expired."""
        return prices.dollars((self.kept + self.rewritten) * prices.write)
