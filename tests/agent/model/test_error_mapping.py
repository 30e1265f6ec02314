"""The meaning of the service's error answers, by the texts that it is known to send."""

import itertools
import json
import socket
import ssl
from typing import Any

import httpx2
import pytest
from msgspec.structs import replace

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
from agent.model.anthropic.request import FEATURE_FIELDS, NAMES
from agent.model.error_mapping import (
    LOCAL_RESTART_S,
    map_connection_error,
    map_error,
    map_transport_error,
)
from tests.tables import each_row


def error(status: int, kind: str, message: str, **headers: str) -> ModelError:
    body = json.dumps({"type": "error", "error": {"type": kind, "message": message}})
    return map_error(
        status, body, {name.replace("_", "-"): value for name, value in headers.items()}, now=0.0, names=NAMES
    )


INVALID = "invalid_request_error"


def test_a_prompt_that_is_too_long_reports_both_numbers() -> None:
    found = error(400, INVALID, "prompt is too long: 203052 tokens > 200000 maximum")
    assert isinstance(found, PromptTooLong)
    assert (found.actual, found.limit) == (203052, 200000)


def test_input_and_max_tokens_beyond_the_window_is_too_long() -> None:
    text = "input length and `max_tokens` exceed context limit: 198981 + 21333 > 200000, decrease"
    assert isinstance(error(400, INVALID, text), PromptTooLong)


def test_413_is_too_long_even_as_html() -> None:
    assert isinstance(map_error(413, "<html>too large</html>", {}, 0.0, NAMES), PromptTooLong)


@pytest.mark.parametrize(
    "text",
    [
        "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified.",
        "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different "
        "conversation.",
    ],
)
def test_refused_thinking_is_distinguished_from_a_refused_field(text: str) -> None:
    assert isinstance(error(400, INVALID, text), ThinkingRejected)


@each_row(
    ("text", "field"),
    [
        ("thinking: Extra inputs are not permitted", "thinking"),
        ("messages.0.content.0.text.cache_control: Extra inputs are not permitted", "cache_control"),
        ("output_config: unknown field", "output_config"),
        ("tools.0.custom.eager_input_streaming: Extra inputs", "eager_input_streaming"),
    ],
)
def test_an_optional_field_is_named(text: str, field: str) -> None:
    found = error(400, INVALID, text)
    assert isinstance(found, FieldRejected)
    assert found.feature == FEATURE_FIELDS[field]


def test_a_bad_image_names_its_block() -> None:
    found = error(400, INVALID, "messages.4.content.1.image: Could not process image")
    assert isinstance(found, BlockRejected)
    assert found.places == ((4, 1),)


def test_images_that_are_too_large_are_named_in_the_details() -> None:
    paths = ["messages.0.content.1", "messages.4.content.2.content.0", "system.0", None]
    assert places_of_large_images(paths) == ((0, 1), (4, 2))
    assert places_of_large_images(["messages[3].content[0].source", "/messages/2/content/1"]) == (
        (3, 0),
        (2, 1),
    )
    assert places_of_large_images(["$.images[0]"]) == ()  # the newest image is taken then


def places_of_large_images(paths: list[Any]) -> tuple[tuple[int, int], ...]:
    details = {"error_code": "image_dimensions_too_large", "max_side_length_pixels": 2000, "paths": paths}
    message = "At least one of the image dimensions exceed max allowed size for many-image requests"
    body = {"type": "error", "error": {"type": INVALID, "message": message, "details": details}}
    found = map_error(400, json.dumps(body), {}, now=0.0, names=NAMES)
    assert isinstance(found, BlockRejected)
    return tuple(found.places)


