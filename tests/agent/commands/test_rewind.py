"""Going back by choice: what is shown before, what is asked, and what comes of each answer."""

from collections.abc import Awaitable, Callable
from pathlib import Path

from agent import commands
from agent.events import Notice, PromptRestored
from agent.menus import Menu, MenuRow
from tests.agent.commands.test_commands import Desk, at_desk
from transcripts.session_lock import RECORDS_FOLDER

WORK = ("help", "replace old by new in a.py", "run `echo made > made.txt; echo 1 >> a.py`")


class Chooses:
    """Chooses by value, in order; keeps the menus. "" chooses nothing."""

    def __init__(self, *values: str) -> None:
        self.values = list(values)
        self.menus: list[Menu] = []

    async def choose(self, menu: Menu) -> MenuRow | None:
        self.menus.append(menu)
        value = self.values.pop(0)
        return next(row for row in menu.rows if row.value == value) if value else None


def rewound(folder: Path, *values: str, after: Callable[[Desk], Awaitable[None]]) -> Chooses:
    """Some work, then /rewind with these answers; `after` looks at what came of it."""
    (folder / "a.py").write_text("print('old')\n", "utf-8")
    chooser = Chooses(*values)

    async def work(desk: Desk) -> None:
        await desk.do(*WORK)
        if "theirs" in values or "keep" in values:
            (folder / "made.txt").write_text("mine\n", "utf-8")
        desk.agent.chooser = chooser
        await desk.do("/rewind")
        await after(desk)
        desk.agent.chooser = None
        await desk.do("help")

    at_desk(folder, work)
    assert chooser.values == []
    return chooser


def prompts(desk: Desk) -> int:
    return sum(b"replace old" in body for body in desk.bodies())


def test_the_prompts_are_listed_newest_first_with_what_changed_since(tmp_path: Path) -> None:
    async def after(desk: Desk) -> None:
        assert prompts(desk) > 0 and desk.told(PromptRestored) == []

    menu = rewound(tmp_path, "", after=after).menus[0]
    assert [row.title for row in menu.rows] == [*reversed(WORK)]
    assert [row.facts for row in menu.rows] == [("just now", "2 files changed since")] * 3
    assert menu.keyed("1") == menu.rows[2]


def test_the_conversation_goes_back_and_its_prompt_comes_back_whole(tmp_path: Path) -> None:
    async def after(desk: Desk) -> None:
        assert prompts(desk) == 0 and desk.told(PromptRestored) == [PromptRestored(WORK[1])]
        assert (tmp_path / "made.txt").exists()
        assert "would restore  a.py  +1 -2\nwould remove   made.txt  +0 -1" in desk.words()

    menus = rewound(tmp_path, "2", "conversation", after=after).menus
    assert menus[1].title == f"Back to before: {WORK[1]}"
    assert [row.title for row in menus[1].rows][1] == "The files: 2 files, +1 -3"


def test_the_files_alone_go_back(tmp_path: Path) -> None:
    async def after(desk: Desk) -> None:
        assert prompts(desk) > 0 and desk.told(PromptRestored) == []
        assert (tmp_path / "a.py").read_text("utf-8") == "print('old')\n"
        assert not (tmp_path / "made.txt").exists()

    rewound(tmp_path, "2", "files", after=after)


def test_what_somebody_else_changed_stays_unless_it_is_asked_for(tmp_path: Path) -> None:
    async def kept(desk: Desk) -> None:
        assert prompts(desk) == 0 and (tmp_path / "made.txt").read_text("utf-8") == "mine\n"
        assert (tmp_path / "a.py").read_text("utf-8") == "print('old')\n"

    menus = rewound(tmp_path, "2", "both", "keep", after=kept).menus
    assert menus[2].title == "1 file was changed by somebody else since"


def test_what_somebody_else_changed_goes_back_as_well_on_a_yes(tmp_path: Path) -> None:
    async def gone(desk: Desk) -> None:
        assert not (tmp_path / "made.txt").exists()

    rewound(tmp_path, "1", "files", "theirs", after=gone)


