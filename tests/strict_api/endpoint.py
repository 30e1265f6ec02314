"""The Messages API without its transport: validate a body, charge the cache, build the message."""

import json
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any

from msgspec import Struct

from .errors import ApiError
from .models import ServedModel, find_model
from .pairing import PREFILL
from .prefix import Prefix, walk_prefix
from .prompt_cache import CacheTerms, CacheUsage, PromptCache
from .reply import Body, Reply
from .reply_completion import CompletedReply, complete_reply
from .request_checks import violations
from .token_counting import count_text

_MAX_PAUSED = 256  # replies that may be continued
_MAX_DIAGNOSED = 16  # replies that a later request may name


class Limits(Struct, frozen=True):
    """Limits that a server sets for every model; None leaves the model's own."""

    window: int | None = None
    max_output: int | None = None
    binds_thinking: bool | None = None


class AdmittedRequest(Struct, frozen=True):
    """A request that was accepted, its model, and its prefix."""

    body: Body
    model: ServedModel
    prefix: Prefix


class Endpoint:
    """Keeps what outlives a request: the prompt cache, and the replies that paused."""

    def __init__(self, limits: Limits, now: Callable[[], float]) -> None:
        self._limits = limits
        self._cache = PromptCache(now)
        self._paused: OrderedDict[bytes, None] = OrderedDict()
        self._made = 0
        self._answered: OrderedDict[str, tuple[Body, int]] = OrderedDict()  # body and prompt by reply id
        self.account: list[tuple[str, dict[str, Any]]] = []  # (model, usage) of each message made
        self._lock = Lock()

    def model(self, name: object) -> ServedModel:
        """The model of that name. Raises ApiError (404)."""
        limits = self._limits
        found = find_model(str(name), limits.window, limits.max_output, limits.binds_thinking)
        if found is None:
            raise ApiError(404, f"model: {name}")
        return found

    def admit(self, body: Any, betas: frozenset[str], counting: bool = False) -> AdmittedRequest:
        """Validate a body. Raises ApiError in the words of the real API."""
        if not isinstance(body, dict):
            raise ApiError(400, "Input should be a valid dictionary")
        if not isinstance(body.get("model"), str):
            raise ApiError(400, "model: Field required")
        model = self.model(body["model"])
        for message in violations(body, model, betas, paused=True, counting=counting):
            raise ApiError(400, message)
        prefix = walk_prefix(body, model.binds_thinking, drop=_drops(body))
        if body["messages"][-1]["role"] == "assistant" and prefix.digest not in self._paused:
            raise ApiError(400, PREFILL)
        if prefix.problem is not None:
            raise ApiError(400, prefix.problem)
        if prefix.tokens > model.window and not counting:
            raise ApiError(400, f"prompt is too long: {prefix.tokens} tokens > {model.window} maximum")
        return AdmittedRequest(body, model, prefix)

    def message(self, admitted: AdmittedRequest, reply: Reply) -> dict[str, Any]:
        """The message that answers an accepted request; its prompt is charged to the cache."""
        body, model, prefix = admitted.body, admitted.model, admitted.prefix
        figures = self._cache.charge(prefix, _terms(body, model))
        if "compaction" in body:
            reply = _as_compaction(reply)
        finished = complete_reply(reply, body, model, prefix)
        with self._lock:
            self._made += 1
            if finished.stop == "pause_turn":
                self._paused[prefix.digest] = None
                if len(self._paused) > _MAX_PAUSED:
                    self._paused.popitem(last=False)
        usage = _usage(figures, finished, reply)
        self.account.append((model.id, usage))
        ident = f"msg_{prefix.digest.hex()[:16]}{self._made:06d}"
        diagnostics = self._diagnostics(admitted, figures)
        self._answered[ident] = (body, figures.total)
        if len(self._answered) > _MAX_DIAGNOSED:
            self._answered.popitem(last=False)
        message = {
            "id": ident,
            "type": "message",
            "role": "assistant",
            "model": model.id,
            "content": list(finished.blocks),
            "stop_reason": finished.stop,
            "stop_sequence": None,
            "stop_details": reply.stop_details,
            "diagnostics": diagnostics,
            "usage": usage,
        }
        if prefix.dropped:
            reason = "prefix_mismatch"
            message["input_transformations"] = [
                {"type": "thinking_dropped", "path": path, "reason": reason} for path in prefix.dropped
            ]
        return message

    def _diagnostics(self, admitted: AdmittedRequest, figures: CacheUsage) -> dict[str, Any] | None:
        """Why the prefix of the named request could not be reused; None if it could, or if not asked."""
        asked = admitted.body.get("diagnostics") or {}
        if (ident := asked.get("previous_message_id")) is None:
            return None
        before = self._answered.get(ident)
        if before is None:
            return {"cache_miss_reason": {"type": "previous_message_not_found"}}
        known, tokens = before
        lost = max(0, tokens - figures.read)
        for name in ("model", "system", "tools"):
            if known.get(name) != admitted.body.get(name):
                return _missed(f"{name}_changed", lost)
        sent = [_unmarked(message) for message in admitted.body["messages"]]
        beginning = [_unmarked(message) for message in known["messages"]]
        return None if sent[: len(beginning)] == beginning else _missed("messages_changed", lost)


def _missed(kind: str, tokens: int) -> dict[str, Any]:
    return {"cache_miss_reason": {"type": kind, "cache_missed_input_tokens": tokens}}


def _unmarked(value: Any) -> Any:
    """A message without its cache marks, which may move."""
    if isinstance(value, list):
        return [_unmarked(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {name: _unmarked(each) for name, each in value.items() if name != "cache_control"}


def _as_compaction(reply: Reply) -> Reply:
    """The service's own compaction: the words of the reply in one signed block."""
    words = "".join(block["text"] for block in reply.blocks if block.get("type") == "text")
    return Reply([{"type": "compaction", "content": words or None, "signature": "signed"}], "end_turn")


def _drops(body: Body) -> bool:
    binding = (body.get("thinking") or {}).get("block_binding") or {}
    return bool(binding.get("prefix_mismatch_behavior") == "drop_block")


def _terms(body: Body, model: ServedModel) -> CacheTerms:
    settings = {name: body.get(name) for name in ("tool_choice", "thinking", "output_config", "speed")}
    automatic = body.get("cache_control")
    return CacheTerms(
        model=model.id,
        settings=json.dumps(settings, sort_keys=True),
        least=model.min_cacheable,
        automatic=automatic.get("ttl", "5m") if automatic else None,
    )


def _thinking_tokens(finished: CompletedReply) -> int:
    thinking = (block["thinking"] for block in finished.blocks if block.get("type") == "thinking")
    return sum(map(count_text, thinking))


def _usage(figures: CacheUsage, finished: CompletedReply, reply: Reply) -> dict[str, Any]:
    return {
        "input_tokens": figures.fresh,
        "cache_creation_input_tokens": figures.written_5m + figures.written_1h,
        "cache_read_input_tokens": figures.read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": figures.written_5m,
            "ephemeral_1h_input_tokens": figures.written_1h,
        },
        "output_tokens": finished.tokens,
        "output_tokens_details": {"thinking_tokens": _thinking_tokens(finished)},
        "service_tier": "standard",
        **(reply.usage or {}),
    }
