"""What CPU time the pipeline takes before a call at 180k tokens in 2,000 and 10,000 messages; is it more?"""

import time
from collections.abc import Iterator

import pytest

from compact.settings import CompactSettings
from tests.compact.worlds import World

pytestmark = pytest.mark.bench


def grown(messages: int, tokens: int, settings: CompactSettings) -> World:
    """A session of so many messages, its results of equal size."""
    world = World(settings, window=1_000_000, judged=False)
    world.user("go through src/ and mend what is broken; never push")
    for at in range((messages - 1) // 2):
        world.call("read", "x " * (tokens * 4 // messages), thinks="hm", file_path=f"src/f{at % 50}.py")
    return world


def timed(world: World, calls: int) -> Iterator[float]:
    for at in range(calls):
        world.call("bash", "ok " * 200, command=f"make {at}")
        begun = time.thread_time()
        made = world.plan()
        yield time.thread_time() - begun
        world.carry_out(made)


def p95(seconds: list[float]) -> float:
    return sorted(seconds)[int(len(seconds) * 0.95)] * 1_000


@pytest.mark.parametrize("acts", [True, False], ids=["acting", "never acting"])
def test_all_layers_take_at_most_5_ms_before_a_call_and_no_more_when_history_is_longer(acts):
    settings = CompactSettings() if acts else CompactSettings(batch_min_tokens=10_000_000)
    short = p95(list(timed(grown(500, 45_000, settings), 200)))
    long = p95(list(timed(grown(2_000, 180_000, settings), 200)))
    longest = p95(list(timed(grown(10_000, 180_000, settings), 200)))
    print(f"p95 before a call: {short:.2f} ms at 500 messages, {long:.2f} at 2,000, {longest:.2f} at 10,000")
    assert long <= 5.0
    assert longest <= 5.0