def test_files_that_stay_as_they_are_are_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("print('old')\n", "utf-8")

    async def work(desk: Desk) -> None:
        await desk.do("replace old by new in a.py", "run `true`")
        assert await desk.do("/rewind 2 files yes") == "no file had to change"
        (tmp_path / "a.py").write_text("mine\n", "utf-8")
        said = await desk.do("/rewind 1 files yes")
        assert said == "a.py: somebody else changed it since: kept\nno file was changed"

    at_desk(tmp_path, work)


def test_cancelling_does_nothing(tmp_path: Path) -> None:
    async def after(desk: Desk) -> None:
        assert prompts(desk) > 0 and "new" in (tmp_path / "a.py").read_text("utf-8")

    assert len(rewound(tmp_path, "2", "cancel", after=after).menus) == 2


def test_a_fork_can_take_files_back_to_before_it_was_made(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("print('old')\n", "utf-8")

    async def work(desk: Desk) -> None:
        await desk.do("replace old by new in a.py", "/rename first", "/fork")
        assert "first (copy)" in await desk.do("/rename")
        await desk.do("/fork")
        assert "first (copy 2)" in await desk.do("/rename")
        await desk.do("/rewind 1 both yes")
        assert (tmp_path / "a.py").read_text("utf-8") == "print('old')\n"
        assert desk.told(PromptRestored) == [PromptRestored("replace old by new in a.py")]

    at_desk(tmp_path, work)


def test_another_session_is_chosen_from_a_list_without_the_one_in_use(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        await desk.do("help", "/rename the first")
        old = desk.agent.in_use[0].sid
        await desk.do("/clear", "help")
        desk.agent.chooser = chooser = Chooses("", old)
        await desk.do("/resume")
        assert desk.agent.in_use[0].sid != old
        assert f"going on with {old}" in await desk.do("/resume")
        assert [[row.value for row in menu.rows] for menu in chooser.menus] == [[old]] * 2
        assert chooser.menus[0].rows[0].title == "the first"
        assert chooser.menus[0].rows[0].facts[:2] == ("just now", "1 prompt")
        assert "is the session that you are in" in await desk.do(f"/resume {old}")
        assert f"{old}  20" in await desk.do("/sessions")

    at_desk(tmp_path, work)


def test_a_session_in_use_can_be_viewed_or_forked_from_another(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        await desk.do("run `echo one`")
        sid = desk.agent.in_use[0].sid
        before = (tmp_path / RECORDS_FOLDER / f"{sid}.jsonl").read_bytes()

        async def other(there: Desk) -> None:
            own = there.agent.in_use[0].sid
            await there.do(f"/resume {sid}")
            assert f"`makeroom --resume {sid} --fork-session`" in there.told(Notice)[-1].text
            there.agent.chooser = chooser = Chooses("view", "leave", "fork")
            assert "> run `echo one`" in await there.do(f"/resume {sid}")
            await there.do(f"/resume {sid}")
            assert there.agent.in_use[0].sid == own
            await there.do(f"/resume {sid}")
            assert there.agent.in_use[0].sid not in (own, sid)
            assert there.bodies() == desk.bodies() and "in use by pid" in chooser.menus[0].title
            await there.do("run `echo two`")

        await inside(tmp_path, desk, other)
        assert (tmp_path / RECORDS_FOLDER / f"{sid}.jsonl").read_bytes() == before
        await desk.do("help")

    at_desk(tmp_path, work)


async def inside(folder: Path, desk: Desk, work: Callable[[Desk], Awaitable[None]]) -> None:
    """Work with a second agent in the same folder."""
    from agent.app.controller import Controller

    second: Desk
    setup, approver = desk.agent.setup, desk.agent.services.approver
    agent = Controller(setup, lambda event: second.events.append(event), approver, commands)
    second = Desk(agent, desk.server, folder)
    await agent.ready()
    try:
        await work(second)
    finally:
        await agent.close()
