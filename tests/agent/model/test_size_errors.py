"""Published size errors of servers, and messages that only resemble them."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from agent.errors import (
    BlockRejected,
    FieldRejected,
    ModelError,
    ModelNotFound,
    OutputTooLong,
    PromptTooLong,
    RequestRejected,
    TransientError,
)
from agent.events import ContextCompacted, Notice, Retrying, TextDelta
from agent.loop.model_call import prompt_tokens
from agent.model.anthropic.client import AnthropicModel
from agent.model.anthropic.request import NAMES
from agent.model.error_mapping import map_error
from tests.agent.loop.world import turns, world
from tests.sampling import sampled
from tests.strict_api.faults import Fault
from tests.strict_api.reply import Reply as Answer
from tests.strict_api.reply import calls
from tests.tables import each_row
from transcripts.messages import TextBlock

from .raw_server import raw


def error(message: str, **more: Any) -> str:
    return json.dumps({"error": {"message": message, **more}})


CHAT = "This model's maximum context length is"
# (status, body, (tokens of the prompt, limit)), each made after the published format of the server.
TOO_LONG: dict[str, tuple[int, str, tuple[int | None, int | None]]] = {
    "anthropic": (
        400,
        error("prompt is too long: 203052 tokens > 200000 maximum", type="invalid_request_error"),
        (203_052, 200_000),
    ),
    "anthropic 413": (
        413,
        error("Request exceeds the maximum size", type="request_too_large"),
        (None, None),
    ),
    "older claude": (
        400,
        error("input length and `max_tokens` exceed context limit: 198981 + 21333 > 200000, decrease"),
        (198_981, 200_000),
    ),
    "ollama": (
        400,
        json.dumps({"error": "prompt too long; exceeded max context length by 312 tokens"}),
        (None, None),
    ),
    "bedrock": (400, json.dumps({"message": "Input is too long for requested model."}), (None, None)),
    "vllm": (
        400,
        error(f"{CHAT} 32768 tokens. However, your request has 40000 input tokens. Please reduce the length"
              " of the input messages.", type="BadRequestError", param=None, code=400),
        (40_000, 32_768),
    ),
    "older vllm": (
        400,
        json.dumps(
            {
                "object": "error",
                "message": f"{CHAT} 4096 tokens. However, you requested 4218 tokens (3194 in the messages,"
                " 1024 in the completion). Please reduce the length of the messages or completion.",
                "type": "BadRequestError",
                "code": 400,
            }
        ),
        (3_194, 4_096),
    ),
    "openai": (
        400,
        error(f"{CHAT} 128000 tokens. However, your messages resulted in 130536 tokens. Please reduce the "
              "length of the messages.", type="invalid_request_error", code="context_length_exceeded"),
        (130_536, 128_000),
    ),
    "openai in a stream": (
        200,
        error("Your input exceeds the context window of this model. Please adjust your input and try again.",
              type="invalid_request_error", code="context_length_exceeded"),
        (None, None),
    ),
    "openrouter": (
        400,
        error("This endpoint's maximum context length is 131072 tokens. However, you requested about 144520 "
              "tokens (136328 of text input, 8192 in the output). Please reduce the length of either one.",
              code=400),
        (136_328, 131_072),
    ),
    "openrouter, quoting": (
        400,
        error("Provider returned error", code=400, metadata={"raw": error(f"{CHAT} 65536 tokens.")}),
        (None, 65_536),
    ),
    "litellm": (
        400,
        error("litellm.ContextWindowExceededError: litellm.BadRequestError: ContextWindowExceededError: "
              f"OpenAIException - {CHAT} 16385 tokens. However, your messages resulted in 20012 tokens.",
              type=None, code="400"),
        (20_012, 16_385),
    ),
    "xai": (
        400,
        json.dumps(
            {
                "code": "Client specified an invalid argument",
                "error": "This model's maximum prompt length is 131072 but the request contains 537812"
                " tokens.",
            }
        ),
        (537_812, 131_072),
    ),
    "mistral": (
        400,
        json.dumps(
            {
                "object": "error",
                "message": "Prompt contains 40960 tokens and 0 draft tokens, too large for model with 32768"
                " maximum context length",
                "code": "3051",
            }
        ),
        (40_960, 32_768),
    ),
    "llama.cpp": (
        400,
        error("request (9012 tokens) exceeds the available context size (8192 tokens), try increasing it",
              code=400, type="exceed_context_size_error", n_prompt_tokens=9012, n_ctx=8192),
        (9_012, 8_192),
    ),
    "llama.cpp while it writes": (
        500,
        error("Context size has been exceeded.", code=500, type="server_error"),
        (None, None),
    ),
    "minimax": (
        400,
        error("invalid params, context window exceeds limit (2013)", type="bad_request_error"),
        (None, None),
    ),
    "lm studio": (
        400,
        json.dumps(
            {
                "error": "The number of tokens to keep from the initial prompt is greater than the context"
                " length (n_keep: 9012>= n_ctx: 4096). Try to load the model with a larger context length."
            }
        ),
        (9_012, 4_096),
    ),
    "lm studio, the other": (
        200,
        json.dumps(
            {
                "error": "Trying to keep the first 9012 tokens when context the overflows. However, the "
                "model is loaded with context length of only 4096 tokens, which is not enough."
            }
        ),
        (9_012, 4_096),
    ),
    "gemini": (
        400,
        json.dumps(
            [
                {
                    "error": {
                        "code": 400,
                        "message": "The input token count (1200000) exceeds the maximum number of tokens "
                        "allowed (1048576).",
                        "status": "INVALID_ARGUMENT",
                    }
                }
            ]
        ),
        (1_200_000, 1_048_576),
    ),
    "kimi": (
        400,
        error("Invalid request: Your request exceeded model token limit: 131072", type="invalid_request"),
        (None, 131_072),
    ),
    "qwen": (
        400,
        error("Range of input length should be [1, 30720]", code="invalid_parameter_error"),
        (None, 30_720),
    ),
    "glm": (400, error("Prompt exceeds max length", code="1261"), (None, None)),
    "groq": (
        400,
        error("Please reduce the length of the messages or completion.", code="context_length_exceeded"),
        (None, None),
    ),
    "together": (
        422,
        error("The input (5000 tokens) is longer than the model's context length (4096 tokens).",
              type="invalid_request_error"),
        (5_000, 4_096),
    ),
    "copilot": (
        400,
        error("prompt token count of 130000 exceeds the limit of 128000",
              code="model_max_prompt_tokens_exceeded"),
        (130_000, 128_000),
    ),
    "tgi": (
        422,
        json.dumps(
            {
                "error": "Input validation error: `inputs` must have less than 4095 tokens. Given: 5020",
                "error_type": "validation",
            }
        ),
        (5_020, 4_095),
    ),
    "sglang": (
        400,
        error("Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens). Use a shorter"
              " input or enable --allow-auto-truncate."),
        (160_062, 59_862),
    ),
    "cerebras": (
        400,
        json.dumps({"message": "Please reduce the length of the messages or completion. Current length is "
                    "42328 while limit is 40000", "code": "context_length_exceeded"}),
        (42_328, 40_000),
    ),
    "vllm without room": (400, error("max_tokens must be at least 1, got -186."), (None, None)),
    "vllm's decoder": (
        400,
        error("The decoder prompt (length 12293) is longer than the maximum model length of 8192. Make sure"
              " that `max_model_len` is no smaller than the number of text tokens."),
        (12_293, 8_192),
    ),
    "vllm's engine": (
        400,
        error("The engine prompt length 1327246 exceeds the max_model_len 262144. Please reduce prompt."),
        (1_327_246, 262_144),
    ),
    "azure": (
        400,
        error("Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 509178 "
              "tokens. Please reduce the length of the messages."),
        (509_178, 272_000),
    ),
    "bedrock's nova": (
        400,
        json.dumps({"message": "Input Tokens Exceeded: Number of input tokens exceeds maximum length."}),
        (None, None),
    ),
    "poolside": (400, error("The input exceeds the maximum allowed input length of 131072 tokens"),
                 (None, 131_072)),
    "a limit": (400, error("The input exceeds the model's maximum context limit of 8192 tokens."),
                (None, 8_192)),
    "a size": (
        400,
        error("prompt has 40,123 tokens, but the configured context size is 32,768 tokens"),
        (40_123, 32_768),
    ),
    "tabbyapi": (400, error("Prompt length 5020 is greater than max_seq_len 4096"), (5_020, 4_096)),
    "a code alone": (400, error("Bad request", code="context_length_exceeded"), (None, None)),
}  # fmt: skip

OTHER: dict[str, tuple[int, str, type[ModelError]]] = {
    "tokens per minute": (
        429,
        error("Rate limit reached for gpt-4 on tokens per min (TPM): Limit 10000, Used 8000, Requested 4000.",
              type="tokens", code="rate_limit_exceeded"),
        TransientError,
    ),
    "groq's 413": (
        413,
        error("Request too large for model `x` on tokens per minute (TPM): Limit 6000, Requested 9012, please"
              " reduce the length of the messages and try again.", code="rate_limit_exceeded"),
        TransientError,
    ),
    "bedrock's throttling": (
        400,
        json.dumps({"message": "Too many tokens, please wait before trying again. Input is too long."}),
        TransientError,
    ),
    "anthropic's": (
        429,
        error("This request would exceed your organization's maximum context length rate limit of 30,000 "
              "input tokens per minute", type="rate_limit_error"),
        TransientError,
    ),
    "gemini's quota": (
        400,
        error("You exceeded your current quota: input token count exceeds the maximum, limit: 250000"),
        TransientError,
    ),
    "a long string": (
        400,
        error("Invalid 'messages[0].content': string too long. Expected one with maximum length 10485760",
              code="string_above_max_length"),
        RequestRejected,
    ),
    "a long name": (400, error("tools.0.custom.name: String should have at most 128 characters"),
                    RequestRejected),
    "a large image": (
        400,
        error("messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6 MB > 5 MB",
              type="invalid_request_error"),
        BlockRejected,
    ),
    "cache marks": (400, error("A maximum of 4 blocks with cache_control may be provided. Found 5."),
                    FieldRejected),
    "overloaded": (529, error("Overloaded: the queue is too long", type="overloaded_error"), TransientError),
    "a fault": (500, error("Internal server error", type="api_error"), TransientError),
    "a repeated request": (
        422,
        json.dumps({"detail": [{"loc": ["x"], "msg": "Field required", "input": "prompt is too long"}]}),
        RequestRejected,
    ),
    "no endpoint": (200, json.dumps({"error": "Unexpected endpoint or method. (POST /v1/messages)"}),
                    ModelNotFound),
    "no money": (429, error("You exceeded your current quota", code="insufficient_quota"), RequestRejected),
}  # fmt: skip


@each_row("server", TOO_LONG)
def test_a_prompt_that_is_too_long_is_known_by_the_words_of_each_server(server: str) -> None:
    status, body, numbers = TOO_LONG[server]
    found = map_error(status, body, {}, 0.0, NAMES)
    assert isinstance(found, PromptTooLong)
    assert (found.actual, found.limit) == numbers


@each_row("server", OTHER)
def test_what_only_sounds_like_it_is_something_else(server: str) -> None:
    status, body, kind = OTHER[server]
    assert type(map_error(status, body, {}, 0.0, NAMES)) is kind


VLLM_OUTPUT = (
    "'max_tokens' or 'max_completion_tokens' is too large: 8000. This model's maximum context length is 8192 "
    "tokens and your request has {} input tokens (8000 > 8192 - {})."
)


@each_row(
    ("words", "limit", "window"),
    [
        (VLLM_OUTPUT.format(2000, 2000), 6_128, 8_192),
        ("input length and `max_tokens` exceed context limit: 150000 + 64000 > 200000", 49_936, 200_000),
        (f"{CHAT} 4097 tokens. However, you requested 5000 tokens (1000 in the messages, 4000 in the "
         "completion).", 3_033, 4_097),
        (f"{CHAT} 8,192 tokens. However, you requested 8000 output tokens and your prompt contains at least "
         "1,000 input tokens, for a total of at least 9000 tokens.", 7_128, 8_192),
        ("Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 1000 `inputs` "
         "tokens and 4000 `max_new_tokens`", 3_032, 4_096),
        ("Requested token count exceeds the model's maximum context length of 202752 tokens. You requested a "
         "total of 202941 tokens: 170941 tokens from the input messages and 32000 tokens for the completion.",
         31_747, 202_752),
        ("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", 8_192, None),
        ("<400> InternalError.Algo.InvalidParameter: Range of max_tokens should be [1, 8192]", 8_192, None),
        ("max_tokens for `llama-3.1-8b-instant` must be less than or equal to 8000", 8_000, None),
        ("`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less than "
         "the `context_window` for this model", 8_192, None),
        ("The parameter max_tokens specified in the request is not valid: integer above maximum value, "
         "expected a value <= 32768, but got 64000 instead.", 32_768, None),
        ("The maximum tokens you requested exceeds the model limit of 4096. Try again with a maximum tokens "
         "value lower than 4096.", 4_096, None),
        ("max_tokens (current value: 32000) must be between 0 and 4000 ", 4_000, None),
        ("max_tokens: 128001 > 64000, which is the maximum allowed number of output tokens", 64_000, None),
        ("max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you "
         "provided 100000.", 16_384, None),
    ],
)  # fmt: skip
def test_output_that_is_too_large_reports_how_much_space_is_left(
    words: str, limit: int, window: int | None
) -> None:
    found = map_error(400, error(words), {}, 0.0, NAMES)
    assert isinstance(found, OutputTooLong) and (found.limit, found.window) == (limit, window)


def test_output_for_which_there_is_hardly_room_means_a_prompt_that_is_too_long() -> None:
    found = map_error(400, error(VLLM_OUTPUT.format(7_500, 7_500)), {}, 0.0, NAMES)
    assert isinstance(found, PromptTooLong) and (found.actual, found.limit) == (7_500, 8_192)


@pytest.mark.parametrize("server", sampled(TOO_LONG, 4))
def test_a_turn_compacts_and_continues_whatever_the_server_calls_it(tmp_path: Path, server: str) -> None:
    status, body, (_, limit) = TOO_LONG[server]
    headers = {"content-type": "application/json"}
    with world([Answer([calls("echo", words="long " * 8_000)]), "done"], tmp_path) as w:
        third = Fault("status", status=status, body=body.encode(), headers=headers, when=has_result)
        w.server.faults.add(third)
        assert w.run("go").reason == "done"
        assert w.told(ContextCompacted) and w.told(Retrying) == []
        before, after = (len(json.dumps(request)) for request in w.server.requests[1:])
        assert after < before / 2
        if limit is not None and limit < 200_000:
            assert w.context.compaction.window.size == limit
            assert {w.context.settings.max_tokens, w.server.requests[-1]["max_tokens"]} == {
                min(8_000, max(1_024, limit // 4))
            }
        w.check()


def has_result(body: dict[str, Any]) -> bool:
    return "tool_result" in json.dumps(body["messages"])


def test_three_compactions_are_all_that_is_tried(tmp_path: Path) -> None:
    with world(["never"], tmp_path) as w:
        body = error("Context size has been exceeded.", code=500).encode()
        w.server.faults.add(Fault("status", status=500, body=body, times=None))
        for number in range(6):
            w.say(f"{number} " + "many words " * 2_000)
        assert w.run().code == 1
        assert len(w.server.requests) <= 4 and w.told(Retrying) == []


def test_output_that_does_not_fit_is_asked_for_in_part_and_the_window_is_learnt(tmp_path: Path) -> None:
    with world(["short", "again"], tmp_path) as w:
        learnt: list[int] = []
        w.context.compaction.learn_window = learnt.append
        w.server.faults.add(
            Fault("status", status=400, body=error(VLLM_OUTPUT.format(6_600, 6_600)).encode())
        )
        assert turns(w, "one", "two") == ["done", "done"]
        assert [request["max_tokens"] for request in w.server.requests] == [8_000, 1_528, 2_048]
        assert (w.context.compaction.window.size, learnt) == (8_192, [8_192])
        assert "8,192" in w.told(Notice)[0].text
        w.check()


def test_a_server_that_takes_the_system_prompt_as_one_text_gets_it_so(tmp_path: Path) -> None:
    with world(["done", "again"], tmp_path) as w:
        words = "1 validation error: system: Input should be a valid string"
        w.server.faults.add(Fault("status", status=400, text=words))
        assert turns(w, "one", "two") == ["done", "done"]
        assert [type(request["system"]) for request in w.server.requests] == [list, str, str]
        assert w.server.requests[-1]["system"] == "You are a test."
        w.check()


def answer(body: str, content: str = "application/json") -> bytes:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {content}\r\nconnection: close\r\n\r\n"
    return head.encode() + body.encode()


MESSAGE = {
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [
        {"type": "thinking", "thinking": "hm", "signature": ""},
        {"type": "text", "text": "in one piece"},
    ],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 5, "output_tokens": 3},
}


@pytest.mark.parametrize("indent", [None, 2])
def test_a_message_that_is_not_streamed_is_a_reply_as_well(tmp_path: Path, indent: int | None) -> None:
    with raw(answer(json.dumps(MESSAGE, indent=indent))) as url, world([], tmp_path) as w:
        w.context.model = AnthropicModel(url, "key")
        assert w.run().reason == "done"
        assert [event.text for event in w.told(TextDelta)] == ["in one piece"]
        reply = w.session.folded.last_reply
        assert reply is not None and (reply.usage.input, reply.usage.output) == (5, 3)
        assert reply.blocks[-1] == TextBlock("in one piece")


@each_row(
    ("body", "content", "words", "retries"),
    [
        ('{"error": "the model crashed"}', "application/json", "the model crashed", 2),
        ('data: {"error": {"message": "CUDA out of memory", "code": 400}}\n\n', "text/event-stream",
         "CUDA out of memory", 0),
        ('{"error": {"message": "litellm.BadRequestError: no such deployment", "code": "400"}}\n',
         "text/event-stream", "no such deployment", 0),
        ('{"error": "Unexpected endpoint or method. (POST /v1/messages)"}', "application/json",
         "Unexpected endpoint", 0),
    ],
)  # fmt: skip
def test_an_error_with_a_status_of_200_is_reported_in_its_own_words(
    tmp_path: Path, body: str, content: str, words: str, retries: int
) -> None:
    with raw(answer(body, content)) as url, world([], tmp_path) as w:
        w.context.model = AnthropicModel(url, "key")
        ended = w.run()
        assert ended.reason == "failed" and words in ended.error
        assert len(w.told(Retrying)) == retries
        assert "captive" not in ended.error
        assert (url in ended.error) == ("endpoint" in words)


def test_a_stream_that_ends_for_want_of_room_compacts_and_continues(tmp_path: Path) -> None:
    cut = (
        'event: message_start\ndata: {"type": "message_start", "message": {"model": "m"}}\n\n'
        'data: {"error": {"code": 500, "message": "Context size has been exceeded."}}\n\n'
    )
    whole = answer(json.dumps(MESSAGE))
    with raw(answer(cut, "text/event-stream"), whole) as url, world([], tmp_path) as w:
        w.context.model = AnthropicModel(url, "key")
        for number in range(6):
            w.say(f"{number} " + "many words " * 2_000)
        before = prompt_tokens(w.session, w.context)
        assert w.run().reason == "done"
        assert w.told(ContextCompacted) and prompt_tokens(w.session, w.context) < before


SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [{"type": "web_search_result", "url": "https://x.example", "encrypted_content": "Eo8DCioI"}],
}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "echo", "input": {"words": "x"}}


def test_tools_of_the_server_come_back_verbatim_also_without_their_result(tmp_path: Path) -> None:
    sent: list[Any] = []

    def say(stop: str, *content: Any) -> Any:
        message = {"type": "message", "model": "m", "stop_reason": stop, "usage": None, "content": content}
        reply = answer(json.dumps(message))

        def respond(connection: socket.socket, body: bytes) -> None:
            sent.append(json.loads(body))
            connection.sendall(reply)

        return respond

    steps = (
        say("tool_use", SEARCH, CALL),  # the search runs on the next request
        say("pause_turn", FOUND, {"type": "text", "text": "so far"}),
        say("end_turn", {"type": "text", "text": "done"}),
    )
    with raw(*steps) as url, world([], tmp_path) as w:
        w.context.model = AnthropicModel(url, "key")
        assert w.run().reason == "done" and w.texts() == ["echo: x"]
    plain = [[without_mark(block) for block in message["content"]] for message in sent[-1]["messages"]]
    assert plain[1] == [SEARCH, CALL] and plain[3] == [FOUND, {"type": "text", "text": "so far"}]
    assert sent[-1]["messages"][-1]["role"] == "assistant"


def without_mark(block: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in block.items() if name != "cache_control"}
