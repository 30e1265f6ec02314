"""What the service's error answers mean, by the texts that it is known to send."""

import json

import pytest

from agent.errors import (
    AuthError,
    BlockRefused,
    FieldRefused,
    ModelError,
    PromptTooLong,
    Rejected,
    ThinkingRefused,
    Transient,
)
from agent.refusals import refusal


def error(status: int, kind: str, message: str, **headers: str) -> ModelError:
    body = json.dumps({"type": "error", "error": {"type": kind, "message": message}})
    return refusal(status, body, {name.replace("_", "-"): value for name, value in headers.items()}, now=0.0)


INVALID = "invalid_request_error"


def test_a_prompt_that_is_too_long_tells_both_numbers() -> None:
    found = error(400, INVALID, "prompt is too long: 203052 tokens > 200000 maximum")
    assert isinstance(found, PromptTooLong)
    assert (found.actual, found.limit) == (203052, 200000)


def test_input_and_max_tokens_beyond_the_window_is_too_long() -> None:
    text = "input length and `max_tokens` exceed context limit: 198981 + 21333 > 200000, decrease"
    assert isinstance(error(400, INVALID, text), PromptTooLong)


def test_413_is_too_long_even_as_html() -> None:
    assert isinstance(refusal(413, "<html>too large</html>", {}, 0.0), PromptTooLong)


@pytest.mark.parametrize(
    "text",
    [
        "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified.",
        "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different "
        "conversation.",
    ],
)
def test_refused_thinking_is_told_from_a_refused_field(text: str) -> None:
    assert isinstance(error(400, INVALID, text), ThinkingRefused)


@pytest.mark.parametrize(
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
    assert isinstance(found, FieldRefused)
    assert found.field == field


def test_a_bad_image_names_its_block() -> None:
    found = error(400, INVALID, "messages.4.content.1.image: Could not process image")
    assert isinstance(found, BlockRefused)
    assert (found.message, found.block) == (4, 1)


@pytest.mark.parametrize(
    ("status", "kind"), [(429, "rate_limit_error"), (529, "overloaded_error"), (500, "")]
)
def test_load_and_faults_are_transient(status: int, kind: str) -> None:
    assert isinstance(error(status, kind, "later"), Transient)


def test_an_error_within_the_stream_goes_by_its_type() -> None:
    assert isinstance(error(200, "overloaded_error", "Overloaded"), Transient)


def test_retry_after_is_read_as_seconds_or_as_a_date() -> None:
    seconds = error(429, "rate_limit_error", "x", retry_after="17")
    date = error(429, "rate_limit_error", "x", retry_after="Thu, 01 Jan 1970 00:01:00 GMT")
    absurd = error(429, "rate_limit_error", "x", retry_after="-5")
    assert isinstance(seconds, Transient) and seconds.retry_after == 17
    assert isinstance(date, Transient) and date.retry_after == 60
    assert isinstance(absurd, Transient) and absurd.retry_after is None


def test_a_spend_cap_is_not_tried_again() -> None:
    body = {
        "error": {
            "type": "rate_limit_error",
            "message": "no",
            "details": {"error_code": "enforced_spend_limit_reached"},
        }
    }
    assert isinstance(refusal(429, json.dumps(body), {}, 0.0), Rejected)
    assert isinstance(error(400, INVALID, "You have reached your specified API usage limits."), Rejected)
    assert isinstance(error(503, "api_error", "no", x_should_retry="false"), Rejected)


def test_credentials_are_named() -> None:
    found = error(401, "authentication_error", "invalid x-api-key")
    assert isinstance(found, AuthError)
    assert "ANTHROPIC_API_KEY" in str(found)
    assert found.code == 5


def test_an_html_page_is_cut_to_one_line() -> None:
    found = refusal(502, "<html>\n<h1>Bad\nGateway</h1>" + "x" * 5000, {}, 0.0)
    assert isinstance(found, Transient)
    assert "\n" not in str(found) and len(str(found)) < 400 and "<" not in str(found)
