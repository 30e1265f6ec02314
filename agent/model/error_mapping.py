"""Map an error response of a server, or an exception of its client, to a ModelError. Pure.

A response is classified by `error.type` and status. The message decides only where nothing else does (too
large, thinking, optional fields), by the wording of the servers.
"""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from msgspec import Struct

from agent.errors import (
    AuthenticationError,
    BlockRejected,
    Feature,
    FieldRejected,
    ModelError,
    ModelNotFound,
    PromptTooLong,
    RequestRejected,
    ThinkingRejected,
    TransientError,
)
from agent.model.retry import MAX_RETRY_AFTER_S, UNREADABLE_TRIES, retry_after
from tools.text import printable
from transcripts import replace_surrogates
from transcripts.patterns import lazy_pattern
from transcripts.secrets import mask

from .size_errors import find_size_error, is_rate_limit

MAX_ERROR_BODY_CHARS = 65_536  # of an error; the rest is not matched
MAX_ERROR_LINE_CHARS = 300
MAX_ANSWER_QUOTE_CHARS = 160
_BLOCK_PATH = lazy_pattern(r"/?messages[./\[](\d{1,9})\]?[./]content[./\[](\d{1,9})\b")
_TRANSIENT_TYPES = {
    "rate_limit_error", "overloaded_error", "api_error", "timeout_error", "conflict_error",
    "server_error", "internal_server_error", "InternalServerError", "rate_limit_exceeded",
    "server_is_overloaded", "slow_down", "capacity_exceeded",
}  # fmt: skip
_TRANSIENT_STATUSES = {408, 409, 425, 429}
_SPEND_LIMIT_CODES = {
    "enforced_spend_limit_reached",
    "contract_spend_limit_reached",
    "insufficient_quota",
    "exceeded_current_quota_error",
    "budget_exceeded",
}
# Moonshot and GLM, with the status of a rate limit.
_NO_MONEY = lazy_pattern(r"insufficient balance|余额不足", re.I)
_BAD_KEY = lazy_pattern(r"api key not valid|incorrect api key", re.I)  # Gemini and xAI, with 400
_FLAGGED = lazy_pattern(r"your input was flagged", re.I)  # OpenRouter, with 403
# DeepSeek, LiteLLM, Mistral, OpenRouter, LM Studio, with 400.
_NO_MODEL = lazy_pattern(
    r"model not exist|invalid model(?: name|:)|is not a valid model|^model .{1,200} not found", re.I
)
_FINAL_CODE = lazy_pattern("invalid|filter|policy")  # OpenAI and Azure, in a stream
# Groq: the model's call was malformed; LM Studio: it has to load its model again.
_MAY_PASS = lazy_pattern(r"\btool_use_failed\b|model has crashed|model is unloaded", re.I)
# llama.cpp (with 500), OpenRouter (with 404), OpenAI: the model does not accept images.
_IMAGE_REFUSED = lazy_pattern(
    r"image(?:_url| input|s)? (?:is|are) (?:not|only) supported|support image input|does not support images",
    re.I,
)
# llama.cpp: the model's output or the messages do not fit the chat template, which hardly ever passes.
_TEMPLATE_MISFIT = lazy_pattern(
    r"does not match the expected [\w-]+ format|failed to parse input at pos"
    r"|parser for this template|chat template|jinja|unsupported param: tools"
    r"|\bat row \d+, column \d+|roles must alternate|system role not supported",
    re.I,
)
# OpenAI: reasoning of another account, of another model, or without the item that it led to.
_REASONING_REFUSED = lazy_pattern(
    r"encrypted content .{0,8000}could not be verified|'reasoning' was provided without its required", re.S
)
_PAGE = lazy_pattern(r"^\s*<|<(?:html|head|body|title|h1|p|br|div)\b", re.I)
_WRONG_ENDPOINT = "unexpected endpoint"  # LM Studio, with a status of 200
_HUNG_UP = lazy_pattern("disconnected|closed")  # in the HTTP client's error about a response that ended early
_PROXY_HINT = "requires credentials: set HTTPS_PROXY=http://name:password@host"
CONNECT_TIMEOUT_S = 10.0
LOCAL = ("localhost", "127.0.0.1", "::1", "0.0.0.0")


