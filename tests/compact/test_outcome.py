"""What a compaction was predicted to cost stands beside what the request after it did cost."""

import re

import pytest

from compact.outcome import outcome
from compact.settings import CompactSettings
from transcripts.messages import Usage

from .worlds import World


def compacted():
    world = World(CompactSettings(), window=40_000)
    world.user("begin")
    for at in range(12):
        world.call("bash", "line " * 1_000, command=f"make part{at}")
    world.compact("manual")
    return world, world.folded.compactions[0]


def test_what_came_is_what_the_next_request_could_not_read_from_the_cache():
    world, made = compacted()
    read = 1_000
    usage = Usage(input=7, cache_read=read, cache_written=made.report["after"] - read, output=1)
    world.reply("looked", usage=usage)
    said = outcome(world.folded, made, world.prices)
    predicted, came = (float(found) for found in re.findall(r"\$([\d.]+)", said))
    assert said.endswith(f"({usage.cache_written + 7:,})")
    assert predicted == round(made.report["predicted_cost_usd"], 3)
    assert abs(came - (1.25 * usage.cache_written + 7) * 3 / 1_000_000) < 0.001


def test_where_nothing_was_asked_under_it_nothing_came():
    world, made = compacted()
    assert outcome(world.folded, made, world.prices).endswith("nothing was asked under it")
    world.undo()
    world.reply("looked")
    assert outcome(world.folded, made, world.prices).endswith("nothing was asked under it")


@pytest.mark.parametrize("window", [40_000, 60_000])
def test_a_small_window_is_made_room_in_by_halves_and_not_every_other_call(window):
    world = World(window=window, overhead=5_000, judged=False)
    world.user("read every file")
    for number in range(60):
        world.call("read", "value = 'something'\n" * 400, file_path=f"src/part_{number}.py")
        world.compact()
    made = world.folded.compactions
    assert 4 <= len(made) <= 60 * 2_700 / (0.3 * world.situation.due)
    assert all(one.report["after"] <= 0.7 * world.situation.due for one in made)
