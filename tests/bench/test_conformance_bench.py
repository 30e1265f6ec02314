"""Information that survives five compactions, by the PyPI package `compaction-conformance-kit`.

Its sessions are short talk; here each turn is followed by output of tools, so that there is something to
compact. What may be kept is a fifth of the characters. It plants rules, constraints, facts, states of the
work and preferences, restates some of them with other values, and adds similar ones that no one asks for.
"""

import random

import pytest

from compact.settings import CompactSettings
from tests.compact.side_constraints import compacted
from tests.compact.worlds import World

pytestmark = pytest.mark.bench
SEEDS = range(1, 9)
BUDGET_SHARE, ROUNDS, LEAST_SHARE = 0.2, 5, 0.95
ROWS = 60  # of each output


def padded(turns, window=200_000):
    """The kit's turns as a session of ours, each reply followed by a command and its output."""
    rng, world = random.Random(5), World(CompactSettings(), window, judged=False, overhead=2_000)
    for at, turn in enumerate(turns):
        if turn.role == "assistant":
            world.reply(turn.text)
            rows = (f"{number:04} {rng.random():.6f} src/part_{at}.py ok\n" for number in range(ROWS))
            world.call("bash", "".join(rows), command=f"make part_{at}")
        else:
            world.user(turn.text)
    world.reply("Done so far.")
    return world


@pytest.mark.parametrize(
    "build", ["build_generated_session", "build_random_session", "build_semantic_session"]
)
def test_nearly_all_survives_five_rounds_in_a_fifth_of_the_room(build):
    modules = ("generated", "corpus", "semantic_corpus")
    kits = [pytest.importorskip(f"compaction_kit.{name}") for name in modules]
    make = next(getattr(kit, build) for kit in kits if hasattr(kit, build))
    held, asked, latest, updated = 0, 0, 0, 0
    for seed in SEEDS:
        session, canaries = make(seed)[:2]
        world = padded(session.transcript())
        size = sum(map(len, world.shown))
        world.with_settings(max_compact_size=2_000 + int(BUDGET_SHARE * size) // 4)  # a token is four here
        compacted(world, ROUNDS)
        shown = "\n".join(world.shown).lower()
        assert len(shown) <= 1.1 * BUDGET_SHARE * size
        found = [all(token.lower() in shown for token in each.required_tokens) for each in canaries]
        held, asked = held + sum(found), asked + len(canaries)
        changed = [survives for survives, each in zip(found, canaries, strict=True) if each.superseded_tokens]
        latest, updated = latest + sum(changed), updated + len(changed)
        print(f"{build} {seed}: {sum(found)} of {len(found)}, {len(shown):,} of {size:,} characters")
    print(f"{build}: {held} of {asked} ({held / asked:.1%}), of updated ones {latest} of {updated}")
    assert held >= LEAST_SHARE * asked
