"""The providers of the contract test: each one's model, and the script of its server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from itertools import takewhile
from typing import Any, Protocol

from msgspec import Struct, field

from agent.demo.demo_model import DemoModel
from agent.errors import Feature
from agent.events import Event
from agent.model.anthropic.client import AnthropicModel
from agent.model.chat_completions.chat_client import ChatCompletionsModel
from agent.model.responses.client import ResponsesModel
from agent.model_port import IncomingReply, Model, ModelRequest, RequestSettings
from tests.strict_api.event_stream import event
from tests.strict_api.faults import Fault
from tests.strict_api.reply import RAW_JSON, Reply, calls, says, thinks
from tests.strict_api.server import Server, ServerOptions
from transcripts.facts import User
from transcripts.folding import fold
from transcripts.messages import TextBlock

from .chat_server import MODEL, ChatReply, ChatServer, Failure, chunks
from .responses_server import MODEL as RESPONSES_MODEL
from .responses_server import TOO_LONG, Refusal, ResponsesServer, Said, response_events

READ = {"type": "object", "properties": {"file_path": {"type": "string"}}}
TOOLS = tuple({"name": name, "description": "d", "input_schema": READ} for name in ("read", "bash"))
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"


class Wanted(Struct, frozen=True):
    """The words that a model is to say, and the prompt that makes the demo say them.

    calls    (tool, input); an input that is a string is sent as it is, JSON or not
    stop     the reason in the words of the port, "" for the one that follows from the rest
    """

    prompt: str
    text: str
    thought: str = ""
    calls: tuple[tuple[str, dict[str, Any] | str], ...] = ()
    stop: str = ""


class Rejection(Struct, frozen=True):
    """An error answer, in the words of the provider."""

    status: int
    message: str
    headers: dict[str, str] = field(default_factory=dict)


class Provider(Protocol):
    """One adapter with its server.

    scripted    the server says whatever it is told; the demo follows its rules
    optional    a feature that its server may not take, None where there is none
    too_long    how it words a prompt of 5000 tokens in a window of 4096
    numbered    these words contain the numbers
    cut_stream  an answer that breaks off after one finished block of text and half a call
    """

    name: str
    model_id: str
    scripted: bool
    optional: Feature | None
    too_long: str
    numbered: bool
    cut_stream: bytes

    def model(self, url: str | None = None) -> Model:
        """A model that talks to the provider's server, or to another one at that URL."""

    def say(self, wanted: Wanted) -> None:
        """Have the next request answered with this."""

    def reject(self, rejection: Rejection) -> None:
        """Have the next request answered with an error."""

    def reject_feature(self) -> None:
        """Have every request with the optional feature rejected."""

    def bodies(self) -> list[bytes]:
        """The bodies that were sent, oldest first."""

    def refused(self) -> list[str]:
        """The reasons why requests were rejected."""


class AnthropicProvider:
    name, model_id, scripted = "anthropic", "claude-sonnet-5-5", True
    optional: Feature | None = "effort"
    too_long = "prompt is too long: 5000 tokens > 4096 maximum"
    numbered = True
    cut_stream = HEAD + b"".join(
        event(str(raw["type"]), raw)
        for raw in (
            {"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 3}}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello"}},
            {"type": "content_block_stop", "index": 0},
            {
                "type": "content_block_start",
                "index": 1,
                "content_block": {"type": "tool_use", "id": "t1", "name": "read", "input": {}},
            },
            {
                "type": "content_block_delta",
                "index": 1,
                "delta": {"type": "input_json_delta", "partial_json": '{"file'},
            },
        )
    )

    def __init__(self, server: Server) -> None:
        self._server = server
        self._replies: list[Reply] = []
        server.responder = lambda body: self._replies.pop(0)

    def model(self, url: str | None = None) -> Model:
        return AnthropicModel(url or self._server.base_url, "key", assume_official=True)

    def say(self, wanted: Wanted) -> None:
        blocks = [thinks(wanted.thought)] if wanted.thought else []
        blocks += [says(wanted.text)] if wanted.text else []
        for name, given in wanted.calls:
            call = calls(name, **(given if isinstance(given, dict) else {}))
            blocks.append({**call, RAW_JSON: given} if isinstance(given, str) else call)
        self._replies.append(Reply(blocks, wanted.stop or None))

    def reject(self, rejection: Rejection) -> None:
        text, status = rejection.message, rejection.status
        self._server.faults.add(Fault("status", status=status, text=text, headers=rejection.headers))

    def reject_feature(self) -> None:
        self._server.faults.add(Fault("rejects", text="output_config", times=None))

    def bodies(self) -> list[bytes]:
        return [json.dumps(body).encode() for body in self._server.requests]

    def refused(self) -> list[str]:
        return self._server.refused


