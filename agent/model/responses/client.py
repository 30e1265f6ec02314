"""The Responses API over HTTP: OpenAI, and servers that provide the same API."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from agent.model.error_mapping import ServerNames
from agent.model.openai_http import OpenAIModel
from agent.model_port import IncomingReply, ModelRequest

from .request import RESPONSES_FORMAT, RESPONSES_NAMES, encode_responses_request
from .stream import ItemReader


class ResponsesModel(OpenAIModel):
    """Implements model_port.Model for the Responses API."""

    path: ClassVar[str] = "/responses"
    names: ClassVar[ServerNames] = RESPONSES_NAMES
    encoding: ClassVar[str] = RESPONSES_FORMAT

    def encode(self, request: ModelRequest) -> bytes:
        """See model_port.Model."""
        request.encoded[RESPONSES_FORMAT] = encode_responses_request(request)
        return request.encoded[RESPONSES_FORMAT]

    def reader(self, reply: IncomingReply) -> ItemReader:
        return ItemReader(reply)

    def error_in(self, event: Mapping[str, Any], data: str) -> str | None:
        """See OpenAIModel. An error event is flat, and a failed response names only the error's code."""
        if event["type"] not in ("error", "response.failed"):
            return None
        response = event.get("response")
        found = (response if isinstance(response, dict) else _object(data)).get("error") or _object(data)
        if not isinstance(found, dict) or not found.get("message"):
            return data
        kind = found.get("type")
        error = {**found, "type": found.get("code") if kind in (None, "error") else kind}
        return json.dumps({"error": error})


def _object(data: str) -> Mapping[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
