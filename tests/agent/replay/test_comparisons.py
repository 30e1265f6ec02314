"""The policies to compare with clear what they say, and the oracle what no later call needs."""

from msgspec.structs import replace

from agent.replay.comparisons import CLIFF_TOKENS, OLD_CALLS, comparison_planner
from agent.replay.policies import COMPARISON_POLICIES, setup_of
from agent.replay.simulation import recording, replay
from tests.tables import each_row

from .sessions import Counted, session


def run(policy, facts):
    recorded = recording("made.jsonl", facts)
    setup = setup_of(policy, "standard", Counted())  # type: ignore[arg-type]  # it counts by length
    return replay(recorded, policy, replace(setup, planner=comparison_planner(policy, recorded)))


def first_batch(done):
    return next(request for request in done.requests if request.edits)


@each_row("policy", COMPARISON_POLICIES)
def test_a_long_session_gets_cheaper_and_every_view_is_valid(policy):
    done = run(policy, session(120, thinks=True))
    assert done.figures.cost_ratio < 0.9
    assert done.problems == ()


@each_row("policy", COMPARISON_POLICIES)
def test_a_short_session_is_left_alone(policy):
    done = run(policy, session(3))
    assert [request.edits for request in done.requests] == [()] * 4


def test_older_waits_until_old_results_free_a_batch():
    done = run("older", session(60))
    batch = first_batch(done)
    assert batch.index > OLD_CALLS
    assert sum(freed for _, freed in batch.edits) > 15_000
    assert run("older", session(OLD_CALLS)).figures.cost_ratio == 1.0


def test_cliff_folds_all_but_the_newest_part_over_its_limit():
    done = run("cliff", session(60))
    batch = first_batch(done)
    before = done.requests[batch.index - 1].view_tokens
    assert CLIFF_TOKENS - 2_000 < before < CLIFF_TOKENS
    assert batch.view_tokens < CLIFF_TOKENS / 2


def test_the_oracle_removes_nothing_that_is_soon_needed():
    done = run("oracle", session(60))
    assert done.totals.references > 50
    assert done.figures.recoverable_references == done.figures.lost_references == 0
