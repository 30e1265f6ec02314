"""The pipeline: every view is one that the API takes, and layers declare themselves and when they act."""

import sys
from itertools import product
from pathlib import Path
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from compact import pipeline
from compact.clearing import placeholder_edit
from compact.layers import LAYERS
from compact.layers.budget import BUDGET_LAYER
from compact.layers.cold_return import COLD_RETURN_LAYER
from compact.layers.collapse import COLLAPSE_LAYER
from compact.layers.micro import MICRO_LAYER
from compact.layers.snip import SNIP_LAYER
from compact.layers.summary import SUMMARY_LAYER
from compact.pipeline import plan
from compact.report import propose
from compact.settings import CompactSettings, ContextWindow
from compact.situation import CompactionPlan, Layer, SummaryReply, SummaryRequest
from tests.narrowing import present
from transcripts.messages import Block, TextBlock, ThinkingBlock, ToolUseBlock
from transcripts.view import PartKind

from .worlds import World, again, answered, bodies, failed

ROOT = Path(pipeline.__file__).parents[1]
POLICIES = ("thrifty", "classic", "off")
ANSWERS = (
    answered(),
    answered(""),
    answered("<summary>" + "word " * 20_000 + "</summary>"),
    answered("partial", stop="max_tokens"),
    failed("too long: prompt is too long: 9 tokens > 8 maximum", too_long=True),
    failed(),
    SummaryReply(None, "it called a tool", stop="tool_use"),
)


def tight(policy, collapse=False):
    """Settings under which everything happens in small sessions."""
    return CompactSettings(
        policy=policy,
        collapse=collapse,
        min_compact_size=500,
        classic_trigger_tokens=4_000,
        trigger_reserve_tokens=0,
        budget_max_chars=6_000,
        budget_preview_chars=200,
        snip_max_messages=14,
        snip_tail_messages=9,
        protected_tail_tokens=800,
        batch_min_tokens=600,
        max_record_tokens=2_500,
        tail_max_tokens=800,
        collapse_segment_tokens=500,
        ledger_max_tokens=400,
        restore_file_max_tokens=400,
    )


class Session:
    """Random steps of a session."""

    def __init__(self, seed, policy, binds):
        self.random = Random(seed)
        self.world = World(tight(policy, seed % 5 == 0), window=6_000, binds=binds, overhead=300)
        self.world.user("begin with src/a.py. Never push.")

    def step(self):
        name = self.random.choices(
            ("exchange", "user", "auto", "manual", "tool", "reactive", "undo", "idle"),
            (50, 8, 30, 3, 3, 4, 8, 3),
        )[0]
        getattr(self, name)()

    def text(self):
        return (
            f"line {self.random.randrange(99)} of src/f{self.random.randrange(9)}.py "
            * self.random.choice((1, 4, 30, 120, 250))
        )

    def exchange(self):
        blocks: list[Block] = []
        for at in range(self.random.randrange(1, 5)):
            if self.random.random() < 0.5:
                blocks.append(ThinkingBlock(f"hm {self.random.random()}", "sig"))
            if self.random.random() < 0.3:
                blocks.append(TextBlock(self.text()))
            if self.random.random() < 0.8:
                name = self.random.choice(("read", "bash", "write"))
                given = {"file_path": f"src/f{self.random.randrange(9)}.py"}
                if name == "write":
                    given["content"] = self.text()
                blocks.append(ToolUseBlock(f"t{self.world.folded.last_seq}_{at}", name, given))
        complete = self.random.random() < 0.9
        reply = self.world.reply(*blocks, complete=complete)
        for index, block in enumerate(blocks):
            if complete and isinstance(block, ToolUseBlock) and self.random.random() < 0.95:
                self.world.result(reply, index, self.text(), error=self.random.random() < 0.1)

    def user(self):
        source = "harness" if self.random.random() < 0.2 else "user"
        self.world.user(*(self.text() for _ in range(self.random.randrange(1, 3))), source=source)

    def answers(self):
        return [self.random.choice(ANSWERS[:1] * 5 + ANSWERS) for _ in range(4)]

    def auto(self):
        self.world.compact("auto", *self.answers())

    def manual(self):
        self.world.compact("manual", *self.answers())

    def tool(self):
        self.world.compact("tool", *self.answers())

    def reactive(self):
        self.world.compact("reactive", *self.answers(), rung=self.random.randint(1, 4))

    def undo(self):
        made = self.world.folded.compactions
        self.world.undo(self.random.choice(made).id if made else "")

    def idle(self):
        self.world.now += 4_000


