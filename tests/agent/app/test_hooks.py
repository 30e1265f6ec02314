"""Commands of the user at named moments."""

import asyncio
import json
import os
import pwd
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent.app.hooks import CommandHooks, hooks_within
from agent.loop.session_wall import SessionWall
from agent.permissions.permission_store import PermissionStore
from agent.permissions.rule_syntax import parse_rules
from agent.permissions.rules import PermissionRules
from agent.ports import HookAnswer, HookEvent
from tests.tools.wall_session import WalledSession, walled_session
from tools.base import ToolError


def run(folder: Path, command: str, told: list[str] | None = None) -> HookAnswer:
    hooks = CommandHooks({"pre_compact": command}, folder, (told if told is not None else []).append)
    return asyncio.run(hooks.run("pre_compact", {"trigger": "auto", "tokens": 9}))


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("true", HookAnswer()),
        ("echo keep the list", HookAnswer(words="keep the list")),
        ("""echo '{"veto": "not now"}'""", HookAnswer(veto="not now")),
        ("""echo '{"words": "look at x"}'""", HookAnswer(words="look at x")),
        ("echo no >&2; exit 2", HookAnswer(veto="no")),
    ],
)
def test_a_hook_answers_with_words_or_a_veto(tmp_path: Path, command: str, answer: HookAnswer) -> None:
    assert run(tmp_path, command) == answer


def test_a_hook_is_told_what_happens(tmp_path: Path) -> None:
    run(tmp_path, "cat > seen")
    assert json.loads((tmp_path / "seen").read_text()) == {
        "moment": "pre_compact",
        "trigger": "auto",
        "tokens": 9,
    }


def test_a_hook_that_fails_is_told_and_changes_nothing(tmp_path: Path) -> None:
    told: list[str] = []
    assert run(tmp_path, "echo broken >&2; exit 7", told) == HookAnswer()
    assert "exit code 7" in told[0] and "broken" in told[0]


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("/no/such/guard", "could not be started: exit code 127: bash: line 1: /no/such/guard: No such file"),
        ("./guard", "could not be started: exit code 126"),
        ("sleep 30", "took longer than 0.2 s"),
    ],
)
def test_a_guard_that_cannot_be_asked_lets_nothing_through(tmp_path: Path, command: str, told: str) -> None:
    (tmp_path / "guard").write_text("#!/bin/sh\n")
    patience = 0.2 if "sleep" in command else 30.0
    commands = {"pre_tool": command, "pre_compact": command}
    hooks = CommandHooks(commands, tmp_path, lambda text: None, patience)
    answer = asyncio.run(hooks.run("pre_tool", {}))
    assert answer.veto is not None and answer.veto.startswith(f"the hook pre_tool ({command}) {told}")
    assert asyncio.run(hooks.run("pre_compact", {})) == HookAnswer()


def test_a_guard_whose_folder_is_gone_lets_nothing_through(tmp_path: Path) -> None:
    hooks = CommandHooks({"pre_tool": "true"}, tmp_path / "gone", lambda text: None)
    assert "could not be started" in str(asyncio.run(hooks.run("pre_tool", {})).veto)


def test_a_hook_that_fails_is_told_with_its_code_and_first_line(tmp_path: Path) -> None:
    told: list[str] = []
    hooks = CommandHooks({"pre_tool": "printf 'first\nsecond' >&2; exit 1"}, tmp_path, told.append)
    assert asyncio.run(hooks.run("pre_tool", {})) == HookAnswer()
    assert told == ["the hook pre_tool failed: exit code 1: first"]


def test_other_moments_run_nothing(tmp_path: Path) -> None:
    hooks = CommandHooks({"pre_compact": "touch ran"}, tmp_path, lambda text: None)
    asyncio.run(hooks.run("post_compact", {}))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("event", ["pre_tool", "post_tool"])
def test_what_walled_commands_left_is_looked_at_before_a_hook_runs_open(tmp_path: Path, event: str) -> None:
    looked, told = [], list[str]()

    async def look() -> None:
        looked.append(list(tmp_path.iterdir()))
        if len(looked) == 2:
            raise ToolError("the disk does not answer\nlook at it")

    hooks = CommandHooks({event: "touch ran"}, tmp_path, told.append, before=look)
    assert asyncio.run(hooks.run(event, {})) == HookAnswer()  # type: ignore[arg-type]
    assert looked == [[]] and (tmp_path / "ran").exists()
    answer = asyncio.run(hooks.run(event, {}))  # type: ignore[arg-type]
    fault = f"the hook {event} (touch ran) could not be started: the disk does not answer"
    assert (answer.veto, told) == ((fault, []) if event == "pre_tool" else (None, [fault]))


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WalledSession]:
    made = walled_session(tmp_path_factory.mktemp("hooks"))
    yield made
    made.end()


