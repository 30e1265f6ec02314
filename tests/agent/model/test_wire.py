"""Bytes on the wire, request by request, compared with the service's documentation."""

from __future__ import annotations

import asyncio
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from agent.app import Options
from agent.app.config import load_config
from agent.app.setup import RunSetup
from agent.errors import ConfigError
from agent.events import ContextCompacted, Notice
from agent.model.anthropic.client import AnthropicModel
from agent.model.anthropic.request import FEATURE_FIELDS
from tests.agent.commands.controller_run import READ_ALL, ControllerRun, files, run_controller, started
from tests.agent.loop.world import TestClock, world
from tests.strict_api.demo_bridge import demo_reply
from tests.strict_api.faults import Fault
from tests.strict_api.models import MODELS
from tests.strict_api.reply import Reply
from tests.strict_api.request_checks import UPDATES_BETA
from tests.strict_api.server import Server, ServerOptions

HEAD = ["model", "max_tokens", "system", "tools", "thinking", "output_config", "stream", "messages"]
MARK = {"type": "ephemeral"}


async def a_session(run: ControllerRun) -> None:
    """Tools, a compaction, and another model in mid-session."""
    await run.do(READ_ALL, "/compact", "read README.md", "/model opus", "read src/part_1.py")


def marks(request: dict[str, Any]) -> list[tuple[int, str, Any]]:
    """(message, type of block, mark) of every cache mark behind the system prompt."""
    return [
        (number, block["type"], block["cache_control"])
        for number, message in enumerate(request["messages"])
        for block in message["content"]
        if "cache_control" in block
    ]


def plain(value: Any) -> Any:
    """The same without cache marks, which move."""
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items() if name != "cache_control"}
    return [plain(part) for part in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", ["claude-sonnet-5-5", "claude-sonnet-4-6", "claude-haiku-4-5"])
def test_every_request_has_the_fields_that_its_model_takes_and_no_others(tmp_path: Path, name: str) -> None:
    files(tmp_path, 3, 40)
    server = run_controller(tmp_path, a_session, model=name, effort="low")
    assert {request["model"] for request in server.requests} == {name, "claude-opus-5-5"}
    for request in server.requests:
        model = MODELS[request["model"]]
        taken = set(HEAD)
        if "adaptive" in model.thinking:
            assert request["thinking"] == {"type": "adaptive", "display": "summarized"}
        else:
            taken.remove("thinking")
        if model.efforts:
            assert request["output_config"] == {"effort": "low"}
        else:
            taken.remove("output_config")
        assert list(request) == [field for field in HEAD if field in taken]
        assert request["stream"] is True and 1_024 <= request["max_tokens"] <= 32_000
        assert request["messages"][-1]["role"] == "user"


def test_cache_marks_stand_on_the_system_prompt_and_where_the_next_request_looks(tmp_path: Path) -> None:
    files(tmp_path)
    server = run_controller(tmp_path, a_session)
    for before, request in zip([None, *server.requests], server.requests, strict=False):
        assert [block.get("cache_control") for block in request["system"]][-2:] == [MARK, None]
        assert not any("cache_control" in tool for tool in request["tools"])
        found = marks(request)
        assert 1 <= len(found) <= 3
        assert all(mark == MARK and kind != "thinking" for _, kind, mark in found)
        asks_for_summary = before is not None and request["max_tokens"] != before["max_tokens"] == 32_000
        assert found[-1][0] == len(request["messages"]) - (2 if asks_for_summary else 1)


def test_the_headers_are_those_of_the_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "another")

    async def work(run: ControllerRun) -> None:
        await run.do("hello")

    (headers,) = run_controller(tmp_path, work).headers
    assert headers["authorization"] == "Bearer test-key-12345"
    assert headers["anthropic-version"] == "2026-10-21"
    assert headers["content-type"] == "application/json"
    assert headers["accept"] == "text/event-stream"
    assert not {"x-api-key", "anthropic-beta"} & headers.keys()