class ServerNames(Struct, frozen=True):
    """The wording of a provider's servers, and the variables that configure them.

    features  patterns of error messages -> the optional feature that is rejected
    key       the variable with the key
    url       the variable with the URL
    place     the URL in use
    """

    features: Mapping[str, Feature]
    key: str = "ANTHROPIC_API_KEY"
    url: str = "ANTHROPIC_BASE_URL"
    place: str = ""


def map_error(
    status: int, body: str, headers: Mapping[str, str], now: float, names: ServerNames
) -> ModelError:
    """Return the error for an error response. Status 200 means an error within the stream."""
    body = body[:MAX_ERROR_BODY_CHARS]
    code = read_error(body).code
    if status == 200 and re.fullmatch(r"[45]\d\d", code):
        status = int(code)  # gateways put an error that occurs later into the stream
    error = _map_answer(status, body, headers, now, names)
    error.status = None if status == 200 else status
    return error


def _map_answer(  # noqa: C901, PLR0911  the order of the answers is the rule
    status: int, body: str, headers: Mapping[str, str], now: float, names: ServerNames
) -> ModelError:
    kind, message, code = read_error(body)
    text = _line(status, kind, message or body, guess=not message)
    if 300 <= status < 400:
        return RequestRejected(_redirected(status, headers.get("location", ""), names))
    if status == 407:
        return AuthenticationError(f"{text} (the proxy {_PROXY_HINT})")
    if status == 402 or kind == "billing_error":
        return AuthenticationError(f"{text} (check the billing of the account that {names.key} belongs to)")
    if status == 403 and _FLAGGED.search(message):
        return RequestRejected(text)
    is_bad_key = status == 400 and _BAD_KEY.search(message)
    if is_bad_key or status in (401, 403) or kind in ("authentication_error", "permission_error"):
        return AuthenticationError(f"{text} (check {names.key} and {names.url})")
    if status >= 400 and _IMAGE_REFUSED.search(message):
        return BlockRejected(text)
    is_no_model = status == 400 and _NO_MODEL.search(message)
    if is_no_model or status == 404 or _WRONG_ENDPOINT in message.lower():
        place = f" ({names.place})" if _WRONG_ENDPOINT in message.lower() else ""
        return ModelNotFound(f"{text} (check the model's name and {names.url}{place})")
    if status == 400 and (places := _rejected_places(body)):
        return BlockRejected(text, places)
    if status == 400 and code.startswith("image_"):
        return BlockRejected(text)
    if {code, kind} & _SPEND_LIMIT_CODES or "API usage limits" in message or _NO_MONEY.search(message):
        return RequestRejected(text)
    tries = 1 if headers.get("x-should-retry") == "false" else None
    if _TEMPLATE_MISFIT.search(message):
        text += " (start the server with --jinja, or another --chat-template)"
        tries = UNREADABLE_TRIES
    overloaded = status == 529 or kind == "overloaded_error"
    asked = retry_after(headers, now)
    if asked is not None and asked > MAX_RETRY_AFTER_S:  # too long to wait
        text += f" (the server asks to wait {asked / 60:,.0f} minutes)"
    transient = TransientError(text, asked, tries=tries, overloaded=overloaded)
    words = f"{message or body} {kind} {code}"
    if is_rate_limit(status, words):
        return transient
    if error := find_size_error(text, words, body):
        return error
    if status == 413 or kind == "request_too_large":
        return PromptTooLong(text)
    if _MAY_PASS.search(words):
        return TransientError(text, tries=UNREADABLE_TRIES)
    if status in (400, 422) or kind == "invalid_request_error":
        return _invalid(text, message or body, names)
    if {code, kind} & _TRANSIENT_TYPES or status in _TRANSIENT_STATUSES or 500 <= status < 600:
        return transient
    if status == 200 and not _FINAL_CODE.search(f"{kind} {code}"):  # the server had accepted the request
        return TransientError(text, tries=UNREADABLE_TRIES)
    return RequestRejected(text)


def _invalid(text: str, message: str, names: ServerNames) -> ModelError:
    block = _BLOCK_PATH.search(message)
    place = [(int(block[1]), int(block[2]))] if block else []
    if place and "Input tag" in message:  # this message lists all block types, including thinking
        return BlockRejected(text, place)
    if "thinking" in message and (block or "signature" in message or "cannot be modified" in message):
        return ThinkingRejected(text)
    if _REASONING_REFUSED.search(message):
        return ThinkingRejected(text)
    for pattern, feature in names.features.items():
        if re.search(pattern, message):
            return FieldRejected(text, feature)
    if place:
        return BlockRejected(text, place)
    if "could not process image" in message.lower():
        return BlockRejected(text)
    return RequestRejected(text)


