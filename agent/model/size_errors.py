"""Recognize by its text that an error means a request was too large, and read the window of the model. Pure.

Each compatible server words this error differently, and there is no status for it. Errors about rate limits
mention tokens and limits too, so the caller checks `is_rate_limit` first.
"""

from __future__ import annotations

import re

from agent.errors import OutputTooLong, PromptTooLong
from agent.model_port import MIN_OUTPUT_TOKENS, is_believable
from transcripts.patterns import lazy_pattern

_N = r"(\d{1,3}(?:,\d{3}){1,4}|\d{1,15})"  # longer digits are not a number
_RATE = lazy_pattern(r"\brate[ _-]?limit|\bper[ -](?:min|day)|quota|throttl|please wait", re.I)
_OVERFLOW = lazy_pattern(
    "|".join(
        (
            r"prompt (?:is )?too long",  # Anthropic, Ollama
            r"input is too long",  # Bedrock
            # vLLM, OpenAI, OpenRouter, LiteLLM, xAI, Mistral
            r"maximum (?:context|prompt|model|(?:allowed )?input) (?:length|limit)",
            r"max_tokens must be at least 1, got -|exceeds? the max_model_len",  # vLLM
            r"exceeds the maximum allowed length",  # SGLang
            r"input tokens exceed",  # Bedrock, Azure
            r"but the configured context size",
            r"exceeds? (?:the )?(?:available )?context (?:size|window|length)",  # llama.cpp, OpenAI
            r"context (?:size|window|length) (?:has been |is )?exceed",  # llama.cpp, MiniMax
            r"exceed context limit",  # older Claude models
            r"n_keep: ?\d+ ?>= ?n_ctx|than the context length|context length of only",  # LM Studio
            r"input token count[^.]{0,40} exceeds the maximum",  # Gemini
            r"exceeded model token limit",  # Kimi
            r"range of input length",  # Qwen
            r"prompt exceeds max length",  # GLM
            r"reduce the length of (?:the |either )?(?:messages|input|prompt|one)",  # Groq
            r"longer than the model's context",  # Together
            r"prompt token count of [\d,]+ exceeds",  # Copilot
            r"`inputs` must have less than \d+ tokens",  # TGI
            r"prompt length \d+ is greater than max_seq_len",  # TabbyAPI
            r"context_length_exceeded|exceed_context_size_error|model_max_prompt_tokens_exceeded",  # codes
        )
    ),
    re.I,
)
_LIMITS = tuple(
    lazy_pattern(pattern.replace("N", _N), re.I)
    for pattern in (
        r"maximum (?:context|prompt|model|(?:allowed )?input) (?:length|limit) (?:is|of) N",
        r"maximum allowed length \(N",
        r"max_model_len N",
        r"configured (?:limit of|context size is) N",
        r"while limit is N",
        r"\bN maximum context length",
        r"> N maximum",
        r"exceed context limit: \d+ \+ \d+ > N",
        r"available context size \(N",
        r"n_ctx: ?N",
        r"context length of only N",
        r"maximum number of tokens allowed \(?N",
        r"token limit: N",
        r"input length should be \[\d+, ?N\]",
        r"exceeds the limit of N",
        r"model's context length \(N",
        r'"n_ctx": ?N',
        r"must have less than N tokens",
        r"max_seq_len N",
    )
)
_SIZES = tuple(
    lazy_pattern(pattern.replace("N", _N), re.I)
    for pattern in (
        r"too long: N tokens",
        r"exceed context limit: N \+",
        r"\(N (?:in the messages|of text input)",
        r"prompt contains (?:at least )?N",
        r"(?:resulted in|(?:request|prompt) has|contains) N (?:input )?tokens",
        r"length \(?N(?: tokens)?\)? (?:exceeds|is longer)",
        r"current length is N",
        r"N tokens from the input",
        r"(?:request|input) \(N tokens",
        r"n_keep: ?N",
        r"keep the first N tokens",
        r"token count (?:of )?\(?N",
        r"requested: N",
        r'"n_prompt_tokens": ?N',
        r"less than \d+ tokens\. Given: N",
        r"prompt length N",
    )
)
# Errors about output that does not fit alongside the prompt, with the window and the prompt as named groups.
_OUTPUT_BESIDE_PROMPT = tuple(
    lazy_pattern(
        pattern.replace("WIN", _N.replace("(", "(?P<window>", 1))
        .replace("IN", _N.replace("(", "(?P<prompt>", 1))
        .replace("N", _N),
        re.I,
    )
    for pattern in (
        r"max_(?:completion_)?tokens' is too large: N.{0,80}? length is WIN.{0,80}? has IN input",
        r"length is WIN tokens.{0,40}? requested (?:about )?N tokens \(IN (?:in the|of)",
        r"length is WIN tokens.{0,40}? requested N output tokens and your prompt contains (?:at least )?IN",
        r"`max_new_tokens` must be <= WIN\. Given: IN `inputs` tokens",
        r"length of WIN tokens\. You requested a total of N tokens: IN tokens from the input",
    )
)
_EXCEEDED_LIMIT = lazy_pattern(
    r"exceed context limit: (?P<prompt>\d{1,15}) \+ \d{1,15} > (?P<window>\d{1,15})"
)
_OUTPUT_CAP = lazy_pattern(
    r"(?:max_tokens: \d{1,15} > "  # Anthropic
    r"|supports at most (?=\d{1,15} completion tokens)"  # OpenAI
    r"|maximum tokens you requested exceeds? the model limit of "  # Bedrock
    r"|max_tokens(?! must be at least).{0,100}?"
    r"(?:\[\d, ?|less than or equal to `?|a value <= ?|between \d and ))"  # DeepSeek and Qwen; Groq; Ark
    r"(\d{1,15})",
    re.I,
)


def is_rate_limit(status: int, words: str) -> bool:
    """Return whether an error is about the requests or tokens allowed in a time."""
    return status == 429 or _RATE.search(words) is not None


def find_size_error(line: str, words: str, body: str) -> OutputTooLong | PromptTooLong | None:
    """Return the error for a response about a request that is too large; None for another response.

    line   the text for users
    words  the server's message with type and code
    body   the whole response, in which some servers give the numbers as fields
    """
    if (cap := _OUTPUT_CAP.search(words)) and is_believable(most := _tokens(cap[1])):
        return OutputTooLong(line, most)
    if found := _EXCEEDED_LIMIT.search(words) or _first(_OUTPUT_BESIDE_PROMPT, words):
        window = _tokens(found["window"])
        prompt = _tokens(found["prompt"])
        left = window - prompt - 64  # the count does not include the chat template
        if left >= MIN_OUTPUT_TOKENS:
            return OutputTooLong(line, left, window)
        return PromptTooLong(line, prompt, _believed(window))
    if _OVERFLOW.search(words):
        size = _first(_SIZES, words) or _first(_SIZES, body)
        limit = _first(_LIMITS, words)
        limit = limit or _first(_LIMITS, body)
        known = _tokens(limit[1]) if limit else None
        return PromptTooLong(line, _tokens(size[1]) if size else None, _believed(known))
    return None


def _first(patterns: tuple[re.Pattern[str], ...], text: str) -> re.Match[str] | None:
    return next((found for pattern in patterns if (found := pattern.search(text))), None)


def _believed(tokens: int | None) -> int | None:
    return tokens if is_believable(tokens) else None


def _tokens(digits: str) -> int:
    return int(digits.replace(",", ""))
