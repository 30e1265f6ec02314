"""The prompt tokens of each request are explained: read, new, and billed again for a reason."""

from hypothesis import given
from msgspec.structs import replace

from compact.prices import Prices
from compact.request_bills import UNUSED_SUMMARY, BilledAgain, RequestBill
from tests.narrowing import present
from tests.transcripts.random_histories import histories
from transcripts.facts import (
    Compacted,
    Failed,
    Fold,
    Instructed,
    Metadata,
    Opened,
    Reply,
    RequestSent,
    Result,
    Rewound,
    Undone,
    User,
)
from transcripts.folding import fold
from transcripts.messages import CacheMiss, TextBlock, ToolUseBlock, Usage

LIFETIME_S = 300.0


@given(histories)
def test_the_parts_of_all_requests_add_up_to_the_billed_tokens(facts):
    folded = fold(facts)
    bills = RequestBill.all_of(folded, LIFETIME_S)
    for bill in bills:
        assert bill.read + bill.new + bill.again == bill.usage.prompt
        assert min(bill.new, bill.again) >= 0 or bill.usage.prompt < bill.read
    billed = sum(fact.usage.prompt for fact in folded.facts if isinstance(fact, Reply))
    assert sum(bill.usage.prompt for bill in bills if not bill.is_summary) == billed


class Requests:
    """A session of which only the requests matter, each 20 seconds after the one before."""

    def __init__(self):
        self.facts = []
        self.now = 1_000.0
        self.add(Opened, model="m")
        self.add(Instructed, ("s",), ())

    def add(self, made, *values, **more):
        self.facts.append(made(len(self.facts) + 1, self.now, *values, **more))
        return self.facts[-1]

    def send(self, read=0, written=0, raw=0, miss=None, uncached=0, **settings):
        """A request with a reply of one call, whose result has 1,000 tokens."""
        self.now += 20
        asked = self.add(RequestSent, "turn", raw=raw, settings=settings)
        usage = Usage(uncached, output=10, cache_read=read, cache_written=written)
        call = (ToolUseBlock("t", "read", {}),)
        reply = self.add(Reply, call, (10,), usage=usage, asked=asked.seq, cache_miss=miss)
        self.add(Result, reply.seq, 0, (TextBlock("x"),), (1_000,))

    @property
    def last(self):
        return RequestBill.all_of(fold(self.facts), LIFETIME_S)[-1]


def sent_once():
    requests = Requests()
    requests.send(written=20_000)
    return requests


def test_a_request_that_reads_its_prefix_pays_for_what_is_new():
    requests = sent_once()
    assert (requests.last.new, requests.last.again, requests.last.reason) == (20_000, 0, None)
    requests.send(read=20_000, written=1_010)
    assert (requests.last.new, requests.last.again, requests.last.reason) == (1_010, 0, None)


def test_a_pause_beyond_the_lifetime_explains_a_miss_and_a_cache_of_an_hour_outlasts_it():
    requests = sent_once()
    requests.now += 400
    requests.send(written=21_000)
    assert (requests.last.again, requests.last.reason) == (20_000, BilledAgain.PAUSE)
    assert requests.last.pause_s == 420
    requests = Requests()
    requests.send(written=20_000, cache="1h")
    requests.now += 400
    requests.send(written=21_000, cache="1h")
    assert requests.last.reason is BilledAgain.UNKNOWN


def test_an_edit_explains_the_rewrite_behind_it_and_the_api_agrees():
    requests = sent_once()
    requests.add(Compacted, "micro", "auto", (Fold(4, 5, (TextBlock("x"),)),))
    requests.send(read=12_000, written=4_010, raw=16_010, miss=CacheMiss("messages_changed", 8_000))
    bill = requests.last
    assert (bill.read, bill.new, bill.again) == (12_000, 1_010, 3_000)
    assert bill.reason is BilledAgain.EDIT and bill.changes == ("c6",) and bill.agrees is True


def test_what_an_undone_compaction_had_hidden_is_billed_again_and_not_new():
    requests = sent_once()
    made = requests.add(Compacted, "ledger", "auto", (Fold(4, 5, (TextBlock("x"),)),))
    requests.send(written=5_000, raw=5_000)
    requests.add(Undone, made.id, made.edits)
    requests.send(written=22_010, raw=22_010)
    bill = requests.last
    assert (bill.new, bill.again, bill.reason) == (2_010, 20_000, BilledAgain.EDIT)
    assert bill.changes == (f"undone {made.id}",)


def test_few_tokens_have_a_reason_too():
    requests = sent_once()
    requests.send(read=19_600, written=1_410)
    assert (requests.last.again, requests.last.reason) == (400, BilledAgain.BLOCK)
    requests.add(Compacted, "micro", "auto", (Fold(4, 5, (TextBlock("x"),)),))
    requests.send(read=12_000, written=1_790, raw=13_790)
    bill = requests.last
    assert (bill.new, bill.again, bill.reason) == (1_010, 780, BilledAgain.EDIT)
    assert bill.changes == ("c9",)


def test_tools_that_are_those_of_the_request_before_explain_no_miss():
    requests = sent_once()
    requests.add(Instructed, ("s",), ({"name": "x"},))
    requests.add(Instructed, ("s",), ())
    requests.now += LIFETIME_S
    requests.send(written=21_000)
    assert requests.last.reason is BilledAgain.PAUSE