def run(seed, policy, binds, steps, judged=True):
    session = Session(seed, policy, binds)
    if not judged:
        session.world.judge = None
    for _ in range(steps):
        session.step()  # the world judges the view after every single fact: every crash point
    return session.world


@pytest.mark.parametrize("binds", [True, False])
@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=2, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_every_view_is_sound_at_every_point(policy, binds, seed):
    world = run(seed, policy, binds, 40)
    assert bodies(again(world)) == bodies(world.folded)


@pytest.mark.sweep
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("policy", POLICIES)
def test_every_view_is_sound_in_many_long_sessions(policy):
    for seed in range(150):
        for binds in (True, False):
            run(seed, policy, binds, 120)


def test_the_random_sessions_reach_every_layer():
    missing = {"budget", "snip", "micro", "collapse", "summary", "ledger", "reactive"}
    for seed, policy in product(range(6), POLICIES):
        missing -= {each.layer for each in run(seed, policy, True, 60, judged=False).folded.compactions}
        if not missing:
            break
    assert missing == set()


def at_every_size(layer):
    """The layer as before it declared a minimum size."""
    sizes = layer.min_tokens
    return replace(layer, min_tokens=lambda *given: None if sizes(*given) is None else 0)


class Watched(Session):
    """A session in which every automatic plan is compared with that of a walk through all layers."""

    def __init__(self, seed, policy, made_for_it):
        super().__init__(seed, policy, binds=seed % 2 == 0)
        self.world.judge = None
        self.world.tokenizer = (self.random.choice((0, 900)), self.random.uniform(0.5, 3.5))
        if not made_for_it:
            self.world.settings, self.world.window = CompactSettings(policy=policy), ContextWindow(60_000)

    def step(self):
        steps = (self.exchange, self.user, self.auto, self.undo, self.idle)
        self.random.choices(steps, (50, 8, 40, 5, 5))[0]()

    def auto(self):
        given = self.answers()
        made = self.world.plan("auto", *given)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pipeline, "LAYERS", tuple(map(at_every_size, LAYERS)))
            whole = self.world.plan("auto", *given)
        assert made == whole
        self.world.carry_out(made)


@pytest.mark.parametrize("policy", ["thrifty", "classic"])
@settings(max_examples=2, deadline=None)
@example(seed=8370, made_for_it=False)  # clearing leaves less after a long pause than a summary needs
@given(seed=st.integers(0, 2**32), made_for_it=st.booleans())
def test_a_layer_that_is_passed_by_for_the_size_would_have_done_nothing(policy, seed, made_for_it):
    session = Watched(seed, policy, made_for_it)
    for _ in range(50):
        session.step()


def refusing(situation):
    raise AssertionError("this layer was entered")


def test_a_small_conversation_passes_the_pipeline_without_entering_a_layer(monkeypatch):
    monkeypatch.setattr(pipeline, "LAYERS", tuple(replace(layer, plan=refusing) for layer in LAYERS))
    world = World(overhead=50_000)
    world.user("begin")
    while world.folded.view.tokens < 400:
        assert world.plan() == CompactionPlan()
        world.call("bash", "line " * 20, command="ls")


def test_the_size_of_system_and_tools_makes_no_layer_look_for_what_could_be_cleared(monkeypatch):
    kept = [layer if layer is BUDGET_LAYER else replace(layer, plan=refusing) for layer in LAYERS]
    monkeypatch.setattr(pipeline, "LAYERS", tuple(kept))
    world = World(overhead=50_000)
    world.user("begin")
    while world.folded.view.tokens < 2_000:
        assert world.plan() == CompactionPlan()
        world.call("bash", "line " * 100, command="ls")
    with pytest.raises(AssertionError, match="entered"):
        while world.folded.view.tokens < 3_500:
            world.plan()
            world.call("bash", "line " * 100, command="ls")


def test_a_small_conversation_passes_the_pipeline_in_few_functions():
    world = World(overhead=12_000)
    world.user("hello")
    world.reply("hi there")
    world.plan()  # the sizes from which on the layers may act are known from here on
    entered, flow = set(), plan(world.situation, "auto")

    def note(frame, event, argument):
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(ROOT):
            entered.add((path, frame.f_code.co_name))

    sys.setprofile(note)
    try:
        next(flow)
    except StopIteration as stop:
        assert stop.value == CompactionPlan()
    finally:
        sys.setprofile(None)
    ours = {each for each in entered if each[0] != Path(__file__)}
    assert len(ours) <= 8 and len({path for path, _ in ours}) <= 4, ours


def clearing(situation):
    """A layer that clears the first result in full view."""
    parts = [part for message in situation.view for part in message.parts if part.kind is PartKind.RESULT]
    edits = tuple(
        present(placeholder_edit(situation.folded, part, "content", situation.counter)) for part in parts[:1]
    )
    return (propose(situation, "dummy", "auto", edits, why="test"),) if edits else ()


