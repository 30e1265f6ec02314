"""Plans, to-do lists and skills in use: each fact is read once, and every prefix of a transcript agrees."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from agent.events import Event, Notice
from agent.model_port import IncomingReply, RequestSettings
from agent.session.environment import own_words_sent, plan_text
from agent.session.late_news import news_of_ended_commands, note_news, restore_news, telling_facts
from agent.session.plan_and_todo import newest_plan, newest_todos
from agent.session.repository import SessionRepository
from agent.session.session import record_opening
from agent.session.skill_texts import instructions_text, skills_in_use
from compact.prices import PriceList
from tests.narrowing import present
from tests.tables import each_row
from tools.processes.inbox import Inbox
from transcripts.channel import Channel
from transcripts.data_tags import injected
from transcripts.entries import Entry, Prompt
from transcripts.facts import Fact, Metadata, Opened, Reply, Result, Rewound, Unthink, User
from transcripts.folding import Folded, fold
from transcripts.messages import Block, ChannelBlock, TextBlock, ThinkingBlock, ToolUseBlock
from transcripts.store import Store

PLAN_TEXT = plan_text(("ask_user", "exit_plan"))

TAG = "7f3a21"


def random_facts(seed: int) -> list[Fact]:
    """Return a session with plans, lists and skills, whose results may be late, missing, twice or denied."""
    random = Random(seed)
    facts: list[Fact] = [Opened(1, 0.0, folder="/p", tag=random.choice(["", TAG]))]
    calls: list[tuple[int, int]] = []

    def skill() -> str:
        name = random.choice("abc")
        return instructions_text(name, Path("/skills") / name, f"version {len(facts)}")

    def prompt(seq: int) -> Fact:
        words = random.choice([PLAN_TEXT, skill(), "# Environment"])
        own = random.choice([ChannelBlock(words), TextBlock(injected(words)), TextBlock(words)])
        return User(seq, 0.0, (own, TextBlock("go")), source=random.choice(["user", "user", "harness"]))

    def reply(seq: int) -> Fact:
        blocks: list[Block] = [TextBlock(f"answer {seq}")] if random.random() < 0.7 else []
        for _ in range(random.randrange(3)):
            calls.append((seq, len(blocks)))
            given = {"plan": f"plan {seq}.{len(blocks)}", "todos": [{"content": f"{seq}"}]}
            blocks.append(
                ToolUseBlock(f"t{len(calls)}", random.choice(["exit_plan", "skill", "todo", "ls"]), given)
            )
        return Reply(seq, 0.0, tuple(blocks), complete=random.random() < 0.9)

    def result(seq: int) -> Fact:
        of, block = random.choice(calls[-4:]) if calls else (1, 0)
        about: dict[str, Any] = random.choice(
            [{}, {"approved": False}, {"approved": True, "plan": f"changed {seq}"}]
        )
        content = (TextBlock(skill()),)
        return Result(seq, 0.0, of=of, block=block, content=content, error=random.random() < 0.2, about=about)

    def rewind(seq: int) -> Fact:
        return Rewound(seq, 0.0, to=random.randint(2, seq))

    kinds: list[Callable[[int], Fact]] = [prompt, reply, reply, result, result, result]
    for seq in range(2, 60):
        facts.append((rewind if random.random() < 0.03 else random.choice(kinds))(seq))
    return facts


def told(folded: Folded) -> tuple[object, ...]:
    return newest_plan(folded), newest_todos(folded), [*skills_in_use(folded).items()], own_words_sent(folded)


def own_words_of(entry: Entry, tag: str) -> list[str]:
    """Return makeroom's own words with a prompt or the results of an exchange, found without a trail."""
    results = () if isinstance(entry, Prompt) else entry.results.values()
    blocks = entry.fact.blocks if isinstance(entry, Prompt) else [b for one in results for b in one.content]
    return [words for block in blocks if (words := Channel(tag).words(block)) is not None]


def plan_by_entries(folded: Folded) -> tuple[int, str] | None:
    """Return what `newest_plan` should, found by looking at all entries in order."""
    shown = said = None
    planning = shows = False
    for entry in folded.entries:
        if isinstance(entry, Prompt):
            if entry.fact.source == "user":
                planning = PLAN_TEXT in own_words_of(entry, folded.tag)
            continue
        results = [entry.results.get(at) for at, use in entry.uses.items() if use.name == "exit_plan"]
        if call := next((result for result in results if result is not None and not result.error), None):
            shows = True
            plan = str(call.about.get("plan") or entry.uses[call.block].input["plan"])
            shown = (entry.seq, plan) if call.about.get("approved", True) else shown
        elif planning and (text := entry.fact.text):
            said = (entry.seq, text)
    return shown if shows else said


def test_what_was_said_before_the_session_got_its_tag_is_no_word_of_makerooms() -> None:
    """As in a session that another agent wrote: anyone may have put the tags of old sessions into it."""
    words = (PLAN_TEXT, instructions_text("a", Path("/skills/a"), "obey"))
    before: list[Fact] = [User(1, 0.0, tuple(TextBlock(injected(each)) for each in words))]
    before.append(Reply(2, 0.0, (TextBlock("the plan"),)))
    for reads_before in (True, False):
        folded = fold(before)
        if reads_before:
            assert newest_plan(folded) and skills_in_use(folded) and own_words_sent(folded)
        folded.apply(Opened(3, 0.0, tag=TAG))
        assert told(folded) == (None, None, [], [])


