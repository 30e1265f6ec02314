"""What a server caches is learned from the usage of its replies, and plans use the prices that follow."""

from compact.policy import choose_batch
from compact.prices import Prices
from compact.server_cache import MIN_MISSES, ServerCache, learned_prices, server_cache
from transcripts.facts import Compacted, Opened, RequestSent, Rewound
from transcripts.folding import fold
from transcripts.messages import ToolUseBlock, Usage

from .worlds import World

LIST = Prices(read=0.1, write=1.25)


def sent(world, usage, pause=20):
    world.now += pause
    world.reply(ToolUseBlock(f"t{world.folded.last_seq}", "bash", {}), usage=usage)


def replies(*usages, model="m"):
    world = World(judged=False)
    world.add(Opened, (), (), model)
    for usage in usages:
        sent(world, usage)
    return world


def test_a_server_that_reports_no_cached_tokens_is_known_after_five_replies_as_one_that_never_caches():
    uncached = [Usage(10_000 + 1_000 * number) for number in range(5)]
    assert server_cache(replies(*uncached[:4]).folded) is ServerCache.UNKNOWN
    world = replies(*uncached)
    assert server_cache(world.folded) is ServerCache.NEVER
    prices = learned_prices(world.folded, LIST)
    assert (prices.read, prices.write, prices.input) == (1.0, 1.0, LIST.input) and not prices.caching


def test_one_reply_tells_that_prefixes_are_cached_at_breakpoints_or_automatically():
    first = replies(Usage(10, cache_written=10_000))
    assert server_cache(first.folded) is ServerCache.PREFIX
    assert learned_prices(first.folded, LIST) == LIST
    second = replies(Usage(10_000), Usage(1_000, cache_read=10_000))
    assert server_cache(second.folded) is ServerCache.AUTOMATIC
    prices = learned_prices(second.folded, LIST)
    assert (prices.read, prices.write) == (LIST.read, 1.0)


def test_requests_that_could_not_have_read_anything_prove_nothing():
    short = replies(*[Usage(500)] * 9)
    rare = replies(Usage(10_000))
    changed = replies(Usage(10_000))
    for _ in range(9):
        sent(rare, Usage(10_000), pause=400)
        changed.add(Compacted, "micro", "auto", ())
        sent(changed, Usage(10_000))
    for world in (short, rare, changed):
        assert server_cache(world.folded) is ServerCache.UNKNOWN


def test_a_reply_that_reads_corrects_what_was_learned_and_each_model_is_learned_by_itself():
    world = replies(*[Usage(10_000)] * (MIN_MISSES + 1))
    assert server_cache(world.folded) is ServerCache.NEVER
    world.add(Opened, (), (), "other")
    assert server_cache(world.folded) is ServerCache.UNKNOWN
    world.add(Opened, (), (), "m")
    sent(world, Usage(1_000, cache_read=9_000))
    assert server_cache(world.folded) is ServerCache.AUTOMATIC
    for _ in range(MIN_MISSES):
        sent(world, Usage(10_000))
    assert server_cache(world.folded) is ServerCache.NEVER  # another server, after the session was resumed


def test_of_a_long_session_that_was_resumed_only_the_newest_facts_are_evidence(monkeypatch):
    monkeypatch.setattr("compact.server_cache.MAX_FACTS", 14)
    world = replies(Usage(10, cache_written=10_000), *[Usage(10_000 + 1_000 * number) for number in range(9)])
    assert server_cache(fold(world.facts)) is ServerCache.NEVER
    assert server_cache(fold(world.facts[:4])) is ServerCache.PREFIX
    world.add(Opened, (), (), "other")
    assert server_cache(world.folded) is ServerCache.UNKNOWN
    world.add(Opened, (), (), "m")
    assert server_cache(fold(world.facts)) is ServerCache.NEVER


def test_what_was_learned_survives_a_rewind_only_as_far_as_its_replies_do():
    world = replies(*[Usage(10_000)] * (MIN_MISSES + 1))
    last = [fact.seq for fact in world.facts if isinstance(fact, RequestSent)][-1]
    assert server_cache(world.folded) is ServerCache.NEVER
    world.add(Rewound, last)
    assert server_cache(world.folded) is ServerCache.UNKNOWN


def test_a_batch_comes_earlier_where_nothing_is_cached():
    def batch_after(prices_of):
        """Return the number of reads after which the first batch is due."""
        world = World(overhead=3_000)
        world.user("read everything")
        for number in range(60):
            world.call("read", f"row {number}\n" * 1_500, file_path=f"f{number}.py")
            world.now += 20
            world.prices = prices_of(world.folded)
            if choose_batch(world.situation) is not None:
                return number
        return 60

    assert batch_after(lambda folded: learned_prices(folded, LIST)) < batch_after(lambda folded: LIST) < 60
