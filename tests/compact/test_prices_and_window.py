"""Prices, whether a rewrite pays, and the states of the window."""

import pytest

from agent.replay.policies import PRICE_TIERS
from compact.prices import NEVER_PAYS_BACK, PRICES_BY_MODEL, PriceList, Prices, RewriteBill, Spending
from compact.settings import CompactSettings, ContextWindow, WindowState
from tests.tables import each_row
from transcripts.messages import Usage


def test_the_longest_prefix_of_a_models_name_counts():
    known = PriceList().known
    assert known("claude-opus-5-5-20261101") == PRICES_BY_MODEL["claude-opus-5-5"]
    assert known("claude-opus-5-20260101") == PRICES_BY_MODEL["claude-opus-5"]
    assert known("us.anthropic.claude-sonnet-4-5-20250929-v1:0") == PRICES_BY_MODEL["claude-sonnet-4-5"]
    assert known("anthropic/claude-sonnet-5-5") == PRICES_BY_MODEL["claude-sonnet-5-5"]
    for unknown in ("someone-else", "claude-opus-5-6", "claude-fable-5-2", ""):
        assert known(unknown) is None and PriceList().planning(unknown) == Prices(is_guess=True)


def test_the_band_of_a_request_is_the_one_of_its_whole_prompt():
    list_ = PriceList()
    low, high = Usage(50_000, 1_000, 40_000, 10_000), Usage(50_000, 1_000, 40_001, 10_000)
    assert list_.spending("claude-haiku-5-5", low).dollars == pytest.approx(
        (50_000 * 0.1 + 40_000 * 0.01 + 10_000 * 0.125 + 1_000 * 0.5) / 1e6
    )
    assert list_.spending("claude-haiku-5-5", high).dollars == pytest.approx(
        (50_000 * 0.5 + 40_001 * 0.05 + 10_000 * 0.625 + 1_000 * 2.5) / 1e6
    )


def test_a_model_of_ones_own_costs_what_one_says_and_an_unknown_one_nothing():
    usage = Usage(1_000_000, 1_000_000, searches=3)
    own = PriceList({"mine": Prices(1, 2), "claude-sonnet-5-5": Prices(0, 0)})
    assert own.spending("mine", usage).dollars == pytest.approx(3.03)
    assert own.spending("claude-sonnet-5-5", usage).dollars == pytest.approx(0.03)
    unknown = own.spending("other", usage)
    assert (unknown.dollars, unknown.unpriced) == (0.0, True)
    assert not own.spending("other", Usage()).unpriced


def test_a_usage_is_charged_by_how_it_was_served():
    usage = Usage(input=10, output=100, cache_read=1_000, cache_written=300, cache_written_hour=200)
    prices = Prices(input=2.0, output=20.0)
    assert prices.plain(usage) == pytest.approx(10 + 0.1 * 1_000 + 1.25 * 100 + 2.0 * 200)
    assert prices.cost(usage) == pytest.approx((635 * 2.0 + 100 * 20.0) / 1_000_000)
    assert PRICE_TIERS["hour"].write == 2.0


def test_a_change_pays_back_by_what_is_not_read_any_more():
    bill, prices = RewriteBill(kept=500, rewritten=1_000, freed=2_300), Prices()
    assert bill.extra(prices) == pytest.approx(1_150)
    assert bill.pays_back(prices) == 5
    assert RewriteBill(0, 1_000, 2_299).pays_back(prices) == 6
    assert RewriteBill(0, 0, 2_300).pays_back(prices) == 0, "nothing is written again"
    assert RewriteBill(0, 1_000, 0).pays_back(prices) == NEVER_PAYS_BACK
    assert RewriteBill(0, 1_000_000, 1).pays_back(prices) == NEVER_PAYS_BACK
    assert bill.warm(prices) == pytest.approx(1_250 * 3 / 1_000_000)
    assert bill.cold(prices) == pytest.approx(1.25 * 1_500 * 3 / 1_000_000)


@each_row(
    ("tokens", "automatic", "state"),
    [
        (79_999, True, WindowState.NORMAL),
        (80_000, True, WindowState.WARNING),
        (94_999, True, WindowState.WARNING),
        (95_000, True, WindowState.CRITICAL),
        (98_000, True, WindowState.CRITICAL),
        (97_999, False, WindowState.CRITICAL),
        (98_000, False, WindowState.BLOCKING),
        (100_000, False, WindowState.EXHAUSTED),
        (99_999, True, WindowState.CRITICAL),
        (100_000, True, WindowState.EXHAUSTED),
    ],
)
def test_the_state_of_the_window(tokens, automatic, state):
    settings = CompactSettings(policy="thrifty" if automatic else "off")
    assert ContextWindow(100_000).state(tokens, settings) is state
    assert ContextWindow(100_000).percent(tokens) == tokens / 1_000


@each_row(
    ("window", "settings", "trigger"),
    [
        (ContextWindow(200_000, 32_000), {}, 155_000),
        (ContextWindow(200_000, 1_000), {}, 184_000),
        (ContextWindow(100_000, 32_000), {}, 60_000),
        (ContextWindow(48_000, 12_000), {}, 28_800),
        (ContextWindow(32_000, 8_000), {}, 21_920),  # no space for a question to the model
        (ContextWindow(32_000, 16_000), {}, 19_200),
        (ContextWindow(16_000, 4_000), {}, 10_960),
        (ContextWindow(14_000, 3_500), {}, 10_500),  # at 60 % system and tools would leave next to nothing
        (ContextWindow(8_000, 2_000), {}, 6_000),
        (ContextWindow(1_000_000, 32_000), {}, 920_000),
        (ContextWindow(200_000), {"policy": "classic"}, 50_000),
        (ContextWindow(50_000), {"policy": "classic"}, 40_000),
        (ContextWindow(200_000), {"trigger": 70_000, "policy": "classic"}, 70_000),
        (ContextWindow(50_000), {"trigger": 70_000}, 50_000),
    ],
)
def test_the_size_at_which_a_summary_is_due(window, settings, trigger):
    assert CompactSettings(**settings).trigger_in(window) == trigger


def test_spending_adds_up_and_one_unknown_price_makes_the_sum_unknown():
    total = Spending(Usage(1), dollars=0.25) + Spending(Usage(2, 3), dollars=0.5, unpriced=True)
    assert total == Spending(Usage(3, 3), dollars=0.75, unpriced=True)