@each_row(
    "text",
    [
        "The model produced output that does not match the expected peg-native format",
        "Failed to parse input at pos 12: [TOOL",
        "Unable to generate parser for this template. Automatic parser generation failed: x",
        "tools param requires --jinja flag",
        "Unsupported param: tools",
        "Value is not callable: null at row 21, column 40: {{ strftime_now('<|year|>') }}",
        "Conversation roles must alternate user/assistant/user/assistant/...",
    ],
)
def test_a_chat_template_that_does_not_fit_is_named_and_soon_given_up(text: str) -> None:
    body = json.dumps({"error": {"code": 500, "message": text, "type": "server_error"}})
    for status in (500, 200):  # as an error response, and within the stream
        found = map_error(status, body, {}, now=0.0, names=NAMES)
        assert isinstance(found, TransientError) and found.tries == 3
        assert str(found) == (
            f"500 server_error: {text} (start the server with --jinja, or another --chat-template)"
        )
    rejected = map_error(400, body, {}, now=0.0, names=NAMES)
    assert not isinstance(rejected, TransientError) and str(rejected).endswith("another --chat-template)")


@each_row(("status", "kind"), [(429, "rate_limit_error"), (529, "overloaded_error"), (500, "")])
def test_load_and_faults_are_transient(status: int, kind: str) -> None:
    assert isinstance(error(status, kind, "later"), TransientError)


@each_row(
    ("status", "kind", "message", "line"),
    [
        (529, "overloaded_error", "Overloaded", "overloaded (529)"),
        (200, "overloaded_error", "Overloaded.", "overloaded (error in the response)"),
        (529, "overloaded_error", "try tomorrow", "overloaded (529): try tomorrow"),
        (429, "rate_limit_error", "20 a minute", "rate limited (429): 20 a minute"),
    ],
)
def test_a_busy_server_is_named_in_plain_words(status: int, kind: str, message: str, line: str) -> None:
    assert str(map_error(status, body(message, kind), {}, 0.0, NAMES)) == line


def test_an_error_within_the_stream_goes_by_its_type() -> None:
    assert isinstance(error(200, "overloaded_error", "Overloaded"), TransientError)


def test_retry_after_is_read_as_seconds_or_as_a_date() -> None:
    seconds = error(429, "rate_limit_error", "x", retry_after="17")
    date = error(429, "rate_limit_error", "x", retry_after="Thu, 01 Jan 1970 00:01:00 GMT")
    absurd = error(429, "rate_limit_error", "x", retry_after="-5")
    assert isinstance(seconds, TransientError) and seconds.retry_after == 17
    assert isinstance(date, TransientError) and date.retry_after == 60
    assert isinstance(absurd, TransientError) and absurd.retry_after is None


def test_a_date_is_compared_with_the_clock_of_the_server() -> None:
    headers = {"retry-after": "Sun, 22 Nov 2026 10:00:30 GMT", "date": "Sun, 22 Nov 2026 10:00:00 GMT"}
    found = map_error(429, "", headers, 86_400.0, NAMES)
    assert isinstance(found, TransientError) and found.retry_after == 30


@each_row(
    ("body", "numbers"),
    [
        (
            '{"error":{"code":500,"message":"the request exceeds the available context size. try increasing '
            'the context size","type":"exceed_context_size_error","n_prompt_tokens":1407,"n_ctx":256}}',
            (1407, 256),
        ),
        (
            '{"error":{"type":"BadRequestError","message":"This model\'s maximum context length is 16384 '
            'tokens. However, your messages resulted in 26620 tokens."}}',
            (26620, 16384),
        ),
        ('{"error":{"message":"Input is too long for requested model."}}', (None, None)),
    ],
)
def test_compatible_servers_have_words_of_their_own_for_too_long(
    body: str, numbers: tuple[int | None, int | None]
) -> None:
    for status in (400, 500) if "exceed_context" in body else (400,):
        found = map_error(status, body, {}, 0.0, NAMES)
        assert isinstance(found, PromptTooLong)
        assert (found.actual, found.limit) == numbers


def test_too_much_output_names_the_limit() -> None:
    text = "max_tokens: 128001 > 64000, which is the maximum allowed number of output tokens for claude-x"
    found = error(400, INVALID, text)
    assert isinstance(found, OutputTooLong) and found.limit == 64_000


