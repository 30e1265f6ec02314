"""Chat completions over HTTP: OpenRouter, vLLM, llama.cpp, Ollama and many others."""

from __future__ import annotations

from typing import ClassVar

from msgspec.structs import replace

from agent.model.error_mapping import ServerNames
from agent.model.openai_http import OpenAIModel
from agent.model_port import IncomingReply, ModelFacts, ModelRequest

from .chat_request import CHAT_FORMAT, CHAT_NAMES, encode_chat_request
from .chat_stream import ChunkReader


class ChatCompletionsModel(OpenAIModel):
    """Implements model_port.Model for chat completions."""

    path: ClassVar[str] = "/chat/completions"
    names: ClassVar[ServerNames] = CHAT_NAMES
    encoding: ClassVar[str] = CHAT_FORMAT

    def encode(self, request: ModelRequest) -> bytes:
        """See model_port.Model."""
        request.encoded[CHAT_FORMAT] = encode_chat_request(request)
        return request.encoded[CHAT_FORMAT]

    def reader(self, reply: IncomingReply) -> ChunkReader:
        return ChunkReader(reply)

    def known_facts(self, model: str) -> ModelFacts:
        """See OpenAIModel. This protocol has no setting for thinking."""
        known: ModelFacts = super().known_facts(model)
        return replace(known, thinking=False, effort=True)
