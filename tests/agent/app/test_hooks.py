"""Commands of the user at named moments."""

import asyncio
import json
from pathlib import Path

import pytest

from agent.app.hooks import CommandHooks
from agent.ports import HookAnswer
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
