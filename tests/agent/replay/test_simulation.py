"""Replay prices, checks and judges what a pipeline does to a recorded session."""

from typing import cast

import pytest
from msgspec.structs import replace

from agent.replay.cache_simulation import PromptLayout, SimulatedCache
from agent.replay.figures import ReplayedRequest, figures_by_policy
from agent.replay.policies import PRICE_TIERS, setup_of
from agent.replay.simulation import PAUSE_S, baseline, baselines, recording, replay
from compact.settings import ContextWindow
from compact.situation import CompactionPlan, CompactionReport, Proposal, SummaryReply, SummaryRequest
from tests.narrowing import present
from tests.tables import each_row
from transcripts.facts import Clear, Fold, Reply, Result, Unthink, User
from transcripts.folding import Folded
from transcripts.messages import TextBlock, ToolUseBlock
from transcripts.view import Message

from .sessions import Counted, count_text, session

OVERHEAD = 1_000
NO_REPORT = cast("CompactionReport", {})  # the replay reads no figure of what a planner proposes


def setup(planner, tier="standard", window=200_000):
    made = setup_of("thrifty", tier, Counted())  # type: ignore[arg-type]  # it counts by length
    return replace(made, window=ContextWindow(window, 1_000), overhead=OVERHEAD, planner=planner)


def never(situation, trigger, focus, rung):
    yield from ()  # it asks for no summary
    return CompactionPlan()


def clearing(keep, name_ids=True):
    """A planner that clears every result but the newest `keep`, one by one."""

    def planner(situation, trigger, focus, rung):
        yield from ()  # it asks for no summary
        folded = situation.folded
        results = [part for message in folded.view for part in message.parts if part.use is not None]
        proposals = []
        for part in results[: max(0, len(results) - keep)]:
            if part.tokens > 100 and trigger == "auto":
                text = f"[cleared: recall r{part.seq} shows it]" if name_ids else "[cleared]"
                edit = Clear(part.seq, part.index, "content", text, part.tokens - 10)
                proposals.append(Proposal("micro", trigger, (edit,), NO_REPORT))
        return CompactionPlan(tuple(proposals))

    return planner


def run(planner, turns=12, tier="standard", window=200_000, **more):
    return replay(recording("made.jsonl", session(turns, **more)), "thrifty", setup(planner, tier, window))


@each_row("tier", PRICE_TIERS)
def test_a_policy_that_never_acts_costs_exactly_the_baseline_at_every_tier(tier):
    done = run(never, tier=tier)
    assert done.figures.cost_ratio == done.figures.cost_with_rereads == 1.0
    assert done.figures.cache_breaks_per_100 == 0
    assert done.figures.invalid_views == 0
    assert done.totals.calls == len(done.requests) == 13


def test_the_baseline_is_the_sum_that_pencil_and_paper_give():
    facts = session(2)
    first = OVERHEAD + 8 + 4
    ids = 2 * Message.CALL_ID_TOKENS  # a call and its result
    second = 20 + 4 + sum(facts[2].tokens) + 4 + ids
    third = 20 + 4 + sum(facts[4].tokens) + 4 + ids
    cost = 1.25 * first + (0.1 * first + 1.25 * second) + (0.1 * (first + second) + 1.25 * third)
    assert baseline(recording("f", facts), setup(never)) == pytest.approx(cost)


def test_a_request_says_how_its_whole_prompt_was_served():
    done = run(clearing(3))
    for request in done.requests:
        assert request.cache_read + request.cache_written == request.view_tokens
    assert done.figures.peak_tokens == max(request.view_tokens for request in done.requests)


def test_clearing_is_priced_as_the_rewrite_that_it_causes():
    done = run(clearing(3))
    cut = next(request for request in done.requests if request.edits)
    before = done.requests[cut.index - 1]
    assert cut.cache_read < before.view_tokens
    assert cut.edits == (("micro", session(1)[2].tokens[0] - 10),)
    assert done.figures.cache_breaks_per_100 > 50


def test_the_cost_is_what_the_requests_add_up_to():
    done, tier = run(clearing(3)), PRICE_TIERS["standard"]
    summed = sum(tier.read * r.cache_read + tier.write * r.cache_written for r in done.requests)
    assert done.totals.cost == pytest.approx(summed)
    assert done.figures.cost_ratio == pytest.approx(done.totals.cost / done.totals.baseline, abs=1e-6)