@each_row(
    ("status", "body", "field"),
    [
        (422, '{"detail":[{"loc":["body","thinking"],"msg":"Extra inputs are not permitted"}]}', "thinking"),
        (400, '{"object":"error","message":"cache_control: unexpected keyword"}', "cache_control"),
        (400, '{"error":"unknown field \\"output_config\\""}', "output_config"),
        (400, "tools.0: eager_input_streaming is unknown", "eager_input_streaming"),
    ],
)
def test_gateways_name_a_field_in_shapes_of_their_own(status: int, body: str, field: str) -> None:
    found = map_error(status, body, {}, 0.0, NAMES)
    assert isinstance(found, FieldRejected) and found.feature == FEATURE_FIELDS[field]


def test_an_effort_that_is_not_taken_is_a_refused_field() -> None:
    found = error(400, INVALID, "This model does not support the effort parameter.")
    assert isinstance(found, FieldRejected) and found.feature == "effort"


def test_a_spend_cap_is_not_tried_again() -> None:
    body = {
        "error": {
            "type": "rate_limit_error",
            "message": "no",
            "details": {"error_code": "enforced_spend_limit_reached"},
        }
    }
    assert isinstance(map_error(429, json.dumps(body), {}, 0.0, NAMES), RequestRejected)
    assert isinstance(
        error(400, INVALID, "You have reached your specified API usage limits."), RequestRejected
    )


def test_what_the_server_wants_not_to_be_tried_again_has_one_try() -> None:
    found = error(503, "api_error", "no", x_should_retry="false")
    assert isinstance(found, TransientError) and found.tries == 1


def test_credentials_are_named() -> None:
    found = error(401, "authentication_error", "invalid x-api-key")
    assert isinstance(found, AuthenticationError)
    assert "ANTHROPIC_API_KEY" in str(found)
    assert found.code == 5


def test_what_is_not_there_may_be_the_model_or_the_server() -> None:
    for body in ("", '{"type":"error","error":{"type":"not_found_error","message":"model: claude-typo"}}'):
        found = map_error(404, body, {}, 0.0, NAMES)
        assert isinstance(found, ModelNotFound)
        assert "model" in str(found) and "ANTHROPIC_BASE_URL" in str(found)


def test_an_html_page_is_cut_to_one_line() -> None:
    found = map_error(502, "<html>\n<h1>Bad\nGateway</h1>" + "x" * 5000, {}, 0.0, NAMES)
    assert isinstance(found, TransientError)
    assert "\n" not in str(found) and len(str(found)) < 400 and "<" not in str(found)


def body(message: str, kind: str = "", **more: Any) -> str:
    return json.dumps({"error": {"message": message, **({"type": kind} if kind else {}), **more}})


KEY = "(check ANTHROPIC_API_KEY and ANTHROPIC_BASE_URL)"
BILLING = "(check the billing of the account that ANTHROPIC_API_KEY belongs to)"
PROXY = "requires credentials: set HTTPS_PROXY=http://name:password@host"
REDIRECTS = "makeroom does not follow redirects, which would send the key and the prompt there."
TAGS = "messages.1.content.0: Input tag 'x' found using 'type'; expected 'text', 'thinking'"
PLACE = "http://server/v1"


