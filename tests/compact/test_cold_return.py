"""After the cache has expired, an expensive history is summarized locally before the turn's first request."""

from compact.notices import compaction_notice
from compact.prices import Prices
from tests.tables import each_row

from .side_constraints import prose
from .worlds import World

MEDIUM_TOKENS = 40_000  # of a session for which a summary still pays; making one takes a fifth of the time

TWO_HOURS_S = 7_200


def long_session(settings=None, tokens=180_000, pause_s=TWO_HOURS_S):
    """A long talk, in which nothing can be cleared, and the next prompt of the user after a pause."""
    world = World(settings, overhead=3_000, judged=False)
    world.user("Fix the parser. Never touch billing.py.")
    number = 0
    while world.situation.tokens < tokens:
        number += 1
        world.reply(prose(number, 4_000))
        world.user(f"Go on with part {number}.")
        world.now += 20
    world.reply("Done.")
    world.now += pause_s
    world.user("And the tests?")
    return world


def test_the_first_request_after_two_hours_costs_a_fifth_of_resending_all_and_is_undone_by_uncompact():
    world = long_session()
    before = world.situation.tokens
    shown = world.texts
    (proposal,) = world.compact().proposals
    assert proposal.layer == "ledger" and not world.questions  # the model was not asked
    assert world.situation.tokens <= 0.2 * before
    assert "Never touch billing.py." in world.texts and "And the tests?" in world.texts
    notice = compaction_notice([proposal])
    assert "the cache expired, and sending it all would cost ~$0." in notice
    assert notice.endswith("undo with /uncompact")
    world.undo()
    assert world.texts == shown
    assert not world.compact().proposals  # what the user took back stays


def test_a_medium_session_is_summarized_too():
    (proposal,) = long_session(tokens=MEDIUM_TOKENS).compact().proposals
    assert proposal.report["why"] == "cold return"


def test_after_a_short_pause_the_work_goes_on_with_the_text_that_it_needs():
    assert long_session(tokens=MEDIUM_TOKENS, pause_s=3_000).compact().proposals == ()
    world = World(overhead=3_000, judged=False)
    world.user("Read them all.")
    for number in range(60):
        world.call("read", prose(number, 8_000), file_path=f"src/f{number}.py")
    world.reply("Done.")
    world.now += 3_000
    world.user("And the tests?")
    newest = world.texts[-900:]
    assert [proposal.report["why"] for proposal in world.compact().proposals] == ["cold cache"]
    assert newest in world.texts


@each_row(
    "change",
    [
        lambda world: world.with_settings(cold_return_usd=0.0),
        lambda world: world.with_settings(cold_return_usd=9.0),
        lambda world: world.with_settings(policy="off"),
        lambda world: world.with_settings(cache_ttl_s=9_000),
        lambda world: setattr(world, "prices", Prices(is_guess=True)),
        lambda world: setattr(world, "prices", Prices(read=1.0, write=1.0)),
    ],
)
def test_nothing_is_summarized_where_it_is_cheap_or_not_wanted_or_nothing_had_been_cached(change):
    world = long_session(tokens=MEDIUM_TOKENS)
    change(world)
    assert all(proposal.report["why"] != "cold return" for proposal in world.compact().proposals)


def test_a_slow_command_in_the_middle_of_a_turn_is_no_return():
    world = long_session(tokens=100_000)
    world.call("bash", "passed", command="make test")
    world.now += TWO_HOURS_S
    assert all(proposal.report["why"] != "cold return" for proposal in world.compact().proposals)


def test_clearing_alone_is_enough_where_it_leaves_little():
    world = World(overhead=3_000, judged=False)
    world.user("Read them all.")
    world.call("edit", "ok", file_path="src/f0.py", old_string="a", new_string="b")
    for number in range(40):
        world.call("read", prose(number, 12_000), file_path=f"src/f{number}.py")
        world.now += 20
    world.reply("Done.")
    world.now += TWO_HOURS_S
    world.user("And the tests?")
    assert [proposal.report["why"] for proposal in world.compact().proposals] == ["cold cache"]
