"""Encode a request for the Messages API, and name the beta features that it uses.

Pure: the same request gives the same bytes.

A message is encoded once, when it is first sent, and reused afterwards; only the few messages with a cache
mark are encoded again. The constant parts of a session come before the messages, so that each request extends
the previous one byte by byte as far as the marks allow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent.errors import Feature
from agent.model.error_mapping import ServerNames
from agent.model_port import ModelRequest, RequestSettings
from transcripts import Channel, is_deferred_tool, to_json_bytes

from .messages import FORMAT, encode_message, message_form

BETA_HEADER = "anthropic-beta"
COMPACTION_BETA = "compact-2026-09-04"
# The fields that a server names when it rejects a feature.
FEATURE_FIELDS: dict[str, Feature] = {
    "thinking": "thinking",
    "output_config": "effort",
    "cache_control": "cache",
    "eager_input_streaming": "eager tool input",
    "diagnostics": "cache diagnostics",
}
NAMES = ServerNames(
    {
        **{rf"\b{name}\b": feature for name, feature in FEATURE_FIELDS.items()},
        r"\beffort parameter\b": "effort",
        r"\bweb_(?:search|fetch)_\d+\b": "web tools",
        r"\btool_search_tool|\bdefer_loading\b": "tool search",
        r"anthropic-beta\b": "betas",
        r"\bsystem\b.{0,80}\bvalid string": "system blocks",
        r"\brole 'system' is not supported\b": "system messages",
        r"\bmessages\.\d+\.role: Input should be 'user' or 'assistant'": "system messages",
    }
)


def encode_request(request: ModelRequest) -> bytes:
    """Return the body of a streamed request."""
    if FORMAT in request.encoded:
        return request.encoded[FORMAT]
    settings = request.settings
    view = request.messages
    mark = _cache_control(settings)
    form = message_form(settings)
    pieces = [message.encoded.get(form.key) or encode_message(message, form) for message in view]
    if mark is not None and view:
        # The API takes four: one is on the system prompt, one on the last message.
        for index in {*request.cache_marks[-2:], len(view) - 1}:
            pieces[index] = encode_message(view[index], form, mark)
    if request.instruction and not request.compacts:
        if view:
            pieces[-1] = encode_message(view[-1], form, mark, request.instruction)
        else:
            text = {"type": "text", "text": request.instruction}
            pieces.append(to_json_bytes({"role": "user", "content": [text]}))
    if FORMAT not in settings.encoded:
        settings.encoded[FORMAT] = to_json_bytes(_head(settings, mark))[:-1]
    head = settings.encoded[FORMAT]
    if request.compacts:
        compaction = {"type": "summarize", "instructions": request.instruction}
        head += b',"compaction":' + to_json_bytes(compaction)
    tail = b""
    if request.previous is not None:  # after the messages, since it differs in each request
        tail = b',"diagnostics":' + to_json_bytes({"previous_message_id": request.previous or None})
    request.encoded[FORMAT] = b'%b,"messages":[%b]%b}' % (head, b",".join(pieces), tail)
    return request.encoded[FORMAT]


def _cache_control(settings: RequestSettings) -> dict[str, Any] | None:
    if settings.cache is None:
        return None
    return {"type": "ephemeral"} if settings.cache == "5m" else {"type": "ephemeral", "ttl": settings.cache}


def _head(settings: RequestSettings, mark: dict[str, Any] | None) -> dict[str, Any]:
    """Return the request without its messages, with the fields in the order in which they are sent."""
    head: dict[str, Any] = {"model": settings.model, "max_tokens": settings.max_tokens}
    if settings.system and "system blocks" in settings.rejected:
        head["system"] = "\n\n".join(settings.system)
    elif settings.system:
        head["system"] = [{"type": "text", "text": text} for text in settings.system]
        if mark:
            # Of the texts only the last may name the tags of this session: the others serve all sessions.
            names_tag = settings.tag and Channel(settings.tag).tag in settings.system[-1]
            shared = settings.system[:-1] if names_tag else ()
            head["system"][len(shared or settings.system) - 1]["cache_control"] = mark
    if settings.tools:
        extra = {"eager_input_streaming": True} if settings.eager else {}
        # A tool with a `type` runs on the server, and is sent unchanged.
        head["tools"] = [
            dict(tool) if "type" in tool or is_deferred_tool(tool) else {**tool, **extra}
            for tool in settings.tools
        ]
        for tool in head["tools"]:
            tool.pop("kind", None)  # only for the transcript
    if settings.thinking:
        display = "omitted" if settings.silent_thinking else "summarized"
        head["thinking"] = {"type": "adaptive", "display": display}
    if settings.effort:
        head["output_config"] = {"effort": settings.effort}
    return {**head, "stream": True}


def beta_names(headers: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the beta header among others, in their letter case; its usual name without one."""
    return tuple(each for each in headers if each.lower() == BETA_HEADER) or (BETA_HEADER,)


def beta_header(headers: Mapping[str, str], betas: Sequence[str]) -> dict[str, str]:
    """Return the header with these beta features and those already in it; {} without features."""
    (name,) = beta_names(headers)[:1]
    return {name: ",".join(dict.fromkeys(filter(None, (headers.get(name), *betas))))} if betas else {}
