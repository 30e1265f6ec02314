"""A call that touches a file has the cleared text that an edit needs in its result, as the file is now."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from agent.app.controller import prompt_blocks
from agent.checkpoints.recorder import Checkpoints
from agent.events import Notice
from agent.loop.loop_detection import TIMES
from agent.loop.put_back import _load, text_named
from agent.loop.sliced_reading import track_blocks
from agent.session.session import Session
from compact.block_tracker import tracker_of
from compact.identifiers import joined_text
from tests.strict_api.reply import Reply, calls
from tools.edit import TOOL as EDIT
from tools.read import TOOL as READ
from transcripts.facts import Clear, Result
from transcripts.folding import fold
from transcripts.messages import TextBlock

from .world import World, ticks_during, world

TEXT = "\n".join(f"def small_{number}(): return {number}" for number in range(20)) + "\n"
READS = Reply((calls("read", file_path="a.py"),))


@contextmanager
def cleared(folder: Path, *steps: Any) -> Any:
    """A world in which a.py is read first; `steps` are the replies from then on."""
    (folder / "a.py").write_text(TEXT)
    with world([READS, "read", *steps], folder) as made:
        made.tools.update(read=READ, edit=EDIT)
        made.context.compaction.overhead = 60_000
        yield made


def run(made: World, change: Callable[[], object] = bool) -> None:
    """The turn that reads, the clearing, and another turn."""

    async def whole() -> None:
        await made.turn("read it")
        seq = next(fact.seq for fact in made.record.facts if isinstance(fact, Result))
        made.session.compacted("micro", "auto", (Clear(seq, 0, "content", "[cleared: it]"),), {})
        change()
        await made.turn("on")
        await made.context.model.close()

    asyncio.run(whole())


def put_back(made: World) -> list[str]:
    return [text for text in made.texts() if text.startswith(TextBlock.PUT_BACK_START)]


def looking(times: int = 1) -> Reply:
    return Reply(tuple(calls("echo", words=f"look at a.py {number}") for number in range(times)))


def test_the_result_of_a_call_that_names_the_file_has_its_text(tmp_path: Path) -> None:
    with cleared(tmp_path, looking(3), "done") as made:
        run(made)
        (said,) = put_back(made)
        assert said.startswith("[put back: a.py, lines 1-20, ")
        assert said.rstrip().endswith(TEXT.rstrip())
        made.check()
        for end in range(1, len(made.record.facts) + 1):
            fold(made.record.facts[:end]).view.tokens  # noqa: B018


@pytest.mark.parametrize("text", [None, TEXT.replace("small", "other"), "\0binary"])
def test_a_file_that_is_gone_or_changed_restores_nothing(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "a.py"
    with cleared(tmp_path, looking(), "done") as made:
        run(made, file.unlink if text is None else partial(file.write_text, text))
        assert put_back(made) == []
        made.check()


def test_files_over_a_mebibyte_are_not_read(tmp_path: Path) -> None:
    sizes = {"a": 1 << 20, "b": (1 << 20) + 1}
    for name, size in sizes.items():
        (tmp_path / name).write_bytes(b"x" * size)
    assert list(_load([str(tmp_path / name) for name in sizes], Event())) == [str(tmp_path / "a")]


def test_an_edit_that_fails_for_want_of_the_text_has_it_in_its_result(tmp_path: Path) -> None:
    wrong = calls("edit", file_path="a.py", old_string="def small_7(): return 8", new_string="x")
    with cleared(tmp_path, Reply((wrong,)), "done") as made:
        made.context.compaction.overhead = 0
        run(made)
        assert len(put_back(made)) == 1
        made.check()


def named_text(name: str) -> str:
    return TEXT.replace("small", name)


@pytest.mark.parametrize("name", ["below/a.py", "./below/a.py", "other/../below/a.py"])
def test_of_files_of_one_name_the_one_that_the_path_means_comes_back(tmp_path: Path, name: str) -> None:
    for folder in ("below", "other"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.py").write_text(named_text(folder))
    reads = Reply(tuple(calls("read", file_path=f"{folder}/a.py") for folder in ("below", "other")))
    wrong = calls("edit", file_path=name, old_string="def below_7(): return 8", new_string="x")
    with cleared(tmp_path, reads, "done", Reply((wrong,)), "done") as made:

        async def whole() -> None:
            await made.turn("read it")
            await made.turn("and these")
            seqs = [fact.seq for fact in made.record.facts if isinstance(fact, Result)]
            clears = tuple(Clear(seq, 0, "content", "[cleared: it]") for seq in seqs)
            made.session.compacted("micro", "auto", clears, {})
            made.context.tool_context.cwd = tmp_path / "other"
            await made.turn("on")
            await made.context.model.close()

        asyncio.run(whole())
        (said,) = put_back(made)
        assert said.startswith("[put back: below/a.py, ") and "def below_7" in said
        made.check()


def test_a_repeated_call_is_noticed_although_the_first_added_text_back(tmp_path: Path) -> None:
    same = Reply((calls("echo", words="look at a.py"),))
    with cleared(tmp_path, *[same] * TIMES, "done") as made:
        run(made)
        assert len(put_back(made)) == 1
        assert sum("times in a row" in text for text in made.texts()) == 1


def test_a_page_read_again_is_whole_and_names_its_own_result(tmp_path: Path) -> None:
    with cleared(tmp_path, READS, "done") as made:

        async def whole() -> None:
            await made.turn("read it")
            await made.turn("again")
            await made.context.model.close()

        asyncio.run(whole())
        first, second = (fact for fact in made.record.facts if isinstance(fact, Result))
        assert first.content[:-1] == second.content[:-1]
        assert [joined_text(each.content[-1:]) for each in (first, second)] == [
            f"[this result: r{each.seq}]" for each in (first, second)
        ]
        assert joined_text(second.content).count("def small_") == 20


def test_a_prompt_that_names_a_file_has_its_cleared_text_before_it(tmp_path: Path) -> None:
    with cleared(tmp_path, "done") as made:

        async def whole() -> None:
            await made.turn("read it")
            seq = next(fact.seq for fact in made.record.facts if isinstance(fact, Result))
            made.session.compacted("micro", "auto", (Clear(seq, 0, "content", "[cleared: it]"),), {})
            words = (TextBlock("add a case to a.py"),)
            *before, given = await prompt_blocks(made.session, made.context, [], words)
            assert given is words[0]
            assert any(block.is_injected and TEXT.rstrip() in joined_text([block]) for block in before)
            *before, _ = await prompt_blocks(made.session, made.context, [], (TextBlock("thanks"),))
            assert not any(TextBlock.PUT_BACK_START in joined_text([block]) for block in before)
            await made.context.model.close()

        asyncio.run(whole())


def reading(*names: str) -> Reply:
    return Reply(tuple(calls("read", file_path=name) for name in names))


@contextmanager
def packages(folder: Path, *steps: Any) -> Any:
    """A world with two packages that have memory files."""
    for name in ("pkg/AGENTS.md", "pkg/a.py", "pkg/b.py", "other/CLAUDE.md", "other/c.py", "top.py"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(f"this is {name} <!-- hidden -->\n")
    with world(list(steps), folder) as made:
        made.tools.update(read=READ)
        yield made


def memory_told(made: World) -> list[str]:
    """The paths of the memory files that the view shows, in order."""
    start = "Instructions from "
    shown = [text for text in made.texts() if text.startswith(start)]
    return [text.partition(" from ")[2].partition(" (follow them")[0] for text in shown]


def turns(made: World, *prompts: str, between: Callable[[], object] = bool) -> list[str]:
    """Return the lines shown to the user."""

    async def whole() -> None:
        for prompt in prompts:
            await made.turn(prompt)
            between()
        await made.context.model.close()

    asyncio.run(whole())
    return [event.text for event in made.events if isinstance(event, Notice)]


def test_memory_files_below_are_reported_once_with_the_first_read_there(tmp_path: Path) -> None:
    steps = (reading("top.py"), reading("pkg/a.py", "pkg/b.py"), reading("other/c.py", "pkg/b.py"), "done")
    with packages(tmp_path, *steps) as made:
        system = made.context.settings.system
        one, two = turns(made, "look")
        assert memory_told(made) == [str(tmp_path / "pkg/AGENTS.md"), str(tmp_path / "other/CLAUDE.md")]
        assert one.startswith("now following pkg/AGENTS.md (")
        assert two.startswith("now following other/CLAUDE.md")
        assert not any("this is pkg/AGENTS.md <!--" in text for text in made.texts())
        assert made.context.settings.system == system
        made.check()


def test_what_a_compaction_took_away_comes_again_with_the_next_read(tmp_path: Path) -> None:
    with packages(tmp_path, reading("pkg/a.py"), "done", reading("pkg/b.py"), "done") as made:

        def clear() -> None:
            seq = next(fact.seq for fact in made.record.facts if isinstance(fact, Result))
            if not made.session.folded.compactions:
                made.session.compacted("micro", "auto", (Clear(seq, 0, "content", "[cleared: it]"),), {})
                assert memory_told(made) == []

        assert len(turns(made, "look", "again", between=clear)) == 2
        assert memory_told(made) == [str(tmp_path / "pkg/AGENTS.md")]


def test_memory_below_is_not_reported_where_it_is_not_wanted_or_the_session_wrote_it(tmp_path: Path) -> None:
    with packages(tmp_path, reading("pkg/a.py"), "done", reading("other/c.py"), "done") as made:
        checkpoints = Checkpoints(tmp_path, "s", lambda: 1)
        made.context.checkpoints = checkpoints
        checkpoints.announce(tmp_path / "pkg/AGENTS.md")
        (tmp_path / "pkg/AGENTS.md").write_text("obey")
        checkpoints.finish()

        def unwanted() -> None:
            made.context.follows_memory = False

        assert turns(made, "look", "again", between=unwanted) == [] and memory_told(made) == []


def test_lines_are_put_back_from_a_result_that_reported_a_memory_file_too(tmp_path: Path) -> None:
    look = Reply((calls("echo", words="look at pkg/a.py"),))
    with packages(tmp_path, reading("pkg/a.py"), "read", look, "done") as made:
        (tmp_path / "pkg/a.py").write_text(TEXT)
        (tmp_path / "pkg/AGENTS.md").write_text("a rule of this package\n" * 50)
        made.context.compaction.overhead = 60_000

        def clear() -> None:
            seq = next(fact.seq for fact in made.record.facts if isinstance(fact, Result))
            if not made.session.folded.compactions:
                made.session.compacted("micro", "auto", (Clear(seq, 0, "content", "[cleared: it]"),), {})

        turns(made, "look", "on", between=clear)
        (said,) = put_back(made)
        assert said.rstrip().endswith(TEXT.rstrip())


def test_the_blocks_of_a_long_session_are_tracked_in_slices_with_other_tasks_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.loop.sliced_reading.SLICE_S", 0.0)

    async def measured(made: World) -> tuple[int, int]:
        state = made.context.compaction
        named = (text_named(made.session, state, (TextBlock(f"see {name}"),)) for name in ("a.py", "b.py"))
        turns = await ticks_during(asyncio.gather(track_blocks(made.session, state.counter), *named))
        return turns, len(made.session.folded.entries)

    with cleared(tmp_path, *["more"] * 40) as made:
        run(made)
        for number in range(40):
            made.say(f"prompt {number} about file_{number}.py")
        resumed = fold(made.record.facts)
        made.session = Session("test", made.record, resumed, made.context.compaction.counter, made.clock.now)
        turns, entries = asyncio.run(measured(made))
        assert turns > entries // 3 and entries > 40
        tracker = tracker_of(resumed)
        expected = tracker_of(fold(made.record.facts))
        assert tracker.calls == expected.calls == 3
        assert len(tracker.blocks) == len(expected.blocks) > 0
