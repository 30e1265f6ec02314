"""The model of --offline: implements model_port.Model with rules, in this process."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import ClassVar

from msgspec import Struct, field
from msgspec.structs import replace

from agent.errors import ModelNotFound, PromptTooLong
from agent.events import Emit, TextDelta, ThinkingDelta, ToolCallDelta
from agent.model_port import IncomingReply, ModelCatalog, ModelFacts, ModelRequest, PendingBlock
from transcripts import Block, Message, TextBlock, ThinkingBlock, ToolUseBlock, Usage, to_json_bytes

from .answers import name_calls
from .dialogue import answer

NAME = "makeroom-offline"
ENCODING = "demo"
WINDOW_TOKENS = 200_000
MAX_OUTPUT_TOKENS = 64_000
DEMO_CHARS_PER_TOKEN = 4
PACE_S = 0.004  # before each delta, so that text appears gradually
PIECE_CHARS = 24


class DemoModel(Struct):
    """Answers from the request alone. Keeps the last request to compute the cache reads of the next."""

    window: int = WINDOW_TOKENS  # the maximum size of a prompt
    pace: float = PACE_S  # seconds before each delta
    server: str = "none (the demo runs in this process)"
    catalog: ModelCatalog = field(default_factory=lambda: ModelCatalog(NAME))
    encoding: ClassVar[str] = ENCODING
    _cached: tuple[object, Sequence[Message]] = (None, ())

    def connect(self) -> None:
        """Do nothing; there is nothing to load."""

    async def close(self) -> None:
        """Do nothing; nothing is open."""

    def encode(self, request: ModelRequest) -> bytes:
        """Return the request as bytes; nothing is sent anywhere."""
        return encode_for_demo(request)

    def known_facts(self, model: str) -> ModelFacts:
        facts = ModelFacts(model, window=self.window, max_output=MAX_OUTPUT_TOKENS, known=model == NAME)
        return replace(facts, thinking=True, effort=True, cache=True, eager=True)

    async def describe(self, model: str) -> ModelFacts:
        if model != NAME:
            raise ModelNotFound(f"unknown model {model}; the demo has only {NAME}")
        return self.known_facts(model)

    async def list_models(self) -> Sequence[str]:
        """Return (): the only model is in the catalog."""
        return ()

    async def count_tokens(self, model: str, blocks: Sequence[Block]) -> int | None:
        """Return None, because the demo's token counts are estimates anyway."""
        return None

    async def stream(self, request: ModelRequest, reply: IncomingReply, emit: Emit) -> None:
        """See model_port.Model."""
        usage = self._prompt_usage(request)
        if usage.prompt > self.window:
            text = f"prompt is too long: {usage.prompt} tokens > {self.window} maximum"
            raise PromptTooLong(text, usage.prompt, self.window)
        reply.model = request.settings.model
        reply.usage = usage
        for index, (pending, text, block) in enumerate(_blocks(request)):
            reply.pending[index] = pending
            for start in range(0, len(text), PIECE_CHARS):
                await asyncio.sleep(self.pace)
                piece = text[start : start + PIECE_CHARS]
                pending.pieces.append(piece)
                if isinstance(block, ToolUseBlock):
                    emit(ToolCallDelta(block.name, start + len(piece)))
                else:
                    emit(TextDelta(piece) if pending.kind == "text" else ThinkingDelta(piece))
            reply.usage = replace(usage, output=reply.usage.output + len(text) // DEMO_CHARS_PER_TOKEN + 1)
            reply.blocks.append(block)
            del reply.pending[index]
        reply.stop = "tool_use" if isinstance(reply.blocks[-1], ToolUseBlock) else "end_turn"
        reply.complete = True

    def _prompt_usage(self, request: ModelRequest) -> Usage:
        """Return the usage of a prompt; the part shared with the last prompt counts as a cache read."""
        settings = request.settings
        messages = list(request.messages)
        head = (settings.system, settings.tools, settings.thinking, settings.effort)
        sizes = [sum(len(str(part)) for part in (*settings.system, *settings.tools)) // DEMO_CHARS_PER_TOKEN]
        sizes += [message.tokens for message in messages]
        instruction = len(request.instruction) // DEMO_CHARS_PER_TOKEN
        if settings.cache is None:
            return Usage(input=sum(sizes) + instruction)
        known, before = self._cached
        self._cached = (head, messages)
        same = list(takewhile(lambda pair: pair[0] == pair[1], zip(before, messages, strict=False)))
        read = sum(sizes[: len(same) + 1]) if known == head else 0
        written = sum(sizes) - read
        return Usage(
            input=instruction,
            cache_read=read,
            cache_written=written,
            cache_written_hour=written if settings.cache == "1h" else 0,
        )


def encode_for_demo(request: ModelRequest) -> bytes:
    """Encode a request as JSON."""
    settings = request.settings
    messages = [[part.block.to_json() for part in message.parts] for message in request.messages]
    tools = [tool["name"] for tool in settings.tools]
    return to_json_bytes([settings.model, settings.system, tools, messages, request.instruction])


def _blocks(request: ModelRequest) -> Iterator[tuple[PendingBlock, str, Block]]:
    """Yield (pending block, streamed text, finished block) for each block of the reply."""
    settings = request.settings
    found = answer(request.messages, request.instruction, {str(tool["name"]) for tool in settings.tools})
    if settings.thinking and not request.instruction:
        thought = f"I will {name_calls(found.calls)}." if found.calls else "I can answer this."
        yield PendingBlock("thinking"), thought, ThinkingBlock(thought, "demo")
    yield PendingBlock("text"), found.text, TextBlock(found.text)
    for number, call in enumerate(found.calls):
        call = replace(call, id=f"demo_{request.messages[-1].last}_{number}")
        yield PendingBlock("tool input"), json.dumps(dict(call.input), ensure_ascii=False), call
