"""Each compaction makes the request smaller or says that it cannot, however often it is repeated."""

import random

import pytest

from compact.settings import CompactSettings

from .side_constraints import guidelines, prose
from .worlds import World, answered, failed

TRIGGERS = ("manual", "tool", "auto", "reactive")
ANSWERS = (answered("<summary>short</summary>"), answered(f"<summary>{prose(1, 4_000)}</summary>"), failed())


def add_work(world, rng):
    """Add a few messages of random kinds and sizes, at most about the size of the window."""
    room = world.window.size
    for _ in range(rng.randrange(1, 7)):
        size = rng.randrange(1, room)
        match rng.randrange(5):
            case 0:
                world.user(prose(rng.randrange(10**6), size))
            case 1:
                world.user(guidelines(rng.randrange(10**6), size))
            case 2:
                world.call("read", f"value = {rng.random()}\n" * (size // 20), file_path=f"f{size % 9}.py")
            case 3:
                world.call("write", "ok", file_path=f"f{size % 9}.py", content="x = 1\n" * (size // 6))
            case 4:
                world.reply(prose(rng.randrange(10**6), size // 4))
    world.call("bash", "row\n" * rng.randrange(1, room // 4), command="make")


@pytest.mark.parametrize("policy", ["thrifty", "classic"])
@pytest.mark.parametrize("window", [4_000, 8_000, 16_000, 32_000])
@pytest.mark.parametrize("seeds", [range(1), pytest.param(range(1, 30), marks=pytest.mark.sweep)])
def test_five_compactions_in_a_row_shrink_the_request_or_say_that_they_cannot(window, policy, seeds):
    for seed in seeds:
        rng = random.Random(seed)
        world = World(CompactSettings(policy=policy), window=window, judged=False, overhead=window // 20)
        world.user("begin")
        for _ in range(3):
            add_work(world, rng)
            for _ in range(5):
                trigger = rng.choice(TRIGGERS)
                before = world.folded.view.tokens
                made = world.compact(trigger, rng.choice(ANSWERS), rung=1)
                if made.proposals:
                    assert world.folded.view.tokens < before, (seed, trigger)
                elif trigger != "auto":
                    assert made.note, (seed, trigger)
                    assert world.folded.view.tokens == before