def test_names_behind_a_placeholder_with_an_id_are_recoverable_and_without_one_lost():
    far = session(6, result_chars=4_000)
    with_ids = replay(recording("f", far), "thrifty", setup(clearing(0)))
    without = replay(recording("f", far), "thrifty", setup(clearing(0, name_ids=False)))
    assert with_ids.figures.lost_references == 0
    assert with_ids.figures.recoverable_references == without.figures.lost_references > 0.5


def test_each_reference_that_is_not_in_context_costs_a_call_and_its_source():
    facts = list(session(2))
    shown = f"{facts[2].content[0].text} def other_name(): ..."
    facts[2] = replace(facts[2], content=(TextBlock(shown),))
    facts[-1] = replace(facts[-1], blocks=(TextBlock("other_name is done"),))
    done = replay(recording("f", facts), "thrifty", setup(clearing(1)))
    assert done.totals.recoverable == 1
    prompt = done.requests[2].view_tokens
    assert done.totals.rereads == pytest.approx(0.1 * prompt + 1.25 * facts[2].tokens[0])
    assert done.figures.cost_with_rereads > done.figures.cost_ratio


def test_a_source_of_several_references_of_one_call_is_charged_once():
    facts = list(session(2))
    shown = f"{facts[2].content[0].text} def first_name(): ... def second_name(): ..."
    facts[2] = replace(facts[2], content=(TextBlock(shown),))
    facts[-1] = replace(facts[-1], blocks=(TextBlock("first_name and second_name are done"),))
    done = replay(recording("f", facts), "thrifty", setup(clearing(1)))
    assert done.totals.recoverable == 2
    assert done.totals.rereads == pytest.approx(
        0.1 * done.requests[2].view_tokens + 1.25 * facts[2].tokens[0]
    )


def test_a_result_that_is_cut_before_the_model_saw_it_costs_a_call_and_its_text_once():
    facts = session(2)
    done = replay(recording("f", facts), "thrifty", setup(clearing(0)))
    assert done.totals.recoverable == 1  # the first result, which was asked for again when it was cut
    before = sum(request.view_tokens for request in done.requests[:2])
    written = facts[2].tokens[0] + facts[4].tokens[0]
    assert done.totals.rereads == pytest.approx(0.1 * before + 1.25 * written)


def folding(situation, trigger, focus, rung):
    """A planner that asks for a summary once six exchanges are there."""
    folded = situation.folded
    if trigger != "auto" or len(folded.entries) != 7 or folded.compactions:
        return CompactionPlan()
    answer = yield SummaryRequest("Summarise.", 0, 1_000)
    assert answer.failure is None
    last = folded.entries[-2].last
    fold = Fold(1, last, (TextBlock(answer.text),), count_text(answer.text))
    return CompactionPlan((Proposal("summary", trigger, (fold,), NO_REPORT),))


def test_a_summary_is_canned_counted_and_paid_for_input_and_output():
    answers = []

    def planner(situation, trigger, focus, rung):
        flow = folding(situation, trigger, focus, rung)
        try:
            answers.append((yield next(flow)))
            flow.send(answers[-1])
        except StopIteration as stop:
            return stop.value

    done, plain = run(planner, turns=80), run(never, turns=80)
    assert done.figures.summaries == 1
    usage = answers[0].usage
    summed = sum(0.1 * r.cache_read + 1.25 * r.cache_written for r in done.requests)
    paid = usage.input + 0.1 * usage.cache_read + 1.25 * usage.cache_written + 5 * usage.output
    assert done.totals.cost - summed == pytest.approx(paid)
    assert usage.input == count_text("Summarise.") + 4
    assert usage.cache_read > 0
    assert done.figures.peak_tokens < plain.figures.peak_tokens


def test_the_same_session_gives_the_same_figures_every_time():
    assert run(folding) == run(folding)


def test_a_summary_request_over_the_window_is_refused_as_the_api_would():
    answers = []

    def planner(situation, trigger, focus, rung):
        if trigger == "auto":
            answer = yield SummaryRequest("x " * 9_000, 0, 1_000)
            answers.append(answer)
        return CompactionPlan()

    done = run(planner, turns=1, window=3_000)
    assert isinstance(answers[0], SummaryReply) and "too long" in present(answers[0].failure)
    assert done.figures.summaries == 0


