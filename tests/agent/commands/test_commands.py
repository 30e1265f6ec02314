"""The agent as a face drives it: prompts and slash commands against the strict server, records on disk."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agent import commands
from agent.app.config import Config
from agent.app.controller import Controller
from agent.app.setup import RunSetup
from agent.cli.arguments import Options
from agent.events import CommandOutput, ContextChart, ContextCompacted, Event, Notice, TurnFinished
from agent.model.anthropic.request import encode_message
from agent.offline.brain import Brain
from agent.offline.faults import Fault
from agent.offline.server import Server, ServerOptions
from agent.permissions.permission_store import permissions_path, store_rule
from agent.permissions.rules import Rule
from agent.ports import Allow, Deny, PermissionQuestion


class Yes:
    """Allows everything, once."""

    async def ask(self, question: PermissionQuestion) -> Allow | Deny:
        return Allow("once")


@dataclass
class Desk:
    """An agent in a folder, and what it told."""

    agent: Controller
    server: Server
    folder: Path
    events: list[Event] = field(default_factory=list)

    def told(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def words(self) -> str:
        return "\n".join(event.text for event in self.events if isinstance(event, Notice | CommandOutput))

    async def do(self, *lines: str) -> str:
        """Run prompts and commands; returns what the last one said."""
        for line in lines:
            self.events.clear()
            if line.startswith(("/", "!")):
                await self.agent.command(line)
            else:
                ended = await self.agent.prompt(line)
                assert ended.reason == "done", ended
        return self.words()

    def bodies(self) -> list[bytes]:
        session, _ = self.agent.in_use
        return [encode_message(message) for message in session.folded.view]


def at_desk(folder: Path, work: Callable[[Desk], Awaitable[None]], **options: Any) -> Server:
    """Do some work with an agent in `folder`; nothing it sends may be refused."""
    home = folder / "home"
    window = options.pop("window", 200_000)
    faults = options.pop("faults", ())
    binds = None if "model" in options else True
    with Server(Brain(), ServerOptions(window=window, binds_thinking=binds)) as server:
        server.faults.add(*faults)
        config = Config(
            base_url=server.base_url,
            key="test-key-12345",
            model="claude-sonnet-5-5",
            user_dir=home / "config",
            cache_dir=home / "cache",
            state_dir=home / "state",
        )
        given = Options(**{"context_window": window, **options})

        async def whole() -> None:
            setup = RunSetup(given, config, folder, {"PATH": "/usr/bin:/bin"})
            desk: Desk
            agent = Controller(setup, lambda event: desk.events.append(event), Yes(), commands)
            desk = Desk(agent, server, folder)
            await agent.ready()
            try:
                await work(desk)
            finally:
                await agent.close()

        asyncio.run(whole())
        assert [text for text in server.refused if "too long" not in text] == []
        return server


def files(folder: Path, count: int = 6, lines: int = 200) -> None:
    (folder / "src").mkdir()
    for number in range(count):
        text = "\n".join(f"def task_{number}_{row}(): return 'value {row}'" for row in range(lines))
        (folder / "src" / f"part_{number}.py").write_text(text, "utf-8")


READ_ALL = "Read every Python file in the src directory one by one"


def test_help_lists_every_command_and_explains_one(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        text = await desk.do("/help")
        assert "/compact" in text and "Ctrl-C" in text
        assert "--dry-run" in await desk.do("/help compact")

    at_desk(tmp_path, work)


def test_an_unknown_command_is_told_with_the_nearest(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        assert await desk.do("/compcat") == "Unknown command /compcat - did you mean /compact?"

    at_desk(tmp_path, work)


def test_a_session_without_words_leaves_no_file(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        await desk.do("/context", "/cost", "/status", "/help")

    at_desk(tmp_path, work)
    assert not list(tmp_path.glob(".transcripts/*.jsonl"))


def test_compact_says_what_it_would_do_then_does_it_and_can_be_undone(tmp_path: Path) -> None:
    files(tmp_path, 30)

    async def work(desk: Desk) -> None:
        await desk.do(READ_ALL)
        before = desk.bodies()
        preview = await desk.do("/compact --dry-run")
        assert desk.bodies() == before
        said = await desk.do("/compact keep the file list")
        (made,) = desk.told(ContextCompacted)
        assert "% of the window. What goes" in said
        goes = next(line for line in preview.splitlines() if line.startswith("  r") and " become " in line)
        assert goes in said.splitlines()
        assert made.notice in preview.replace("would ", "") or made.notice.split("k ->")[0] in preview
        assert desk.told(TurnFinished) == []
        assert len(b"".join(desk.bodies())) < len(b"".join(before)) // 2
        assert "nothing was asked under it" in await desk.do("/context")
        await desk.do("/uncompact")
        assert desk.bodies() == before

    at_desk(tmp_path, work)


def test_after_an_undone_compaction_the_conversation_goes_on(tmp_path: Path) -> None:
    files(tmp_path, 12)

    async def work(desk: Desk) -> None:
        await desk.do(
            READ_ALL, "/compact", "read src/part_1.py", "/uncompact", "read src/part_2.py", "/compact"
        )
        await desk.do("read src/part_3.py")

    at_desk(tmp_path, work)


def test_complaint_11_a_manual_compaction_starts_no_turn(tmp_path: Path) -> None:
    files(tmp_path, 12)

    async def work(desk: Desk) -> None:
        await desk.do(READ_ALL)
        asked = len(desk.server.requests)
        await desk.do("/compact")
        assert len(desk.server.requests) - asked <= 1  # the summary, and nothing that follows it
        (made,) = desk.told(ContextCompacted)
        assert made.ids
        assert "record" in str(desk.bodies()[0]) and "not a request" in str(desk.bodies()[0])

    at_desk(tmp_path, work)


def test_what_left_the_context_is_recalled_by_id_and_by_words(tmp_path: Path) -> None:
    files(tmp_path, 12)

    async def work(desk: Desk) -> None:
        assert "nothing left the context" in await desk.do("/recall")
        await desk.do(READ_ALL, "/compact")
        lines = (await desk.do("/recall")).splitlines()
        made = desk.agent.in_use[0].folded.compactions[-1].id
        assert len(lines) == 20 and f" tokens  {made:>5}  read src/part_" in lines[0]
        assert "more: /recall WORDS" in lines[-2] and f"/recall {lines[0].split()[0]} shows" in lines[-1]
        found = await desk.do("/recall task_3_77")
        ident = found.split()[0]
        assert ident.startswith("r")
        assert "def task_3_77(): return 'value 77'" in await desk.do(f"/recall {ident}")
        assert "nothing holds" in await desk.do("/recall zebra-crossing")
        await desk.do("/uncompact")
        assert made not in (await desk.do("/recall")).split()

    at_desk(tmp_path, work)


def test_context_names_files_and_shows_the_newest_compactions_unless_asked_for_all(tmp_path: Path) -> None:
    files(tmp_path, 1)

    async def work(desk: Desk) -> None:
        await desk.do("read src/part_0.py")
        assert "  read src/part_0.py\n" in await desk.do("/context")
        session = desk.agent.in_use[0]
        made = [session.compacted("micro", "auto", (), {}).id for _ in range(11)]
        said = await desk.do("/context")
        assert [line.split()[0] for line in said.splitlines() if "micro" in line] == made[:-9:-1]
        assert "... 3 earlier ones: /context all" in said
        said = await desk.do("/context all")
        assert all(f"  {one}  " in said for one in made) and "earlier" not in said

    at_desk(tmp_path, work)


def test_a_pin_survives_every_compaction(tmp_path: Path) -> None:
    files(tmp_path, 12)

    async def work(desk: Desk) -> None:
        await desk.do("/pin the blue door stays shut", READ_ALL, "/compact")
        assert b"the blue door stays shut" in desk.bodies()[0]
        assert await desk.do("/pin remove 1") == "nothing is pinned"

    at_desk(tmp_path, work)


def test_context_draws_what_there_is(tmp_path: Path) -> None:
    files(tmp_path, 2)

    async def work(desk: Desk) -> None:
        await desk.do(READ_ALL, "/context")
        (chart,) = desk.told(ContextChart)
        rows = dict(chart.rows)
        assert rows["tool results"] > rows["user text"] > 0
        assert abs(sum(rows.values()) - chart.total) <= 10
        assert "Largest blocks" in desk.words()

    at_desk(tmp_path, work)


def test_clear_keeps_the_old_session_and_resume_goes_back(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        await desk.do("/rename first things", "help")
        old = desk.agent.in_use[0].sid
        before = desk.bodies()
        assert old in await desk.do("/clear")
        assert desk.bodies() == []
        await desk.do("help", "/resume first things")
        assert desk.agent.in_use[0].sid == old
        assert desk.bodies() == before
        await desk.do("help")

    at_desk(tmp_path, work)


def test_a_fork_leaves_the_original_as_it_was(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        await desk.do("help")
        old, before = desk.agent.in_use[0].sid, desk.bodies()
        await desk.do("/fork", "help")
        assert desk.bodies()[: len(before)] == before and len(desk.bodies()) > len(before)
        await desk.do(f"/resume {old}")
        assert desk.bodies() == before

    at_desk(tmp_path, work)


def test_rewind_takes_the_conversation_back_to_before_a_prompt(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        await desk.do("help")
        before = desk.bodies()
        await desk.do("run `echo one`")
        assert "echo one" in await desk.do("/rewind")
        await desk.do("/rewind 2")
        assert desk.bodies() == before
        await desk.do("run `echo two`")

    at_desk(tmp_path, work)


def test_another_model_gets_no_thinking_of_the_old_one(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        await desk.do("run `echo one`", "/model opus", "run `echo two`")
        last = desk.server.requests[-1]
        assert last["model"] == "claude-opus-5-5"
        assert "opus" in desk.agent.status().model

    at_desk(tmp_path, work)


def test_a_name_that_another_session_has_is_refused_with_its_id(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        await desk.do("help", "/rename Blue")
        old = desk.agent.in_use[0].sid
        assert "'Blue'" in await desk.do("/rename Blue")
        await desk.do("/clear", "help")
        assert f"session {old} has the name 'blue' already" in await desk.do("/rename blue")
        assert await desk.do("/rename") == "this session has no name"

    at_desk(tmp_path, work)


def test_export_writes_a_file_of_the_asked_form(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        await desk.do("run `echo one`", "/export out.md", "/export out.html", "/export out.jsonl")
        assert "echo one" in (tmp_path / "out.md").read_text("utf-8")
        assert "<html" in (tmp_path / "out.html").read_text("utf-8")
        assert {path.stat().st_mode & 0o777 for path in tmp_path.glob("out.*")} == {0o600}
        assert "exists already" in await desk.do("/export out.md")

    at_desk(tmp_path, work)


def test_permissions_can_be_seen_and_changed(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        assert "allow  bash(git status)" in await desk.do("/permissions allow bash(git status)")
        assert "mode   acceptEdits" in await desk.do("/permissions mode acceptEdits")
        assert "the modes are" in await desk.do("/permissions mode whatever")
        assert desk.agent.cycle_mode() == "dontAsk"

    at_desk(tmp_path, work)


def test_rules_are_listed_with_their_origin_and_those_of_the_session_and_for_good_taken_off(
    tmp_path: Path,
) -> None:
    kept = permissions_path(tmp_path / "home" / "config", tmp_path)
    store_rule(kept, Rule("bash", "git log"))
    store_rule(kept, Rule("bash", "git status"))

    async def work(desk: Desk) -> None:
        text = await desk.do("/permissions deny bash(git push), edit", "/permissions")
        assert "deny   bash(git push)  (this session)" in text and "deny   edit  (this session)" in text
        assert f"allow  bash(git log)  (granted permanently in {kept})" in text
        assert "allow  bash(pytest)  (--allowedTools)" in text
        text = await desk.do("/permissions remove bash(git push)")
        assert "removed: deny bash(git push) (this session)" in text and "deny   bash" not in text
        text = await desk.do("/permissions remove bash(git log)")
        assert f"removed: allow bash(git log) (granted permanently in {kept})" in text
        assert "git log" not in kept.read_text() and "git status" in kept.read_text()
        text = await desk.do("/permissions remove bash(pytest)")
        assert "not removed: allow bash(pytest) is set in --allowedTools" in text
        assert "allow  bash(pytest)" in text
        text = await desk.do("/clear", "/permissions")
        assert "git log" not in text and "bash(git status)" in text

    at_desk(tmp_path, work, allowed_tools=("bash(pytest)",))


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("/permissions forbid bash", "`deny RULE`"),
        ("/permissions remove bash(make)", "no rule here is bash(make)"),
        ("/permissions deny bsh", "did you mean 'bash'?"),
        ("/permissions remove", "holds no rules"),
    ],
)
def test_a_permission_that_cannot_be_changed_so_is_told(tmp_path: Path, line: str, told: str) -> None:
    async def work(desk: Desk) -> None:
        assert told in await desk.do(line)

    at_desk(tmp_path, work)


def test_a_rule_denied_for_now_is_named_when_it_refuses(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        await desk.do("/permissions deny bash(echo one)", "run `echo one`")
        assert b"the rule bash(echo one) denies this" in b"".join(desk.bodies())

    at_desk(tmp_path, work)


def test_complaint_05_nothing_is_compacted_while_idle(tmp_path: Path) -> None:
    files(tmp_path, 12)

    async def work(desk: Desk) -> None:
        await desk.do(READ_ALL)
        facts, asked = len(desk.agent.in_use[0].folded.facts), len(desk.server.requests)
        for _ in range(50):
            desk.agent.status()
            await asyncio.sleep(0)
        assert (len(desk.agent.in_use[0].folded.facts), len(desk.server.requests)) == (facts, asked)

    at_desk(tmp_path, work, window=40_000)


def test_with_automatic_compaction_off_a_full_context_blocks_until_compact(tmp_path: Path) -> None:
    files(tmp_path, 3)

    async def work(desk: Desk) -> None:
        await desk.do(READ_ALL)
        _, context = desk.agent.in_use
        tokens = desk.agent.status().tokens
        assert tokens is not None
        context.compaction.window = type(context.compaction.window)(tokens, 1000)
        ended = await desk.agent.prompt("more")
        assert (ended.reason, "/compact makes room" in ended.error) == ("failed", True)
        context.compaction.window = type(context.compaction.window)(tokens * 3, 1000)
        await desk.do("help")

    at_desk(tmp_path, work, policy="off")


def test_rewind_brings_files_back_after_it_has_shown_which(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("print('old')\n", "utf-8")

    async def work(desk: Desk) -> None:
        await desk.do("help", "replace old by new in a.py", "run `echo made > made.txt; echo 1 >> a.py`")
        shown = await desk.do("/rewind 2 files")
        assert "would restore  a.py" in shown and "would remove   made.txt" in shown
        assert "new" in (tmp_path / "a.py").read_text("utf-8")
        await desk.do("/rewind 2 both yes")
        assert (tmp_path / "a.py").read_text("utf-8") == "print('old')\n"
        assert not (tmp_path / "made.txt").exists()
        assert len([text for text in desk.bodies() if b"replace old" in text]) == 0

    at_desk(tmp_path, work)


def test_rewind_leaves_what_the_person_changed_since_unless_told(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("print('old')\n", "utf-8")

    async def work(desk: Desk) -> None:
        await desk.do("replace old by new in a.py")
        (tmp_path / "a.py").write_text("mine\n", "utf-8")
        assert "changed by somebody else" in await desk.do("/rewind 1 files")
        await desk.do("/rewind 1 files yes")
        assert (tmp_path / "a.py").read_text("utf-8") == "mine\n"
        await desk.do("/rewind 1 files yes theirs")
        assert (tmp_path / "a.py").read_text("utf-8") == "print('old')\n"

    at_desk(tmp_path, work)


def test_a_command_of_the_persons_own_is_shown_to_the_model_unless_it_is_private(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        assert "for both" in await desk.do("!echo for both")
        assert "for me" in await desk.do("!!echo for me")
        await desk.do("help")
        sent = str(desk.server.requests[-1]["messages"])
        assert "for both" in sent and "for me" not in sent

    at_desk(tmp_path, work)


def test_a_prompt_interrupted_before_any_answer_is_taken_back(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        await desk.do("help")
        before = desk.bodies()
        stall = Fault("stall")
        desk.server.faults.add(stall)
        task = asyncio.ensure_future(desk.agent.prompt("something wrong"))
        while len(desk.server.requests) < 2:
            await asyncio.sleep(0)
        task.cancel()
        assert (await task).reason == "interrupted"
        stall.release.set()
        assert desk.bodies() == before
        await desk.do("help")

    at_desk(tmp_path, work)
