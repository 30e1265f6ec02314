"""The turn against the strict server: tools, faults of the network and of the model, interruption."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from agent.events import (
    Notice,
    RequestStarted,
    Retrying,
    StreamAborted,
    ToolCallFinished,
    ToolCallProgress,
    ToolCallStarted,
    TurnFinished,
)
from agent.loop.loop_detection import MAX_TIMES, STUCK
from agent.loop.session_sandbox import SessionSandbox
from agent.model.anthropic.request import FEATURE_FIELDS
from agent.model.retry import MAX_TRIES
from agent.permissions import SandboxSettings
from agent.ports import Allow, Deny, HookAnswer, HookEvent
from compact.settings import ContextWindow
from tests.strict_api.faults import Fault
from tests.strict_api.reply import Reply as Answer
from tests.strict_api.reply import calls, says, thinks
from tests.strict_api.scripted_model import Step
from tests.tables import each_row
from tools.base import ToolCall, ToolError, ToolResult, text_result
from tools.bash import BashArguments, run_bash
from tools.processes.runner import command_runner
from tools.sandbox import SandboxLevel
from transcripts import Display
from transcripts.data_tags import injected
from transcripts.facts import Compacted, Fold, Reply, RequestSent, Result, Started, User
from transcripts.messages import TextBlock

from .world import world


def test_an_answer_without_calls_ends_the_turn(tmp_path: Path) -> None:
    with world(["hello"], tmp_path) as w:
        assert w.run() == TurnFinished("done", 1)
        assert w.session.folded.last_reply.blocks == (TextBlock("hello"),)
        w.check()


def test_calls_run_and_the_model_continues_with_their_results(tmp_path: Path) -> None:
    steps: list[Step] = [Answer([thinks("hm"), calls("echo", words="a"), calls("echo", words="b")]), "done"]
    with world(steps, tmp_path) as w:
        assert w.run() == TurnFinished("done", 2)
        assert w.texts() == ["echo: a", "echo: b"]
        assert sum(isinstance(fact, RequestSent) for fact in w.record.syncing) == 2
        w.check()


def test_a_call_that_cannot_run_is_shown_like_any_other(tmp_path: Path) -> None:
    with world([Answer([calls("nothing")]), "done"], tmp_path) as w:
        w.run()
        assert [event.name for event in w.told(ToolCallStarted)] == ["nothing"]
        assert [event.name for event in w.told(ToolCallFinished)] == ["nothing"]


def test_the_end_of_a_background_command_is_informed_in_the_same_turn_and_once(tmp_path: Path) -> None:
    async def start_and_wait(arguments: Any, call: ToolCall) -> ToolResult:
        await run_bash(BashArguments(command="echo up; exit 3", run_in_background=True), call)
        await command_runner(call.context).jobs["b1"].has_ended.wait()
        return text_result("waited")

    with world(
        [Answer([calls("act", words="x")]), Answer([calls("echo", words="y")]), "done"], tmp_path
    ) as w:

        async def whole() -> None:
            w.replace_run("act", start_and_wait)
            w.context.permissions.set_mode("bypassPermissions")
            try:
                await w.turn("go")
                await w.context.model.close()
            finally:
                await w.context.tool_context.jobs.close()

        asyncio.run(whole())
        waited, news, echoed = w.texts()
        assert (waited, echoed) == ("waited", "echo: y")
        assert news.startswith("[Background command b1 (echo up; exit 3) finished, exit code 3, after ")
        assert "Background command b1" in str(w.server.requests[1]["messages"][-1])
        w.check()


def test_a_part_of_the_program_that_is_gone_ends_the_turn_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def load(*_: object) -> None:
        import_module("agent.no_such_module")

    told = "makeroom has changed on disk since it started (No module named 'agent.no_such_module'). Exit"
    with world([Answer([calls("echo", words="x")]), "done"], tmp_path) as w:
        w.replace_run("echo", load)
        assert w.run() == TurnFinished("done", 2)
        assert told in w.texts()[0]
        monkeypatch.setattr("agent.loop.turn.compact_if_due", load)
        ended = w.run()
        assert ended.reason == "failed" and told in ended.error


def test_thinking_is_sent_back_unchanged_through_many_calls(tmp_path: Path) -> None:
    steps = [Answer([thinks(f"step {n}"), calls("echo", words=str(n))]) for n in range(12)]
    with world([*steps, "done"], tmp_path, binds_thinking=True) as w:
        assert w.run().reason == "done"
        sent = [b for m in w.server.requests[-1]["messages"] for b in m["content"] if b["type"] == "thinking"]
        assert len(sent) == 12
        w.check()


@each_row(
    ("call", "expected"),
    [
        (calls("echo", words="refuse"), "it cannot be done"),
        (calls("echo", words="crash"), "a fault within"),
        (calls("echo", wrong=1), "wrong"),
        (calls("echo", words=[1, 2]), "words"),
        (calls("nothing", x=1), "There is no tool named 'nothing'. The tools are: echo, act."),
    ],
)
def test_what_cannot_be_done_is_an_error_result_and_the_turn_continues(
    tmp_path: Path, call: dict[str, Any], expected: str
) -> None:
    with world([Answer([call]), "I see"], tmp_path) as w:
        assert w.run().reason == "done"
        (result,) = [fact for fact in w.record.facts if isinstance(fact, Result)]
        assert result.error
        assert expected in w.texts()[0]
        w.check()


def test_an_error_names_a_tool_in_its_remedy_only_if_the_tool_is_offered(tmp_path: Path) -> None:
    async def fail(arguments: Any, call: ToolCall) -> ToolResult:
        raise ToolError("It is binary.", f"Use {arguments.words}.", tools=arguments.words)

    steps: list[Step] = [Answer([calls("echo", words="act"), calls("echo", words="bash")]), "done"]
    with world(steps, tmp_path) as w:
        w.replace_run("echo", fail)
        w.run()
        assert w.texts() == ["It is binary.\nUse act.", "It is binary."]
        w.check()


def test_a_wrong_letter_case_of_a_tool_is_understood(tmp_path: Path) -> None:
    with world([Answer([calls("Echo", words="x")]), "ok"], tmp_path) as w:
        w.run()
        assert w.texts() == ["echo: x"]


def test_malformed_tool_json_is_answered_and_not_run(tmp_path: Path) -> None:
    with world([Answer([calls("echo", words="x")]), "ok"], tmp_path) as w:
        w.server.faults.add(Fault("bad_tool_json"))
        assert w.run().reason == "done"
        assert "not a valid JSON" in w.texts()[0]
        assert w.ran["echo"] == []
        w.check()


def test_the_order_on_disk_is_words_reply_started_result(tmp_path: Path) -> None:
    with world([Answer([calls("act", words="x")]), "ok"], tmp_path, Allow()) as w:
        durable: list[int] = []
        ran = w.context.tools["act"].run

        async def run(arguments: Any, call: Any) -> Any:
            durable.append(w.record.durable)
            return await ran(arguments, call)

        w.replace_run("act", run)
        w.run()
        kinds = [type(fact).__name__ for fact in w.record.facts]
        assert kinds == [
            "Opened",
            "Instructed",
            "User",
            "RequestSent",
            "Reply",
            "Started",
            "Result",
            "RequestSent",
            "Reply",
        ]
        assert durable == [kinds.index("Started") + 1]
        assert w.record.durable == len(w.record.facts)


def test_permission_is_asked_once_for_a_session(tmp_path: Path) -> None:
    steps: list[Step] = [Answer([calls("act", words="make x")]), Answer([calls("act", words="make x")]), "ok"]
    with world(steps, tmp_path, Allow("session")) as w:
        assert w.run().reason == "done"
        assert len(w.approver.questions) == 1
        assert w.texts() == ["echo: make x"] * 2


def test_what_is_granted_for_good_is_reported_with_its_file_and_what_cannot_be_kept_too(
    tmp_path: Path,
) -> None:
    steps: list[Step] = [
        Answer([calls("act", words="make x")]),
        Answer([calls("act", words="pytest x")]),
        "ok",
    ]
    with world(steps, tmp_path, Allow("always"), Allow("always")) as w:
        path = w.context.permissions.path = tmp_path / "kept" / "it.toml"
        ran = w.context.tools["act"].run

        async def run(arguments: Any, call: Any) -> Any:
            assert "bash(make x)" in path.read_text()
            path.write_text("no toml")
            w.replace_run("act", ran)
            return await ran(arguments, call)

        w.replace_run("act", run)
        assert w.run().reason == "done"
        kept, lost = (notice.text for notice in w.told(Notice))
        assert "bash(make x)" in kept and str(path) in kept
        assert "cannot save bash(pytest)" in lost and "for this session only" in lost and str(path) in lost
        assert w.texts() == ["echo: make x", "echo: pytest x"]


def test_for_this_session_grants_what_was_shown_and_no_more(tmp_path: Path) -> None:
    steps: list[Step] = [
        Answer([calls("act", words="make x")]),
        Answer([calls("act", words="touch y && make x")]),
        "ok",
    ]
    with world(steps, tmp_path, Allow("session"), Deny()) as w:
        assert w.run().reason == "done"
        offered = [question.prefix for question in w.approver.questions]
        assert offered == ["bash(make x)", "bash(=touch y && make x)"]
        assert w.ran["act"] == ["make x"]


def test_for_this_session_grants_nothing_for_a_command_too_long_to_be_read(tmp_path: Path) -> None:
    steps: list[Step] = [Answer([calls("act", words="x" * 10_001)]), Answer([calls("act", words="y")]), "ok"]
    with world(steps, tmp_path, Allow("session"), Deny()) as w:
        assert w.run().reason == "done"
        assert [question.prefix for question in w.approver.questions] == [None, "bash(=y)"]
        assert w.context.permissions.rules.allow == ()


@pytest.mark.parametrize(
    ("before", "mode", "told"),
    [
        ("namespaces", "auto", ["the sandbox for commands has changed to Landlock and seccomp (weaker)"]),
        ("landlock", "auto", []),
        ("none", "auto", []),
        ("namespaces", "off", []),
    ],
)
def test_a_weaker_sandbox_than_before_is_reported_before_the_command_runs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    before: SandboxLevel,
    mode: Literal["auto", "off"],
    told: list[str],
) -> None:
    async def settle(sandbox: SessionSandbox) -> None:
        sandbox.level = "landlock"

    monkeypatch.setattr(SessionSandbox, "settle", settle)
    steps: list[Step] = [Answer([calls("echo"), calls("act", words="make")]), "ok"]
    with world(steps, tmp_path, Allow()) as w:
        w.context.permissions.sandbox = SandboxSettings(mode=mode)
        sandbox = SessionSandbox(w.context.tool_context, w.context.permissions, tmp_path, level=before)
        w.context.sandbox = sandbox
        assert w.run().reason == "done"
        assert [notice.text for notice in w.told(Notice)] == told
        assert sandbox.level == "landlock" and w.ran["act"] == ["make"]


def test_a_refusal_that_nobody_gave_is_not_said_to_be_the_users(tmp_path: Path) -> None:
    with world(
        [Answer([calls("act", words="a")]), "fine"], tmp_path, Deny("no screen", unattended=True)
    ) as w:
        w.run()
        assert w.texts()[0].startswith("Permission denied: no screen")


def test_a_refusal_goes_to_the_model_with_its_reason(tmp_path: Path) -> None:
    with world([Answer([calls("act", words="rm x")]), "fine"], tmp_path, Deny("I need x")) as w:
        assert w.run().reason == "done"
        assert "I need x" in w.texts()[0]
        assert w.ran["act"] == []
        (told,) = w.told(ToolCallFinished)
        assert told.denied and told.result.human == Display(text="You denied this call: I need x")
        (denied,) = w.context.permissions.denied
        assert (denied.name, denied.input) == ("act", {"words": "rm x"})
        assert denied.id == w.server.requests[-1]["messages"][-1]["content"][0]["tool_use_id"]
        w.check()


def test_a_refusal_that_stops_answers_every_call_and_ends_the_turn(tmp_path: Path) -> None:
    steps: list[Step] = [
        Answer([calls("act", words="a"), calls("act", words="b"), calls("echo", words="c")]),
        "again",
    ]
    with world(steps, tmp_path, Deny(stop=True)) as w:
        assert w.run().reason == "denied"
        assert len([fact for fact in w.record.facts if isinstance(fact, Result)]) == 3
        w.context.model = type(w.context.model)(w.server.base_url, "key")
        assert w.run("go on").reason == "done"
        w.check()


TRANSIENT = [
    Fault("status", status=429, headers={"retry-after": "7"}),
    Fault("status", status=429),
    Fault("status", status=529),
    Fault("status", status=500),
    Fault("status", status=502, html=True),
    Fault("status", status=503),
    Fault("status", status=408),
    Fault("reset"),
    Fault("reset", at=300),
    Fault("truncate", at=250),
    Fault("truncate", at=600),
    Fault("garbage", at=3),
    Fault("sse_error", at=3, text="overloaded_error"),
    Fault("no_message_stop"),
    Fault("empty"),
    Fault("html"),
]


@pytest.mark.parametrize("fault", TRANSIENT, ids=lambda fault: f"{fault.kind}-{fault.status}-{fault.at}")
def test_a_passing_fault_is_reported_waited_out_and_tried_again(tmp_path: Path, fault: Fault) -> None:
    answer = Answer([thinks("hm"), says("a long answer " * 5), calls("echo", words="x")])

    def model(body: dict[str, Any]) -> Answer:
        return Answer([says("done")]) if "tool_result" in str(body["messages"]) else answer

    with world([model] * 3, tmp_path) as w:
        w.server.faults.add(fault)
        assert w.run().reason == "done"
        assert len(w.told(Retrying)) == 1
        assert w.texts() == ["echo: x"]
        assert w.clock.slept == [7.0] if fault.headers else len(w.clock.slept) == 1
        assert [fact.attempt for fact in w.record.facts if isinstance(fact, RequestSent)] == [1, 2, 1]
        assert [event.attempt for event in w.told(RequestStarted)] == [1, 2, 1]
        w.check()


def test_text_that_was_shown_and_lost_is_reported_as_lost(tmp_path: Path) -> None:
    with world([Answer([says("half of this " * 40)]), "whole"], tmp_path) as w:
        w.server.faults.add(Fault("truncate", at=900))
        w.run()
        assert "half of this" in w.told(StreamAborted)[0].partial
        partial = [fact for fact in w.record.facts if isinstance(fact, Reply) and not fact.complete]
        assert len(partial) == 1
        assert partial[0].blocks == (TextBlock(partial[0].partial),)
        received = w.context.compaction.counter.blocks(partial[0].blocks)
        assert partial[0].usage.output == sum(received) > 1, "the text that came is charged, once"
        assert w.session.folded.view[-1].parts[0].block == TextBlock("whole")


def test_after_ten_tries_the_error_is_reported(tmp_path: Path) -> None:
    with world([], tmp_path) as w:
        w.server.faults.add(Fault("status", status=529, times=None))
        ended = w.run()
        assert (ended.reason, ended.code) == ("failed", 75)
        assert len(w.told(Retrying)) == MAX_TRIES - 1


@pytest.mark.parametrize(("status", "code"), [(401, 5), (403, 5), (404, 1)])
def test_what_will_not_pass_is_reported_at_once(tmp_path: Path, status: int, code: int) -> None:
    with world([], tmp_path) as w:
        w.server.faults.add(Fault("status", status=status))
        ended = w.run()
        assert (ended.reason, ended.code, w.clock.slept) == ("failed", code, [])


@each_row(("field", "feature"), FEATURE_FIELDS.items())
def test_a_field_that_the_server_does_not_take_is_dropped_for_the_session(
    tmp_path: Path, field: str, feature: str
) -> None:
    with world(["one", "two"], tmp_path) as w:
        w.context.settings = replace(w.context.settings, effort="low", eager=True, diagnoses=True)
        w.server.faults.add(Fault("rejects", text=field, times=None))
        assert w.run().reason == "done"
        assert field in str(w.server.requests[0]) and field not in str(w.server.requests[-1])
        assert [n for n in w.told(Notice) if f"does not support {feature}," in n.text]


def test_refused_thinking_is_left_out_once(tmp_path: Path) -> None:
    text = "messages.1.content.0: Invalid `signature` in `thinking` block."
    with world([Answer([thinks("a"), calls("echo", words="x")]), "done"], tmp_path) as w:
        w.server.faults.add(
            Fault("status", status=400, text=text, when=lambda body: len(body["messages"]) > 1)
        )
        assert w.run().reason == "done"
        assert "'thinking', 'thinking'" not in str(w.server.requests[-1]["messages"])


def rejected(text: str) -> Fault:
    return Fault("status", status=400, text=text)


def test_a_model_with_a_smaller_output_limit_is_asked_for_that_much_from_now_on(tmp_path: Path) -> None:
    limit = "max_tokens: 8000 > 4000, which is the maximum allowed number of output tokens for this model"
    with world([Answer([calls("echo")]), "done"], tmp_path) as w:
        w.server.faults.add(rejected(limit))
        assert w.run().reason == "done"
        assert [request["max_tokens"] for request in w.server.requests] == [8_000, 4_000, 4_000]
        assert w.told(Notice) == [
            Notice("the model's output limit is 4,000 tokens, which is now used", "warning")
        ]
        assert w.context.compaction.window == ContextWindow(200_000, 4_000)


def test_an_output_beyond_the_window_is_limited_for_this_reply_and_the_window_is_remembered(
    tmp_path: Path,
) -> None:
    learned: list[int] = []
    too_large = "input length and `max_tokens` exceed context limit: 16000 + 8000 > 20000, decrease it"
    with world([Answer([calls("echo")]), "done"], tmp_path) as w:
        w.context.compaction.learn_window = learned.append
        w.server.faults.add(rejected(too_large))
        assert w.run().reason == "done"
        assert [request["max_tokens"] for request in w.server.requests][:2] == [8_000, 3_936]
        assert learned == [20_000] and w.context.compaction.window.size == 20_000
        assert [notice.text for notice in w.told(Notice)] == [
            "the server's context window is 20,000 tokens; limiting the output to 3,936 tokens"
        ]
        assert w.context.compaction.window_source == "the server's response"
    with world(["done"], tmp_path) as w:  # the same answer again: nothing is left to limit
        w.server.faults.add(*[rejected(too_large)] * 2)
        w.run()
        assert any("the prompt is too long (" in notice.text for notice in w.told(Notice))


@pytest.mark.parametrize(
    ("text", "layer", "told"),
    [
        (
            "messages.1.content.0: Invalid `signature` in `thinking` block.",
            "unthink",
            "the server rejected earlier thinking, which is no longer sent",
        ),
        (
            "messages.2.content.0: bad block",
            "repair",
            "the server rejected a block, which is now a placeholder: 400",
        ),
    ],
)
def test_a_rejected_block_is_repaired_once_and_reported_and_recorded(
    tmp_path: Path, text: str, layer: str, told: str
) -> None:
    def has_results(body: Any) -> bool:
        return len(body["messages"]) > 1

    fault = Fault("status", status=400, text=text, when=has_results, times=None)
    with world([Answer([thinks("a"), calls("echo", words="x")]), "done"], tmp_path) as w:
        w.server.faults.add(fault)
        assert w.run().reason == "failed", "what does not help is not tried again"
        assert len(w.server.requests) == 3
        [notice] = w.told(Notice)
        assert notice.text.startswith(told) and notice.level == "warning"
        [made] = [fact for fact in w.record.facts if isinstance(fact, Compacted)]
        assert (made.layer, made.trigger) == (layer, "reactive") and text in made.report["reason"]
        _, second, third = (str(request["messages"]) for request in w.server.requests)
        assert "echo: x" in second and ("echo: x" in third) == (layer == "unthink")
        assert ("'thinking'" in second, "'thinking'" in third) == (True, layer == "repair")


def test_all_blocks_that_an_error_names_are_replaced_at_once_and_counted(tmp_path: Path) -> None:
    paths = ["messages.2.content.0", "messages.2.content.1", "messages.9.content.0", "messages.2.content.7"]
    error = {"type": "invalid_request_error", "message": "bad blocks", "details": {"paths": paths}}
    body = json.dumps({"type": "error", "error": error}).encode()
    steps: list[Step] = [Answer([calls("echo", words="x"), calls("echo", words="y")]), "done"]
    with world(steps, tmp_path) as w:
        w.server.faults.add(
            Fault("status", status=400, body=body, when=lambda asked: len(asked["messages"]) > 1)
        )
        assert w.run().reason == "done"
        [notice] = w.told(Notice)
        assert notice.text.startswith("the server rejected 2 blocks, which are now placeholders: 400")
        text = "[a block that the API rejected was here; recall r6 shows it]"
        assert w.texts() == [text, text.replace("r6", "r7")]


def test_a_server_that_cuts_the_prompt_silently_limits_the_window_to_what_it_saw(tmp_path: Path) -> None:
    def answer(seen: int) -> Answer:
        cached = {"cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
        return Answer([says("done")], usage={"input_tokens": seen, **cached})

    words = "some words of mine " * 3_000
    with world([answer(2_000), answer(2_000)], tmp_path) as w:
        w.run(words)
        assert w.told(Notice) == [], "only some servers do that"
        assert w.context.compaction.window.size == 200_000
    with world([answer(2_000)], tmp_path) as w:
        w.context.compaction.cuts_silently = True
        assert w.run(words).reason == "done"
        [notice] = w.told(Notice)
        assert notice.level == "warning" and "truncated the prompt to 2,000 of about 1" in notice.text
        assert w.context.compaction.window.size == 2_000
        assert w.session.folded.last_reply.asked == 0, "its count must not calibrate our estimate"
    with world([answer(10_500)], tmp_path) as w:
        w.context.compaction.cuts_silently = True
        w.run(words)
        assert w.told(Notice) == [], "an estimate is not exact"
        assert w.session.folded.last_reply.asked > 0


def test_a_reply_cut_at_max_tokens_is_carried_on(tmp_path: Path) -> None:
    with world([Answer([says("first half")], "max_tokens"), "second half"], tmp_path) as w:
        assert w.run() == TurnFinished("done", 2)
        assert [fact.source for fact in w.record.facts if isinstance(fact, User)] == ["user", "harness"]
        w.check()


def test_a_reply_is_carried_on_three_times_in_a_row_and_calls_begin_the_count_again(tmp_path: Path) -> None:
    cut = [Answer([says(f"part {number}")], "max_tokens") for number in range(4)]
    with world([*cut[:3], Answer([calls("echo")]), *cut[:3], "done"], tmp_path) as w:
        assert w.run() == TurnFinished("done", 8)
        w.check()
    with world([cut[0], Answer([calls("echo")]), *cut], tmp_path) as w:
        cause = "the reply was cut off 4 times"
        error = f"{cause}; send 'continue' to resume"
        assert w.run() == TurnFinished("failed", 6, error, 1, cause)


def test_a_continuation_with_the_same_text_ends_the_turn(tmp_path: Path) -> None:
    cut = Answer([says("a part")], "max_tokens")
    with world([cut, cut, "never asked for"], tmp_path) as w:
        cause = "the reply was cut off, and its continuation was the same text"
        assert w.run() == TurnFinished("failed", 2, f"{cause}; send 'continue' to resume", 1, cause)
        w.check()


def test_a_call_cut_at_max_tokens_is_not_run(tmp_path: Path) -> None:
    with world([Answer([calls("act", words="x")], "max_tokens"), "smaller then"], tmp_path) as w:
        assert w.run().reason == "done"
        assert "cut at max_tokens" in w.texts()[0]
        assert not [fact for fact in w.record.facts if isinstance(fact, Started)]


@pytest.mark.parametrize("blocks", [[says("no"), calls("echo", words="x")], []])
def test_a_refusal_of_the_model_ends_the_turn_and_runs_nothing(
    tmp_path: Path, blocks: list[dict[str, Any]]
) -> None:
    with world([Answer(blocks, "refusal")], tmp_path) as w:
        assert w.run().reason == "refused"
        assert w.ran["echo"] == [] and len(w.server.requests) == 1


def test_the_reason_for_a_refusal_is_shown(tmp_path: Path) -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "It could\nharm \ud800."}
    with world([Answer([], "refusal", stop_details=details), "there"], tmp_path) as w:
        assert w.run().reason == "refused"
        assert [notice.text for notice in w.told(Notice)] == [
            "the provider refused the request (cyber): It could harm ?."
        ]


def test_an_empty_reply_is_asked_again_and_never_sent_back(tmp_path: Path) -> None:
    with world([Answer([], "end_turn"), "\u200b", "there"], tmp_path) as w:
        assert w.run() == TurnFinished("done", 3)
        w.check()


def test_max_turns_ends_with_its_own_code(tmp_path: Path) -> None:
    with world([Answer([calls("echo", words=str(n))]) for n in range(5)], tmp_path) as w:
        w.context.max_turns = 3
        ended = w.run()
        assert (ended.reason, ended.turns, ended.code) == ("max_turns", 3, 3)
        w.check()


def test_two_hundred_calls_in_one_reply_have_two_hundred_results(tmp_path: Path) -> None:
    with world([Answer([calls("echo", words=str(n)) for n in range(200)]), "ok"], tmp_path) as w:
        assert w.run().reason == "done"
        assert w.texts() == [f"echo: {n}" for n in range(200)]
        w.check()


def test_an_interrupted_tool_is_answered_and_the_session_continues(tmp_path: Path) -> None:
    steps: list[Step] = [Answer([calls("act", words="hang"), calls("echo", words="never")]), "later"]
    with world(steps, tmp_path, Allow()) as w:

        async def whole() -> None:
            task = asyncio.ensure_future(w.turn("go"))
            while "hang" not in w.ran["act"]:
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert w.events[-1].reason == "interrupted"
            assert (await w.turn("and now?")).reason == "done"
            await w.context.model.close()

        asyncio.run(whole())
        assert ["interrupted by the user" in w.texts()[0], "not run" in w.texts()[1]] == [True, True]
        told = [event.result.human for event in w.told(ToolCallFinished)[:2]]
        assert told == [Display(text="", note="interrupted"), Display(text="", note="not run")]
        w.check()


def hanging_tool(ended: list[str]) -> Callable[[Any, ToolCall], Awaitable[ToolResult]]:
    """Return a tool's function that ends at once, or once it is cancelled, after a while of tidying up."""

    async def run(arguments: Any, call: ToolCall) -> ToolResult:
        try:
            if arguments.words.startswith("hang"):
                await asyncio.Event().wait()
            return text_result("done")
        finally:
            for _ in range(20):
                await asyncio.sleep(0)
            ended.append(arguments.words)

    return run