def test_changes_of_model_prompt_tools_and_settings_explain_misses():
    for changed, values, reason in (
        (Opened, {"model": "other"}, BilledAgain.MODEL),
        (Instructed, {"system": ("t",), "tools": ()}, BilledAgain.SYSTEM),
        (Instructed, {"system": ("s",), "tools": ({"name": "x"},)}, BilledAgain.TOOLS),
    ):
        requests = sent_once()
        requests.add(changed, **values)
        requests.send(written=21_000, miss=CacheMiss("tools_changed"))
        assert (requests.last.again, requests.last.reason) == (20_000, reason)
        assert requests.last.agrees is (reason is BilledAgain.TOOLS)
    requests = sent_once()
    requests.send(written=21_000, effort="high")
    assert requests.last.reason is BilledAgain.SETTINGS


def test_a_server_without_a_cache_and_a_short_prompt_are_told_apart():
    for size, reason in ((20_000, BilledAgain.UNCACHED), (2_000, BilledAgain.SHORT)):
        requests = Requests()
        requests.send(uncached=size)
        requests.send(uncached=size + 1_000)
        assert (requests.last.again, requests.last.reason) == (size, reason)


def test_a_summary_keeps_the_entries_of_the_conversation_alive_and_has_a_bill_of_its_own():
    requests = sent_once()
    requests.now += 200
    requests.add(RequestSent, "summary", instructions="summarize")
    usage = {"input": 0, "output": 500, "cache_read": 20_000, "cache_written": 1_700}
    requests.add(Metadata, "charge", {"model": "m", "usage": usage})
    assert requests.last.is_summary and (requests.last.new, requests.last.again) == (1_700, 0)
    requests.now += 200
    requests.send(read=20_000, written=1_010)
    assert (requests.last.new, requests.last.again, requests.last.pause_s) == (1_010, 0, 220)


def test_the_extra_cost_is_that_of_writing_instead_of_reading():
    requests = sent_once()
    requests.now += 400
    requests.send(written=21_000)
    prices = Prices(input=4.0, read=0.1, write=1.25)
    assert abs(requests.last.extra_dollars(prices) - 20_000 * 1.15 * 4 / 1e6) < 1e-9
    small = replace(present(requests.last), again=0, new=0)
    assert small.extra_dollars(prices) == 0


def test_the_reasons_that_the_screen_names_are_these():
    names = "model system tools pause settings edit rewind short uncached block unknown"
    assert [str(reason) for reason in BilledAgain] == names.split()
    requests = sent_once()
    for miss, agrees in (("model_changed", False), ("messages_changed", True)):
        requests.add(Rewound, 6)
        requests.send(written=21_000, miss=CacheMiss(miss))
        assert (requests.last.reason, requests.last.agrees) == (BilledAgain.REWIND, agrees)
    requests.send(written=21_000, miss=CacheMiss("messages_changed"))
    assert (requests.last.reason, requests.last.agrees) == (BilledAgain.UNKNOWN, None)


def test_a_prompt_that_shrinks_was_sent_before_as_a_whole():
    requests = sent_once()
    requests.send(read=9_000, written=3_000)
    assert (requests.last.new, requests.last.again) == (0, 3_000)
    requests.add(Compacted, "micro", "auto", (Fold(4, 5, (TextBlock("x"),)),))
    requests.send(read=9_000, written=60_000)
    assert (requests.last.new, requests.last.again) == (48_000, 12_000), "no more than was sent before"


def test_our_count_of_what_is_new_is_scaled_to_the_server_s():
    requests = sent_once()
    requests.add(Compacted, "micro", "auto", (Fold(4, 5, (TextBlock("x"),)),))
    requests.add(User, (TextBlock("on"),), (500,))
    requests.send(read=10_000, written=10_000, raw=10_000)
    assert (requests.last.new, requests.last.again) == (2 * (10 + 1_000 + 500), 6_980)


def test_an_entry_lasts_as_long_as_the_settings_of_the_request_before_say():
    for lifetime, pause, reason in (
        (300.0, 280.0, BilledAgain.UNKNOWN),
        (300.0, 281.0, BilledAgain.PAUSE),
    ):
        requests = sent_once()
        requests.now += pause
        requests.send(written=21_000)
        assert RequestBill.all_of(fold(requests.facts), lifetime)[-1].reason is reason
    for lifetime, pause, reason in (
        (300.0, 3_580.0, BilledAgain.UNKNOWN),
        (300.0, 3_581.0, BilledAgain.PAUSE),
        (7_200.0, 3_581.0, BilledAgain.UNKNOWN),
    ):
        requests = Requests()
        requests.send(written=20_000, cache="1h")
        requests.now += pause
        requests.send(written=21_000, cache="1h")
        assert RequestBill.all_of(fold(requests.facts), lifetime)[-1].reason is reason


def test_a_summary_is_compared_with_what_was_sent_when_it_was_requested():
    requests = sent_once()
    asked = requests.add(RequestSent, "summary", instructions="summarize")
    requests.add(Undone, "c9", ())
    requests.add(Compacted, "micro", "auto", (Fold(4, 5, (TextBlock("x"),)),))
    requests.add(Failed, UNUSED_SUMMARY, "the history had changed", {"asked": asked.seq})
    usage = {"input": 0, "output": 500, "cache_read": 15_000, "cache_written": 6_000}
    requests.add(Metadata, "charge", {"model": "m", "usage": usage, "asked": asked.seq})
    bill = requests.last
    assert (bill.new, bill.again, bill.reason) == (1_000, 5_000, BilledAgain.UNKNOWN)
    assert (bill.changes, bill.unused, bill.pause_s) == ((), "the history had changed", 0)
    requests.add(Metadata, "charge", {"model": "m", "usage": usage, "session": "nested"})
    requests.add(Metadata, "charge", {"model": "m", "usage": {"output": 5}})
    assert requests.last is not None and requests.last.seq == bill.seq
    requests.send(read=12_000, written=4_010, raw=16_010)
    assert requests.last.changes == ("undone c9", f"c{asked.seq + 2}")
