"""What is on the wire, request by request, against what the service documents."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from agent.events import ContextCompacted
from agent.model.anthropic.request import FEATURE_FIELDS
from tests.agent.commands.controller_run import READ_ALL, ControllerRun, files, run_controller
from tests.strict_api.faults import Fault
from tests.strict_api.models import MODELS

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
        assert [block.get("cache_control") for block in request["system"]][-1] == MARK
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
        assert told[0].count(f"does not take {FEATURE_FIELDS[field]}:") == 1


def test_a_summary_learns_too_what_a_gateway_does_not_take(tmp_path: Path) -> None:
    files(tmp_path)

    async def work(run: ControllerRun) -> None:
        await run.do(READ_ALL)
        run.server.faults.add(*(Fault("rejects", text=field, times=None) for field in OPTIONAL[1:]))
        told = await run.do("/compact")
        assert "does not take effort:" in told and "does not take cache:" in told
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
