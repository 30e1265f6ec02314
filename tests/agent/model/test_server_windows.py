"""Context windows as reported by vLLM, llama.cpp and Ollama, and the handling of a prompt that is cut."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.app import Options
from agent.app.config import load_config
from agent.app.setup import RunSetup
from agent.errors import ModelNotFound
from agent.events import ContextCompacted, Notice
from agent.model.anthropic.client import AnthropicModel
from agent.model.chat_completions.chat_client import ChatCompletionsModel
from agent.model.selection import ModelFactsCache, ModelSelection
from agent.model.server_windows import checked_by_list
from agent.model_port import Model, ModelFacts
from tests.agent.commands.controller_run import started
from tests.agent.loop.world import world
from tests.strict_api.reply import Reply as Answer
from tests.strict_api.reply import calls, says
from tests.tables import each_row

from .chat_server import MODEL, ChatReply, ChatServer

PROPS = {"/props": {"default_generation_settings": {"n_ctx": 8_192}, "total_slots": 1}}
LOADED = {"/api/ps": {"models": [{"name": f"{MODEL}:latest", "context_length": 4_096}]}}
IDLE: dict[str, Any] = {"/api/ps": {"models": []}}
SERVERS: list[tuple[dict[str, Any], dict[str, Any], int, str, bool]] = [
    ({"max_model_len": 32_768}, {}, 32_768, "/v1/models: max_model_len", False),
    ({"context_length": 131_072}, PROPS, 131_072, "/v1/models: context_length", False),
    ({"n_ctx": 8_192}, {}, 8_192, "/v1/models: n_ctx", False),
    ({"meta": {"n_ctx_train": 262_144, "n_ctx": 8_192}}, {}, 8_192, "/v1/models: n_ctx", False),
    ({"meta": {"n_ctx_train": 262_144}}, PROPS, 8_192, "/props: n_ctx", False),
    ({"meta": {"n_ctx_train": 262_144}, "n_ctx_train": 262_144}, {}, 200_000, "", False),
    ({}, LOADED, 4_096, "/api/ps: context_length", True),
    ({}, IDLE, 200_000, "", True),
    ({}, {}, 200_000, "", False),
    ({"max_model_len": "many"}, {"/props": [], "/api/ps": {"models": [7]}}, 200_000, "", True),
]


def described(model: Model) -> ModelFacts:
    async def whole() -> ModelFacts:
        try:
            return await model.describe(MODEL)
        finally:
            await model.close()

    return asyncio.run(whole())


@each_row("made", [ChatCompletionsModel, AnthropicModel])
@each_row(("about", "answers", "window", "source", "cuts"), SERVERS)
def test_each_server_reports_its_window_in_its_own_place(
    made: Callable[..., Model],
    about: dict[str, Any],
    answers: dict[str, Any],
    window: int,
    source: str,
    cuts: bool,
) -> None:
    with ChatServer() as server:
        server.about, server.answers = about, answers
        facts = described(made(server.base_url, "key"))
    assert (facts.window, facts.window_source, facts.cuts_silently) == (window, source, cuts)


def test_a_server_here_is_asked_again_and_what_it_taught_is_not_forgotten(tmp_path: Path) -> None:
    async def choose() -> ModelFacts:
        model = ChatCompletionsModel(server.base_url, "key")
        selection = ModelSelection(model, MODEL, lambda: 0.0, ModelFactsCache(tmp_path / "models.json"))
        await selection.choose(MODEL)
        if not selection.facts.window_source:
            selection.learn_window(5_000)
        await model.close()
        return selection.facts

    with ChatServer() as server:
        assert [asyncio.run(choose()).window for _ in range(2)] == [5_000, 5_000]
        server.about = {"max_model_len": 32_768}
        assert asyncio.run(choose()).window == 32_768
        server.about = {"meta": {"n_ctx": 16_384}}
        assert asyncio.run(choose()).window == 16_384


@pytest.mark.parametrize(("about", "source"), [({}, ""), ({"n_ctx": 8_192}, "/v1/models: n_ctx")])
def test_the_window_of_a_model_that_is_only_listed_is_a_guess(
    tmp_path: Path, about: dict[str, Any], source: str
) -> None:
    with ChatServer() as server:
        server.about = about
        environ = {"MAKEROOM_PROVIDER": "openai", "OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "k"}
        setup = RunSetup(Options(), load_config(environ, tmp_path, tmp_path), tmp_path, environ)

        async def whole() -> None:
            async with started(setup, server) as run:  # type: ignore[arg-type]
                assert run.controller.status().window_source == source

        asyncio.run(whole())


def test_a_small_window_answers_its_first_prompt(tmp_path: Path) -> None:
    with ChatServer() as server:
        server.about, server.window = {"max_model_len": 32_768}, 32_768
        server.replies += [ChatReply("Hi.")]
        environ = {"MAKEROOM_PROVIDER": "openai", "OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "k"}
        setup = RunSetup(Options(), load_config(environ, tmp_path, tmp_path), tmp_path, environ)

        async def whole() -> None:
            async with started(setup, server) as run:  # type: ignore[arg-type]
                await run.do("hello")
                status = run.controller.status()
                assert (status.window, status.window_source) == (32_768, "/v1/models: max_model_len")

        asyncio.run(whole())
        assert json.loads(server.bodies[0])["max_tokens"] == 8_192


def test_a_prompt_that_was_cut_is_reported_and_the_context_kept_smaller(tmp_path: Path) -> None:
    seen = {"input_tokens": 4_000, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    steps = [
        Answer([calls("echo", words="long " * 8_000)]),
        Answer([calls("echo", words="x")], usage=seen),
        Answer([says("done")]),
    ]
    with world(steps, tmp_path) as w:
        w.context.compaction.cuts_silently = True
        assert w.run().reason == "done"
        (notice,) = (event for event in w.told(Notice) if "OLLAMA_CONTEXT_LENGTH" in event.text)
        assert "to 4,000 of about" in notice.text
        assert w.context.compaction.window.size == 4_000 and w.context.settings.max_tokens == 1_024
        assert w.told(ContextCompacted)
        before, after = (len(json.dumps(request)) for request in w.server.requests[1:])
        assert after < before
        w.check()


def test_other_servers_may_count_as_they_like(tmp_path: Path) -> None:
    with world([Answer([says("hi")], usage={"input_tokens": 1})], tmp_path) as w:
        assert w.run("many words " * 500).reason == "done"
        assert w.told(Notice) == [] and w.context.compaction.window.size == 200_000


LLAMA_CPP = {"data": [{"id": "/models/gpt-oss.gguf", "owned_by": "llamacpp"}]}


@each_row(
    ("listed", "mine", "sonnet"),
    [
        ({"data": [{"id": "gpt-oss"}, {"id": "qwen"}]}, None, None),
        ({"data": [{"id": "gpt-oss"}, {"id": "anthropic/claude-opus"}]}, None, "sonnet"),
        ({"data": [{"id": "gpt-oss"}], "has_more": True}, "mine", "sonnet"),
        ({"data": [{"id": "any/*"}]}, "mine", "sonnet"),
        (LLAMA_CPP, "/models/gpt-oss.gguf", "/models/gpt-oss.gguf"),
        ({"data": []}, "mine", "sonnet"),
        (["gpt-oss"], "mine", "sonnet"),
        (None, "mine", "sonnet"),
    ],
)
def test_a_list_refuses_names_only_if_it_is_whole_and_llama_cpp_has_one_name(
    listed: Any, mine: str | None, sonnet: str | None
) -> None:
    async def get(path: str) -> Any:
        return listed

    for facts, taken in ((ModelFacts("mine", known=False), mine), (ModelFacts("sonnet"), sonnet)):
        if taken is not None:
            assert asyncio.run(checked_by_list(facts, get)).id == taken
            continue
        with pytest.raises(ModelNotFound, match="the server has "):
            asyncio.run(checked_by_list(facts, get))


def test_facts_are_kept_for_a_day_by_server_and_model_without_a_password(tmp_path: Path) -> None:
    cache = ModelFactsCache(tmp_path / "cache" / "models.json")
    server = "http://me:pass-word@host/v1"
    facts = ModelFacts("one", window=7_000, thinking=True)
    cache.put(server, facts, 1_000.0)
    cache.put(server, ModelFacts("two", window=8_000), 1_000.0)
    again = ModelFactsCache(cache.path)
    assert again.get(server, "one", 1_000.0) == again.get(server, "one", 87_399.0) == facts
    assert again.get(server, "one", 87_400.0) is again.get(server, "one", 999.0) is None
    assert again.get(server, "three", 1_000.0) is again.get("http://other/v1", "one", 1_000.0) is None
    assert "pass-word" not in cache.path.read_text()
