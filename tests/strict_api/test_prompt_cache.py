"""The simulated prompt cache bills as the real one does."""

from typing import Any

from tests.strict_api.endpoint import Endpoint, Limits
from tests.strict_api.reply import Reply, says

MARK = {"type": "ephemeral"}
LONG = "word " * 1200


class Meter:
    """An endpoint with a clock that tests set; `bill` is (fresh, written, read) of one request."""

    def __init__(self) -> None:
        self.now = 0.0
        self.endpoint = Endpoint(Limits(), lambda: self.now)

    def usage(self, *texts: str, marked: tuple[int, ...] = (), **more: Any) -> dict[str, Any]:
        blocks: list[dict[str, Any]] = [{"type": "text", "text": text} for text in texts]
        for at in marked:
            blocks[at]["cache_control"] = MARK
        body = {
            "model": "claude-sonnet-5-5",
            "max_tokens": 100,
            "messages": [{"role": "user", "content": blocks}],
            **more,
        }
        message = self.endpoint.message(self.endpoint.admit(body, frozenset()), Reply([says("ok")]))
        found = message["usage"]
        assert isinstance(found, dict)
        return found

    def bill(self, *texts: str, marked: tuple[int, ...] = (), **more: Any) -> tuple[int, int, int]:
        found = self.usage(*texts, marked=marked, **more)
        return (
            found["input_tokens"],
            found["cache_creation_input_tokens"],
            found["cache_read_input_tokens"],
        )


def test_nothing_is_cached_without_a_mark() -> None:
    meter = Meter()
    assert meter.bill(LONG) == meter.bill(LONG) == (1204, 0, 0)


def test_a_marked_prefix_is_written_once_and_read_afterwards() -> None:
    meter = Meter()
    assert meter.bill(LONG, "a", marked=(0,)) == (1, 1204, 0)
    assert meter.bill(LONG, "b c", marked=(0,)) == (2, 0, 1204)


def test_a_moving_mark_reads_the_old_end_and_writes_what_is_new() -> None:
    meter = Meter()
    meter.bill(LONG, marked=(0,))
    assert meter.bill(LONG, "a", "b", marked=(2,)) == (0, 2, 1204)
    assert meter.bill(LONG, "a", "b", "c", cache_control=MARK) == (0, 1, 1206)


def test_an_entry_stands_only_at_a_mark() -> None:
    meter = Meter()
    meter.bill(LONG, "a", marked=(1,))
    assert meter.bill(LONG, "b", marked=(1,)) == (0, 1205, 0)


def test_a_read_looks_back_twenty_positions() -> None:
    for extra, read in ((20, 1204), (21, 0)):
        meter = Meter()
        meter.bill(LONG, marked=(0,))
        assert meter.bill(LONG, *"x" * extra, marked=(extra,))[2] == read


def test_short_prefixes_are_not_cached() -> None:
    meter = Meter()
    assert meter.bill("short", marked=(0,)) == (5, 0, 0) or meter.bill("short", marked=(0,))[1] == 0


def test_an_entry_lives_five_minutes_from_its_last_use() -> None:
    meter = Meter()
    meter.bill(LONG, marked=(0,))
    for meter.now, read in ((290.0, 1204), (580.0, 1204), (881.0, 0)):
        assert meter.bill(LONG, marked=(0,))[2] == read


def test_an_hour_is_billed_apart_and_lasts_longer() -> None:
    meter = Meter()
    system = [{"type": "text", "text": LONG, "cache_control": {"type": "ephemeral", "ttl": "1h"}}]
    found = meter.usage("a " * 50, marked=(0,), system=system)
    assert found["cache_creation"] == {"ephemeral_1h_input_tokens": 1204, "ephemeral_5m_input_tokens": 54}
    meter.now = 3000.0
    assert meter.bill("b", marked=(0,), system=system)[2] == 1204


def test_the_thinking_and_the_effort_are_part_of_the_messages_key_but_not_of_the_systems() -> None:
    meter = Meter()
    system = [{"type": "text", "text": LONG, "cache_control": MARK}]
    meter.bill("a", marked=(0,), system=system)
    changed = meter.bill("a", marked=(0,), system=system, output_config={"effort": "low"})
    assert changed == (0, 5, 1204)
    assert meter.bill("a", marked=(0,), system=system, model="claude-opus-5-5")[2] == 0


def test_a_named_previous_request_is_compared_with_this_one() -> None:
    meter = Meter()

    def message(text: str, previous: str | None, **more: Any) -> dict[str, Any]:
        content = [{"type": "text", "text": text, "cache_control": MARK}]
        body = {
            "model": "claude-sonnet-5-5",
            "max_tokens": 100,
            "messages": [{"role": "user", "content": content}],
            "diagnostics": {"previous_message_id": previous},
            **more,
        }
        return meter.endpoint.message(meter.endpoint.admit(body, frozenset()), Reply([says("ok")]))

    first = message(LONG, None)
    assert first["diagnostics"] is None and message(LONG, first["id"])["diagnostics"] is None
    other = message(LONG, first["id"], system="Be brief.")["diagnostics"]
    assert other == {"cache_miss_reason": {"type": "system_changed", "cache_missed_input_tokens": 1204}}
    changed = message(f"x{LONG}", first["id"])["diagnostics"]["cache_miss_reason"]["type"]
    unknown = message(LONG, "msg_none")["diagnostics"]["cache_miss_reason"]["type"]
    assert (changed, unknown) == ("messages_changed", "previous_message_not_found")