@each_row(
    ("status", "text", "kind", "line"),
    [
        (402, body("pay"), AuthenticationError, f"402: pay {BILLING}"),
        (400, body("pay", "billing_error"), AuthenticationError, f"400 billing_error: pay {BILLING}"),
        (403, body("no"), AuthenticationError, f"403: no {KEY}"),
        (400, body("no", "permission_error"), AuthenticationError, f"400 permission_error: no {KEY}"),
        (407, "", AuthenticationError, f"407: no text (the proxy {PROXY})"),
        (300, "", RequestRejected, f"300: the server redirects to nothing. {REDIRECTS}"),
        (399, "", RequestRejected, f"399: the server redirects to nothing. {REDIRECTS}"),
        (404, body("images are not supported"), BlockRejected, "404: images are not supported"),
        (400, body("Could not process image"), BlockRejected, "400: Could not process image"),
        (400, body(TAGS), BlockRejected, f"400: {TAGS}"),
        (400, body("messages.0.content.3.text: bad"), BlockRejected, "400: messages.0.content.3.text: bad"),
        (400, body("encrypted content x could not be verified"), ThinkingRejected, "400: encrypted"),
        (
            429,
            body("prompt is too long", INVALID),
            TransientError,
            "429 invalid_request_error: prompt is too long",
        ),
        (429, body("no", code="insufficient_quota"), RequestRejected, "429: no"),
        (418, body("prompt is too long: 7 tokens"), PromptTooLong, "418: prompt is too long: 7 tokens"),
        (599, "", TransientError, "599: no text"),
        (600, "", RequestRejected, "600: no text"),
        (418, body("I am a teapot"), RequestRejected, "418: I am a teapot"),
        (400, json.dumps([{"error": {"message": "in a list"}}]), RequestRejected, "400: in a list"),
        (400, body("up", metadata={"raw": "stream"}), RequestRejected, "400: up: stream"),
        (429, body("no", "exceeded_current_quota_error"), RequestRejected, "429 exceeded_current"),
        (429, body("no", "budget_exceeded"), RequestRejected, "429 budget_exceeded: no"),
        (429, body("Insufficient balance or no resource package.", code="1113"), RequestRejected, "429: Ins"),
        (429, body("余额不足或无可用资源包,请充值。", code="1113"), RequestRejected, "429: 余额不足"),
        (400, body("API key not valid. Please pass one."), AuthenticationError, "400: API key not valid."),
        (
            400,
            json.dumps(
                {"code": "Client specified an invalid argument", "error": "Incorrect API key provided"}
            ),
            AuthenticationError,
            f"400: Incorrect API key provided {KEY}",
        ),
        (403, body("Your input was flagged for 'x'"), RequestRejected, "403: Your input was flagged for 'x'"),
        (400, body("Model Not Exist"), ModelNotFound, "400: Model Not Exist (check the model's name"),
        (400, body("Invalid model name passed in model=x"), ModelNotFound, "400: Invalid model name"),
        (
            400,
            body("Invalid model: x", "invalid_model"),
            ModelNotFound,
            "400 invalid_model: Invalid model: x",
        ),
        (400, body("x/y is not a valid model ID"), ModelNotFound, "400: x/y is not a valid model ID"),
        (400, body('Model "x" not found.'), ModelNotFound, '400: Model "x" not found.'),
        (498, body("Flex tier", "capacity_exceeded"), TransientError, "498 capacity_exceeded: Flex tier"),
        (400, json.dumps({"type": "odd_error", "message": "x"}), RequestRejected, "400 odd_error: x"),
        (
            422,
            json.dumps({"detail": [{"loc": ["body", "x"], "msg": "bad"}, 5, {"loc": 7}]}),
            RequestRejected,
            "422: body.x: bad; 7: None",
        ),
    ],
)
def test_an_error_response_has_a_meaning_a_line_and_a_status(
    status: int, text: str, kind: type[ModelError], line: str
) -> None:
    found = map_error(status, text, {}, 0.0, NAMES)
    assert type(found) is kind and str(found).startswith(line)
    assert found.status == status
    assert getattr(found, "overloaded", False) is False


@each_row(
    ("text", "status", "overloaded"),
    [
        (body("busy", "overloaded_error"), None, True),
        (body("late", code=529), 529, True),
        (body("late", code="503"), 503, False),
        (body("late", "server_error", code="5030"), None, False),
    ],
)
def test_an_error_in_the_stream_has_the_status_that_a_gateway_puts_into_it(
    text: str, status: int | None, overloaded: bool
) -> None:
    found = map_error(200, text, {}, 0.0, NAMES)
    assert isinstance(found, TransientError)
    assert (found.status, found.overloaded, found.cause) == (status, overloaded, "server")


@each_row(
    "kind",
    [
        "rate_limit_error", "overloaded_error", "api_error", "timeout_error", "conflict_error",
        "server_error", "internal_server_error", "InternalServerError", "rate_limit_exceeded",
        "server_is_overloaded", "slow_down",
    ],
)  # fmt: skip
def test_each_type_of_an_error_that_may_pass_is_known_in_a_stream(kind: str) -> None:
    assert isinstance(map_error(200, body("later", kind), {}, 0.0, NAMES), TransientError)