def test_calls_beside_one_that_ends_the_turn_are_cancelled_and_have_ended_with_it(tmp_path: Path) -> None:
    ended: list[str] = []
    beside = [calls("echo", words=words) for words in ("hang 1", "quick", "hang 2")]
    with world([Answer([*beside, calls("act", words="never")]), "later"], tmp_path) as w:
        w.replace_run("echo", hanging_tool(ended))
        w.context.hooks = HookWords(post_tool=HookAnswer(stop="enough"))
        finished = w.run()
        assert (finished.reason, finished.error) == ("denied", "enough")
        assert sorted(ended) == ["hang 1", "hang 2", "quick"]
        texts = w.texts()
        assert texts[1] == "done" and texts[3].startswith("[not run: ")
        assert all(texts[at].startswith("[interrupted by the user") for at in (0, 2))
        w.check()


def test_an_interrupt_ends_all_calls_that_run_in_parallel_before_the_turn_ends(tmp_path: Path) -> None:
    ended: list[str] = []
    with world([Answer([calls("echo", words=f"hang {at}") for at in range(3)])], tmp_path) as w:

        async def whole() -> None:
            w.replace_run("echo", hanging_tool(ended))
            task = asyncio.ensure_future(w.turn("go"))
            while len(w.told(ToolCallStarted)) < 3:
                await asyncio.sleep(0)
            for _ in range(50):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert sorted(ended) == ["hang 0", "hang 1", "hang 2"]
            await w.context.model.close()

        asyncio.run(whole())
        assert len([fact for fact in w.record.facts if isinstance(fact, Result)]) == 3
        w.check()


