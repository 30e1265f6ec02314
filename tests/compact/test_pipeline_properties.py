"""Whatever happens in a session and whatever is compacted, every view is one that the API takes."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compact.plan import SummaryReply
from compact.settings import CompactSettings
from transcripts.messages import TextBlock, ThinkingBlock, ToolUseBlock

from .worlds import World, again, answered, bodies, failed

POLICIES = ("thrifty", "classic", "off")
ANSWERS = (
    answered(),
    answered(""),
    answered("<summary>" + "word " * 20_000 + "</summary>"),
    answered("partial", stop="max_tokens"),
    failed("too long: prompt is too long: 9 tokens > 8 maximum"),
    failed(),
    SummaryReply(None, "it called a tool", stop="tool_use"),
)


def tight(policy, collapse=False):
    """Settings under which everything happens in small sessions."""
    return CompactSettings(
        policy=policy,
        collapse=collapse,
        min_compact_size=500,
        classic_trigger=4_000,
        trigger_reserve=0,
        budget_chars=6_000,
        budget_preview=200,
        snip_messages=14,
        snip_tail=9,
        protect_tokens=800,
        batch_tokens=600,
        batch_from=1_000,
        calls_ahead=50.0,
        keep_cap=2_500,
        tail_tokens=800,
        collapse_segment=500,
        ledger_tokens=400,
        restore_tokens=400,
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
        blocks = []
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


def run(seed, policy, binds, steps):
    session = Session(seed, policy, binds)
    for _ in range(steps):
        session.step()  # the world judges the view after every single fact: every crash point
    return session.world


@pytest.mark.parametrize("binds", [True, False])
@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=15, deadline=None)
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
    made = set()
    for seed in range(6):
        for policy in POLICIES:
            made |= {each.layer for each in run(seed, policy, True, 60).folded.compactions}
    assert made == {"budget", "snip", "micro", "collapse", "summary", "ledger", "reactive"}