class ErrorWords(NamedTuple):
    """The parts of an error response; "" for a missing or unknown one."""

    kind: str = ""
    message: str = ""
    code: str = ""


def read_error(body: str) -> ErrorWords:
    """Parse the body of an error response."""
    try:
        return _words_of(json.loads(body))
    except (ValueError, RecursionError):
        return ErrorWords()


def _words_of(raw: Any) -> ErrorWords:
    raw = raw[0] if isinstance(raw, list) and raw else raw  # Gemini answers with a list
    if not isinstance(raw, dict):
        return ErrorWords()
    error = raw.get("error") or raw
    if not isinstance(error, dict):  # LM Studio, Ollama and xAI: a string
        return ErrorWords(message=str(error), code=_word(raw.get("code")))
    details = error.get("details")
    code = details.get("error_code") if isinstance(details, dict) else error.get("code")
    message = error.get("message") or _complaints(error.get("detail"))
    metadata = error.get("metadata")
    if isinstance(metadata, dict) and isinstance(metadata.get("raw"), str):
        message = f"{message}: {metadata['raw']}"  # OpenRouter: the message of the upstream provider
    kind = error.get("type") if error is not raw else raw.get("type")
    return ErrorWords(kind=_word(kind), message=_word(message), code=_word(code))


def _rejected_places(body: str) -> list[tuple[int, int]]:
    """Return the places of the blocks that an error lists in `details.paths`, such as too large images."""
    try:
        paths = json.loads(body)["error"]["details"]["paths"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return []
    found = (_BLOCK_PATH.match(path) for path in paths if isinstance(path, str))
    return [(int(each[1]), int(each[2])) for each in found if each]


def _complaints(detail: Any) -> str:
    """Return FastAPI's validation errors without the request that they repeat."""
    if not isinstance(detail, list):
        return _word(detail)
    return "; ".join(
        f"{_place(item.get('loc'))}: {item.get('msg')}" for item in detail if isinstance(item, dict)
    )


def _place(loc: Any) -> str:
    return ".".join(map(str, loc)) if isinstance(loc, list) else _word(loc)


def _word(value: Any) -> str:
    return "" if value is None or isinstance(value, dict | list) else str(value)


def _redirected(status: int, location: str, names: ServerNames) -> str:
    place = quote(mask(location[:MAX_ERROR_BODY_CHARS]))
    return (
        f"{status}: the server redirects to {place}. makeroom does not follow redirects, which would send the"
        f" key and the prompt there. If the address is right, set {names.url} to it."
    )


_PLAIN_NAMES = {"overloaded_error": "overloaded", "rate_limit_error": "rate limited"}


def _line(status: int, kind: str, text: str, guess: bool) -> str:
    """Return an error response as one line. `guess`: it has no message, so name its possible source."""
    words = text[:4_000]
    if _PAGE.search(words):  # else it may quote a tag, such as <think>
        words = re.sub(r"<[^<>]*>", " ", words)
    first = _one_line(words, MAX_ERROR_LINE_CHARS) or "no text"
    if plain := _PLAIN_NAMES.get(kind):
        name = f"{plain} ({'error in the response' if status == 200 else status})"
        return name if first.rstrip(".").lower() == plain else f"{name}: {first}"
    name = _one_line(kind, MAX_ANSWER_QUOTE_CHARS)
    if not name and status == 200:
        name = (
            "captive portal or proxy?" if guess and text.lstrip().startswith("<") else "error in the response"
        )
    return f"{status} {name}: {first}" if name else f"{status}: {first}"


def quote(text: str, max_chars: int = MAX_ANSWER_QUOTE_CHARS) -> str:
    """Return the first words of a server's text, in quotes on one line; "nothing" for an empty text."""
    words = _one_line(text, max_chars)
    return f'"{words}"' if words else "nothing"


def _one_line(text: str, max_chars: int) -> str:
    """Return the beginning of a text on one line, without control, invisible and invalid characters."""
    return " ".join(printable(replace_surrogates(text[: 10 * max_chars])).split())[:max_chars]


def summarize_error(error: BaseException) -> str:
    """Return the message of an exception or its nearest cause that has one, else its type, on one line."""
    return _first_words(_chain(error))[:MAX_ERROR_LINE_CHARS] or type(error).__name__


LOCAL_RESTART_S = 60.0  # a server on this machine that refuses connections may be restarting


def map_connection_error(place: str, host: str, error: BaseException, proxy: str) -> ModelError:
    """Return the error for a failed or lost connection to `place`, a URL at `host`.

    `proxy` is the URL of the proxy for that address, "" for none.
    """
    causes = list(_chain(error))
    untrusted = next((cause for cause in causes if isinstance(cause, ssl.SSLCertVerificationError)), None)
    if untrusted is not None:
        return RequestRejected(
            f"cannot verify the certificate of {place}: {summarize_error(untrusted)}"
            " (set SSL_CERT_FILE to add a certificate authority)"
        )
    why = summarize_error(causes[-1])
    if _breaks_protocol(causes[-1]):
        return invalid_response(f"{place} does not respond with valid HTTP: {why}")
    if any(type(cause).__name__ == "ProxyError" for cause in causes):
        if "407" in why:
            return AuthenticationError(f"the proxy for {place} {_PROXY_HINT}")
        return no_connection(f"cannot connect to {place} through the proxy {proxy}: {why}")
    where = _first_stop(place, proxy)
    if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        remedy = "correct the proxy variable" if proxy else "start the server, or correct the base URL"
        is_local = (urlsplit(proxy).hostname or host) in LOCAL
        blocker = "" if is_local else ", or a firewall refuses"
        text = f"cannot connect to {where}: nothing is listening there{blocker} ({remedy})"
        patience_s = LOCAL_RESTART_S if is_local else None
        return TransientError(text, cause="refused", patience_s=patience_s)
    message = _first_words(causes[1:] or causes) or why  # the client's own message is always the same
    if message.startswith("[Errno "):
        message = message.partition("] ")[2]
    if any(type(cause).__name__ == "gaierror" for cause in causes):
        remedy = "correct the proxy variable" if proxy else "check the network, the base URL and HTTPS_PROXY"
        message += f" ({remedy})"
    return no_connection(f"cannot connect to {where}: {message}")


def _first_stop(place: str, proxy: str) -> str:
    """Return the first host of a connection to a URL: the server or its proxy."""
    return f"the proxy {proxy} for {place}" if proxy else place


def _breaks_protocol(error: BaseException) -> bool:
    """Return whether an error of the HTTP client means invalid HTTP, and not just a truncated response."""
    return type(error).__name__ == "RemoteProtocolError" and not _HUNG_UP.search(summarize_error(error))


def _first_words(errors: Iterable[BaseException]) -> str:
    messages = (_one_line(str(each), MAX_ERROR_LINE_CHARS) for each in errors)
    return next(filter(None, messages), "")


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def map_transport_error(
    error: Exception, http: Any, place: str, stall: float | None, proxy: str
) -> ModelError:
    """Return the error for a failure of the HTTP client (the module `http`), or for an invalid response.

    place  the server's URL
    stall  the time limit for a byte, in seconds
    proxy  the URL of the proxy, "" for none
    """
    match error:
        case http.ConnectTimeout():
            where = _first_stop(place, proxy)
            return no_connection(f"cannot connect to {where}: timed out after {CONNECT_TIMEOUT_S:.0f} s")
        case http.TimeoutException():
            return no_connection(f"no data from {place} for {stall or 0:.0f} s")
        case http.DecodingError():
            return unreadable(error, "")
        case http.HTTPError() | http.StreamError() | OSError():
            why = summarize_error(error)
            if _breaks_protocol(error):
                return invalid_response(f"{place} does not respond with valid HTTP: {why}")
            return no_connection(f"the connection was lost: {why}")
    return unreadable(error, "")


def no_connection(text: str) -> TransientError:
    """Return the error for a connection that was not made, or that was lost before the response ended."""
    return TransientError(text, cause="connection")


def ended_early() -> TransientError:
    """Return the error for a response that ended, properly or not, before the reply did."""
    return no_connection("the stream ended before the reply did")


def invalid_response(text: str) -> TransientError:
    """Return the error for a response that makes no sense."""
    return TransientError(text, cause="response", tries=UNREADABLE_TRIES)


def unreadable(error: Exception, data: str) -> TransientError:
    """Return the error for an invalid response, with a quote from it."""
    why = f"{type(error).__name__}: {summarize_error(error)}"
    return invalid_response(f"cannot parse the response: {quote(data)} ({quote(why, 100)})")