def test_each_request_is_the_one_before_and_more_also_after_a_resume(tmp_path: Path) -> None:
    files(tmp_path, 4, 20)
    name: list[str] = []

    async def first(run: ControllerRun) -> None:
        await run.do(READ_ALL, "read src/part_1.py")
        name.append(run.controller.in_use[0].sid)

    async def later(run: ControllerRun) -> None:
        await run.do("read src/part_2.py")

    requests = list(run_controller(tmp_path, first).requests)
    (tmp_path / "AGENTS.md").write_text("New words for the system prompt.", "utf-8")
    requests += run_controller(tmp_path, later, resume=name[0]).requests
    assert len(requests) > 8
    for before, request in itertools.pairwise(requests):
        for field in ("system", "tools", "thinking"):
            assert json.dumps(request[field]) == json.dumps(before[field])
        said, more = plain(before["messages"]), plain(request["messages"])
        assert json.dumps(more[: len(said)]) == json.dumps(said) and len(more) > len(said)


OPTIONAL = ("thinking", "output_config", "cache_control")


@pytest.mark.parametrize("fields", [*((field,) for field in OPTIONAL), OPTIONAL], ids=" ".join)
def test_a_gateway_that_takes_no_optional_field_is_learnt_once(
    tmp_path: Path, fields: tuple[str, ...]
) -> None:
    told: list[str] = []

    async def work(run: ControllerRun) -> None:
        run.server.faults.add(*(Fault("rejects", text=field, times=None) for field in fields))
        told.append(await run.do("hello"))
        before = len(run.server.requests)
        await run.do("hello again")
        assert len(run.server.requests) == before + 1

    server = run_controller(tmp_path, work, model="claude-sonnet-4-6", effort="low")
    assert len(server.requests) == len(fields) + 2
    for field in fields:
        assert f'"{field}"' not in json.dumps(server.requests[-1])
        assert told[0].count(f"does not support {FEATURE_FIELDS[field]},") == 1