class ChatProvider:
    name, model_id, scripted = "chat completions", MODEL, True
    optional: Feature | None = "effort"
    too_long = (
        "This model's maximum context length is 4096 tokens. However, your messages resulted in 5000 tokens."
    )
    numbered = True
    cut_stream = HEAD + b"".join(
        list(chunks(ChatReply("Hello", calls=(("read", '{"file_path": ""}'),)), {}))[:3]
    )

    def __init__(self, server: ChatServer) -> None:
        self._server = server

    def model(self, url: str | None = None) -> Model:
        return ChatCompletionsModel(url or self._server.base_url, "key")

    def say(self, wanted: Wanted) -> None:
        made = tuple(
            (name, given if isinstance(given, str) else json.dumps(given)) for name, given in wanted.calls
        )
        finish = {"max_tokens": "length", "refusal": "content_filter"}.get(wanted.stop, "")
        self._server.replies.append(ChatReply(wanted.text, wanted.thought, made, finish))

    def reject(self, rejection: Rejection) -> None:
        self._server.replies.append(Failure(rejection.status, rejection.message, rejection.headers))

    def reject_feature(self) -> None:
        self._server.rejected_fields.add("reasoning_effort")

    def bodies(self) -> list[bytes]:
        return self._server.bodies

    def refused(self) -> list[str]:
        return self._server.refused


class ResponsesProvider:
    name, model_id, scripted = "responses", RESPONSES_MODEL, True
    optional: Feature | None = "effort"
    too_long = TOO_LONG
    numbered = False

    def __init__(self, server: ResponsesServer) -> None:
        self._server = server
        reply = Said("Hello", calls=(("read", '{"file_path": ""}'),))
        events = response_events(reply, server.items(reply, {}), {})
        begun = takewhile(lambda event: b"function_call_arguments.done" not in event, events)
        self.cut_stream = HEAD + b"".join(begun)

    def model(self, url: str | None = None) -> Model:
        return ResponsesModel(url or self._server.base_url, "key")

    def say(self, wanted: Wanted) -> None:
        made = tuple(
            (name, given if isinstance(given, str) else json.dumps(given)) for name, given in wanted.calls
        )
        summary = (wanted.thought,) if wanted.thought else ()
        stop = "max_output_tokens" if wanted.stop == "max_tokens" else ""
        refuses = wanted.stop == "refusal"
        self._server.replies.append(Said(wanted.text, summary, made, stop=stop, refusal=refuses))

    def reject(self, rejection: Rejection) -> None:
        kind = "server_error" if rejection.status >= 500 else "invalid_request_error"
        refusal = Refusal(rejection.status, rejection.message, rejection.headers, kind=kind)
        self._server.replies.append(refusal)

    def reject_feature(self) -> None:
        said = "Unsupported parameter: 'reasoning.effort' is not supported with this model."
        self._server.rejected["reasoning.effort"] = said

    def bodies(self) -> list[bytes]:
        return self._server.bodies

    def refused(self) -> list[str]:
        return self._server.refused


class DemoProvider:
    name, model_id, scripted = "demo", "makeroom-offline", False
    optional: Feature | None = None
    too_long = ""
    numbered = True
    cut_stream = b""

    def model(self, url: str | None = None) -> Model:
        return DemoModel(pace=0)

    def say(self, wanted: Wanted) -> None:
        """The prompt alone decides."""

    def reject(self, rejection: Rejection) -> None:
        raise NotImplementedError("the demo has no server")

    def reject_feature(self) -> None:
        raise NotImplementedError("the demo has no server")

    def bodies(self) -> list[bytes]:
        return []

    def refused(self) -> list[str]:
        return []


@contextmanager
def anthropic() -> Iterator[Provider]:
    with Server(lambda body: Reply([]), ServerOptions(window=50_000)) as server:
        yield AnthropicProvider(server)


@contextmanager
def chat_completions() -> Iterator[Provider]:
    with ChatServer() as server:
        yield ChatProvider(server)


@contextmanager
def responses() -> Iterator[Provider]:
    with ResponsesServer() as server:
        yield ResponsesProvider(server)


@contextmanager
def demo() -> Iterator[Provider]:
    yield DemoProvider()


def settings(provider: Provider, **more: Any) -> RequestSettings:
    return RequestSettings(provider.model_id, 8_000, ("You are a test.",), TOOLS, **more)


def ask(provider: Provider, text: str, **more: Any) -> ModelRequest:
    view = fold([User(1, 0.0, (TextBlock(text),), (5,))]).view
    return ModelRequest(settings(provider, **more), view)


def run(model: Model, work: Callable[[Model], Coroutine[Any, Any, Any]]) -> Any:
    """Some work with a model, which is closed on the loop that it was used on."""

    async def whole() -> Any:
        model.connect()
        try:
            return await work(model)
        finally:
            await model.close()

    return asyncio.run(whole())


def stream(model: Model, request: ModelRequest) -> tuple[IncomingReply, list[Event]]:
    """Return the reply to one request, and the notices in the meantime."""
    reply = IncomingReply()
    events: list[Event] = []
    run(model, lambda used: used.stream(request, reply, events.append))
    return reply, events


def said(provider: Provider, wanted: Wanted, **more: Any) -> tuple[IncomingReply, list[Event]]:
    provider.say(wanted)
    return stream(provider.model(), ask(provider, wanted.prompt, **more))