@each_row(
    ("data", "line"),
    [
        ('{"message": "kv cache full"}', "200 error in the response: kv cache full"),
        ('{"error": "model crashed"}', "200 error in the response: model crashed"),
        ("out of disk", "200 error in the response: out of disk"),
        ("null", "200 error in the response: null"),
        ("", "200 error in the response: no text"),
    ],
)
def test_an_error_in_the_stream_without_a_type_is_tried_again_and_not_taken_for_a_portal(
    data: str, line: str
) -> None:
    found = map_error(200, data, {}, 0.0, NAMES)
    assert isinstance(found, TransientError)
    assert (str(found), found.tries) == (line, 3)


@each_row(
    ("status", "text", "tries"),
    [
        (200, body("Provider disconnected unexpectedly", code="server_error"), None),
        (200, body("Internal server error", "internal_error"), 3),
        (200, body("upstream connect error", "upstream_error", code="upstream_error"), 3),
        (200, body("Failed to call a function.", INVALID, code="tool_use_failed"), 3),
        (400, body("tool call validation failed", INVALID, code="tool_use_failed"), 3),
        (400, json.dumps({"error": "The model has crashed without additional information."}), 3),
        (400, json.dumps({"error": "Model is unloaded."}), 3),
    ],
)
def test_a_fault_of_the_model_or_in_the_stream_is_tried_again(
    status: int, text: str, tries: int | None
) -> None:
    found = map_error(status, text, {}, 0.0, NAMES)
    assert isinstance(found, TransientError) and found.tries == tries


def test_a_filtered_reply_is_not_tried_again() -> None:
    text = body("The response was filtered", code="content_filter", param="prompt")
    assert type(map_error(200, text, {}, 0.0, NAMES)) is RequestRejected