def test_an_interrupted_command_keeps_what_it_wrote(tmp_path: Path) -> None:
    async def run_line(arguments: Any, call: ToolCall) -> ToolResult:
        return await run_bash(BashArguments(command="echo so far; sleep 300"), call)

    with world([Answer([calls("act", words="x")]), "later"], tmp_path) as w:

        async def whole() -> None:
            w.replace_run("act", run_line)
            w.context.permissions.set_mode("bypassPermissions")
            try:
                turn = asyncio.ensure_future(w.turn("go"))
                while not w.told(ToolCallProgress):
                    await asyncio.sleep(0.001)
                turn.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await turn
                await w.turn("go on")
            finally:
                await w.context.model.close()
                await w.context.tool_context.jobs.close()

        asyncio.run(whole())
        assert w.texts()[0] == "so far"
        assert w.told(ToolCallFinished)[0].result.human.note == "interrupted"
        assert w.texts()[1].startswith("[interrupted by the user")
        w.check()


def test_an_interrupted_stream_keeps_its_text_and_the_session_continues(tmp_path: Path) -> None:
    with world([Answer([says("some words " * 200)]), "later"], tmp_path) as w:
        stall = Fault("stall", at=1200)
        w.server.faults.add(stall)

        async def whole() -> None:
            task = asyncio.ensure_future(w.turn("go"))
            while not [event for event in w.events if type(event).__name__ == "TextDelta"]:
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            stall.release.set()
            assert (await w.turn("and now?")).reason == "done"
            await w.context.model.close()

        asyncio.run(whole())
        assert "some words" in str(w.server.requests[-1]["messages"])
        w.check()