@pytest.fixture
def wall(session: WalledSession) -> SessionWall:
    """A wall whose rules may be changed."""
    store = PermissionStore(PermissionRules(folder=str(session.folder)))
    made = SessionWall(session.context, store, session.home)
    session.runner.run(made.warm())
    if made.level == "none":
        pytest.skip(f"no wall here: {made.why}")
    return made


@pytest.fixture
def outside() -> Iterator[Path]:
    """A folder that is neither in the project nor below a folder for temporary files."""
    home = Path(pwd.getpwuid(os.geteuid()).pw_dir).resolve()
    if not os.access(home, os.W_OK) or str(home).startswith(("/tmp", "/var/tmp")):
        pytest.skip("there is no place to write outside of the project")
    folder = Path(tempfile.mkdtemp(prefix="makeroom-test-", dir=home))
    yield folder
    shutil.rmtree(folder)


def walled_answer(session: WalledSession, wall: SessionWall, command: str) -> tuple[HookAnswer, list[str]]:
    """What a hook answers, and what is told of it."""
    told: list[str] = []
    hooks = CommandHooks({"stop": command}, session.folder, told.append, 30.0, walled=hooks_within(wall))
    return session.runner.run(hooks.run(HookEvent("stop"), {"why": 'it\'s "done"', "é": 1})), told


def test_a_hook_runs_within_the_wall_and_answers_as_an_open_one(
    session: WalledSession, wall: SessionWall
) -> None:
    for command, answer in (
        ("true", HookAnswer()),
        ("echo keep the list; echo and more >&2", HookAnswer(words="keep the list")),
        ("cat", HookAnswer()),  # JSON without words
        (
            "python3 -c 'import json, sys; print(json.load(sys.stdin)[\"why\"])'",
            HookAnswer(words='it\'s "done"'),
        ),
        ("echo out; echo no >&2; exit 2", HookAnswer(veto="no")),
        ("echo no; exit 2", HookAnswer(veto="no")),
        ("echo ${ANTHROPIC_API_KEY-no key}; touch here", HookAnswer(words="no key")),
    ):
        assert walled_answer(session, wall, command) == (answer, []), command
    assert (session.folder / "here").exists()
    assert walled_answer(session, wall, "echo a >&2; exit 7") == (
        HookAnswer(),
        ["the hook stop failed: exit code 7: a"],
    )


def test_a_hook_that_the_wall_refused_something_is_told_with_the_rule_that_lets_it_out(
    session: WalledSession, wall: SessionWall, outside: Path
) -> None:
    command = f"touch {outside}/log"
    answer, (told,) = walled_answer(session, wall, command)
    assert answer == HookAnswer()
    assert "walled off: write" in told and f"the rule open({command}) in your settings lets it out" in told
    wall.permissions.rules = PermissionRules(allow=parse_rules(f"open({command})"), wall=True)
    assert walled_answer(session, wall, command) == (HookAnswer(), [])
    assert (outside / "log").exists()


def test_a_walled_hook_that_takes_too_long_is_ended(session: WalledSession, wall: SessionWall) -> None:
    hooks = CommandHooks({"pre_tool": "sleep 300"}, session.folder, lambda text: None, 0.3)
    hooks = replace(hooks, walled=hooks_within(wall))
    answer = session.runner.run(hooks.run(HookEvent("pre_tool"), {}))
    assert answer.veto == "the hook pre_tool (sleep 300) took longer than 0.3 s"


def test_where_there_is_no_wall_or_the_mode_has_none_hooks_run_open(
    session: WalledSession, wall: SessionWall, outside: Path
) -> None:
    wall.permissions.set_mode("bypassPermissions")
    assert walled_answer(session, wall, f"touch {outside}/bypass") == (HookAnswer(), [])
    wall.level = "none"
    wall.permissions.set_mode("manual")
    assert walled_answer(session, wall, f"touch {outside}/none") == (HookAnswer(), [])
    assert {"bypass", "none"} == {path.name for path in outside.iterdir()}