def test_a_session_continues_without_a_beta_feature_that_the_service_does_not_know(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        assert "does not support betas," in await run.do("hello")

    text = "Unexpected value(s) `updates` for the `anthropic-beta` header."
    fault, betas = Fault("status", status=400, text=text), (UPDATES_BETA,)
    server = run_controller(tmp_path, work, faults=(fault,), betas=betas, thinking_display="omitted")
    assert [headers.get("anthropic-beta") for headers in server.headers] == [UPDATES_BETA, None]
    assert server.requests[-1]["thinking"] == {"type": "adaptive", "display": "omitted"}


def test_a_summary_learns_too_what_a_gateway_does_not_take(tmp_path: Path) -> None:
    files(tmp_path)

    async def work(run: ControllerRun) -> None:
        await run.do(READ_ALL)
        run.server.faults.add(*(Fault("rejects", text=field, times=None) for field in OPTIONAL[1:]))
        told = await run.do("/compact")
        assert "does not support effort," in told and "does not support cache," in told
        assert run.emitted(ContextCompacted) and "summary" in str(run.emitted(ContextCompacted)[0].report)

    run_controller(tmp_path, work, effort="low")


def test_a_plain_server_gets_plain_requests_and_its_figures_may_be_missing(tmp_path: Path) -> None:
    files(tmp_path, 2)
    faults = (Fault("no_models", times=None), Fault("no_usage", times=None))

    async def work(run: ControllerRun) -> None:
        await run.do(READ_ALL, "/context", "/cost", "/compact", "hello")

    server = run_controller(tmp_path, work, faults=faults, effort="low")
    for request in server.requests:
        assert list(request) == ["model", "max_tokens", "system", "tools", "stream", "messages"]
        assert "cache_control" not in json.dumps(request)
        assert "eager_input_streaming" not in json.dumps(request)


def with_variables(folder: Path, **environ: str) -> Any:
    """The program's setup under variables, and the first request of a session with it."""
    folder.mkdir(exist_ok=True)
    with Server(demo_reply, ServerOptions()) as server:
        variables = {"ANTHROPIC_BASE_URL": server.base_url, "ANTHROPIC_API_KEY": "test-key-12345", **environ}
        config = load_config(variables, folder, folder)
        setup = RunSetup(Options(model=environ.get("MODEL")), config, folder, variables)

        async def whole() -> None:
            async with started(setup, server) as run:
                run.controller.services.selection.model.assume_official = True  # type: ignore[attr-defined]
                if "MODEL" in environ:
                    await run.do(f"/model {environ['MODEL']}")
                await run.do("hello")

        asyncio.run(whole())
        return setup, server.requests[0], server.headers[0]


def test_aliases_are_the_models_that_a_user_names(tmp_path: Path) -> None:
    for alias in ("opus", "sonnet", "haiku"):
        named = {f"ANTHROPIC_DEFAULT_{alias.upper()}_MODEL": "claude-sonnet-4-6", "MODEL": alias}
        _, request, _ = with_variables(tmp_path, **named)
        assert request["model"] == "claude-sonnet-4-6"


def test_the_variables_of_claude_code_count_and_ours_come_first(tmp_path: Path) -> None:
    names = ("MAX_OUTPUT_TOKENS", "MAX_CONTEXT_TOKENS", "EFFORT_LEVEL")
    theirs = dict(zip((f"CLAUDE_CODE_{name}" for name in names), ("5000", "90000", "low"), strict=True))
    setup, request, _ = with_variables(tmp_path, MODEL="claude-sonnet-4-6", **theirs)
    assert request["max_tokens"] == 5_000 and request["output_config"] == {"effort": "low"}
    assert setup.config.context_window == 90_000
    ours = {"MAKEROOM_MAX_TOKENS": "6000", "MAKEROOM_EFFORT": "high"}
    assert load_config({**theirs, **ours}, tmp_path, tmp_path).max_tokens == 6_000


def test_thinking_and_caching_can_be_switched_off(tmp_path: Path) -> None:
    off = {"MAX_THINKING_TOKENS": "0", "DISABLE_PROMPT_CACHING": "1"}
    _, request, _ = with_variables(tmp_path, MODEL="claude-sonnet-4-6", **off)
    assert "thinking" not in request and "cache_control" not in json.dumps(request)
    _, request, _ = with_variables(tmp_path, MODEL="claude-sonnet-4-6", MAX_THINKING_TOKENS="8000")
    assert request["thinking"]["type"] == "adaptive" and "cache_control" in json.dumps(request)


def test_betas_are_a_header_unless_experiments_are_off(tmp_path: Path) -> None:
    betas = {"ANTHROPIC_BETAS": "thinking-binding-controls-2026-08-01"}
    _, _, headers = with_variables(tmp_path, **betas)
    assert headers["anthropic-beta"] == betas["ANTHROPIC_BETAS"]
    _, _, headers = with_variables(tmp_path, **betas, CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS="1")
    assert "anthropic-beta" not in headers


def test_a_token_of_claude_code_is_said_to_be_of_no_use(tmp_path: Path) -> None:
    config = load_config({"CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-x"}, tmp_path, tmp_path)
    assert "CLAUDE_CODE_OAUTH_TOKEN is ignored" in config.warnings[0]


def test_retries_are_as_many_as_a_user_wants(tmp_path: Path) -> None:
    with world(["ok"], tmp_path) as w:
        w.context.max_tries = 3
        w.server.faults.add(Fault("status", status=529, times=None))
        assert w.run().code == 75 and len(w.server.requests) == 3
    assert load_config({"CLAUDE_CODE_MAX_RETRIES": "0"}, tmp_path, tmp_path).max_retries == 0
    with pytest.raises(ConfigError, match="0 to 100"):
        load_config({"CLAUDE_CODE_MAX_RETRIES": "many"}, tmp_path, tmp_path)


def test_another_model_continues_where_one_stays_overloaded(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        await run.do("hello")
        context = run.controller.in_use[1]
        context.clock, context.max_tries = TestClock(), 3
        busy = Fault("status", status=529, times=None, when=lambda body: "sonnet" in body["model"])
        run.server.faults.add(busy)
        told = await run.do("and now?")
        assert "overloaded" in told and "continuing with claude-opus-5-5" in told
        assert run.controller.status().model == "claude-opus-5-5"
        await run.do("and then?")

    server = run_controller(tmp_path, work, fallback_model="opus")
    asked = [request["model"].split("-")[1] for request in server.requests]
    assert asked == ["sonnet"] * 4 + ["opus"] * 2


def test_a_fallback_that_is_not_a_model_is_reported_when_it_is_needed(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        await run.do("hello")
        run.controller.in_use[1].max_tries = 1
        run.controller.services.selection.model.assume_official = True  # type: ignore[attr-defined]
        run.server.faults.add(Fault("status", status=529))
        ended = await run.controller.prompt("and now?")
        assert ended.reason == "failed" and "--fallback-model" in ended.error and "no-such" in ended.error
        await run.do("and then?")

    run_controller(tmp_path, work, fallback_model="no-such")


def test_the_compact_tool_works_with_the_model_that_was_changed_to(tmp_path: Path) -> None:
    files(tmp_path)

    async def work(run: ControllerRun) -> None:
        await run.do(READ_ALL, "/model opus")
        context = run.controller.in_use[1]
        assert context.tool_context.compact is not None
        await context.tool_context.compact("all of it")
        assert context.compaction.requested_focus == "all of it"

    run_controller(tmp_path, work)


def test_a_summary_is_written_by_the_model_that_a_user_named_for_it(tmp_path: Path) -> None:
    files(tmp_path)

    async def work(run: ControllerRun) -> None:
        await run.do(READ_ALL)
        run.controller.in_use[1].summary_model = "claude-haiku-5-5"
        await run.do("/compact")
        assert run.emitted(ContextCompacted) and "summary" in str(run.emitted(ContextCompacted)[0].report)
        assert {*run.controller.in_use[0].spending} == {"claude-sonnet-5-5", "claude-haiku-5-5"}
        await run.do("and now?")

    server = run_controller(tmp_path, work)
    models = [request["model"] for request in server.requests]
    assert models.count("claude-haiku-5-5") == 1 and models[-1] == "claude-sonnet-5-5"
    config = load_config({"ANTHROPIC_SMALL_FAST_MODEL": "haiku"}, tmp_path, tmp_path)
    assert config.summary_model == "haiku"


def test_a_search_by_the_service_comes_back_whole_is_reported_and_may_be_sent_again(tmp_path: Path) -> None:
    call = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "tides"}}
    found = {
        "type": "web_search_result",
        "url": "https://x.example",
        "title": "t",
        "encrypted_content": "Eo8D",
    }
    results = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [found]}
    failed = {
        "type": "web_fetch_tool_result",
        "tool_use_id": "srvtoolu_2",
        "content": {"type": "web_fetch_tool_result_error", "error_code": "url_not_accessible"},
    }
    fetch = {**call, "id": "srvtoolu_2", "name": "web_fetch", "input": {"url": "https://x.example"}}
    source = {"url": "https://x.example", "cited_text": "noon"}
    cited = {"type": "text", "text": "High at noon.", "citations": [source]}
    answer = Reply([call, results, fetch, failed, cited])
    with world([answer, "done"], tmp_path) as w:
        assert w.run("When is it high?").reason == "done"
        w.context.model = AnthropicModel(w.server.base_url, "key")
        assert w.run("Thanks").reason == "done"
        notices = [(each.text, each.level) for each in w.told(Notice)]
        sent = w.server.requests[-1]["messages"][1]["content"]
        assert plain(sent) == [call, results, fetch, failed, cited]
        w.check()
    assert notices == [
        ("web_search: tides", "info"),
        ("web_fetch: https://x.example", "info"),
        ("web_fetch failed: url_not_accessible", "warning"),
    ]