def test_a_retry_wait_can_be_interrupted(tmp_path: Path) -> None:
    with world([], tmp_path) as w:
        w.server.faults.add(Fault("status", status=429, headers={"retry-after": "500"}))

        async def forever(seconds: float) -> None:
            await asyncio.Event().wait()

        w.clock.sleep = forever

        async def whole() -> None:
            task = asyncio.ensure_future(w.turn("go"))
            while not w.told(Retrying):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await w.context.model.close()

        asyncio.run(whole())
        assert w.told(Retrying)[0].seconds == 500


def test_the_same_call_with_the_same_result_three_times_running_is_remarked_on(tmp_path: Path) -> None:
    again, other = Answer([calls("echo", words="x")]), Answer([calls("echo", words="y")])
    with world([again, again, other, again, again, again, again, "ok"], tmp_path) as w:
        assert w.run().reason == "done"
        told = [text for text in w.texts() if "times in a row" in text]
        assert [text.split(" times")[0].rpartition(" ")[2] for text in told] == ["3", "4"]
        w.check()


def test_a_call_is_counted_although_history_is_folded_in_between_and_ends_the_turn_at_last(
    tmp_path: Path,
) -> None:
    again = Answer([calls("echo", words="x")])
    cut = Answer([says("I will")], stop_reason="max_tokens")  # which the harness has continue
    with world([*[again] * 10, cut, *[again] * MAX_TIMES], tmp_path) as w:
        ran = list[str]()

        async def fold_and_answer(arguments: Any, call: ToolCall) -> ToolResult:
            ran.append(arguments.words)
            seqs = [fact.seq for fact in w.record.facts if isinstance(fact, Reply | Result)]
            if len(ran) % 4 == 0:  # all but the reply with this call
                edits = (Fold(seqs[0], seqs[-2], (TextBlock("[folded]"),)),)
                w.session.compacted("collapse", "auto", edits, {})
            return text_result("the same")

        w.replace_run("echo", fold_and_answer)
        ended = w.run()
        assert (ended.reason, ended.error, len(ran)) == ("failed", STUCK, MAX_TIMES)
        assert ended.code != 0
        assert "more than 20 times in a row" in w.texts()[-1]
        w.check()