@each_row("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_each_status_of_an_error_that_may_pass_is_known(status: int) -> None:
    assert isinstance(map_error(status, "", {}, 0.0, NAMES), TransientError)


def test_a_wrong_base_url_of_a_server_that_answers_200_is_named() -> None:
    found = map_error(200, body("Unexpected endpoint or method"), {}, 0.0, replace(NAMES, place=PLACE))
    assert isinstance(found, ModelNotFound)
    assert str(found).endswith(f"(check the model's name and ANTHROPIC_BASE_URL ({PLACE}))")
    assert "portal" in str(map_error(200, "<html>", {}, 0.0, NAMES))


def test_a_wait_that_is_too_long_is_reported() -> None:
    lines = [str(map_error(503, "", {"retry-after": wait}, 0.0, NAMES)) for wait in ("600", "3600")]
    assert lines == ["503: no text", "503: no text (the server asks to wait 60 minutes)"]


def caused(*errors: Exception) -> Exception:
    """Return the first error, with each of the others as the cause of the one before it."""
    for error, cause in itertools.zip_longest(errors, errors[1:]):
        error.__cause__ = cause
    return errors[0]


FAILED = httpx2.ConnectError("all attempts failed")
NOT_LISTENING = "nothing is listening there, or a firewall refuses"


@each_row(
    ("causes", "proxy", "kind", "line"),
    [
        (
            (FAILED, ssl.SSLCertVerificationError(1, "self-signed")),
            "",
            RequestRejected,
            f"cannot verify the certificate of {PLACE}: self-signed (set SSL_CERT_FILE to add a certificate"
            " authority)",
        ),
        (
            (httpx2.RemoteProtocolError("illegal status line"),),
            "",
            TransientError,
            f"{PLACE} does not respond with valid HTTP: illegal status line",
        ),
        (
            (FAILED, httpx2.RemoteProtocolError("illegal status line")),
            "",
            TransientError,
            f"{PLACE} does not respond with valid HTTP: illegal status line",
        ),
        (
            (httpx2.RemoteProtocolError("server disconnected without a response"),),
            "",
            TransientError,
            f"cannot connect to {PLACE}: server disconnected without a response",
        ),
        (
            (httpx2.ProxyError("407 Proxy Authentication Required"),),
            "http://p:1",
            AuthenticationError,
            f"the proxy for {PLACE} {PROXY}",
        ),
        (
            (httpx2.ProxyError("502 Bad"),),
            "http://p:1",
            TransientError,
            f"cannot connect to {PLACE} through the proxy http://p:1: 502 Bad",
        ),
        (
            (FAILED, ConnectionRefusedError("refused")),
            "http://p:1",
            TransientError,
            f"cannot connect to the proxy http://p:1 for {PLACE}: {NOT_LISTENING}"
            " (correct the proxy variable)",
        ),
        (
            (FAILED, ConnectionRefusedError("refused")),
            "",
            TransientError,
            f"cannot connect to {PLACE}: {NOT_LISTENING} (start the server, or correct the base URL)",
        ),
        ((FAILED, OSError("no route")), "", TransientError, f"cannot connect to {PLACE}: no route"),
        (
            (FAILED, OSError(-2, "Name unknown")),
            "",
            TransientError,
            f"cannot connect to {PLACE}: Name unknown",
        ),
        (
            (FAILED, socket.gaierror(-2, "Name unknown")),
            "",
            TransientError,
            f"cannot connect to {PLACE}: Name unknown (check the network, the base URL and HTTPS_PROXY)",
        ),
        ((FAILED, OSError()), "", TransientError, f"cannot connect to {PLACE}: OSError"),
        ((FAILED,), "", TransientError, f"cannot connect to {PLACE}: all attempts failed"),
    ],
)
def test_a_failed_connection_names_its_cause_and_where_it_ended(
    causes: tuple[Exception, ...], proxy: str, kind: type[ModelError], line: str
) -> None:
    found = map_connection_error(PLACE, "server", caused(*causes), proxy)
    assert (type(found), str(found)) == (kind, line)


@each_row(
    ("host", "proxy", "patience"),
    [
        ("localhost", "", LOCAL_RESTART_S),
        ("server", "", None),
        ("server", "http://127.0.0.1:1", LOCAL_RESTART_S),
        ("localhost", "http://proxy:1", None),
    ],
)
def test_only_a_server_on_this_machine_may_be_restarting(
    host: str, proxy: str, patience: float | None
) -> None:
    error = caused(httpx2.ConnectError("failed"), ConnectionRefusedError("refused"))
    found = map_connection_error(PLACE, host, error, proxy)
    assert isinstance(found, TransientError)
    assert (found.cause, found.patience_s) == ("refused", patience)


@each_row(
    ("error", "proxy", "cause", "line"),
    [
        (
            httpx2.ConnectTimeout(""),
            "http://p:1",
            "connection",
            f"cannot connect to the proxy http://p:1 for {PLACE}: timed out after 10 s",
        ),
        (httpx2.ReadTimeout(""), "", "connection", f"no data from {PLACE} for 90 s"),
        (httpx2.ReadError("reset"), "", "connection", "the connection was lost: reset"),
        (
            httpx2.RemoteProtocolError("peer closed connection"),
            "",
            "connection",
            "the connection was lost: peer closed connection",
        ),
        (
            httpx2.RemoteProtocolError("illegal chunk"),
            "",
            "response",
            f"{PLACE} does not respond with valid HTTP: illegal chunk",
        ),
        (OSError("broken pipe"), "", "connection", "the connection was lost: broken pipe"),
        (
            httpx2.DecodingError("bad gzip"),
            "",
            "response",
            'cannot parse the response: nothing ("DecodingError: bad gzip")',
        ),
        (ValueError("odd"), "", "response", 'cannot parse the response: nothing ("ValueError: odd")'),
    ],
)
def test_a_lost_connection_and_an_invalid_response_have_attempts_of_their_own(
    error: Exception, proxy: str, cause: str, line: str
) -> None:
    found = map_transport_error(error, httpx2, PLACE, 90.0, proxy)
    assert isinstance(found, TransientError)
    assert (found.cause, found.tries, str(found)) == (cause, 3 if cause == "response" else None, line)
