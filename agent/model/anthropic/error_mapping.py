"""Map an error answer of the Messages API, or an exception of its client, to a ModelError. Pure.

An answer is judged by `error.type` and status; by the message only where nothing else tells (prompt too
long, thinking, optional fields), with the texts as the service words them.
"""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from agent.errors import (
    AuthenticationError,
    BlockRejected,
    FieldRejected,
    ModelError,
    ModelNotFound,
    OutputTooLong,
    PromptTooLong,
    RequestRejected,
    ThinkingRejected,
    TransientError,
)
from agent.model.retry import UNREADABLE_TRIES, retry_after
from tools.truncate import printable
from transcripts.masking import mask

from .request import FEATURE_FIELDS

MAX_ERROR_BODY_CHARS = 65_536  # of an error: no pattern sees more
MAX_TAGGED_CHARS = 4_000  # of those, in which tags are taken out before the first words are shown
MAX_ERROR_LINE_CHARS = 300
MAX_ANSWER_QUOTE_CHARS = 160
# Each pattern's groups: (tokens of the prompt, limit), where the words tell them. More digits are no number.
_PROMPT_TOO_LONG = re.compile(r"prompt is too long: (\d{1,15}) tokens > (\d{1,15}) maximum")
_PROMPT_AND_OUTPUT_TOO_LONG = re.compile(
    r"input length and `max_tokens` exceed context limit: (\d{1,15}) \+ \d{1,15} > (\d{1,15})"
)
_OUTPUT_TOO_LONG = re.compile(
    r"max_tokens: (\d{1,15}) > (\d{1,15}), which is the maximum allowed number of output tokens"
)
# Compatible servers have words of their own: vLLM, llama.cpp, gateways to other clouds.
_STATED_LIMIT = re.compile(r"maximum context length (?:is|of) (\d{1,15})")
_STATED_SIZE = re.compile(
    r"(?:request has|resulted in|\() ?(\d{1,15}) (?:input tokens|tokens|in the messages)"
)
_TOO_LONG_WITHOUT_NUMBERS = re.compile(
    r"prompt is too long|input is too long|exceeds the available context size|context length exceeded", re.I
)
_BLOCK_PATH = re.compile(r"messages\.(\d{1,9})\.content\.(\d{1,9})\b")
_FIELD_NAMES = {name: re.compile(rf"\b{name}\b") for name in FEATURE_FIELDS}
_FIELD_NAMES["output_config"] = re.compile(r"\boutput_config\b|\beffort parameter\b")
_TRANSIENT_TYPES = {"rate_limit_error", "overloaded_error", "api_error", "timeout_error", "conflict_error"}
_TRANSIENT_STATUSES = {408, 409, 425, 429}
_SPEND_LIMIT_CODES = {"enforced_spend_limit_reached", "contract_spend_limit_reached"}
_HUNG_UP = re.compile("disconnected|closed")  # what the HTTP client says of an answer that ended early
_PROXY_HINT = "wants credentials: HTTPS_PROXY=http://name:password@host"
LOCAL = ("localhost", "127.0.0.1", "::1")
LOCAL_TRIES = 3  # a machine of one's own that refuses is not going to come up by itself


def map_error(status: int, body: str, headers: Mapping[str, str], now: float) -> ModelError:
    """The error for an answer that is no reply. A status of 200 means an error within the stream."""
    body = body[:MAX_ERROR_BODY_CHARS]
    kind, message, code = _read(body)
    text = _line(status, kind, message or body)
    if 300 <= status < 400:
        return RequestRejected(_redirected(status, headers.get("location", "")))
    if status == 413 or kind == "request_too_large":
        return PromptTooLong(text)
    if status == 407:
        return AuthenticationError(f"{text} (the proxy {_PROXY_HINT})")
    if status in (401, 402, 403) or kind in ("authentication_error", "permission_error", "billing_error"):
        return AuthenticationError(f"{text} (check ANTHROPIC_API_KEY and ANTHROPIC_BASE_URL)")
    if status == 404:
        return ModelNotFound(f"{text} (check the name of the model, and ANTHROPIC_BASE_URL)")
    if code in _SPEND_LIMIT_CODES or "API usage limits" in message:
        return RequestRejected(text)
    if status in (400, 422) or kind in ("invalid_request_error", "exceed_context_size_error"):
        return _invalid(text, message or body, body)
    if kind in _TRANSIENT_TYPES or status in _TRANSIENT_STATUSES or status >= 500:
        tries = 1 if headers.get("x-should-retry") == "false" else None
        return TransientError(text, retry_after(headers, now), tries)
    return RequestRejected(text)