def test_calls_that_a_turn_without_end_leaves_are_not_said_to_be_interrupted_by_the_user(
    tmp_path: Path,
) -> None:
    again = calls("echo", words="x")
    with world([*[Answer([again])] * (MAX_TIMES - 1), Answer([again, calls("other")])], tmp_path) as w:
        ended = w.run()
        assert (ended.reason, ended.error) == ("failed", STUCK)
        assert w.texts()[-1] == f"[not run: {STUCK}]"


def test_a_call_that_the_user_asks_for_again_is_not_remarked_on(tmp_path: Path) -> None:
    again = Answer([calls("echo", words="x"), calls("echo", words="x")])
    with world([again, "ok", again, "ok"], tmp_path) as w:

        async def twice() -> None:
            await w.turn("go")
            await w.turn("go again")
            await w.context.model.close()

        asyncio.run(twice())
        assert not any("times in a row" in text for text in w.texts())


class HookWords:
    """Hooks that return text at each event and keep their inputs."""

    def __init__(self, **answers: HookAnswer) -> None:
        self.answers = answers
        self.told: list[tuple[str, dict[str, Any]]] = []

    async def run(self, event: HookEvent, about: Mapping[str, Any]) -> HookAnswer:
        self.told.append((event.name.lower(), dict(about)))
        return self.answers.get(event.name.lower(), HookAnswer())


