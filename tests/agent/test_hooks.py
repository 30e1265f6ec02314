"""Commands of the user at named moments."""

import asyncio
import json
from pathlib import Path

import pytest

from agent.hooks import CommandHooks
from agent.ports import HookAnswer


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


def test_other_moments_run_nothing(tmp_path: Path) -> None:
    hooks = CommandHooks({"pre_compact": "touch ran"}, tmp_path, lambda text: None)
    asyncio.run(hooks.run("post_compact", {}))
    assert not (tmp_path / "ran").exists()