def test_leaving_exchanges_out_makes_the_summary_request_fit():
    answers = []

    def planner(situation, trigger, focus, rung):
        if trigger == "auto" and len(situation.folded.entries) == 5:
            answers.append((yield SummaryRequest("x " * 6_000, 0, 1_000)).failure)
            answers.append((yield SummaryRequest("x " * 6_000, 4, 1_000)).failure)
        return CompactionPlan()

    run(planner, turns=4, window=7_000)
    assert answers[0] is not None
    assert answers[1] is None


def test_a_prompt_over_the_window_goes_down_the_reactive_ladder():
    rungs = []

    def planner(situation, trigger, focus, rung):
        yield from ()  # it asks for no summary
        if trigger != "reactive":
            return CompactionPlan()
        rungs.append(rung)
        if rung < 2:
            return CompactionPlan()
        last = situation.folded.entries[-2].last
        return CompactionPlan(
            (Proposal("reactive", trigger, (Fold(1, last, (TextBlock("floor"),), 2),), NO_REPORT),)
        )

    done = run(planner, turns=10, window=6_000)
    assert rungs[:2] == [1, 2]
    assert done.figures.peak_tokens <= 6_000
    assert done.figures.invalid_views == 0


def test_a_view_that_the_api_would_refuse_is_counted_with_its_faults():
    def planner(situation, trigger, focus, rung):
        yield from ()  # it asks for no summary
        if situation.folded.last_reply_seq and not situation.folded.compactions:
            return CompactionPlan(
                (Proposal("bad", trigger, (Fold(1, 1, (ToolUseBlock("x", "f", {}),), 0),), NO_REPORT),)
            )
        return CompactionPlan()

    done = run(planner, turns=3)
    assert done.figures.invalid_views == 3
    assert any("call by the user" in fault for fault in done.problems)


def test_failures_of_a_plan_are_recorded_for_the_plans_that_follow():
    counts = []

    def planner(situation, trigger, focus, rung):
        yield from ()  # it asks for no summary
        counts.append(len(situation.folded.failures))
        return CompactionPlan(failures=(("summary", "no"),))

    run(planner, turns=3)
    assert counts == [0, 1, 2, 3]


def test_thinking_left_out_is_neither_sent_nor_paid_for():
    def planner(situation, trigger, focus, rung):
        yield from ()  # it asks for no summary
        seen = situation.folded.last_reply_seq
        return CompactionPlan((Proposal("unthink", trigger, (Unthink(1, seen),), NO_REPORT),) if seen else ())

    with_it, without = run(never, thinks=True), run(planner, thinks=True)
    assert without.requests[-1].view_tokens < with_it.requests[-1].view_tokens


def test_a_pause_longer_than_the_cache_lives_makes_the_baseline_pay_again():
    near, far = (baseline(recording("f", session(5, gap=gap)), setup(never)) for gap in (299, 301))
    assert far > 2 * near
    hour = baseline(recording("f", session(5, gap=301)), setup(never, "hour"))
    assert hour < far


def test_every_request_reaches_the_sink_with_marks_that_the_simulation_used():
    sent = []
    replay(
        recording("f", session(8)),
        "thrifty",
        setup(folding),
        None,
        lambda view, marks, ask: sent.append((list(view), list(marks), ask)),
    )
    assert [ask for *_, ask in sent].count("Summarise.") == 1
    assert len(sent) == 10
    layout, cache = PromptLayout(OVERHEAD), SimulatedCache()
    for view, marks, ask in sent:
        layout.update(view)
        served = cache.send(layout, [*marks, len(view) - 1], 0.0)
        assert served.input == 0 or ask


def test_totals_are_sums_over_sums_and_the_mean_of_ratios_weighs_sessions_alike():
    runs = [replay(recording(str(turns), session(turns)), "thrifty", setup(clearing(1))) for turns in (4, 40)]
    total = figures_by_policy(runs)["thrifty"]
    tallies = [one.totals for one in runs]
    assert total.cost_ratio == pytest.approx(
        sum(t.cost for t in tallies) / sum(t.baseline for t in tallies), abs=1e-6
    )
    assert total.peak_tokens == max(t.peak for t in tallies)
    assert total.mean_cost_ratio == pytest.approx(sum(one.figures.cost_ratio for one in runs) / 2)
    assert total.mean_cost_ratio != pytest.approx(total.cost_ratio, abs=1e-3)
    assert total.worst_with_rereads == max(one.figures.cost_with_rereads for one in runs)


def test_a_session_without_references_has_none_lost():
    made = run(never, turns=1).figures
    assert (made.lost_references, made.recoverable_references) == (0.0, 0.0)