def test_the_words_of_the_hooks_around_a_call_reach_the_model(tmp_path: Path) -> None:
    hooks = HookWords(pre_tool=HookAnswer(words="be careful"), post_tool=HookAnswer(words="well done"))
    with world([Answer((calls("echo", words="hi"),)), "done"], tmp_path) as w:
        w.context.hooks = hooks
        w.run()
        sent = w.server.requests[1]["messages"][-1]["content"][0]["content"]
        texts = [block["text"] for block in sent]
        assert texts == [
            "echo: hi",
            injected("[a hook before this call says: be careful]"),
            injected("[a hook after this call says: well done]"),
        ]
        w.check()


def test_the_hook_after_a_call_is_informed_of_the_outcome_and_can_object(tmp_path: Path) -> None:
    hooks = HookWords(post_tool_failure=HookAnswer(veto="the tests fail now"))
    with world([Answer((calls("echo", words="refuse"),)), "done"], tmp_path) as w:
        w.context.hooks = hooks
        w.run()
        about = dict(hooks.told[1][1])
        assert [event for event, _ in hooks.told] == ["pre_tool", "post_tool_failure"]
        assert about["tool"] == "echo" and about["input"] == {"words": "refuse"}
        assert about["output"].startswith("it cannot be done") and about["error"] is True
        assert "[a hook after this call says: the tests fail now]" in w.texts()
        assert [note.text for note in w.told(Notice)] == [
            "a hook objects to the echo call: the tests fail now"
        ]


def test_no_hook_runs_after_a_call_that_did_not_run(tmp_path: Path) -> None:
    hooks = HookWords(pre_tool=HookAnswer(veto="not today"))
    with world([Answer((calls("echo", words="hi"),)), "done"], tmp_path) as w:
        w.context.hooks = hooks
        w.run()
        ((event, about),) = hooks.told
        assert (event, about["tool"], about["input"]) == ("pre_tool", "echo", {"words": "hi"})
        assert about["id"] == w.server.requests[1]["messages"][-1]["content"][0]["tool_use_id"]
        assert w.ran["echo"] == []
