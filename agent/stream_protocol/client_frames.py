"""The lines that a client writes, as values, and the answers to its requests. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from transcripts import Block, TextBlock, blocks_from_json


class BadFrame(Exception):
    """A line that violates the protocol; the text gives the reason. `ident` is a request to refuse or ""."""

    def __init__(self, text: str, ident: str = "") -> None:
        super().__init__(text)
        self.ident = ident


class UserMessage(Struct, frozen=True):
    """A prompt. `verbatim`: not a slash command; `query` False: it is sent with the next prompt."""

    content: tuple[Block, ...]
    uuid: str = ""
    verbatim: bool = False
    query: bool = True

    @property
    def text(self) -> str:
        return "\n".join(block.text for block in self.content if isinstance(block, TextBlock))


class ControlRequest(Struct, frozen=True):
    """A request of the client, which waits for one answer."""

    ident: str
    subtype: str
    body: Mapping[str, Any] = field(default_factory=dict)


class ControlResponse(Struct, frozen=True):
    """The client's answer to one of our requests; `error` None: it succeeded."""

    ident: str
    body: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None


class CancelRequest(Struct, frozen=True):
    """The cancellation of a request."""

    ident: str


Frame = UserMessage | ControlRequest | ControlResponse | CancelRequest


def parse_frame(line: bytes | str) -> Frame | None:
    """Return the value of a line, None for a line without a meaning here. Raises BadFrame."""
    if not line.strip():
        return None
    unfit: list[str] = []  # NaN and the like, which Python accepts but no request may contain

    def finite(text: str) -> float:
        if math.isinf(number := float(text)):
            unfit.append(text)
        return number

    try:
        raw = json.loads(line, parse_constant=unfit.append, parse_float=finite)
    except (ValueError, RecursionError) as error:
        raise BadFrame(f"line on standard input is not valid JSON ({error}): {_quoted(line)}") from error
    if not isinstance(raw, dict):
        raise BadFrame(f"line on standard input is not a JSON object: {_quoted(line)}")
    if unfit:
        return _refused(raw, f"line on standard input contains an invalid JSON number: {unfit[0]}")
    match raw.get("type"):
        case "user":
            return _user_message(raw, line)
        case "control_request":
            return _control_request(raw)
        case "control_response":
            return _control_response(raw.get("response"))
        case "control_cancel_request":
            return CancelRequest(str(raw.get("request_id", "")))
    return None


def _refused(raw: Mapping[str, Any], why: str) -> ControlResponse:
    """Return an invalid answer of the client as an error. Raises BadFrame for other frames."""
    response = raw.get("response")
    if raw.get("type") == "control_response" and isinstance(response, dict):
        return ControlResponse(str(response.get("request_id") or ""), error=why)
    raise BadFrame(why, str(raw.get("request_id") or ""))


def _user_message(raw: Mapping[str, Any], line: bytes | str) -> UserMessage:
    message = raw.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, list) and not all(isinstance(block, dict) for block in content):
        content = None
    if not isinstance(content, str | list):
        raise BadFrame(f"user message without content: {_quoted(line)}")
    return UserMessage(
        blocks_from_json(content) or (TextBlock(""),),
        uuid=str(raw.get("uuid") or ""),
        verbatim=raw.get("client_composed") is True,
        query=raw.get("shouldQuery") is not False,
    )


def _control_request(raw: Mapping[str, Any]) -> ControlRequest:
    ident = str(raw.get("request_id") or "")
    body = raw.get("request")
    if not isinstance(body, dict) or not isinstance(body.get("subtype"), str):
        raise BadFrame("control request without a subtype", ident)
    return ControlRequest(ident, subtype=body["subtype"], body=body)


def _control_response(response: Any) -> ControlResponse | None:
    if not isinstance(response, dict):
        return None
    ident = str(response.get("request_id") or "")
    body = response.get("response")
    if response.get("subtype") == "error":
        return ControlResponse(ident, error=str(response.get("error") or "no reason given"))
    return ControlResponse(ident, body if isinstance(body, dict) else {})


def _quoted(line: bytes | str) -> str:
    text = line.decode("utf-8", "replace") if isinstance(line, bytes) else line
    return text[:200].strip()


def success(ident: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer to a request."""
    response = {"subtype": "success", "request_id": ident, "response": dict(body)}
    return {"type": "control_response", "response": response}


def refusal(ident: str, error: str) -> dict[str, Any]:
    """Return the answer to a request that cannot be fulfilled."""
    return {"type": "control_response", "response": {"subtype": "error", "request_id": ident, "error": error}}


def replayed(message: UserMessage) -> dict[str, Any]:
    """Return a user message repeated to the client (--replay-user-messages)."""
    repeated = {"role": "user", "content": [block.to_json() for block in message.content]}
    return {"type": "user", "message": repeated, "parent_tool_use_id": None, "isReplay": True}