def test_replies_without_a_prompt_before_them_are_not_requests():
    facts = session(2)
    done = replay(recording("f", facts[1:2]), "thrifty", setup(never))
    assert done.requests == ()
    assert baseline(recording("f", ()), setup(never)) == 0
    assert isinstance(Folded().view.tokens, int)
    assert ReplayedRequest(0, 1, 1, 0).edits == ()


def editing(old="line 0 line 0"):
    """A session that reads two files and then replaces a text of the first."""
    facts = session(2)
    call = ToolUseBlock("e1", "edit", {"path": "src/part_0.py", "old_string": old, "new_string": "new"})
    return (*facts[:-1], Reply(len(facts), 0.0, (call,), (9,)))


def test_an_edit_whose_text_is_shown_is_in_view_and_one_behind_a_placeholder_costs_a_reread():
    shown = replay(recording("f", editing()), "thrifty", setup(never))
    assert (shown.totals.edits, shown.totals.edits_out, shown.totals.rereads) == (1, 0, 0)
    gone = replay(recording("f", editing()), "thrifty", setup(clearing(1)))
    assert gone.figures.edits_out_of_view == 1.0
    source, prompt = editing()[2].tokens[0], gone.requests[-1].view_tokens
    names = gone.totals.recoverable * (0.1 * gone.requests[1].view_tokens + 1.25 * source)
    assert gone.totals.rereads - names == pytest.approx(0.1 * prompt + 1.25 * source)


def test_an_edit_of_a_text_that_was_never_shown_is_not_judged():
    assert replay(recording("f", editing("never shown")), "thrifty", setup(clearing(0))).totals.edits == 0


def test_a_request_that_leaves_no_room_for_its_reply_is_refused():
    size = run(never).requests[-1].view_tokens
    assert run(never, window=size + 2).totals.refused == 0
    assert run(never, window=size + 1).totals.refused > 0


def test_off_within_the_window_is_a_baseline_of_its_own():
    recorded, off = recording("f", session(12)), setup(never)
    costs = baselines(recorded, off)
    assert costs.off == costs.appended == baseline(recorded, off)
    assert replay(recorded, "thrifty", off, costs).figures.cost_to_off == 1.0


def test_pauses_before_prompts_can_be_assumed_and_recorded_ones_left_out():
    facts = session(2, gap=400.0)
    words = User(len(facts) + 1, facts[-1].ts, (TextBlock("go on"),), (3,))
    facts = (*facts, words, Reply(len(facts) + 2, facts[-1].ts, (TextBlock("yes"),), (2,)))
    assert {fact.ts for fact in recording("f", facts, "none").facts} == {0.0}
    assumed = [fact.ts for fact in recording("f", facts, "prompts").facts]
    assert assumed == [0.0] * (len(facts) - 2) + [PAUSE_S] * 2
    assert recording("f", facts).facts == facts


def test_text_that_comes_back_with_a_call_on_its_file_is_in_view_of_the_next_edit():
    lines = "\n".join(f"def small_{number}(): return {number}" for number in range(20))
    read = ToolUseBlock("r1", "read", {"path": "src/a.py"})
    look = ToolUseBlock("g1", "grep", {"path": "src/a.py", "pattern": "small_6"})
    edit = ToolUseBlock("e1", "edit", {"path": "src/a.py", "old_string": "def small_6(): return 6"})
    facts = (
        User(1, 0.0, (TextBlock("go"),), (1,)),
        Reply(2, 0.0, (read,), (9,)),
        Result(3, 0.0, 2, 0, (TextBlock(lines),), (300,)),
        Reply(4, 0.0, (look,), (9,)),
        Result(5, 0.0, 4, 0, (TextBlock("6"),), (1,)),
        Reply(6, 0.0, (edit,), (9,)),
    )

    def planner(situation, trigger, focus, rung):
        yield from ()  # it asks for no summary
        results = [part for message in situation.folded.view for part in message.parts if part.use]
        edits = (Clear(results[0].seq, 0, "content", "[cleared]", 290),) if len(results) == 1 else ()
        return CompactionPlan((Proposal("micro", trigger, edits, NO_REPORT),) if edits else ())

    made = replace(setup(planner), overhead=60_000)
    assert replay(recording("f", facts), "thrifty", made).totals.edits_out == 0
    without = replace(made, settings=replace(made.settings, put_back_max_tokens=0))
    assert replay(recording("f", facts), "thrifty", without).totals.edits_out == 1