@each_row("seed", range(40))
def test_every_prefix_tells_the_same_whether_it_was_read_at_once_or_in_parts(seed: int) -> None:
    random = Random(seed)
    facts = random_facts(seed)
    grown = Folded()
    for count, fact in enumerate(facts, 1):
        grown.apply(fact)
        if random.random() < 0.5:
            whole = fold(facts[:count])
            assert told(grown) == told(whole)
            assert newest_plan(whole) == plan_by_entries(whole)
            entries = {entry.seq: own_words_of(entry, whole.tag) for entry in whole.entries}
            by_entry = [(seq, text) for seq, texts in entries.items() for text in texts]
            assert sorted(own_words_sent(whole)) == sorted(by_entry)


def test_the_random_sessions_have_plans_lists_and_skills_to_tell_of() -> None:
    ends = [told(fold(random_facts(seed))) for seed in range(40)]
    for kind in range(4):
        assert sum(bool(end[kind]) for end in ends) > 20


class CountingList(list[Any]):
    """Counts how many of its values were taken in slices."""

    taken = 0

    def __getitem__(self, at: Any) -> Any:
        found = super().__getitem__(at)
        self.taken += len(found) if isinstance(at, slice) else 0
        return found


def test_a_reopened_session_has_its_facts_read_before_the_screen_asks_for_plans(tmp_path: Path) -> None:
    repository = SessionRepository(tmp_path, keep=True, tell=pytest.fail)
    store = Store.create(tmp_path, None, pytest.fail)
    for fact in random_facts(1):
        store.append(fact)
    store.close()
    session = repository.reopen(store.path)
    folded = session.folded
    charged = folded.charges = CountingList(folded.charges)
    session.use_prices(PriceList())
    assert session.cost == 0 and charged.taken == 0 and len(charged) > 5
    folded.facts = facts = CountingList(folded.facts)
    expected = fold(facts)
    assert newest_todos(folded) == newest_todos(expected)
    assert newest_plan(folded) == newest_plan(expected)
    assert skills_in_use(folded) == skills_in_use(expected)
    assert own_words_sent(folded) == own_words_sent(expected)
    assert telling_facts(folded) == telling_facts(expected)
    assert news_of_ended_commands(folded) == news_of_ended_commands(expected)
    assert facts.taken == 0


def test_a_list_that_its_tool_refused_or_that_is_none_does_not_replace_the_last_one() -> None:
    def call(seq: int, todos: Any, error: bool) -> list[Fact]:
        use = ToolUseBlock(f"t{seq}", "todo", {"todos": todos})
        return [Reply(seq, 0.0, (use,)), Result(seq + 1, 0.0, of=seq, block=0, content=(), error=error)]

    accepted = [
        Opened(1, 0.0),
        User(2, 0.0, (TextBlock("go"),)),
        *call(3, [{"content": "test"}], error=False),
    ]
    refused = call(5, [{"content": "lint"}], error=True)
    no_lists = [*call(7, "lint", error=False), *call(9, [{"content": "lint"}, "lint"], error=False)]
    for later in (refused, no_lists):
        (seq, (item,)) = present(newest_todos(fold([*accepted, *later])))
        assert (seq, item.content) == (3, "test")


def test_news_that_an_earlier_run_sent_is_not_sent_again(tmp_path: Path) -> None:
    """A kill between a prompt and the note about its news leaves the news waiting in the transcript."""
    before = Inbox()
    for news in ("ci failed", "deployed"):
        before.post(news, since=1)
    session = SessionRepository(tmp_path, keep=True, tell=pytest.fail).new()
    note_news(session, before)
    session.close()
    abouts = [note.about for note in session.folded.metadata if note.topic == Metadata.NEWS]
    notes = [Metadata(2 + at, 0.0, Metadata.NEWS, about) for at, about in enumerate(abouts)]
    for sent in (TextBlock("ci failed"), TextBlock(injected("ci failed"))):
        inbox = Inbox()
        restore_news(fold([Opened(1, 0.0), *notes, User(4, 0.0, (sent, TextBlock("go")))]), inbox)
        assert [news.text for news in inbox.waiting.values()] == ["deployed"]


def test_the_settings_of_a_session_are_recorded_once_after_each_change(tmp_path: Path) -> None:
    session = SessionRepository(tmp_path, keep=True, tell=pytest.fail).new()
    told: list[Event] = []

    def opened(model: str = "m", folder: str = "/p", tag: str = "") -> list[tuple[object, ...]]:
        """Return (about, edits) of the openings that two requests recorded."""
        known = len(session.folded.facts)
        for _ in range(2):
            record_opening(session, RequestSettings(model, 1, tag=tag), 1_000, folder, told.append)
        new = session.folded.facts[known:]
        return [(fact.about, fact.edits) for fact in new if isinstance(fact, Opened)]

    assert opened() == [({}, ())] and opened() == []
    session.folded.gaps[5] = 4  # as after a damaged line
    assert opened() == [({"holes": [5]}, ())]
    session.folded.gaps.clear()
    session.user((TextBlock("go"),))
    session.reply(IncomingReply([TextBlock("done")], complete=True), 0)
    for change in ({"model": "other"}, {}, {"tag": TAG}):
        [(_, edits)] = opened(**change)
        assert edits == (Unthink(0, session.folded.facts[-1].seq - 1),) and told == []
    session.reply(IncomingReply([ThinkingBlock("well", "signed"), TextBlock("so")], complete=True), 0)
    opened()
    [lost] = told
    assert lost == Notice("the tools have changed; earlier thinking is no longer in the context")
    assert len(opened(folder="/q")) == 1 and opened(folder="/q") == []
    assert told[1:] == [Notice("the session's directory has changed from /p to /q", "warning")]
    session.close()
