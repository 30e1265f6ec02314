"""What an error answer of the API means. Pure: status, body and headers in, a ModelError out.

Goes by `error.type` and status; by the message only where nothing else tells (prompt too long, thinking,
optional fields), with the texts as the service words them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from .errors import (
    AuthError,
    BlockRefused,
    FieldRefused,
    ModelError,
    PromptTooLong,
    Rejected,
    ThinkingRefused,
    Transient,
)
from .request import OPTIONAL
from .retry import retry_after

_TOO_LONG = re.compile(r"prompt is too long: (\d+) tokens > (\d+) maximum")
_EXCEEDS = re.compile(r"input length and `max_tokens` exceed context limit: (\d+) \+ \d+ > (\d+)")
_BLOCK = re.compile(r"messages\.(\d+)\.content\.(\d+)")
_TRANSIENT = {"rate_limit_error", "overloaded_error", "api_error", "timeout_error", "conflict_error"}
_RETRY_STATUS = {408, 409, 425, 429}
_NEVER = {"enforced_spend_limit_reached", "contract_spend_limit_reached"}


def refusal(status: int, body: str, headers: Mapping[str, str], now: float) -> ModelError:
    """The error for an answer that is no reply. A status of 200 means an error within the stream."""
    kind, message, code = _read(body)
    text = _line(status, kind, message or body)
    if status == 413 or kind == "request_too_large":
        return PromptTooLong(text)
    if status in (401, 402, 403) or kind in ("authentication_error", "permission_error", "billing_error"):
        return AuthError(f"{text} (check ANTHROPIC_API_KEY and ANTHROPIC_BASE_URL)")
    if code in _NEVER or "API usage limits" in message:
        return Rejected(text)
    if kind in _TRANSIENT or status in _RETRY_STATUS or status >= 500:
        asked = retry_after(headers.get("retry-after"), now)
        if headers.get("x-should-retry") == "false":
            return Rejected(text)
        return Transient(text, asked)
    if status == 400 or kind == "invalid_request_error":
        return _invalid(text, message)
    return Rejected(text)


def _invalid(text: str, message: str) -> ModelError:
    if found := _TOO_LONG.search(message) or _EXCEEDS.search(message):
        return PromptTooLong(text, int(found[1]), int(found[2]))
    if "prompt is too long" in message:
        return PromptTooLong(text)
    if "thinking" in message and ("signature" in message or "cannot be modified" in message):
        return ThinkingRefused(text)
    for field in OPTIONAL:
        if re.search(rf"\b{field}\b", message):
            return FieldRefused(text, field)
    if "image" in message.lower() and (found := _BLOCK.search(message)):
        return BlockRefused(text, int(found[1]), int(found[2]))
    return Rejected(text)


def _read(body: str) -> tuple[str, str, str]:
    try:
        raw: Any = json.loads(body)
    except ValueError:
        return "", "", ""
    error = raw.get("error") if isinstance(raw, dict) else None
    if not isinstance(error, dict):
        return "", str(error or ""), ""
    details = error.get("details")
    code = details.get("error_code", "") if isinstance(details, dict) else ""
    return str(error.get("type", "")), str(error.get("message", "")), str(code)


def _line(status: int, kind: str, text: str) -> str:
    first = re.sub(r"<[^>]*>|\s+", " ", text).strip()[:300] or "no text"
    name = kind or ("captive portal or proxy?" if status == 200 else "")
    return f"{status} {name}: {first}" if name else f"{status}: {first}"
