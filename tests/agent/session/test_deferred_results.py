"""Results that a resumed session left in its file are fetched beside the event loop."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from agent.loop.sliced_reading import read_results
from agent.session.deferred_results import fetch_deferred, fetch_results, load_deferred, prepare_rewind
from agent.session.session import Session
from compact import Preparation, local_summary
from compact.tokens import TokenCounter
from transcripts import folding
from transcripts.facts import Compacted, Fold, Opened, Reply, Result, User
from transcripts.folding import Folded, fold
from transcripts.load import LazyResults, read_transcript
from transcripts.messages import TextBlock, ToolResultBlock, ToolUseBlock
from transcripts.store import Store

LONG = "a line of the output\n" * 500


class WatchedResults(LazyResults):
    """Remembers the thread in which the results were completed."""

    thread = 0

    def complete(self, folded: Folded) -> Folded:
        self.thread = threading.get_ident()
        return super().complete(folded)


class HeldResults(LazyResults):
    """Completes the session in a thread, and hands it over once a fact was added meanwhile."""

    completed = threading.Event()
    added = threading.Event()

    def complete(self, folded: Folded) -> Folded:
        made = super().complete(folded)
        if threading.current_thread() is not threading.main_thread():
            self.completed.set()
            assert self.added.wait(30)
        return made


def resumed(folder: Path) -> Session:
    """A session whose results are summarized, so that they are left in the file."""
    told: list[str] = []
    store = Store.create(folder, None, told.append)
    store.append(Opened(1, 1.0, model="m"))
    store.append(User(2, 2.0, (TextBlock("go"),), (1,)))
    for seq in range(3, 43, 2):
        use = ToolUseBlock(f"t{seq}", "bash", {"command": "make"})
        store.append(Reply(seq, float(seq), (use,), (5,), stop="tool_use"))
        store.append(Result(seq + 1, float(seq), seq, 0, (TextBlock(f"{seq}\n{LONG}"),), (2_000,)))
    edits = (Fold(2, 42, (TextBlock("a summary"),), 3),)
    store.append(Compacted(43, 43.0, "ledger", "auto", edits))
    store.close()
    store, loaded = Store.resume(store.path, told.append)
    session = Session(store.sid, store, fold(loaded.facts), TokenCounter.load(), lambda: 50.0)
    session.deferred = loaded.lazy_results
    assert len(session.deferred) == 20 and told == []
    return session


def test_the_results_are_fetched_in_a_thread_and_are_complete(tmp_path: Path) -> None:
    session = resumed(tmp_path)
    watched = WatchedResults(session.deferred.path)
    watched.update(session.deferred)
    session.deferred = watched
    asyncio.run(fetch_deferred(session))
    assert watched.thread not in (0, threading.get_ident())
    assert not session.deferred
    _is_complete(session, tmp_path)


def test_a_fact_that_is_added_meanwhile_is_kept(tmp_path: Path) -> None:
    session = resumed(tmp_path)
    held = HeldResults(session.deferred.path)
    held.update(session.deferred)
    session.deferred = held

    async def add_meanwhile() -> Any:
        fetching = asyncio.ensure_future(fetch_deferred(session))
        await asyncio.to_thread(held.completed.wait, 30)
        session.add_metadata("pin", {"id": 1, "text": "kept"})
        held.added.set()
        await fetching

    asyncio.run(add_meanwhile())
    assert session.folded.metadata[-1].about["text"] == "kept"
    _is_complete(session, tmp_path)


def test_single_results_are_filled_in_without_folding_the_session_again(tmp_path: Path) -> None:
    session = resumed(tmp_path)
    folded = session.folded
    tokens = folded.view.tokens
    left = set(session.deferred) - {40, 42}
    asyncio.run(fetch_results(session, (42, 41, 40, 3)))  # two of them are in memory
    assert session.folded is folded and set(session.deferred) == left
    exchange = folded.conversation.exchange_of(39)
    assert exchange is not None and exchange.results[0].content == (TextBlock(f"39\n{LONG}"),)
    assert folded.view.tokens == tokens
    asyncio.run(fetch_deferred(session))
    _is_complete(session, tmp_path)


def test_the_calls_of_a_session_are_searched_once_for_results_that_summaries_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_summary, "FADED_CALLS", 4)
    session = resumed(tmp_path)
    asyncio.run(read_results(session))
    assert {*session.deferred} == {*range(4, 34, 2)}, "those of the last calls are loaded"
    monkeypatch.setattr(Preparation, "results_read", None)
    session.user((TextBlock("and now?"),))
    asyncio.run(read_results(session))


def test_a_rewind_loads_only_the_results_that_it_shows_again_and_folds_in_a_thread(tmp_path: Path) -> None:
    session = resumed(tmp_path)
    session.user((TextBlock("and now?"),))
    asyncio.run(prepare_rewind(session, 44))
    assert len(session.deferred) == 20, "the summary stays"
    asyncio.run(prepare_rewind(session, 43))
    assert not session.deferred
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folding, "_refold", None)  # it is done
        session.rewound(43, {})
    shown = [part.block for message in session.folded.view for part in message.parts]
    assert (
        sum(isinstance(block, ToolResultBlock) and LONG[:20] in str(block.content) for block in shown) == 20
    )


def test_results_that_are_all_loaded_meanwhile_are_not_filled_in(tmp_path: Path) -> None:
    session = resumed(tmp_path)

    async def load_meanwhile() -> None:
        fetching = asyncio.ensure_future(fetch_results(session, [42]))
        await asyncio.sleep(0)
        load_deferred(session)
        await fetching

    asyncio.run(load_meanwhile())
    _is_complete(session, tmp_path)


def _is_complete(session: Session, folder: Path) -> None:
    session.sync()
    (path,) = (folder / ".transcripts").glob("*.jsonl")
    whole = fold(read_transcript(path).facts)
    assert session.folded.facts == whole.facts
    assert session.folded.view.tokens == whole.view.tokens
