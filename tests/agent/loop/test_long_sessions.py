"""What a long session needs before its first prompt is read in slices, between which keys are handled."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from agent.app.context_building import _restore_seen
from agent.loop import compaction
from agent.loop.compaction import AUTOMATIC, compact_context
from agent.loop.context import TurnContext
from agent.loop.cost_preview import show_cold_cost
from agent.loop.prompt_additions import ATTACHED_TOPIC
from agent.loop.put_back import text_named
from agent.session.session import Session
from compact import cache_use, server_cache
from compact.cache_use import _CacheUse
from compact.local_summary import accounting_steps
from compact.server_cache import CacheEvidence
from compact.situation import Situation
from tests.tables import each_row
from tools.base import ToolContext
from transcripts.facts import Compacted, Fact, Fold, Metadata, Result, User
from transcripts.folding import fold
from transcripts.messages import TextBlock

from .world import World, ticks_during, world


def resumed(made: World, prompts: int = 300) -> Session:
    """Return the session of a world with more prompts, as it is after it was resumed."""
    made.run()
    for number in range(prompts):
        made.say(f"prompt {number}")
    folded = fold(made.record.facts)
    made.session = Session("test", made.record, folded, made.context.compaction.counter, made.clock.now)
    return made.session


class Unread(list[Fact]):
    """Facts that may not be iterated over."""

    def __iter__(self) -> Iterator[Fact]:
        pytest.fail("all facts were read")


def test_where_other_tools_leave_nothing_cached_no_earlier_reply_is_read(tmp_path: Path) -> None:
    with world(["done"], tmp_path) as made:
        session = resumed(made)
        session.folded.facts = Unread(session.folded.facts)
        changed = replace(made.context.settings, tools=({"name": "other"},))
        made.context.settings = changed
        asyncio.run(show_cold_cost(session, made.context, made.events.append, "the tools have changed"))


def test_the_cost_of_a_resumed_session_is_told_after_its_facts_were_read_in_slices(tmp_path: Path) -> None:
    async def cold(session: Session, context: TurnContext) -> int:
        assert session.folded.memo(CacheEvidence).looked_at == 0
        return 50_000

    with world(["done"], tmp_path) as made:
        session = resumed(made)
        made.clock.time += 100_000
        asyncio.run(show_cold_cost(session, made.context, made.events.append, "expired", cold=cold))
        assert session.folded.memo(CacheEvidence).looked_at == len(session.folded.facts)


def test_what_the_server_cached_is_read_in_slices_before_a_prompt_that_names_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.loop.sliced_reading.SLICE_S", 0.0)
    monkeypatch.setattr(server_cache, "FACTS_IN_STEP", 2)
    with world(["done"], tmp_path) as made:
        session = resumed(made)
        tracked = len(session.folded.entries)
        named = text_named(session, made.context.compaction, (TextBlock("see a.py"),))
        ticks = asyncio.run(ticks_during(named))
        assert session.folded.memo(CacheEvidence).looked_at == len(session.folded.facts)
        assert ticks > tracked + len(session.folded.facts) // 2 - 10


def test_entries_that_a_summary_covers_are_passed_over_in_slices() -> None:
    prompts = [User(seq, 0.0, (TextBlock(f"prompt {seq}"),)) for seq in range(1, 3_501)]
    summary = Compacted(3_501, 0.0, "summary", "auto", (Fold(1, 3_500, (TextBlock("all"),)),))
    folded = fold([*prompts, summary, User(3_502, 0.0, (TextBlock("on"),))])
    assert len(list(accounting_steps(folded))) == 3


def test_earlier_requests_are_read_in_slices_before_a_plan_for_another_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.loop.sliced_reading.SLICE_S", 0.0)
    monkeypatch.setattr(cache_use, "FACTS_IN_STEP", 2)
    monkeypatch.setattr(compaction, "LONG_SESSION", 10)
    situation_of = compaction.situation_of

    def checked(session: Session, context: TurnContext) -> Situation:
        assert session.folded.memo(_CacheUse).looked_at == len(session.folded.facts)
        return situation_of(session, context)

    monkeypatch.setattr(compaction, "situation_of", checked)
    with world(["done"], tmp_path) as made:
        session = resumed(made)
        session.open((), (), model="another", window=1_000, folder="/p")
        plan = compact_context(session, made.context, made.events.append, AUTOMATIC)
        assert asyncio.run(ticks_during(plan)) > len(session.folded.facts) // 2


@each_row("seed", range(20))
def test_each_file_seen_is_restored_as_the_newest_fact_shows_it(tmp_path: Path, seed: int) -> None:
    random = Random(seed)

    def about() -> dict[str, Any]:
        found: dict[str, Any] = {
            "path": random.choice(["/p/a", "/p/b", "/p/c"]),
            "sha256": random.choice("xyz"),
        }
        more: tuple[dict[str, Any], ...] = ({}, {"first": 1, "last": 5, "total": 9}, {"unchanged": 3})
        return found | random.choice(more)

    facts: list[Fact] = []
    expected, restored = (
        ToolContext(tmp_path, tmp_path, outputs=tmp_path / "o", journals=tmp_path / "j") for _ in range(2)
    )
    for seq in range(1, random.randint(2, 30)):
        match random.randrange(3):
            case 0:
                facts.append(Result(seq, 0.0, 1, 0, (), about=(shown := about())))
                expected.restore_seen(shown, seq)
            case 1:
                files = [about(), about()]
                facts.append(Metadata(seq, 0.0, ATTACHED_TOPIC, {"prompt": seq - 1, "files": files}))
                for each in files:
                    expected.restore_seen(each, seq - 1, attached=True)
            case _:
                facts.append(Result(seq, 0.0, 1, 0, (), about={"path": "/p/a"}))
    _restore_seen(restored, facts)
    assert restored.seen == expected.seen
