"""Text that the user writes during a turn is sent with its next request, as a prompt of its own."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agent.events import Notice, TurnFinished
from agent.ports import HookAnswer, HookEvent, WaitingPrompt
from tests.agent.commands.controller_run import ControllerRun, run_controller
from tests.strict_api.reply import Body, Reply, calls
from tests.strict_api.scripted_model import ScriptedModel


@dataclass
class Waiting:
    """ports.WaitingPrompts with its prompts ready."""

    prompts: list[tuple[str, str | None]]
    given_back: list[str] = field(default_factory=list)
    taken: str = ""

    def take(self) -> WaitingPrompt | None:
        prompt = WaitingPrompt(*self.prompts.pop(0)) if self.prompts else None
        self.taken = prompt.text if prompt else self.taken
        return prompt

    def give_back(self) -> None:
        self.given_back.append(self.taken)


def last_content(body: Body) -> list[tuple[str, str]]:
    """(type, text) of the blocks of the newest message; of a result no text."""
    return [(block["type"], block.get("text", "")) for block in body["messages"][-1]["content"]]


def steps() -> ScriptedModel:
    called = Reply([calls("todo", todos=[])])
    return ScriptedModel([called, called, "done", "again"])


def test_prompts_follow_the_results_with_what_they_mention_and_can_be_rewound(tmp_path: Path) -> None:
    (tmp_path / "style.txt").write_text("tabs\n")
    waiting = Waiting([("use tabs", None), ("as in @style.txt", None)])

    async def work(run: ControllerRun) -> None:
        run.controller.take_prompts_from(waiting)
        assert await run.do("begin") == "read style.txt (1 line)"
        first, second = run.server.requests[1:3]
        assert [kind for kind, _ in last_content(first)] == ["tool_result", *["text"] * 5]
        _, told, typed, attached, told_again, typed_again = [text for _, text in last_content(first)]
        assert "The user sent this while you were working:" in told and told == told_again
        assert [typed, typed_again] == ["use tabs", "as in @style.txt"]
        assert "tabs" in attached and "style.txt" in attached
        assert [kind for kind, _ in last_content(second)] == ["tool_result"]
        ended = [event for event in run.events if isinstance(event, TurnFinished)]
        assert [event.reason for event in ended] == ["done"]
        await run.do("/rewind 2 conversation", "go on")
        assert last_content(run.server.requests[-1])[-2:] == [("tool_result", ""), ("text", "go on")]

    run_controller(tmp_path, work, respond=steps())
    assert waiting.given_back == []


def test_none_is_taken_where_no_request_follows_or_a_reply_is_to_be_continued(tmp_path: Path) -> None:
    waiting = Waiting([("use tabs", None)])
    cut = Reply([{"type": "text", "text": "half"}], stop_reason="max_tokens")

    async def work(run: ControllerRun) -> None:
        run.controller.take_prompts_from(waiting)
        assert (await run.controller.prompt("begin")).reason == "max_turns"
        assert waiting.prompts == [("use tabs", None)]
        assert len(run.server.requests) == 1 + 1 and "use tabs" not in str(run.server.requests)

    run_controller(
        tmp_path, work, respond=ScriptedModel([cut, Reply([calls("todo", todos=[])])]), max_turns=2
    )


class LoudHooks:
    """Hooks of which that of prompts refuses a loud one, or never answers."""

    def __init__(self, answers: bool) -> None:
        self.answers, self.asked = answers, asyncio.Event()

    async def run(self, event: HookEvent, about: Mapping[str, Any]) -> HookAnswer:
        if event is not HookEvent.PROMPT or about["prompt"] != "LOUD":
            return HookAnswer()
        self.asked.set()
        if not self.answers:
            await asyncio.Event().wait()
        return HookAnswer(veto="no shouting")


@pytest.mark.parametrize("answers", [True, False])
def test_one_that_a_hook_refuses_or_holds_up_does_not_get_in(tmp_path: Path, answers: bool) -> None:
    waiting, hooks = Waiting([("LOUD", None)]), LoudHooks(answers)

    async def work(run: ControllerRun) -> None:
        run.controller.take_prompts_from(waiting)
        turn = asyncio.ensure_future(run.controller.prompt("begin"))
        if not answers:
            await hooks.asked.wait()
            turn.cancel()
        ended = await turn
        told = [event.text for event in run.events if isinstance(event, Notice) and event.level == "warning"]
        assert told == ["not sent: a hook denied the prompt: no shouting"] * answers
        assert (ended.reason, waiting.given_back) == (("done", []) if answers else ("interrupted", ["LOUD"]))
        assert b"LOUD" not in b"".join(run.bodies())

    run_controller(tmp_path, work, respond=steps(), hooks=hooks)