def _invalid(text: str, message: str, body: str) -> ModelError:
    if found := _PROMPT_TOO_LONG.search(message) or _PROMPT_AND_OUTPUT_TOO_LONG.search(message):
        return PromptTooLong(text, int(found[1]), int(found[2]))
    if found := _OUTPUT_TOO_LONG.search(message):
        return OutputTooLong(text, int(found[2]))
    if (limit := _STATED_LIMIT.search(message)) or _TOO_LONG_WITHOUT_NUMBERS.search(message):
        asked = _STATED_SIZE.search(message)
        return PromptTooLong(text, *_numbers(body, asked and asked[1], limit and limit[1]))
    block = _BLOCK_PATH.search(message)
    if "thinking" in message and (block or "signature" in message or "cannot be modified" in message):
        return ThinkingRejected(text)
    for field, pattern in _FIELD_NAMES.items():
        if pattern.search(message):
            return FieldRejected(text, FEATURE_FIELDS[field])
    if block:
        return BlockRejected(text, int(block[1]), int(block[2]))
    if "could not process image" in message.lower():
        return BlockRejected(text)
    return RequestRejected(text)


def _numbers(body: str, asked: str | None, limit: str | None) -> tuple[int | None, int | None]:
    """The size of a prompt and the limit: from the words, or from the fields that llama.cpp has for them."""
    fields = dict(re.findall(r'"(n_prompt_tokens|n_ctx)"\s*:\s*(\d{1,15})', body))
    asked, limit = asked or fields.get("n_prompt_tokens"), limit or fields.get("n_ctx")
    return int(asked) if asked else None, int(limit) if limit else None


def _read(body: str) -> tuple[str, str, str]:
    try:
        raw: Any = json.loads(body)
    except (ValueError, RecursionError):
        return "", "", ""
    error = raw.get("error") if isinstance(raw, dict) else None
    if not isinstance(error, dict):
        return "", str(error or ""), ""
    details = error.get("details")
    code = details.get("error_code", "") if isinstance(details, dict) else ""
    return str(error.get("type", "")), str(error.get("message", "")), str(code)


def _redirected(status: int, location: str) -> str:
    place = quote(mask(location[:MAX_ERROR_BODY_CHARS]))
    return (
        f"{status}: the server sends requests on to {place}; not followed, since the key and the prompt would"
        " go along: if that is the right place, set ANTHROPIC_BASE_URL to it"
    )


def _line(status: int, kind: str, text: str) -> str:
    words = re.sub(r"<[^<>]*>", " ", text[:MAX_TAGGED_CHARS])
    first = _one_line(words, MAX_ERROR_LINE_CHARS) or "no text"
    name = _one_line(kind, MAX_ANSWER_QUOTE_CHARS) or ("captive portal or proxy?" if status == 200 else "")
    return f"{status} {name}: {first}" if name else f"{status}: {first}"


def quote(text: str, max_chars: int = MAX_ANSWER_QUOTE_CHARS) -> str:
    """The first words of what the server said, in quotes on one line; "nothing" where it said nothing."""
    words = _one_line(text, max_chars)
    return f'"{words}"' if words else "nothing"


def _one_line(text: str, max_chars: int) -> str:
    """The beginning of a text without what terminals obey or hide."""
    return " ".join(printable(text[: 10 * max_chars]).split())[:max_chars]


def summarize_error(error: BaseException) -> str:
    """The first words that the exception or one of its causes has, else its kind; one line."""
    return _first_words(_chain(error))[:MAX_ERROR_LINE_CHARS] or type(error).__name__


def map_connection_error(place: str, host: str, error: BaseException) -> ModelError:
    """What it means that a connection to `place` (a URL at `host`) did not come about or did not last."""
    causes = list(_chain(error))
    untrusted = next((cause for cause in causes if isinstance(cause, ssl.SSLCertVerificationError)), None)
    if untrusted is not None:
        return RequestRejected(
            f"no trust in the certificate of {place}: {summarize_error(untrusted)}"
            " (SSL_CERT_FILE may name another authority)"
        )
    why = summarize_error(causes[-1])
    if type(causes[-1]).__name__ == "RemoteProtocolError" and not _HUNG_UP.search(why):
        return TransientError(f"{place} does not speak HTTP: {why}", tries=UNREADABLE_TRIES)
    if any(type(cause).__name__ == "ProxyError" for cause in causes):
        if "407" in why:
            return AuthenticationError(f"the proxy on the way to {place} {_PROXY_HINT}")
        return TransientError(f"no connection to {place} through the proxy: {why}")
    tries = LOCAL_TRIES if host in LOCAL else None
    if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        return TransientError(f"no connection to {place}: nothing listens there", tries=tries)
    said = _first_words(causes[1:] or causes) or why  # the client's own words are always the same
    return TransientError(f"no connection to {place}: {said}", tries=tries)


def _first_words(errors: Iterable[BaseException]) -> str:
    said = (_one_line(str(each), MAX_ERROR_LINE_CHARS) for each in errors)
    return next(filter(None, said), "")


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