def asking(situation):
    """A layer that asks the model."""
    reply = yield SummaryRequest("What now?", 0, 10)
    return CompactionPlan(failures=(("dummy", reply.text),), note="asked")


def busy():
    world = World(window=40_000)
    world.user("read everything")
    for at in range(12):
        world.call("read", "word " * 1_500, file_path=f"f{at}.py")
    return world


@pytest.mark.parametrize("place", range(len(LAYERS) + 1))
def test_a_layer_takes_part_as_soon_as_it_is_registered(monkeypatch, place):
    monkeypatch.setattr(pipeline, "LAYERS", (*LAYERS[:place], Layer(clearing), *LAYERS[place:]))
    world = World()
    world.user("begin")
    world.call("bash", "line " * 300, command="ls")
    made = world.compact()
    assert [(each.layer, each.trigger) for each in made.proposals] == [("dummy", "auto")]
    assert "[cleared: bash ls" in world.texts and world.folded.compactions[0].layer == "dummy"


def test_a_layer_may_ask_the_model_and_its_reports_are_shown(monkeypatch):
    monkeypatch.setattr(pipeline, "LAYERS", (Layer(asking), *LAYERS))
    world = World()
    world.user("begin")
    assert world.plan("auto", answered("this")) == CompactionPlan((), (("dummy", "this"),), "asked")
    assert [asked.instructions for asked in world.questions] == ["What now?"]


def test_a_layer_that_is_off_is_never_asked(monkeypatch):
    monkeypatch.setattr(pipeline, "LAYERS", (Layer(refusing, min_tokens=lambda *given: None),))
    assert busy().plan() == CompactionPlan()


@pytest.mark.parametrize("lasting", [True, False])
def test_what_lasts_stays_beside_a_summary_and_other_clearing_is_dropped(monkeypatch, lasting):
    monkeypatch.setattr(pipeline, "LAYERS", (Layer(clearing, lasting=lasting), SUMMARY_LAYER))
    world = busy()
    world.user("more " * 9_000)
    made = world.plan("auto", answered())
    assert [each.layer for each in made.proposals] == ["dummy"] * lasting + ["summary"]
    assert bool(world.questions[0].edits) is lasting
    last = made.proposals[-1].report["before"]
    assert last == (made.proposals[0].report["after"] if lasting else world.situation.tokens)


def test_a_layer_behind_the_summary_sees_what_the_summary_leaves(monkeypatch):
    seen = []

    def look(situation):
        seen.append(situation.tokens)
        return ()

    monkeypatch.setattr(pipeline, "LAYERS", (*LAYERS, Layer(look)))
    world = busy()
    world.user("more " * 6_000)
    made = world.plan("auto", answered())
    assert seen == [made.proposals[-1].report["after"]]


def test_each_policy_has_its_layers():
    window = ContextWindow(200_000)
    active = {
        (policy, collapse): [
            layer
            for layer in LAYERS
            if layer.min_tokens(CompactSettings(policy=policy, collapse=collapse), window) is not None
        ]
        for policy in ("thrifty", "classic")
        for collapse in (False, True)
    }
    assert active == {
        ("thrifty", False): [BUDGET_LAYER, MICRO_LAYER, COLD_RETURN_LAYER, SUMMARY_LAYER],
        ("thrifty", True): [BUDGET_LAYER, MICRO_LAYER, COLD_RETURN_LAYER, COLLAPSE_LAYER],
        ("classic", False): [BUDGET_LAYER, SNIP_LAYER, MICRO_LAYER, SUMMARY_LAYER],
        ("classic", True): [BUDGET_LAYER, SNIP_LAYER, MICRO_LAYER, COLLAPSE_LAYER],
    }
    cheap = (BUDGET_LAYER, SNIP_LAYER, MICRO_LAYER)
    assert (*cheap, COLD_RETURN_LAYER, COLLAPSE_LAYER, SUMMARY_LAYER) == LAYERS


@pytest.mark.parametrize("more", [{"policy": "off"}, {"enabled": False}])
def test_nothing_happens_unasked_where_that_is_off(more):
    world = busy()
    world.with_settings(**more)
    world.user("more " * 30_000)
    assert world.plan() == CompactionPlan()
    assert world.plan("manual").proposals and world.plan("reactive", rung=1).proposals


def test_nothing_happens_after_a_refusal_where_reacting_is_off():
    world = busy()
    world.with_settings(reactive=False)
    world.user("more " * 30_000)
    assert world.plan("reactive", rung=1) == CompactionPlan()
